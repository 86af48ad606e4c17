"""Tools that a search found."""

from toolbridge.core.messages import Call, Reference, Request, Result, Text, Tool, Turn
from toolbridge.history.references import available_tools

BASH, SEARCH = Tool("Bash"), Tool("ToolSearch")
FETCH, GLOB, NEVER = (Tool(name, deferred=True) for name in ("WebFetch", "Glob", "Placeholder"))


def found(*names):
    return (
        Turn("assistant", (Call("a", "ToolSearch"),)),
        Turn("user", (Result("a", tuple(map(Reference, names))),)),
    )


def offered(turns, *tools):
    return available_tools(Request("m", turns, tools=tools)).tools


def test_deferred_tools_are_hidden_until_they_are_found():
    assert offered((), BASH, FETCH, NEVER, SEARCH) == (BASH, SEARCH)


def test_found_tools_come_last_in_the_order_of_finding():
    tools = offered(found("WebFetch", "Glob", "WebFetch"), BASH, GLOB, NEVER, FETCH, SEARCH)
    assert tools == (BASH, SEARCH, Tool("WebFetch"), Tool("Glob"))


def test_a_reference_may_also_stand_in_a_turn_itself():
    turns = (Turn("user", (Text("t"), Reference("Glob"), Reference("Bash"))),)
    assert offered(turns, GLOB, BASH) == (BASH, Tool("Glob"))


def test_a_request_without_deferred_tools_is_returned_as_it_is():
    request = Request("m", found("Bash"), tools=(BASH, SEARCH))
    assert available_tools(request) is request
