"""Tools that a search found."""

from msgspec.structs import replace

from toolbridge.core.messages import (
    Call,
    Origin,
    Reference,
    Request,
    Result,
    Text,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.history.references import available_tools, offer_deferred

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


# ── a target without tool search ─────────────────────────────────────────────


def deferred(turns, *tools, same_api=False, defers=False, choice=()):
    request = Request("m", turns, tools=tools, tool_choice=ToolChoice(names=choice))
    sent, losses = offer_deferred(request, same_api=same_api, defers=defers)
    return sent.tools, [(loss.what, loss.why, loss.minor) for loss in losses]


def hidden(number: int, where: str = "tools"):
    why = f"deferred tools are offered once a search names them ({number} not yet)"
    return [(where, why, True)]


def test_a_client_that_searches_gets_what_it_found_and_the_rest_is_reported():
    tools = (BASH, FETCH, GLOB, NEVER, SEARCH)
    assert deferred((), *tools) == ((BASH, SEARCH), hidden(3))
    late = (BASH, SEARCH, Tool("Glob"))
    assert deferred(found("Glob"), *tools) == (late, hidden(2))
    assert deferred((), *tools, choice=("Glob",)) == (late, hidden(2))
    every = found("Glob", "WebFetch", "Placeholder")
    assert deferred(every, *tools)[1] == []


def test_the_report_names_the_place_of_the_first_tool_that_is_hidden():
    placed = replace(FETCH, source=Origin("anthropic", path="tools.1"))
    assert deferred((), BASH, placed, GLOB, SEARCH)[1] == hidden(2, "tools.1")


def test_where_the_vendor_would_search_all_tools_are_offered():
    hosted = Tool("tool_search", hosted={"type": "tool_search"})
    every = (BASH, hosted, Tool("WebFetch"), Tool("Glob"))
    assert deferred((), BASH, FETCH, hosted, GLOB) == (every, [])


def test_the_same_api_and_a_target_that_defers_keep_the_tools_deferred():
    tools = (BASH, FETCH, SEARCH)
    assert deferred((), *tools, same_api=True) == (tools, [])
    assert deferred((), *tools, defers=True) == (tools, [])
    assert deferred((), BASH, FETCH, defers=True) == ((BASH, Tool("WebFetch")), [])
    assert deferred((), BASH, SEARCH) == ((BASH, SEARCH), [])
