"""The cases of structured streams: they are sound, this gateway passes them, and they can fail."""

import asyncio
import json
import socket
import sys
import xml.etree.ElementTree as ET
from contextlib import contextmanager

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.peers import Heard, Line, gateway, model_server, whole
from tests.tables import every_row

from toolbridge.cli import conform_stream, main
from toolbridge.conformance import report, self_gateway
from toolbridge.conformance.runner import CaseOutcome, Runner
from toolbridge.conformance.streams import cases, model
from toolbridge.conformance.streams.cases import (
    ExpectedRejection,
    ScriptedAnswer,
    ScriptedCall,
    StreamCase,
    StreamExpectation,
)
from toolbridge.conformance.streams.connections import StreamRejected, WireEvent
from toolbridge.conformance.streams.cutting import cut, pieces
from toolbridge.conformance.streams.grammar import CODES, MEMBERS
from toolbridge.conformance.streams.judge import judge, spelled
from toolbridge.conformance.streams.play import PATH, PlayResult
from toolbridge.conformance.streams.player import StreamPlayer, run_other, run_own
from toolbridge.core.errors import ConfigError

ALL = cases.load()
RUN = "run_0123456789abcdef"
CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ANSWER = '{"answer":"a","citations":[]}'
RESULT = f"⟦BEGIN_RESULT id=R1 schema=AssistantReply⟧{ANSWER}⟦END_RESULT id=R1⟧"


# ── the data ─────────────────────────────────────────────────────────────────


@pytest.mark.req("TF-61")
def test_there_are_at_least_120_cases():
    assert len(ALL) >= 120
    assert len({case.name for case in ALL}) == len(ALL), "a name stands for one case"


@pytest.mark.req("TF-62")
@every_row("category", cases.CATEGORIES)
def test_every_category_has_ten_cases_at_least(category):
    assert len([case for case in ALL if case.category == category]) >= 10


@pytest.mark.req("TF-63")
@every_row(
    ("name", "category"),
    [
        ("nested_arrays_early_end", "partial"),
        ("multi_tool_call_with_retry", "tools"),
        ("repair_missing_required_key", "repair"),
        ("backpressure_slow_client", "backpressure"),
        ("interrupt_cancel_resume", "interruptions"),
    ],
)
def test_the_five_named_cases_are_there(name, category):
    assert [case.category for case in ALL if case.name == name] == [category]


@every_row("case", ALL, ids=lambda case: case.id)
def test_a_case_is_sound(case):
    assert case.proves.endswith(".")
    assert case.cuttings
    if not case.bare:
        assert isinstance(cases.body_of(case, "m"), dict)
    refused = case.expect.rejected is not None
    assert refused == (not case.expect.events), "it expects events or a refusal"
    for name in spelled(case.expect.events):
        kind, _, code = name.partition(":")
        assert kind in MEMBERS
        assert not code or code in CODES
    written = (*case.expect.values.values(), *case.expect.results.values())
    for text in (*written, *case.expect.args.values(), *case.client.answers.values()):
        json.loads(cases.expand(text))


def test_a_file_with_a_fault_is_named(tmp_path):
    for name in cases.CATEGORIES:
        (tmp_path / f"{name}.toml").write_text(f'category = "{name}"\ncase = []\n')
    assert cases.load(tmp_path) == ()
    (tmp_path / "tools.toml").write_text('category = "tools"\n[[case]]\nname = "x"\nwhy = "y"\n')
    with pytest.raises(ConfigError, match=r"tools\.toml"):
        cases.load(tmp_path)


@every_row(
    ("written", "text"),
    [
        ("a{{b*3}}c", "abbbc"),
        ('{ {{"v%d":"v%+",*2}}"x":1}', '{ "v0":"v1","v1":"v2","x":1}'),
        ("{{{*2}}{{}*2}}", "{{}}"),
        ("plain", "plain"),
    ],
)
def test_repetitions_are_written_out(written, text):
    assert cases.expand(written) == text


@given(st.text(max_size=200), st.sampled_from([*cases.CUTTINGS, "50"]))
def test_no_cutting_loses_or_adds_anything(text, cutting):
    assert "".join(cut(text, cutting, "seed")) == text


def test_a_text_is_cut_where_it_says_and_waits_where_it_says():
    say = ScriptedAnswer("abcdef<<wait 0.5>>gh", at=(1, 4))
    assert [*pieces(say, "given", "")] == ["a", "bcd", "ef", 0.5, "g", "h"]
    assert [*pieces(say, "random", "x")] == [*pieces(say, "random", "x")]


# ── this gateway ─────────────────────────────────────────────────────────────


@pytest.mark.req("TF-61", "TF-62", "TF-63", "TF-64")
@pytest.mark.parametrize("category", cases.CATEGORIES)
async def test_this_gateway_passes(category):
    outcomes = await run_own(cases.select(ALL, category))
    assert report.failures(outcomes) == ""
    assert len(outcomes) >= 10


@contextmanager
def reserved_port():
    """Yield a port for a server; while it is bound here, no other process is given it.

    Linux lets a server listen on a port that is bound but not listened on; elsewhere it is released.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        if sys.platform != "linux":
            held.close()
        yield port


async def test_a_gateway_elsewhere_is_scored_by_its_url():
    chosen = [*cases.select(ALL, "json/flat_object"), *cases.select(ALL, "security/no_key")]
    with reserved_port() as port:
        config = self_gateway.stream_config("", f"http://127.0.0.1:{port}")
        async with gateway(config) as (url, _):
            outcomes = await run_other(chosen, url, port)
    assert [(o.case, o.faults) for o in outcomes] == [("json/flat_object", ())], (
        "one is not for others"
    )


# ── the judge can fail ───────────────────────────────────────────────────────


def told(*events: tuple[str, dict]) -> list[WireEvent]:
    return [WireEvent(name, data, f"{RUN}:{n}") for n, (name, data) in enumerate(events, 1)]


GOOD = [
    ("text.delta", {"text": "Hm. "}),
    ("json.begin", {"id": "O1", "schema": "City"}),
    ("json.delta", {"id": "O1", "chunk": '{"name":'}),
    ("json.delta", {"id": "O1", "chunk": '"Zürich"}'}),
    ("json.end", {"id": "O1", "length": 18}),
    ("tool.call", {"id": "T1", "name": "places.search", "args": {"query": "x"}}),
    ("tool.result", {"id": "T1", "name": "places.search", "result": []}),
    ("result.begin", {"id": "R1", "schema": "AssistantReply"}),
    ("result.delta", {"id": "R1", "chunk": ANSWER}),
    ("result.end", {"id": "R1", "length": len(ANSWER)}),
    ("done", {}),
]
CASE = StreamCase(
    name="toy",
    proves="Nothing.",
    body=json.dumps({"schemas": {"City": CITY}, "tools": ["places.search"]}),
    says=(ScriptedAnswer("x"), ScriptedAnswer("y")),
    expect=StreamExpectation(events="text json tool result done"),
)
HEARD = [{"messages": [{"role": "user", "content": "Where?"}]}, {"temperature": 0.0}]


def verdict(events=GOOD, case=CASE, **more):
    return judge(case, PlayResult(events=told(*events), run=RUN, heard=HEARD, **more))


def put(at, *events):
    """Return the good events with `events` in the place of number `at`."""
    return [*GOOD[:at], *events, *GOOD[at + 1 :]]


def test_a_good_stream_is_praised():
    assert verdict() == []


DELTA = ("json.delta", {"id": "O1", "chunk": " "})
OTHER = ("json.begin", {"id": "O2", "schema": "City"})


@every_row(
    ("events", "fault"),
    [
        (GOOD[:-1], "done comes 0 times"),
        ([*GOOD, GOOD[-1]], "done comes 2 times"),
        ([*GOOD[:7], GOOD[-1]], "neither a result nor an error"),
        ([*GOOD[:4], GOOD[-1]], "has no end"),
        (put(4), "tool.call stands inside the frame O1"),
        (put(1), "stands outside of its frame"),
        (put(2, OTHER), "begins inside O1"),
        (put(3, ("text.delta", {"text": "x"})), "stands inside the frame"),
        (put(4, ("json.end", {"id": "O1", "length": 17})), "the length is 17, the chunks have 18"),
        (put(3, ("json.delta", {"id": "O1", "chunk": '"Zürich"'})), "called valid, but is no JSON"),
        (put(3, ("json.delta", {"id": "O1", "chunk": "8       }"})), "does not fit City"),
        (put(1, ("json.begin", {"id": "O1", "schema": "Town"})), "a schema nobody named"),
        (put(4, ("json.end", {"id": "O1", "length": 18, "status": "healed"})), "without the value"),
        (
            put(4, ("json.end", {"id": "O1", "length": 18, "status": "degraded", "value": {}})),
            "does not fit City",
        ),
        (
            put(4, ("json.end", {"id": "O1", "length": 18, "status": "fine", "value": 1})),
            "no status fine",
        ),
        (put(4, ("json.end", {"id": "O1", "length": 18, "value": {}})), "needs no value"),
        (put(6), "has no result"),
        (put(5), "where nothing was called"),
        (put(5, ("tool.call", {"id": "T1", "name": "places.search", "args": {}})), "do not fit"),
        (
            put(6, ("tool.result", {"id": "T2", "name": "places.search", "result": 1})),
            "a result of T2",
        ),
        (put(0, ("text.delta", {"text": "⟦END_OBJECT id=O1⟧"})), "a sentinel stands in the text"),
        (
            put(
                2,
                ("json.delta", {"id": "O1", "chunk": '{"a":"⟦END_OBJECT id=O1⟧","name":'}),
            ),
            "a sentinel stands in the chunks",
        ),
        (put(0, ("error", {"code": "strange", "message": "x"})), "is in no document"),
        (put(0, ("error", {"code": "aborted", "message": "x"})), "ends a stream, but json.begin"),
        (put(0, ("error", {"code": "duplicate_id", "message": ""})), "says nothing"),
        (put(0, ("error", {"code": "duplicate_id", "message": "x"})), "expected the events"),
        (put(0, ("text.delta", {"text": "x", "more": 1})), "has more besides"),
        (put(0, ("text.delta", {})), "lacks text"),
        (put(0, ("chatter", {})), "no event chatter"),
        ([*GOOD[:-1], ("text.delta", {"text": "x"}), GOOD[-1]], "something follows the result"),
        ([*GOOD[:5], *GOOD[1:]], "was used before"),
    ],
)
def test_a_stream_with_a_fault_is_found_out(events, fault):
    assert any(fault in said for said in verdict(events)), verdict(events)


def test_a_gap_in_the_numbers_is_found_out():
    events = told(*GOOD)
    del events[2]
    faults = judge(CASE, PlayResult(events=events, run=RUN, heard=HEARD))
    assert any("expected the id" in fault for fault in faults)


@every_row(
    ("expect", "fault"),
    [
        ({"events": "json tool result done"}, "expected the events"),
        ({"text": "Ha. "}, "text: expected"),
        ({"values": {"O1": '{"name":"Bern"}'}}, "O1: expected"),
        ({"values": {"O7": "1"}}, "no frames came for O7"),
        ({"chunks": {"O1": "{}"}}, "chunks of O1"),
        ({"status": {"O1": "healed"}}, "expected the status healed"),
        ({"error": {"R1": "no_result"}}, "expected the diagnostics"),
        ({"args": {"T1": "{}"}}, "arguments of T1"),
        ({"results": {"T1": "1"}}, "result of T1"),
        ({"results_have": {"T1": ("pizza",)}}, "expected 'pizza'"),
        ({"failed": {"T1": "tool_failed"}}, "failures of tools"),
        ({"cached": ("T1",)}, "cached results"),
        ({"requests": 3}, "was asked 2 times, not 3"),
        ({"asked": ({"at": 1, "has": ("How?",)},)}, "lacks 'How?'"),
        ({"asked": ({"at": 1, "lacks": ("Where?",)},)}, "has 'Where?'"),
        ({"asked": ({"at": 2, "fields": {"temperature": 1.0}},)}, "temperature of request 2"),
        ({"rejected": {"status": 400, "code": "x"}}, "came a stream"),
        ({"pings": True}, "no ping came"),
        ({"fewest": 50}, "at least 50"),
        ({"most": 5}, "5 at most"),
        ({"anew": "result done"}, "anew"),
    ],
)
def test_a_wrong_expectation_is_found_out(expect, fault):
    wanted = msgspec.convert({"events": CASE.expect.events, **expect}, StreamExpectation)
    case = msgspec.structs.replace(CASE, expect=wanted)
    assert any(fault in said for said in verdict(case=case))


def test_a_line_to_the_model_that_stays_open_is_found_out():
    expect = StreamExpectation(events=CASE.expect.events, hung_up=True)
    case = msgspec.structs.replace(CASE, expect=expect)
    assert verdict(case=case) == []
    assert verdict(case=case, hung_up=False) == ["the line to the model stays open after the end"]


def test_a_ping_with_a_number_is_found_out():
    assert verdict(pings=[WireEvent("ping", {})]) == []
    assert any(
        "a ping has no id" in fault for fault in verdict(pings=[WireEvent("ping", {}, "x:1")])
    )


def test_chunks_that_are_not_the_value_are_found_out_where_results_are_held():
    body = json.dumps({"schemas": {"City": CITY}, "hold_results": True})
    expect = StreamExpectation(events=CASE.expect.events, status={"O1": "repaired"})
    case = msgspec.structs.replace(CASE, body=body, expect=expect)
    end = {"id": "O1", "length": 18, "status": "repaired", "value": {"name": "Bern"}}
    assert any("results are held" in fault for fault in verdict(put(4, ("json.end", end)), case))


@every_row(
    ("status", "error", "fault"),
    [
        (500, {"code": "unknown_schema", "message": "x", "where": "result"}, "expected status 400"),
        (400, {"code": "other", "message": "x", "where": "result"}, "expected the code"),
        (400, {"code": "unknown_schema", "message": "x", "where": "tools"}, "is at 'result'"),
        (400, {"code": "unknown_schema", "message": "", "where": "result"}, "says nothing"),
    ],
)
def test_a_wrong_refusal_is_found_out(status, error, fault):
    expect = StreamExpectation(rejected=ExpectedRejection(400, "unknown_schema", "result"))
    case = msgspec.structs.replace(CASE, expect=expect)
    played = PlayResult(refusal=StreamRejected(status, {"error": error}))
    assert any(fault in said for said in judge(case, played))
    right = StreamRejected(
        400, {"error": {"code": "unknown_schema", "message": "x", "where": "result"}}
    )
    assert judge(case, PlayResult(refusal=right)) == []
    assert any("was refused" in said for said in judge(CASE, PlayResult(refusal=right)))


# ── gateways that are wrong ──────────────────────────────────────────────────


async def toy(answer, case, cuttings=("whole",)):
    """Return the faults of a gateway that answers with `answer`."""
    chosen = msgspec.structs.replace(case, cuttings=cuttings)
    async with (
        model.serve() as played,
        model_server(answer) as server,
        aiohttp.ClientSession() as session,
    ):
        (outcome,) = await Runner(StreamPlayer(played, {"": server.url}, session)).run([chosen])
    return outcome.faults


async def stream(line: Line, *events: tuple[str, dict], run: str = RUN) -> None:
    await line.head(200, "text/event-stream", x_toolbridge_run=run)
    for n, (name, data) in enumerate(events, 1):
        await line.send(f"id: {run}:{n}\nevent: {name}\ndata: {json.dumps(data)}\n\n")
    await line.end()


QUIET = msgspec.structs.replace(
    CASE, expect=msgspec.structs.replace(CASE.expect, requests=0), says=()
)


async def test_a_toy_that_says_the_right_things_passes():
    async def right(_: Heard, line: Line) -> None:
        await stream(line, *GOOD)

    assert await toy(right, QUIET) == ()


async def test_a_gateway_whose_events_depend_on_the_cutting_is_found_out():
    async def moody(heard: Heard, line: Line) -> None:
        last = heard.json["model"][-1]
        await stream(line, *put(0, ("text.delta", {"text": f"Hm{last}"})))

    assert any("cut as 7" in fault for fault in await toy(moody, QUIET, ("whole", "7")))


async def test_a_gateway_that_breaks_off_is_found_out():
    async def broken(_: Heard, line: Line) -> None:
        await line.head(200, "text/event-stream", x_toolbridge_run=RUN)
        await line.send("id: x\nevent: text")
        line.cut()

    assert any("broke off" in fault for fault in await toy(broken, QUIET))


async def test_a_gateway_that_answers_with_a_page_is_found_out():
    async def page(_: Heard, line: Line) -> None:
        await line.head(200, "text/html")
        await line.send("<p>Hello</p>")
        await line.end()

    assert any("content type" in fault for fault in await toy(page, QUIET))


async def test_a_client_that_never_gets_to_act_is_found_out():
    async def right(_: Heard, line: Line) -> None:
        await stream(line, *GOOD)

    client = cases.ScriptedClient(
        transport="sse", steps=(cases.ClientStep("text.delta:9", "leave"),)
    )
    case = msgspec.structs.replace(QUIET, client=client)
    assert any("never read" in fault for fault in await toy(right, case))


async def careless(heard: Heard, line: Line) -> None:
    """Give every request for a stream the same events, and everything else an empty object."""
    if heard.method == "POST" and heard.path == PATH:
        await stream(line, *GOOD)
    else:
        await whole(line, {})


@pytest.mark.parametrize(
    ("do", "fault"),
    [
        ("misspeak", "a result of no call got 200: {}"),
        ("crowd", "one stream too many was not refused with 429"),
        ("abort", "gave 200: {}, not 200"),
    ],
)
async def test_a_gateway_that_does_not_listen_to_its_client_is_found_out(do, fault):
    client = cases.ScriptedClient(transport="sse", steps=(cases.ClientStep("text.delta", do),))
    faults = await toy(careless, msgspec.structs.replace(QUIET, client=client))
    assert any(fault in found for found in faults), faults


@pytest.mark.parametrize(
    ("after", "fault"),
    [
        ("conflict", "another body under the same key was not refused with 409"),
        ("unknown", "gave 200: {}, not 404"),
        ("late_abort", "gave 200: {}, not 200"),
        ("late_result", "gave 200: {}, not 404"),
        ("suffixes", "after event 1 was told something else: text.delta json.begin"),
    ],
)
async def test_a_gateway_that_forgets_a_stream_at_its_end_is_found_out(after, fault):
    async def forgetful(heard: Heard, line: Line) -> None:
        if heard.method == "GET" and RUN in heard.path:
            await stream(line, *GOOD)
        else:
            await careless(heard, line)

    client = cases.ScriptedClient(transport="sse", key="k", after=(after,))
    faults = await toy(forgetful, msgspec.structs.replace(QUIET, client=client))
    assert any(fault in found for found in faults), faults


async def test_a_gateway_that_repeats_a_stream_is_not_blamed_for_it():
    async def faithful(heard: Heard, line: Line) -> None:
        await stream(line, *GOOD)

    client = cases.ScriptedClient(transport="sse", key="k", after=("repeat", "replay"))
    assert await toy(faithful, msgspec.structs.replace(QUIET, client=client)) == ()


async def test_a_gateway_that_dies_of_a_case_is_found_out():
    async def fragile(heard: Heard, line: Line) -> None:
        if heard.json["model"].endswith("1"):
            await stream(line, *GOOD)
        else:
            line.cut()

    case = msgspec.structs.replace(QUIET, category="security")
    assert any(fault.startswith("afterwards") for fault in await toy(fragile, case))


async def test_a_model_says_its_calls_in_pieces():
    say = ScriptedAnswer(calls=(ScriptedCall("f", '{"a":1}'), ScriptedCall(0, "{}")), text="Hm.")
    case = msgspec.structs.replace(CASE, says=(say,))
    async with model.serve() as played, aiohttp.ClientSession() as client:
        name, playing = played.begin(case, "3")
        body = {"model": name, "tools": [{"function": {"name": "offered"}}]}
        async with client.post(f"{played.url}/v1/chat/completions", json=body) as reply:
            said = (await reply.text()).split("\n\n")
        async with client.post(f"{played.url}/v1/chat/completions", json=body) as again:
            assert again.status == 400, "it has no second answer"
        async with client.post(f"{played.url}/v1", json={"model": "nobody"}) as unknown:
            assert unknown.status == 404
    assert playing.heard[0]["tools"] == body["tools"]
    deltas = [json.loads(s[6:])["choices"][0]["delta"] for s in said if s.startswith("data: {")]
    parts = [d["tool_calls"][0] for d in deltas if "tool_calls" in d]
    first = "".join(p["function"]["arguments"] for p in parts if p["index"] == 0)
    assert first == '{"a":1}'
    assert [p["function"].get("name") for p in parts if "id" in p] == ["f", "offered"]


# ── reports and the command ──────────────────────────────────────────────────

OUTCOMES = [
    CaseOutcome("json/a", "json", "stream", why="It <works>.", plays=5),
    CaseOutcome("tools/b", "tools", "stream", why="It breaks.", plays=2, faults=("it broke",)),
]


def test_the_matrix_is_told_as_a_table():
    rows = [row.split() for row in report.table(OUTCOMES).split("\n")]
    assert rows == [
        ["stream"],
        ["json", "1/1"],
        ["tools", "0/1"],
        ["all", "1/2"],
    ]
    assert report.failures(OUTCOMES) == "stream: tools/b: It breaks.\n    it broke"


def test_the_matrix_is_told_as_json():
    found = json.loads(report.as_json(OUTCOMES))
    assert (found["passed"], found["failed"], found["plays"]) == (1, 1, 7)
    assert found["families"]["tools"] == {"passed": 0, "failed": 1}
    assert found["results"][1]["faults"] == ["it broke"]


def test_the_matrix_is_drawn_with_a_square_for_each_case():
    drawn = report.as_svg(OUTCOMES, "Structured streams", cases.LABELS)
    root = ET.fromstring(drawn)
    name = "{http://www.w3.org/2000/svg}"
    kinds = [rect.get("class") for rect in root.iter(f"{name}rect")]
    assert kinds == ["back", "passed", "failed"]
    titles = [title.text for title in root.iter(f"{name}title")]
    assert titles == ["a: It <works>.", "b: It breaks."]
    assert report.as_svg(OUTCOMES, "Structured streams", cases.LABELS) == drawn


def test_the_command_saves_the_matrix(tmp_path, capsys):
    given = ["conform", "--self", "--stream", "--only", "json/flat_object"]
    assert main([*given, "--save", str(tmp_path / "out")]) == 0
    assert "1 passed, 0 failed" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "stream-matrix.json").read_text())["passed"] == 1
    first = (tmp_path / "out" / "stream-matrix.svg").read_text()
    assert main([*given, "--save", str(tmp_path / "again"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == 0
    assert (tmp_path / "again" / "stream-matrix.svg").read_text() == first


def test_the_command_fails_with_a_case(monkeypatch, capsys):
    (case,) = cases.select(ALL, "json/flat_object")
    wrong = msgspec.structs.replace(case, expect=StreamExpectation(events="text done"))
    monkeypatch.setattr(conform_stream, "load", lambda: (wrong,))
    assert main(["conform", "--self", "--stream"]) == 1
    assert "expected the events" in capsys.readouterr().out


def test_the_command_lists_the_cases(capsys):
    assert main(["conform", "--stream", "--list"]) == 0
    assert capsys.readouterr().out.strip().endswith(f"{len(ALL)} cases")


@pytest.mark.parametrize("given", [[], ["http://127.0.0.1:1", "--self"]])
def test_the_command_says_what_it_needs(capsys, given):
    assert main(["conform", "--stream", *given]) == 2
    assert "give either the URL of a gateway or --self" in capsys.readouterr().err


def test_the_command_says_how_a_gateway_must_be_set_up(capsys):
    given = ["conform", "--stream", "http://127.0.0.1:1", "--listen", "0"]
    assert main([*given, "--only", "json/flat_object"]) == 1
    assert "[providers.conform]" in capsys.readouterr().err


def test_nothing_to_play_is_no_success():
    assert main(["conform", "--self", "--stream", "--only", "no-such-case"]) == 2


def test_a_run_leaves_no_task_behind():
    async def play() -> int:
        await run_own(cases.select(ALL, "interruptions/abort_in_text"))
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(play()) == 1
