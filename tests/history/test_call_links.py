"""Which result answers which call."""

from toolbridge.core.messages import Call, Result, Text, Turn
from toolbridge.history.call_links import link


def assistant(*parts):
    return Turn("assistant", parts)


def user(*parts):
    return Turn("user", parts)


def test_a_result_belongs_to_the_latest_answer_that_waits_for_its_id():
    turns = (
        assistant(Call("0", "A")),
        user(Result("0")),
        assistant(Call("0", "B")),
        user(Result("0")),
    )
    links = link(turns)
    assert links.call_of == {(1, 0): (0, 0), (3, 0): (2, 0)}
    assert list(links.ids) == [(2, 0)]


def test_equal_ids_of_one_answer_are_taken_in_order_even_over_two_turns():
    turns = (assistant(Call("", "A")), assistant(Call("", "B")), user(Result(""), Result("")))
    assert link(turns).result_of == {(0, 0): (2, 0), (1, 0): (2, 1)}


def test_a_late_result_reaches_back_to_the_call_that_still_waits():
    turns = (
        assistant(Call("0", "A")),
        user(Text("wait")),
        assistant(Call("0", "B")),
        user(Result("0"), Result("0")),
    )
    assert link(turns).call_of == {(3, 0): (2, 0), (3, 1): (0, 0)}


def test_a_result_in_front_of_its_call_is_an_orphan():
    assert link((user(Result("a")), assistant(Call("a", "A")))).call_of == {}


def test_a_second_result_for_one_call_is_an_orphan():
    links = link((assistant(Call("a", "A")), user(Result("a"), Result("a"))))
    assert links.call_of == {(1, 0): (0, 0)}


def test_new_ids_are_the_same_every_time_and_differ_from_one_another():
    turns = (assistant(*[Call("", "A") for _ in range(100)]),)
    ids = link(turns).ids
    assert ids == link(turns).ids
    assert len(set(ids.values())) == 100
