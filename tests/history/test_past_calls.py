"""Mistakes of the past, mended."""

import pytest
from tests.tables import every_row

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Call, Request, Result, Text, Tool, Turn
from toolbridge.history import prepare

TOOLS = (Tool("Write", schema={"type": "object"}), Tool("Bash"), Tool("web", hosted={"type": "w"}))
REFUSED = "<tool_use_error>InputValidationError: Write failed due to the following issue"
CANCELLED = "<tool_use_error>Sibling tool call errored</tool_use_error>"


def heal(call, tool):
    """Rename `path` to `file_path`, read raw text that says so, put the name right."""
    if "same" in call.arguments:
        return call
    if call.raw == "path=x":
        return Call("other", tool.name, {"file_path": "x"})
    if "path" in call.arguments:
        return Call(call.id, tool.name, {"file_path": call.arguments["path"]})
    return None


def failed(id, text, *, is_error=True):
    return Result(id, (Text(text),), is_error=is_error)


def mended(*turns):
    return prepare(Request("m", turns, tools=TOOLS), Rules(), heal=heal)


def assistant(*parts):
    return Turn("assistant", parts)


def user(*parts):
    return Turn("user", parts)


WRONG = Call("a", "Write", {"path": "x"})
RIGHT = Call("a", "Write", {"file_path": "x"})


@pytest.mark.req("PX-X3")
@every_row(
    "call",
    [
        WRONG,
        Call("a", "Write", raw="path=x"),
        Call("a", "write", {"path": "x"}),
        Call("a", "Write", {"__unparsedToolInput": {"raw": "path=x", "len": 6}}),
    ],
)
def test_a_wrong_past_input_is_mended(call):
    answer = mended(user(Text("q")), assistant(call), user(Result("a", (Text("ok"),))))
    assert answer.request.turns[1:] == (
        assistant(RIGHT),
        user(Result("a", (Text("ok"),), name="Write")),
    )


@pytest.mark.req("PX-X3")
@pytest.mark.parametrize("refusal", [REFUSED, "MCP error -32602: Invalid arguments for tool Write"])
def test_a_mended_call_goes_with_the_error_that_refused_it(refusal):
    given = (
        user(Text("q")),
        assistant(Text("I write."), WRONG),
        user(failed("a", refusal)),
        assistant(Call("b", "Write", {"file_path": "x"})),
        user(Result("b", (Text("ok"),), name="Write")),
    )
    answer = mended(*given)
    assert answer.request.turns == (given[0], assistant(Text("I write.")), *given[3:])
    assert [loss.what for loss in answer.losses] == ["turns.1.content.1"]


@pytest.mark.req("PX-X3")
@pytest.mark.parametrize(
    "result",
    [
        failed("a", "No such directory"),
        failed("a", "the log says InputValidationError"),
        failed("a", REFUSED, is_error=False),
    ],
)
def test_a_result_that_is_no_refusal_stays_beside_the_mended_call(result):
    turns = mended(user(Text("q")), assistant(WRONG), user(result)).request.turns
    assert turns[1] == assistant(RIGHT)
    assert turns[2].content[0].content == result.content


@pytest.mark.req("PX-X3")
@pytest.mark.parametrize(
    "hopeless",
    [Call("a", "Write", raw='{"path": "/ho'), Call("a", "Write", {"file_path": "x", "same": True})],
)
def test_a_call_that_cannot_be_bettered_stays_with_its_refusal(hopeless):
    turns = mended(user(Text("q")), assistant(hopeless), user(failed("a", REFUSED))).request.turns
    assert turns[1] == assistant(hopeless)
    assert turns[2].content[0].content == (Text(REFUSED),)


@pytest.mark.req("PX-X3")
@pytest.mark.parametrize(
    "text",
    [
        CANCELLED,
        "sibling tool call errored",
        "<tool_use_error>Cancelled: parallel tool call Bash(false) errored</tool_use_error>",
    ],
)
def test_a_call_that_was_cancelled_for_its_sibling_is_dropped_with_its_result(text):
    failing = Call("b", "Bash", {"command": "false"})
    told = Result("b", (Text("exit 1"),), is_error=True, name="Bash")
    given = (
        user(Text("q")),
        assistant(Call("a", "Bash", {"command": "ls"}), failing),
        user(failed("a", text), told),
    )
    assert mended(*given).request.turns == (given[0], assistant(failing), user(told))


@pytest.mark.req("PX-X3")
def test_when_the_last_pair_is_dropped_the_user_asks_to_go_on():
    given = (user(Text("q")), assistant(Text("I write."), WRONG), user(failed("a", REFUSED)))
    turns = mended(*given).request.turns
    assert turns == (given[0], assistant(Text("I write.")), user(Text("Continue.")))


@pytest.mark.req("PX-X3")
def test_when_everything_is_dropped_the_user_still_says_something():
    turns = mended(assistant(WRONG), user(failed("a", REFUSED))).request.turns
    assert turns == (user(Text(".")),)


def test_tools_that_are_unknown_or_hosted_are_not_mended():
    given = (
        assistant(Call("a", "Gone", {"path": "x"}), Call("b", "web", {"path": "x"})),
        user(Result("a", name="Gone"), Result("b", name="web")),
    )
    assert mended(*given).request.turns == given


def test_without_a_healer_the_past_stays_as_it_was_written():
    given = (assistant(WRONG), user(failed("a", CANCELLED)))
    turns = prepare(Request("m", given, tools=TOOLS), Rules()).request.turns
    assert turns[0] == given[0]
    assert turns[1].content[0].content == (Text(CANCELLED),)
