import re

import pytest
from tests.tables import every_row

from toolbridge.core.ids import CallIds, Ids, SeenIds


@pytest.mark.req("PX-23", "CB-14")
def test_call_ids_have_sixteen_digits_and_do_not_repeat():
    ids = Ids("seed")
    drawn = [ids.call() for _ in range(100)]
    assert all(re.fullmatch(r"toolu_[0-9a-f]{16}", id) for id in drawn)
    assert len(set(drawn)) == 100


@pytest.mark.req("CB-14")
@pytest.mark.parametrize(
    ("draw", "pattern"),
    [(Ids.message, r"msg_[0-9a-f]{16}"), (Ids.request, r"req_[0-9a-f]{16}")],
)
def test_every_kind_of_id_has_its_form(draw, pattern):
    assert re.fullmatch(pattern, draw(Ids()))


def test_ids_of_requests_do_not_repeat_and_neighbours_begin_alike():
    ids = Ids("seed")
    ids.message()
    drawn = [ids.request() for _ in range(2000)]
    assert len(set(drawn)) == 2000
    assert all(re.fullmatch(r"req_[0-9a-f]{16}", id) for id in drawn)
    assert 7 <= len({id[:10] for id in drawn}) <= 9
    assert drawn[0][:10] == drawn[200][:10] != drawn[-1][:10]


def test_the_digits_of_several_requests_are_drawn_together():
    ids, drawn = Ids("seed"), Ids("seed")
    beginning, digits, more = drawn.draw(6), drawn.draw(120), drawn.draw(120)
    expected = [digits[at : at + 10] for at in range(0, 120, 10)] + [more[:10]]
    assert [ids.request() for _ in expected] == [f"req_{beginning}{own}" for own in expected]


def test_ids_of_calls_leave_out_the_one_of_the_message():
    ids, calls = Ids("seed"), CallIds("seed")
    assert ids.message()
    assert calls.message() == ""
    assert ids.call() == calls.call()


def test_the_same_seed_gives_the_same_ids():
    one, other = Ids("seed"), Ids(b"seed")
    assert [one.call(), one.message()] == [other.call(), other.message()]


def test_another_seed_gives_other_ids():
    assert Ids("a").call() != Ids("b").call()


@every_row("digits", [1, 7, 8, 64])
def test_as_many_digits_as_asked(digits):
    assert re.fullmatch(rf"[0-9a-f]{{{digits}}}", Ids().draw(digits))


def test_an_id_is_new_once_and_old_ones_are_forgotten():
    seen = SeenIds(2)
    assert [seen.is_new(id) for id in ("a", "a", "b", "c", "a")] == [True, False, True, True, True]


def test_as_many_ids_are_recorded_as_the_bound_allows():
    seen = SeenIds(2)
    assert [seen.is_new(id) for id in "abab"] == [True, True, False, False]
    assert [seen.is_new(id) for id in "cba"] == [True, False, True]
