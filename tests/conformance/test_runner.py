"""The runner finds what a bad gateway does wrong, and nothing wrong with a good one."""

import asyncio
import json
from contextlib import asynccontextmanager, nullcontext

import aiohttp
import msgspec
import pytest
from tests.peers import Line, model_server
from tests.tables import every_row

from toolbridge.cli import main
from toolbridge.conformance import cases, scripted_upstream, self_gateway
from toolbridge.conformance.cases import Case, Expectation, ExpectedCall
from toolbridge.conformance.report import as_json, failures, how_to_configure, summary, table
from toolbridge.conformance.runner import CaseOutcome, Runner
from toolbridge.conformance.translation import (
    ScoredGateway,
    TranslationCase,
    TranslationPlayer,
)
from toolbridge.core.errors import Unreachable

BOOK = cases.load()


async def play(url, *chosen, api="anthropic", model="conform", at_once=16):
    """Play cases to whatever answers at `url(upstream)`; return the faults of each."""
    async with scripted_upstream.serve() as played, url(played.url) as place:
        gateway = ScoredGateway(place, model)
        runner = Runner(TranslationPlayer(BOOK, played), at_once=at_once)
        return await runner.run(TranslationCase(case, api, gateway) for case in chosen)


def only(outcomes):
    return list(outcomes[0].faults)


# ── a toy gateway: asks the upstream, then says what it likes ────────────────


def toy(say, *, ask=True):
    """Return a gateway that asks the upstream and, whatever comes, answers with `say`."""

    @asynccontextmanager
    async def served(upstream):
        async def answer(heard, line):
            host, _, port = upstream.removeprefix("http://").partition(":")
            writer = None
            if ask:
                _reader, writer = await asyncio.open_connection(host, int(port))
                head = f"POST /v1/messages HTTP/1.1\r\ncontent-length: {len(heard.body)}\r\n\r\n"
                writer.write(head.encode() + heard.body)
                await writer.drain()
            await say(line)
            if writer:
                writer.close()

        async with model_server(answer) as server:
            yield server.url

    return served


def event(type, **fields):
    return f"event: {type}\ndata: {json.dumps({'type': type, **fields})}\n\n"


START = event(
    "message_start",
    message={"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
             "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1}},
)  # fmt: skip
TEXT = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
HI = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi"})
END = event("content_block_stop", index=0) + event(
    "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1}
)
STOP = event("message_stop")
ANSWER = START + TEXT + HI + END + STOP


def says(*pieces, end="clean", wait=0.0, **head):
    async def say(line: Line):
        await asyncio.sleep(wait)
        await line.head(head.get("status", 200), head.get("kind", "text/event-stream"))
        for piece in pieces:
            await line.send(piece)
            await asyncio.sleep(wait)
        if end == "clean":
            await line.end()
        else:
            line.cut()

    return say


def case(**fields):
    expect = Expectation(**fields.pop("expect", {}))
    answer = '{"type":"message_stop"}'
    given = {"name": "x", "family": "f", "why": "w.", "api": "anthropic", "answer": answer}
    return Case(**{**given, **fields}, expect=expect)


async def test_a_good_answer_has_no_faults():
    expect = {"text": "Hi", "stop": "end", "order": ("text",), "input": 1, "output": 1,
              "early_usage": True, "within": 5.0, "status_within": 5.0, "longest_silence": 5.0,
              "text_has": ("H",), "text_lacks": ("x",), "thinking": "", "heard": 1,
              "received": {"messages.0.role": "user"}, "received_absent": ("top_k",),
              "received_has": ("Say hello.",)}  # fmt: skip
    assert only(await play(toy(says(ANSWER)), case(expect=expect))) == []


EXPECTED = [
    ({"text": "Ho"}, 'text: expected "Ho", came "Hi"'),
    ({"thinking": "Hm"}, 'thinking: expected "Hm", came ""'),
    ({"text_has": ("Ho",)}, "expected 'Ho' in the text"),
    ({"text_lacks": ("Hi",)}, "'Hi' must not stand in the text"),
    ({"order": ("call",)}, 'blocks: expected ["call"], came ["text"]'),
    ({"calls": (ExpectedCall("read"),)}, "calls: expected"),
    ({"runnable": ("read",)}, "calls that can be run: expected"),
    ({"stop": "length"}, "expected the end to say max_tokens"),
    ({"stop": ("length", "refusal")}, "it says 'end_turn'"),
    ({"input": 2}, "expected 2 input tokens, came 1"),
    ({"output": 2}, "expected 2 output tokens, came 1"),
    ({"keep_alive": True}, "no sign of life"),
    ({"within": 0.0001}, "it took"),
    ({"status_within": 0.0001}, "the status took"),
    ({"longest_silence": 0.00001}, "heard nothing"),
    ({"terminal": "error"}, "an end that looks like success"),
    ({"terminal": "error", "status": (429,)}, "expected status 429, came 200"),
    ({"received": {"messages.0.role": "robot"}}, "messages.0.role at the upstream"),
    ({"received_absent": ("messages",)}, "messages must not reach the upstream"),
    ({"received_has": ("Say goodbye.",)}, "expected 'Say goodbye.'"),
]


@pytest.mark.parametrize(("expect", "fault"), EXPECTED)
async def test_what_was_expected_and_did_not_come_is_told(expect, fault):
    # The wait is longer than the resolution of uvloop's clock, a millisecond.
    faults = only(await play(toy(says(ANSWER, wait=0.01)), case(expect=expect)))
    assert any(fault in told for told in faults)


BAD = [
    (says(START, TEXT, HI), {}, "expected an end, came none (clean)"),
    (says(START, TEXT, HI), {"terminal": "error"}, "came a clean end of the connection"),
    (says(ANSWER, end="cut"), {}, "the connection broke off"),
    (says(START, TEXT, HI, STOP), {}, "message_stop comes before message_delta"),
    (says(ANSWER.replace('"input_tokens": 1', '"input_tokens": 0')), {"early_usage": True},
     "the input is 0 tokens long"),
    (says("oh no", status=500), {}, "expected an answer, came status 500"),
    (says("<html>", status=500), {"terminal": "error"}, "not in the envelope"),
    (says("{}", status=400), {"terminal": "error"}, "blames the client"),
    (says("{}", status=500), {"terminal": "error", "status": (429,)}, "expected status 429"),
    (says("{}", status=429), {"terminal": "error", "retry_after": True}, "nothing says how long"),
    (says('{"type":"error","error":{"type":"a","message":"b"}}', status=500),
     {"terminal": "error", "error_has": ("boom",)}, "expected the error to say boom"),
    (says('{"type":"error","error":{"type":"a","message":"b"}}', status=500),
     {"terminal": "error", "error_for": {"anthropic": ("boom",)}}, "expected the error to say boom"),
    (says(START, event("error", error={"type": "a", "message": "b"})),
     {"terminal": "error", "error_has": ("boom",)}, "expected the error to say boom"),
]  # fmt: skip


@pytest.mark.parametrize(("say", "expect", "fault"), BAD)
async def test_a_bad_gateway_is_found_out(say, expect, fault):
    assert any(fault in told for told in only(await play(toy(say), case(expect=expect))))


@pytest.mark.parametrize("say", [says(START, TEXT, HI, end="cut"), says("{}", status=502),
                                 says(ANSWER)])  # fmt: skip
async def test_any_end_is_any_legal_end(say):
    assert only(await play(toy(say), case(expect={"terminal": "any"}))) == []


async def test_an_error_may_be_told_by_breaking_off():
    say = says(START, TEXT, HI, end="cut")
    assert only(await play(toy(say), case(expect={"terminal": "error"}))) == []


async def test_a_gateway_that_never_asks_is_found_out():
    faults = only(await play(toy(says(ANSWER), ask=False), case()))
    assert faults == ["the request never reached the upstream"]


async def test_a_gateway_that_drops_the_connection_is_found_out():
    async def drop(line):
        line.cut()

    assert any("no status at all" in told for told in only(await play(toy(drop), case())))


async def test_a_call_without_what_the_tool_requires_cannot_be_run():
    use = event("content_block_start", index=0,
                content_block={"type": "tool_use", "id": "a", "name": "read", "input": {}})  # fmt: skip
    args = event("content_block_delta", index=0,
                 delta={"type": "input_json_delta", "partial_json": '{"raw":"x"}'})  # fmt: skip
    say = says(START + use + args + END.replace("end_turn", "tool_use") + STOP)
    assert only(await play(toy(say), case(ask="tools", expect={"runnable": ()}))) == []


async def test_a_whole_answer_that_is_no_json_is_found_out():
    faults = only(await play(toy(says("<html>", kind="text/html")), case(whole=True)))
    assert any("no JSON object" in told for told in faults)


async def test_a_gateway_that_goes_on_listening_after_its_client_left_is_found_out():
    async def stay(line):
        await asyncio.sleep(0.9)

    left = case(abort="speaking", end="hang", expect={"hangs_up_within": 0.3})
    faults = only(await play(toy(stay), left))
    await asyncio.sleep(0.6)  # the toy goes home before the loop does
    assert any("still being listened to" in told for told in faults)


async def test_a_gateway_that_leaves_with_its_client_is_praised():
    async def leave(line):
        await line.gone()

    left = case(abort="early", before=5.0, expect={"hangs_up_within": 2.0})
    assert only(await play(toy(leave), left)) == []


async def test_no_gateway_at_all_is_said():
    async with scripted_upstream.serve() as played:
        nowhere = TranslationCase(case(), "anthropic", ScoredGateway("http://127.0.0.1:1"))
        with pytest.raises(Unreachable, match="no gateway answers"):
            await Runner(TranslationPlayer(BOOK, played)).run([nowhere])


async def test_the_upstream_answers_the_other_requests_of_a_gateway():
    async with scripted_upstream.serve() as played, aiohttp.ClientSession() as session:

        async def get(path):
            async with session.get(played.url + path) as answer:
                return answer.status, await answer.json()

        status, found = await get("/search?q=zürich&format=json")
        assert (status, [*found["results"][0]]) == (200, ["url", "title", "content"])
        assert await get("/search?q=broken") == (500, {})
        assert (await get("/api/show"))[1]["capabilities"]
        assert (await get("/api/tags"))[1]["models"][0]["name"] == "conform"
        assert (await get("/v1/models"))[1]["data"][0]["id"] == "conform"
        status, nothing = await get("/v1/model")
        assert (status, nothing["error"]["message"]) == (404, "nothing at /v1/model")


# ── toolbridge itself ────────────────────────────────────────────────────────


@asynccontextmanager
async def own(upstream):
    async with self_gateway.gateway(self_gateway.translation_config(upstream)) as url:
        yield url


async def score(front, back, *, passthrough=False):
    """Return what fails between two APIs, among the cases that take no time."""
    chosen = BOOK.select(api=back, client=front, passthrough=passthrough)
    chosen = [c for c in chosen if not {"slow", "big", "retries"} & {*c.tags} and not c.abort]
    assert chosen
    outcomes = await play(
        own, *chosen, api=front, model=self_gateway.model(back, passthrough=passthrough)
    )
    return failures(outcomes)


@pytest.mark.parametrize("back", self_gateway.spoken())
async def test_toolbridge_passes_for_clients_of_anthropic(back):
    assert await score("anthropic", back) == ""


@pytest.mark.parametrize("front", [api for api in self_gateway.served() if api != "anthropic"])
async def test_toolbridge_passes_for_every_other_client(front):
    assert await score(front, "openai_chat") == ""


@pytest.mark.parametrize(
    "api", [api for api in self_gateway.served() if api in self_gateway.spoken()]
)
async def test_toolbridge_passes_where_it_passes_bytes_through(api):
    assert await score(api, api, passthrough=True) == ""


async def test_toolbridge_lets_go_and_tries_again():
    """Departures and retries take seconds, so one pair stands for all; the command runs them all."""
    chosen = [c for c in BOOK.select(api="openai_chat", client="anthropic") if "slow" not in c.tags]
    chosen = [c for c in chosen if "retries" in c.tags or c.abort]
    outcomes = await play(own, *chosen, model=self_gateway.model("openai_chat"))
    assert failures(outcomes) == ""


# ── reports and the command ──────────────────────────────────────────────────

OUTCOMES = [
    CaseOutcome("ollama/a", "text", "anthropic", "ollama"),
    CaseOutcome("ollama/b", "calls", "anthropic", "ollama", faults=("it broke",)),
]


class Toy:
    """A player whose plays are counted; a case is the list of its rounds."""

    def __init__(self):
        self.running = self.most = 0
        self.ended = []

    def rounds(self, case):
        return case

    def admit(self, _case):
        return nullcontext()

    async def play(self, _case, way):
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        self.ended.append(way)
        return way

    def outcome(self, _case, rounds):
        return CaseOutcome("/".join(way for ways in rounds for way in ways), "toy", "toy")


async def test_at_most_so_many_plays_run_at_once_and_rounds_follow_one_another():
    toy, noted = Toy(), []
    runner = Runner(toy, at_once=2, note=noted.append)
    outcomes = await runner.run([[["a", "b", "c"], ["d"]], [["e"]]])
    assert [outcome.case for outcome in outcomes] == ["a/b/c/d", "e"]
    assert {outcome.case for outcome in noted} == {"a/b/c/d", "e"}
    assert toy.most == 2
    assert toy.ended.index("d") > max(toy.ended.index(way) for way in "abc")


def test_one_pair_is_told_downwards():
    assert [row.split() for row in table(OUTCOMES).split("\n")] == [
        ["anthropic", "→", "ollama"], ["text", "1/1"], ["calls", "0/1"], ["all", "1/2"],
    ]  # fmt: skip


def test_many_pairs_are_told_across():
    passed = msgspec.structs.replace(OUTCOMES[0], passthrough=True)
    rows = [row.split("  ")[0] for row in table([*OUTCOMES, passed]).split("\n")]
    assert rows[1:] == ["anthropic → ollama", "anthropic → ollama (passthrough)"]


def test_failures_are_told_with_their_faults():
    assert failures(OUTCOMES) == "anthropic → ollama: b\n    it broke"
    assert summary(OUTCOMES) == "1 passed, 1 failed"


def test_results_are_told_as_json():
    told = json.loads(as_json(OUTCOMES))
    assert (told["passed"], told["failed"]) == (1, 1)
    assert told["results"][1]["faults"] == ["it broke"]


@every_row("api", cases.APIS)
def test_the_configuration_is_told_as_it_must_be_written(api):
    told = how_to_configure(api, "http://127.0.0.1:21100", "conform")
    assert f'api = "{api}"' in told
    assert "litellm_params" in told


def test_the_command_scores_this_toolbridge(capsys):
    assert main(["conform", "--self", "--api", "anthropic", "--only", "plain-text"]) == 0
    assert capsys.readouterr().out.strip().endswith("passed, 0 failed")


def test_the_command_prints_json_on_request(capsys):
    given = ["conform", "--self", "--api", "anthropic", "--upstream", "ollama", "--json"]
    assert main([*given, "--only", "plain-text"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] == 1


def test_the_command_lists_the_cases(capsys):
    assert main(["conform", "--list"]) == 0
    assert capsys.readouterr().out.strip().endswith(f"{len(BOOK.cases)} cases")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "give either the URL of a gateway or --self"),
        (["http://127.0.0.1:1", "--self"], "give either the URL of a gateway or --self"),
        (["http://127.0.0.1:1"], "--api: give the API of the client"),
        (["http://127.0.0.1:1", "--api", "anthropic", "--listen", "0"], "no gateway answers"),
    ],
)
def test_the_command_says_what_it_needs(capsys, given, said):
    assert main(["conform", *given]) == (1 if "answers" in said else 2)
    assert said in capsys.readouterr().err


def test_nothing_to_play_is_no_success(capsys):
    assert main(["conform", "--self", "--only", "no-such-case"]) == 2
