"""A table of rows fails with the names of its rows, and no row is left out."""

import pytest
from tests.tables import every_row

seen: list[tuple[int, str]] = []


def test_every_row_of_every_table_is_checked():
    @every_row("letter", ["a", pytest.param("b", id="second")])
    @every_row(("number", "name"), [(1, "x"), (2, "y")], ids=["one", "two"])
    def check(number, name, letter):
        seen.append((number, name + letter))

    check()
    assert seen == [(1, "xa"), (2, "ya"), (1, "xb"), (2, "yb")]
    assert [row.id for row in check.rows] == ["one-a", "two-a", "one-second", "two-second"]


def test_rows_that_fail_are_named_and_the_others_still_run():
    ran = []

    @every_row("number", range(5), ids=lambda n: f"row {n}")
    def check(number):
        ran.append(number)
        assert number % 2 == 0

    with pytest.raises(ExceptionGroup, match="2 rows fail") as raised:
        check()
    assert [e.__notes__ for e in raised.value.exceptions] == [
        ["in the row 'row 1'"], ["in the row 'row 3'"],
    ]  # fmt: skip
    assert ran == [0, 1, 2, 3, 4]


def test_one_row_that_fails_is_the_failure_itself():
    @every_row("text", ["good", "bad"])
    def check(text):
        with pytest.raises(ValueError, match="bad"):
            raise ValueError(text)

    with pytest.raises(AssertionError) as raised:
        check()
    assert raised.value.__notes__ == ["in the row 'good'"]


@pytest.mark.parametrize("values", [[], [pytest.param(1, marks=pytest.mark.skip)]])
def test_a_table_without_rows_or_with_marks_is_refused(values):
    with pytest.raises(ValueError, match=r"rows|marks"):
        every_row("number", values)


def test_a_row_cannot_be_skipped():
    @every_row("number", [1])
    def check(number):
        pytest.skip("not here")

    with pytest.raises(AssertionError, match="the row '1' was skipped: not here"):
        check()


@every_row("number", [1, 2])
def test_a_table_may_use_fixtures(number, tmp_path):
    assert tmp_path.is_dir()
    assert number


def test_rows_that_look_the_same_have_numbers():
    @every_row("text", ["a" * 130 + "x", "b", "a" * 130 + "y"])
    def check(text):
        assert text

    assert [row.id for row in check.rows] == [f"{'a' * 120} 0", "b", f"{'a' * 120} 2"]
