"""Whose turn it is."""

import pytest

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Call, Loss, Request, Result, Text, Turn
from toolbridge.history import prepare
from toolbridge.history.empty import ADDED

ALTERNATE = Rules(alternate=True)
FOLD = Rules(system_in_place=False)


def assistant(text):
    return Turn("assistant", (Text(text),))


def user(text):
    return Turn("user", (Text(text),))


def system(text):
    return Turn("system", (Text(text),))


def turns(*given, rules):
    return prepare(Request("m", given), rules).request.turns


def test_neighbours_of_one_role_become_one_turn():
    given = (user("a"), user("b"), assistant("c"), assistant("d"), user("e"))
    both = (Turn("user", (Text("a"), Text("b"))), Turn("assistant", (Text("c"), Text("d"))))
    assert turns(*given, rules=ALTERNATE) == (*both, user("e"))


def test_neighbours_stay_apart_where_they_may():
    given = (user("a"), user("b"), assistant("c"), assistant("d"))
    assert turns(*given, rules=Rules()) == given


def test_an_assistant_that_speaks_first_is_given_a_full_stop_to_answer():
    assert turns(assistant("hi"), user("a"), rules=ALTERNATE)[0] == user(".")
    assert turns(system("s"), assistant("hi"), rules=ALTERNATE)[:2] == (system("s"), user("."))


@pytest.mark.req("CL-02")
def test_a_system_turn_is_said_by_the_user_where_it_stands():
    given = (user("a"), system("Be brief."), assistant("b"), user("c"))
    said = user("<system-reminder>\nBe brief.\n</system-reminder>")
    assert turns(*given, rules=FOLD) == (given[0], said, *given[2:])


@pytest.mark.req("CL-02")
def test_a_system_turn_joins_the_user_turn_beside_it_and_results_stay_in_front():
    call, result = Call("a", "Read"), Result("a", name="Read")
    given = (user("q"), Turn("assistant", (call,)), system("s"), Turn("user", (result, Text("t"))))
    rules = Rules(alternate=True, system_in_place=False)
    reminder = Text("<system-reminder>\ns\n</system-reminder>")
    assert turns(*given, rules=rules)[2] == Turn("user", (result, reminder, Text("t")))


def test_a_text_that_is_marked_already_is_not_marked_twice():
    marked = "<system-reminder>\nx\n</system-reminder>"
    assert turns(user("a"), system(marked), rules=FOLD) == (user("a"), user(marked))


def test_many_folded_turns_are_one_loss():
    losses = prepare(Request("m", (user("a"), system("s"), system("t"))), FOLD).losses
    assert [loss.what for loss in losses] == ["turns"]


@pytest.mark.req("CL-02")
def test_a_last_turn_by_the_assistant_is_continued_only_where_the_target_can():
    given = (user("a"), assistant("b"))
    assert turns(*given, rules=Rules()) == given
    answer = prepare(Request("m", given), Rules(may_end_with_assistant=False))
    assert answer.request.turns == (*given, user("Continue."))
    why = 'the target does not continue an assistant message: "Continue." is added'
    assert answer.losses == (Loss("turns.1", why),)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ((user("a"), system("s"), assistant("b"), user("c")), True),
        ((user("a"), system("s"), system("t")), True),
        ((user("a"), assistant("b"), system("s"), user("c")), False),
        ((user("a"), system("s"), user("c")), False),
    ],
)
def test_a_system_turn_stays_only_after_the_user_and_before_the_assistant(given, kept):
    prepared = prepare(Request("m", given), Rules(system_after_user=True))
    assert (prepared.request.turns == given) is kept
    assert (prepared.losses == ()) is kept
    assert [turn.role for turn in prepared.request.turns].count("system") == (
        sum(turn.role == "system" for turn in given) if kept else 0
    )
    own = prepare(Request("m", given), Rules(system_after_user=True), same_api=True)
    assert own.request.turns == given


NEEDS_TURN = Rules(needs_turn=True)


@pytest.mark.parametrize(
    "given", [(), (Turn("user", ()),), (user("a"), assistant("b"), Turn("user", ()))]
)
def test_a_conversation_without_a_user_message_gets_a_full_stop_and_a_warning(given):
    prepared = prepare(Request("m", given, (Text("Be brief."),)), NEEDS_TURN)
    assert prepared.request.turns == (*given[:-1], user("."))
    assert prepared.losses == (Loss("turns", ADDED),)


def test_a_conversation_without_messages_stays_where_its_api_allows_it():
    request = Request("m", (), (Text("Be brief."),))
    assert prepare(request, Rules()).request == request
    assert prepare(request, NEEDS_TURN, same_api=True).request == request


@pytest.mark.parametrize("last", [assistant("b"), Turn("assistant", ())])
def test_only_a_user_message_is_filled(last):
    given = (user("a"), last)
    assert turns(*given, rules=NEEDS_TURN) == given
