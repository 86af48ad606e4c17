"""The functions that a model is offered for server tools, and what the history has of them."""

from msgspec.structs import replace
from tests.tables import every_row

from toolbridge.core.messages import (
    Loss,
    Reference,
    Request,
    Result,
    Sampling,
    Text,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.core.server_tools import (
    FoundTools,
    McpApproval,
    McpConnection,
    McpListing,
    McpTool,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerTool,
)
from toolbridge.policy.server_tool_plan import (
    RunnableTool,
    approvals,
    found_names,
    open_calls,
    plan_server_tools,
    with_found,
)

ALL = frozenset({"web_search", "web_fetch", "tool_search", "mcp"})
LISTING = McpListing((McpTool("read", read_only=True), McpTool("write"), McpTool("drop")))
CALL = ServerCall("s1", "web_search", "web_search", {"query": "x"})
ASKED = replace(CALL, id="s2", needs_approval=True)
HITS = ServerResult("s1", "web_search", SearchHits())


def hosted(kind, name="", **fields):
    return Tool(name or kind, hosted={"type": kind}, server=ServerTool(kind, **fields))


def server(**connection):
    return hosted("mcp", "all", server="all", mcp=McpConnection(**connection))


def planned(*tools, native=frozenset(), runs=ALL, listings=None, choice=None, **fields):
    request = Request("m", tools=tools, tool_choice=choice or ToolChoice(), **fields)
    return plan_server_tools(request, native, runs, {} if listings is None else listings)


def offered(*tools, **options):
    plan = planned(*tools, **options)
    return (
        ([], []) if plan is None else ([*plan.offered], [tool.name for tool in plan.request.tools])
    )


@every_row(
    ("tools", "options", "names", "listed"),
    [
        ((hosted("web_search"),), {}, ["web_search"], ["web_search"]),
        ((hosted("web_search"),), {"native": ALL}, [], []),
        ((hosted("web_search"),), {"runs": frozenset({"web_fetch"})}, [], []),
        ((hosted("web_search"),), {"choice": ToolChoice("none")}, [], []),
        ((Tool("Bash"),), {}, [], []),
        ((Tool("web_search"), hosted("web_search")), {}, ["web_search_2"], ["web_search", "web_search_2"]),
        ((hosted("web_search"), hosted("web_search")), {}, ["web_search", "web_search_2"], ["web_search", "web_search_2"]),
        (
            (hosted("web_search"), hosted("web_fetch"), Tool("Bash")),
            {"native": frozenset({"web_fetch"})},
            ["web_search"],
            ["web_search", "web_fetch", "Bash"],
        ),
        # A hosted tool that no kind describes stays as it is.
        ((Tool("x", hosted={"type": "x"}), hosted("web_search")), {}, ["web_search"], ["x", "web_search"]),
        # A deferred tool is offered at once, unless the gateway searches.
        ((hosted("web_search"), Tool("late", deferred=True)), {}, ["web_search"], ["web_search", "late"]),
        ((hosted("tool_search"), Tool("late", deferred=True)), {}, ["tool_search"], ["tool_search"]),
        (
            (hosted("tool_search"), hosted("web_search"), Tool("late", deferred=True)),
            {"native": frozenset({"tool_search"})},
            ["web_search"],
            ["tool_search", "web_search", "late"],
        ),
    ],
)  # fmt: skip
def test_what_becomes_a_function(tools, options, names, listed):
    assert offered(*tools, **options) == (names, listed)


@every_row(
    ("connection", "names"),
    [
        ({}, ["read", "write", "drop"]),
        ({"allowed": ("write", "read")}, ["read", "write"]),
        ({"allowed": ()}, []),
        ({"denied": ("drop",)}, ["read", "write"]),
        ({"read_only": True}, ["read"]),
        ({"allowed": ("read", "drop"), "denied": ("drop",)}, ["read"]),
    ],
)
def test_the_tools_of_a_server_are_those_of_its_settings(connection, names):
    tools, _ = offered(server(**connection), listings={"all": LISTING})
    assert tools == [f"all__{name}" for name in names]


def test_a_server_without_a_listing_offers_nothing_and_one_of_the_gateway_comes_last():
    assert offered(server()) == ([], [])
    more = {"b": McpListing((McpTool("two"),)), "a": McpListing((McpTool("one"),)), "all": LISTING}
    tools, _ = offered(hosted("web_search"), server(allowed=("read",)), listings=more)
    assert tools == ["web_search", "all__read", "a__one", "b__two"]
    plan = planned(server(), listings={"all": LISTING})
    assert [one.listed.read_only for one in plan.offered.values()] == [True, False, False]
    assert [one.call_name for one in plan.offered.values()] == ["read", "write", "drop"]


def test_a_deferred_server_is_found_by_a_search_only():
    listings = {"all": LISTING}
    hidden = planned(hosted("tool_search"), server(deferred=True), listings=listings)
    assert [tool.name for tool in hidden.request.tools] == ["tool_search"]
    assert [tool.name for tool in hidden.deferred] == ["all__read", "all__write", "all__drop"]
    shown = planned(server(deferred=True), listings=listings)
    assert shown.deferred == ()
    plain = planned(hosted("tool_search"), server(), listings=listings)
    assert plain.deferred == ()


def test_found_and_named_tools_are_offered_after_the_others():
    found = Turn("user", (ServerResult("s", "tool_search", FoundTools(("late", "gone"))),))
    tools = (hosted("tool_search"), *(Tool(n, deferred=True) for n in ("late", "named", "other")))
    plan = planned(*tools, turns=(found,), choice=ToolChoice("named", ("named",)))
    assert [(t.name, t.deferred) for t in plan.request.tools] == [
        ("tool_search", False), ("late", False), ("named", False),
    ]  # fmt: skip


def test_the_choice_follows_a_renamed_function_and_one_answer_is_given():
    choice = ToolChoice("named", ("web_search",))
    plan = planned(
        hosted("web_search"),
        choice=choice,
        sampling=Sampling(n=2, top_k=3),
        extra={"mcp_servers": [], "kept": 1},
    )
    assert plan.request.tool_choice == choice
    assert plan.request.sampling == Sampling(top_k=3)
    assert plan.request.extra == {"kept": 1}
    assert plan.losses == (Loss("sampling.n", "one answer is given while the gateway runs tools"),)
    renamed = planned(Tool("web_search"), hosted("web_search", "search"), choice=choice)
    assert renamed.request.tool_choice == choice
    assert planned(hosted("web_search")).losses == ()


def test_the_query_of_a_tool_search_is_words_or_a_pattern():
    def meaning(**fields):
        tool = planned(hosted("tool_search", **fields)).request.tools[0]
        return tool.schema["properties"]["query"]["description"]

    assert meaning() == meaning(ranking="bm25") == "Words that describe the needed tool"
    assert meaning(ranking="regex").startswith("A regular expression")
    search = planned(hosted("web_search", ranking="regex")).request.tools[0]
    assert search.schema["required"] == ["query"]
    assert search.schema["properties"]["query"]["description"] == "The search query"


@every_row(
    ("connection", "read_only", "needs"),
    [
        (None, False, False),
        (McpConnection(), False, False),
        (McpConnection(approval="always"), False, True),
        (McpConnection(approval="always", exempt=("write",)), False, False),
        (McpConnection(approval="always", exempt=("read",)), False, True),
        (McpConnection(approval="always"), True, True),
        (McpConnection(approval="always", exempt_read_only=True), True, False),
        (McpConnection(approval="always", exempt_read_only=True), False, True),
    ],
)
def test_which_calls_need_approval(connection, read_only, needs):
    listed = McpTool("write", read_only=read_only)
    tool = RunnableTool("all__write", "write", ServerTool("mcp", mcp=connection), listed)
    assert tool.needs_approval is needs


def test_tools_that_the_history_found():
    turns = (
        Turn("assistant", (Text("a"), HITS, ServerResult("s", "tool_search", FoundTools(("b", "a"))))),
        Turn("user", (Result("c", (Reference("c"), Text("x"))), Reference("b"))),
    )  # fmt: skip
    assert found_names(Request("m", turns=turns)) == ("b", "a", "c")
    assert with_found((Tool("b"),), [Tool("a", deferred=True), Tool("b")], ("b", "a", "z")) == (
        Tool("b"),
        Tool("a"),
    )


YES = ServerResult("s2", "mcp", McpApproval(approve=True))
NO = ServerResult("s2", "mcp", McpApproval(approve=False, reason="no"))


@every_row(
    ("turns", "found"),
    [
        ((), ()),
        ((Turn("assistant", (ASKED,)), Turn("user", (YES,))), ((ASKED, YES.outcome),)),
        ((Turn("assistant", (ASKED,)), Turn("user", (Text("x"), NO))), ((ASKED, NO.outcome),)),
        ((Turn("assistant", (ASKED, YES)),), ()),
        ((Turn("assistant", (ASKED,)), Turn("user", (YES,)), Turn("user", (Text("x"),))), ()),
        ((Turn("assistant", (replace(CALL, id="s2"),)), Turn("user", (YES,))), ()),
        ((Turn("assistant", (ASKED,)), Turn("user", (replace(HITS, call_id="s2"),))), ()),
        ((Turn("user", (YES,)),), ()),
    ],
)
def test_calls_that_the_client_has_just_approved(turns, found):
    assert approvals(Request("m", turns=turns)) == found


@every_row(
    ("turns", "found"),
    [
        ((), ()),
        ((Turn("assistant", (Text("x"), CALL)),), (CALL,)),
        ((Turn("assistant", (CALL, HITS)),), ()),
        ((Turn("assistant", (CALL, replace(CALL, id="s3"), HITS)),), (replace(CALL, id="s3"),)),
        ((Turn("assistant", (ASKED,)),), ()),
        ((Turn("assistant", (CALL,)), Turn("user", (Text("x"),))), ()),
        ((Turn("user", (CALL,)),), ()),
    ],
)
def test_calls_of_a_paused_answer(turns, found):
    assert open_calls(Request("m", turns=turns)) == found
