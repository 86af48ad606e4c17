"""Calls and their results, side by side."""

import pytest
from tests.tables import every_row

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Call, Image, Loss, Request, Result, Text, Turn
from toolbridge.history import prepare
from toolbridge.history.call_links import link
from toolbridge.history.pairing import settle
from toolbridge.history.past_calls import PastCalls

A, B = Call("a", "Read"), Call("b", "Bash")
RA, RB = Result("a", (Text("ra"),), name="Read"), Result("b", (Text("rb"),), name="Bash")
LOOSE = Rules()
NO_RESULT = Text("[no result: the call was interrupted]")


def assistant(*parts):
    return Turn("assistant", parts)


def user(*parts):
    return Turn("user", parts)


def system(text):
    return Turn("system", (Text(text),))


def prepared(*turns, rules=LOOSE):
    return prepare(Request("m", turns), rules)


@every_row(
    ("given", "expected"),
    [
        ((assistant(A, B), user(RB, RA)), (assistant(A, B), user(RA, RB))),
        ((assistant(A, B), user(RB), user(RA)), (assistant(A, B), user(RA, RB))),
        ((assistant(A), user(Text("t"), RA)), (assistant(A), user(RA, Text("t")))),
        (
            (assistant(A), user(Text("wait")), user(RA)),
            (assistant(A), user(RA, Text("wait"))),
        ),
        (
            (assistant(A), system("s"), user(RA, Text("t"))),
            (assistant(A), user(RA), system("s"), user(Text("t"))),
        ),
        ((assistant(A), assistant(B), user(RA, RB)), (assistant(A, B), user(RA, RB))),
        (
            (assistant(A), assistant(Text("t")), user(RA)),
            (assistant(A, Text("t")), user(RA)),
        ),
    ],
)
def test_results_stand_directly_after_their_calls_in_call_order(given, expected):
    assert prepared(*given).request.turns == expected


def test_a_missing_result_becomes_an_error_and_is_reported():
    answer = prepared(user(Text("q")), assistant(A, B), user(RB, Text("go on")))
    missing = Result("a", (NO_RESULT,), is_error=True, name="Read")
    assert answer.request.turns[2] == user(missing, RB, Text("go on"))
    why = "a call without a result is answered with an error"
    assert answer.losses == (Loss("turns.1.content.0", why),)


def test_calls_at_the_very_end_are_answered_too():
    turns = prepared(user(Text("q")), assistant(A)).request.turns
    assert turns[2] == user(Result("a", (NO_RESULT,), is_error=True, name="Read"))


def test_an_orphan_result_is_told_as_text_and_keeps_its_pictures():
    picture = Image(data="aGk=", media_type="image/png")
    orphan = Result("z", (Text("found"), picture, Text("more")))
    answer = prepared(user(Text("q"), orphan))
    told = Text("[result of an earlier call z]\nfound")
    assert answer.request.turns == (user(Text("q"), told, picture, Text("more")),)
    assert [loss.what for loss in answer.losses] == ["turns.0.content.1"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ((), (Text("[result of an earlier call z]"),)),
        (
            (Image(url="http://x"),),
            (Text("[result of an earlier call z]"), Image(url="http://x")),
        ),
    ],
)
def test_an_orphan_without_text_has_its_heading(content, told):
    assert prepared(user(Result("z", content))).request.turns == (Turn("user", told),)


def test_a_second_result_for_the_same_call_is_told_as_text():
    turns = prepared(assistant(A), user(RA, Result("a", (Text("again"),)))).request.turns
    assert turns[1] == user(RA, Text("[result of an earlier call a]\nagain"))


def test_repeated_ids_become_different_ones_for_call_and_result_alike():
    turns = prepared(assistant(A), user(RA), assistant(A), user(RA)).request.turns
    assert turns[:2] == (assistant(A), user(RA))
    assert turns[2].content[0].id == turns[3].content[0].call_id != "a"


def test_a_result_gets_the_name_of_its_call():
    turns = prepared(assistant(A), user(Result("a"))).request.turns
    assert turns[1].content[0].name == "Read"


def test_without_pairs_results_stay_where_they_are_and_still_get_names():
    given = (assistant(A), system("s"), user(Text("t"), Result("a"), Result("z")))
    turns = prepared(*given, rules=Rules(pairs=False)).request.turns
    assert turns == (*given[:2], user(Text("t"), Result("a", name="Read"), Result("z")))


def test_without_pairing_only_a_turn_that_lost_its_content_is_left_out():
    turns = (user(), assistant(A), user(RA))
    past = PastCalls({}, frozenset({(1, 0), (2, 0)}))
    assert settle(turns, link(turns), past, [], "loose") == [user()]
