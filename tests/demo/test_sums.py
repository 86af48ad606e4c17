from tests.tables import every_row

from toolbridge.demo.sums import maybe_sum


@every_row(
    ("words", "said"),
    [
        ("what is 12*7", "12*7 = 84"),
        ("What is 2^10?", "2^10 = 1024"),
        ("what is 2**3", "2**3 = 8"),
        ("12 x 7", "12 * 7 = 84"),
        ("(1+2)*3 =", "(1+2)*3 = 9"),
        ("what is 5 minus 3?", "5 - 3 = 2"),
        ("calculate 10/4", "10/4 = 2.5"),
        ("7 % 4", "7 % 4 = 3"),
        ("-2 + +3", "-2 + +3 = 1"),
        ("2^-1", "2^-1 = 0.5"),
        ("1/0", "1/0 has no value: it divides by zero."),
    ],
)
def test_small_sums_are_done(words, said):
    assert maybe_sum(words) == said


@every_row(
    "words",
    [
        "hello", "2024", "2026-11-15 is a date", "(1+2", "1+", "1 2+", "9^99", "(-1)^0.5",
        "999999999999999*999999999999999", "(" * 50 + "1+1" + ")" * 50, "-" * 99 + "1+1", "1..2+1",
    ],
)  # fmt: skip
def test_what_is_no_small_sum_is_left_alone(words):
    assert maybe_sum(words) is None
