"""Which mode a stream takes, by what is known and what was measured."""

from tests.tables import every_row

from toolbridge.structured.modes import FirstTries, best_mode, expected_rates


def measured(valid: int, tries: int) -> FirstTries:
    found = FirstTries()
    for at in range(tries):
        found = found.plus(valid=at < valid)
    return found


@every_row(
    ("constrained", "tools", "objects", "mode"),
    [
        (True, True, True, "native"),
        (True, False, True, "native"),
        (True, False, False, "native"),
        (False, True, False, "native"),
        (False, True, True, "sentinel"),
        (False, False, False, "sentinel"),
    ],
)
def test_before_any_measurement_the_constraint_decides(constrained, tools, objects, mode):
    expected = expected_rates(constrained=constrained, tools=tools, objects=objects)
    assert best_mode(expected, {}) == mode


def test_a_mode_that_fails_gives_way_and_one_that_works_stays():
    expected = expected_rates(constrained=True, tools=True, objects=False)
    assert best_mode(expected, {"native": measured(0, 2)}) == "native"
    assert best_mode(expected, {"native": measured(0, 6)}) == "sentinel"
    assert best_mode(expected, {"native": measured(60, 60), "sentinel": measured(3, 3)}) == "native"
    both = {"native": measured(2, 12), "sentinel": measured(0, 12)}
    assert best_mode(expected, both) == "native"


def test_old_streams_count_less_than_new_ones():
    found = measured(64, 64)
    for _ in range(64):
        found = found.plus(valid=False)
    assert found.rate(0.95) < 0.5
    assert found.tries <= 65
