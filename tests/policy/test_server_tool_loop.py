"""The loop of server tools as a state machine: events and outcomes in, one answer out."""

from msgspec.structs import replace
from tests.tables import every_row

from toolbridge.core import events as ev
from toolbridge.core.ids import Ids
from toolbridge.core.messages import (
    Call,
    HealingReport,
    Loss,
    Problem,
    Request,
    Result,
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
    McpOutput,
    McpTool,
    SearchHit,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerTool,
    ServerToolError,
)
from toolbridge.core.usage import Usage
from toolbridge.policy.server_tool_budget import LoopLimits, ToolBudget
from toolbridge.policy.server_tool_loop import ServerToolLoop
from toolbridge.policy.server_tool_plan import plan_server_tools

ALL = frozenset({"web_search", "web_fetch", "tool_search", "mcp"})
LISTINGS = {"all": McpListing((McpTool("read"), McpTool("write")))}
HITS = SearchHits((SearchHit("https://a.example", "A", "about a"),))
STARTED = ev.Started("msg_1", "m")


def hosted(kind, **fields):
    return Tool(kind, hosted={"type": kind}, server=ServerTool(kind, **fields))


def server(**connection):
    return Tool("all", hosted={"type": "mcp"}, server=ServerTool("mcp", server="all", mcp=McpConnection(**connection)))  # fmt: skip


SEARCH = hosted("web_search")
TOOLS = (SEARCH, hosted("web_fetch"), Tool("Bash"))


def loop(*tools, limits=None, turns=(), listed=(), **fields):
    turns = turns or (Turn("user", (Text("see https://a.example"),)),)
    request = Request("m", turns=turns, tools=tools or TOOLS, **fields)
    plan = plan_server_tools(request, frozenset(), ALL, LISTINGS if server_in(tools) else {})
    return ServerToolLoop(
        replace(plan, listed=listed), Ids(b"x"), b"k" * 32, limits or LoopLimits()
    )


def server_in(tools):
    return any(tool.server is not None and tool.server.kind == "mcp" for tool in tools)


def called(index, name, raw="", **arguments):
    call = Call(f"c{index}", name, arguments, raw)
    return [ev.CallStart(index, call.id, name), ev.CallDelta(index, "{}"), ev.CallEnd(index, call)]


def said(index, text):
    return [ev.TextStart(index), ev.TextDelta(index, text), ev.TextEnd(index, Text(text))]


def search(index=0, query="x"):
    return called(index, "web_search", query=query)


def ran(one, outcome=HITS):
    """Run the waiting calls with one outcome; return what the client sees of them."""
    one.announce()
    return one.answer({call.id: outcome for call, _ in one.runs()})


def outcomes(events):
    return [e.part.outcome for e in events if isinstance(e, ev.PartAdded) and isinstance(e.part, ServerResult)]  # fmt: skip


def test_two_passes_are_one_answer():
    one = loop(max_tokens=100)
    begun = one.feed_all([STARTED, *said(0, "Let me look."), *search(1)])
    assert begun == [STARTED, *said(0, "Let me look.")]
    spent = Usage(input=10, output=20, reasoning=5)
    assert one.feed_all([ev.UsageReported(spent)]) == [ev.UsageReported(spent)]
    assert one.feed_all([ev.Finished("tool_use")]) == []
    ((made, offered),) = one.runs()
    assert (made.kind, made.name, made.arguments) == ("web_search", "web_search", {"query": "x"})
    assert offered.name == "web_search"
    assert [e.index for e in one.announce()] == [1]
    (shown,) = one.answer({made.id: HITS})
    assert (shown.index, shown.part.call_id, shown.part.name) == (2, made.id, "web_search")
    assert shown.part.outcome.hits[0].sealed
    assert not one.done
    assert not one.waiting
    assert one.request.max_tokens == 80
    assert [turn.role for turn in one.request.turns] == ["user", "assistant", "user"]
    assert one.request.turns[1].content == (
        Text("Let me look."),
        Call(made.id, "web_search", {"query": "x"}),
    )
    assert isinstance(one.request.turns[2].content[0], Result)
    assert one.request.tools == loop(max_tokens=100).request.tools
    assert one.usage == spent
    second = [ev.Started("msg_2", "m"), *said(0, "A."), ev.UsageReported(Usage(input=30, output=2, searches=1)), ev.Finished("end")]  # fmt: skip
    total = Usage(input=30, output=22, reasoning=5, searches=2)
    assert one.feed_all(second) == [
        ev.TextStart(3), ev.TextDelta(3, "A."), ev.TextEnd(3, Text("A.")),
        ev.UsageReported(total), ev.UsageReported(total), ev.Finished("end"),
    ]  # fmt: skip
    assert one.done


def test_counts_of_earlier_passes_are_added():
    one = loop(max_tokens=30)
    usage = Usage(1, 20, 3, 4, 2, 5, 0, 6)
    for query in ("x", "y"):
        one.feed_all([STARTED, *search(query=query), ev.UsageReported(usage), ev.Finished("end")])
        ran(one)
    assert one.usage == Usage(2, 40, 6, 8, 4, 10, 0, 12)
    assert one.request.max_tokens == 1
    assert one.searches == 2
    assert loop().request.max_tokens is None


def test_an_answer_without_server_calls_passes_unchanged():
    events = [
        STARTED, *said(0, "a"), *called(1, "Bash"), ev.Healed(1, HealingReport("c1", "Bash", 0, ())), ev.Lost(Loss("x", "y")),
        ev.LogprobsReported(()), ev.Alternative(1, ev.TextStart(0)), ev.Finished("tool_use"),
    ]  # fmt: skip
    one = loop()
    assert one.feed_all(events) == events
    assert one.done
    failed = loop()
    problem = ev.Failed(Problem("overloaded", "busy"))
    assert failed.feed_all([STARTED, problem]) == [STARTED, problem]
    assert failed.done


def test_a_report_on_a_call_of_the_gateway_has_no_block():
    one = loop()
    report = HealingReport("c1", "Bash", 0, ())
    assert one.feed_all([STARTED, *search(), ev.Healed(0, report)])[1:] == [
        ev.Healed(ev.NO_BLOCK, report)
    ]


def test_calls_of_the_client_follow_the_results():
    one = loop()
    shown = one.feed_all(
        [STARTED, *called(0, "Bash"), *search(1), *called(2, "Bash"), *said(3, "b")]
    )
    assert shown == [STARTED, *called(0, "Bash"), *(replace(e, index=1) for e in said(3, "b"))]
    assert one.feed_all([ev.Finished("end")]) == []
    events = ran(one)
    held = [replace(e, index=4) for e in called(2, "Bash")]
    assert events[1:] == [*held, ev.UsageReported(Usage(searches=1)), ev.Finished("tool_use")]
    assert one.done


def test_an_interrupted_answer_runs_nothing():
    one = loop()
    assert one.feed_all([STARTED, *search(), ev.Finished("max_tokens")]) == [
        STARTED,
        ev.Finished("max_tokens"),
    ]
    assert (one.waiting, one.done) == ({}, True)


def test_arguments_that_are_not_json_fail():
    one = loop()
    one.feed_all([STARTED, *called(0, "web_search", raw="{half"), ev.Finished("end")])
    assert one.runs() == []
    (outcome,) = outcomes(one.answer({}))
    assert outcome == ServerToolError("invalid_tool_input", "the arguments are not valid JSON")
    assert one.request.turns[1].content[0].raw == ""
    assert one.searches == 0


@every_row(
    ("url", "code"),
    [("https://a.example", ""), ("https://b.example", "url_not_in_prior_context"), (None, "invalid_tool_input")],
)  # fmt: skip
def test_only_a_known_address_is_fetched(url, code):
    one = loop()
    arguments = {} if url is None else {"url": url}
    one.feed_all([STARTED, *called(0, "web_fetch", **arguments), ev.Finished("end")])
    assert bool(one.runs()) is not bool(code)
    if code:
        assert outcomes(one.answer({}))[0].code == code


@every_row(
    ("ranking", "query", "names"),
    [
        ("bm25", "late", ("late", "later")),
        ("bm25", "nothing", ()),
        ("regex", "^later$", ("later",)),
        ("regex", "lat", ("late", "later")),
    ],
)
def test_deferred_tools_are_found_without_a_run(ranking, query, names):
    deferred = (Tool("late", deferred=True), Tool("later", "too late", deferred=True))
    one = loop(hosted("tool_search", ranking=ranking), *deferred)
    one.feed_all([STARTED, *called(0, "tool_search", query=query), ev.Finished("end")])
    assert one.runs() == []
    assert outcomes(one.answer({})) == [FoundTools(names)]
    assert [tool.name for tool in one.request.tools] == ["tool_search", *names]


def test_a_search_finds_no_more_tools_than_the_limit_and_a_wrong_pattern_is_an_error():
    tools = (hosted("tool_search", ranking="regex"), *(Tool(f"t{n}", deferred=True) for n in "abc"))
    one = loop(*tools, limits=LoopLimits(found_tools=2))
    one.feed_all([STARTED, *called(0, "tool_search", query="t"), *called(1, "tool_search", query="("), ev.Finished("end")])  # fmt: skip
    assert one.runs() == []
    found, refused = outcomes(one.answer({}))
    assert found == FoundTools(("ta", "tb"))
    assert refused.code == "invalid_tool_input"


def test_the_last_pass_has_no_server_tools():
    one = loop(limits=LoopLimits(max_passes=3), tool_choice=ToolChoice("required", parallel=False))
    for query in ("x", "y"):
        assert "web_search" in {tool.name for tool in one.request.tools}
        one.feed_all([STARTED, *search(query=query), ev.Finished("tool_use")])
        ran(one)
        assert one.request.tool_choice.mode == "auto"
    assert [tool.name for tool in one.request.tools] == ["Bash"]
    one.feed_all([STARTED, *search(query="z"), ev.Finished("tool_use")])
    assert one.runs() == []
    events = one.answer({})
    assert [o.text for o in outcomes(events)] == ["the limit of this answer is reached"]
    assert events[-1] == ev.Finished("end")
    assert one.done


@every_row(
    ("mode", "names", "left"),
    [("named", ("web_search",), "auto"), ("required", (), "auto"), ("auto", (), "auto")],
)
def test_a_forced_tool_is_free_in_the_second_pass(mode, names, left):
    one = loop(tool_choice=ToolChoice(mode, names, parallel=False))
    assert one.request.tool_choice.mode == mode
    one.feed_all([STARTED, *search(), ev.Finished("tool_use")])
    ran(one)
    assert one.request.tool_choice == ToolChoice(left, parallel=False)


def test_a_stopped_loop_lets_the_model_answer():
    one = loop()
    one.feed_all([STARTED, *search(), ev.Finished("tool_use")])
    one.stop()
    ran(one)
    assert [tool.name for tool in one.request.tools] == ["Bash"]
    first = loop()
    (tool,) = (t for t in first._plan.offered.values() if t.name == "web_search")
    first.begin_with(tool, {"query": "q"})
    shown = first.announce()
    assert [type(e) for e in shown] == [ev.Started, ev.PartAdded]
    assert shown[0].model == "m"
    ((made, _),) = first.runs()
    first.answer({made.id: HITS})
    assert [tool.name for tool in first.request.tools] == ["Bash"]
    assert first.request.turns[1] == Turn(
        "assistant", (Call(made.id, "web_search", {"query": "q"}),)
    )
    assert first.feed_all([STARTED]) == []


def test_listings_are_shown_once_after_the_start():
    listed = (ServerResult("l", "mcp", LISTINGS["all"], server="all"),)
    one = loop(listed=listed)
    assert one.feed_all([STARTED, STARTED]) == [STARTED, ev.PartAdded(0, listed[0])]
    other = loop(listed=listed)
    assert [type(e) for e in other.announce()] == [ev.Started, ev.PartAdded]
    assert other.announce() == []


def test_a_paused_answer_goes_on():
    paused = ServerCall("s1", "web_search", "web_search", {"query": "x"})
    foreign = ServerCall("s2", "code_execution", "code_execution", {})
    turns = (Turn("user", (Text("hi"),)), Turn("assistant", (Text("so"), paused, foreign)))
    one = loop(turns=turns)
    assert [*one.waiting] == ["s1"]
    assert [type(e) for e in one.announce()] == [ev.Started]
    assert [call.id for call, _ in one.runs()] == ["s1"]
    assert outcomes(one.answer({"s1": HITS}))[0].hits[0].url == "https://a.example"
    one.feed_all([STARTED, *search(query="y"), ev.Finished("end")])
    assert [type(e) for e in one.announce()] == [ev.PartAdded]


@every_row(
    ("approval", "text"),
    [
        (McpApproval(approve=True), ""),
        (McpApproval(approve=False), "the user declined the call."),
        (McpApproval(approve=False, reason="too risky"), "the user declined the call. too risky"),
    ],
)
def test_a_call_that_the_client_approved_or_declined(approval, text):
    asked = ServerCall("s1", "mcp", "write", {"a": 1}, "all", needs_approval=True)
    unknown = replace(asked, id="s2", name="gone")
    answers = tuple(ServerResult(id, "mcp", approval, server="all") for id in ("s1", "s2"))
    turns = (
        Turn("user", (Text("hi"),)),
        Turn("assistant", (asked, unknown)),
        Turn("user", answers),
    )
    one = loop(server(approval="always"), turns=turns)
    ((id, made),) = one.waiting.items()
    assert id != "s1"
    assert (made.name, made.needs_approval, made.arguments) == ("write", False, {"a": 1})
    assert len(one.announce()) == 2
    output = McpOutput((Text("done"),))
    events = one.answer({call.id: output for call, _ in one.runs()})
    expected = ServerToolError("unavailable", text) if text else output
    assert outcomes(events) == [expected]
    assert one.request.turns[-2] == Turn("assistant", (Call(id, "all__write", {"a": 1}),))


def test_a_call_that_needs_approval_ends_the_answer():
    one = loop(server(approval="always", exempt=("read",)))
    one.feed_all([STARTED, *called(0, "all__read"), *called(1, "all__write"), ev.Finished("end")])
    assert [call.name for call in one.waiting.values()] == ["read"]
    events = ran(one, McpOutput())
    assert events[1].part.needs_approval
    assert events[1].part.name == "write"
    assert one.done
    alone = loop(server(approval="always"))
    ended = alone.feed_all([STARTED, *called(0, "all__write"), ev.Finished("tool_use")])
    assert [type(e) for e in ended] == [ev.Started, ev.PartAdded, ev.Finished]
    assert ended[-1].reason == "end"


WEB = ServerCall("s", "web_search", "web_search", {"query": "x"})


def test_the_same_call_is_answered_twice_and_refused_the_third_time():
    budget = ToolBudget(LoopLimits())
    tool = ServerTool("web_search")
    assert budget.maybe_known(WEB, "web_search", tool) is None
    budget.keep(WEB, "web_search", HITS)
    assert budget.maybe_known(WEB, "web_search", tool) is HITS
    assert not budget.exhausted
    assert budget.maybe_known(WEB, "web_search", tool).code == "max_uses_exceeded"
    assert budget.exhausted


@every_row(
    ("kind", "most", "wanted", "allowed"),
    [
        ("web_search", 3, None, 3),
        ("web_search", 3, 2, 2),
        ("web_search", 2, 3, 2),
        ("web_search", 3, 0, 0),
        ("mcp", 2, 1, 5),
    ],
)
def test_a_tool_runs_so_often_in_one_answer(kind, most, wanted, allowed):
    budget = ToolBudget(LoopLimits(max_uses=most))
    tool = ServerTool(kind, max_uses=wanted)
    ends = [
        budget.maybe_known(replace(WEB, kind=kind, arguments={"n": n}), "f", tool) for n in range(5)
    ]
    assert [end is None for end in ends] == [n < allowed for n in range(5)]
    assert budget.exhausted is (allowed < 5)
    assert all(f"f may be called {allowed} times" in end.text for end in ends if end)


@every_row(
    ("kind", "kept"),
    [("web_search", True), ("web_fetch", True), ("tool_search", True), ("mcp", False), ("code_execution", False)],
)  # fmt: skip
def test_which_outcomes_are_kept(kind, kept):
    budget = ToolBudget(LoopLimits())
    call = replace(WEB, kind=kind)
    budget.keep(call, "f", HITS)
    assert (budget.maybe_known(call, "f", ServerTool(kind)) is HITS) is kept
    assert budget.maybe_known(call, "g", ServerTool(kind)) is None
