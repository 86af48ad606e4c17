"""Text that says nothing."""

from tests.tables import every_row

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Call, Loss, Opaque, Request, Result, Text, Thinking, Turn
from toolbridge.history import prepare
from toolbridge.history.empty import ADDED

RULES = Rules(empty_text=False)
CALL = Call("a", "Read")


def assistant(*parts):
    return Turn("assistant", parts)


def user(*parts):
    return Turn("user", parts)


@every_row(
    ("given", "expected"),
    [
        ((user(Text(""), Text("a"), Text(" \n")),), (user(Text("a")),)),
        ((user(Text("a")), assistant(Text("")), user(Text("b"))), (user(Text("a")), user(Text("b")))),
        ((user(Text(" ")),), (user(Text(".")),)),
        ((user(Text("a")), assistant(Text("b")), user(Text(" "))),
         (user(Text("a")), assistant(Text("b")), user(Text(".")))),
        ((user(Text("a")), assistant(Text("b")), user()),
         (user(Text("a")), assistant(Text("b")), user(Text(".")))),
        ((user(Text("a")), user(Text(" "))), (user(Text("a")),)),
        ((user(Text("a")), assistant(Thinking(""))), (user(Text("a")), assistant(Thinking("")))),
    ],
)  # fmt: skip
def test_empty_text_goes_and_takes_only_empty_turns_with_it(given, expected):
    assert prepare(Request("m", given), RULES).request.turns == expected


@every_row("said", [(user(Text(" ")),), (user(Text("a")), assistant(Text("b")), user())])
def test_a_full_stop_in_place_of_an_empty_message_is_reported(said):
    prepared = prepare(Request("m", said), RULES)
    assert prepared.request.turns[-1] == user(Text("."))
    assert prepared.losses == (Loss("turns", ADDED),)


def test_empty_text_beside_other_text_is_no_loss():
    given = (user(Text("a"), Text("")), assistant(Text(" ")), user(Text("b")))
    assert prepare(Request("m", given), RULES).losses == ()


def test_empty_text_inside_a_result_and_the_system_goes_too():
    result = Result("a", (Text(""), Text("x"), Text("\n")), name="Read")
    request = Request("m", (assistant(CALL), user(result)), (Text(""), Text("s")))
    legal = prepare(request, RULES).request
    assert legal.turns[1] == user(Result("a", (Text("x"),), name="Read"))
    assert legal.system == (Text("s"),)


def test_a_token_may_hang_on_a_text_without_words():
    signed = Text("", opaque=(Opaque("gemini", "thought_signature", "abc"),))
    given = (user(Text("q")), assistant(signed), user(Text("r")))
    assert prepare(Request("m", given), RULES).request.turns == given


def test_empty_text_stays_where_it_may():
    given = (user(Text(""), Text(" ")), assistant(Text("")))
    assert prepare(Request("m", given), Rules()).request.turns == given
