import datetime as dt
import json
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies
from tests.properties import grammar
from tests.tables import every_row

from toolbridge.codecs.ollama.decode_stream import StreamDecoder
from toolbridge.codecs.ollama.encode_stream import StreamEncoder, encode_message, rfc3339
from toolbridge.codecs.ollama.rejections import encode_rejection
from toolbridge.core.codec import AnswerContext
from toolbridge.core.draft import Draft
from toolbridge.core.errors import KINDS
from toolbridge.core.fold import broken_last, collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Call, Foreign, Image, Problem, Request
from toolbridge.core.usage import Usage

ASKED = AnswerContext(Request("qwen3"), at=1_794_765_600.123456)
DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


def encode(events, asked=ASKED):
    encoder = StreamEncoder(asked)
    wire = b"".join(grammar.run(encoder, events))
    assert wire.endswith(b"\n")
    return [json.loads(line) for line in wire.rstrip(b"\n").split(b"\n")]


def flat(lines):
    """What a client has gathered at the end."""
    messages = [line["message"] for line in lines]
    return {
        "content": "".join(message["content"] for message in messages),
        "thinking": "".join(message.get("thinking", "") for message in messages),
        "tool_calls": [call for message in messages for call in message.get("tool_calls", [])],
    }


def story():
    draft = Draft(Ids("story"))
    events = draft.start(model="m") + draft.think("hm") + draft.text("so")
    events += draft.call("a", name="f", id="call_1") + draft.arguments("a", '{"x"')
    events += draft.arguments("a", ":1}") + draft.end("a") + draft.text("!")
    return events + draft.usage(Usage(7, 5, cache_read=3)) + draft.finish("end")


def test_each_piece_is_a_line_and_a_call_one_whole_line():
    said = [line["message"] for line in encode(story())]
    assert said == [
        {"role": "assistant", "content": "", "thinking": "hm"},
        {"role": "assistant", "content": "so"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "call_1", "function": {"index": 0, "name": "f", "arguments": {"x": 1}}}
            ],
        },
        {"role": "assistant", "content": "!"},
        {"role": "assistant", "content": ""},
    ]


def test_every_line_names_the_model_as_the_client_did_and_a_time():
    lines = encode(story())
    assert {line["model"] for line in lines} == {"qwen3"}
    assert {line["created_at"] for line in lines} == {"2026-11-15T18:00:00.123456Z"}
    assert [line["done"] for line in lines] == [False] * 4 + [True]


def test_without_a_request_the_upstream_names_the_model():
    assert encode(story(), AnswerContext())[0]["model"] == "m"


@pytest.mark.req("ZG-22")
def test_the_last_line_counts_cached_tokens_as_read():
    last = encode(story())[-1]
    assert (last["done_reason"], last["prompt_eval_count"], last["eval_count"]) == ("stop", 10, 5)


class Times(NamedTuple):
    seconds: float
    first_token: float | None = None


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0, 1000), st.integers(0, 100))
def test_no_duration_is_ever_zero(given_tokens, output, seconds, estimate):
    draft = Draft()
    asked = AnswerContext(Request("m"), estimate=estimate, times=Times(seconds, seconds))
    events = draft.usage(Usage(given_tokens, output)) + draft.finish("end")
    last = json.loads(grammar.run(StreamEncoder(asked), events)[-1])
    whole = json.loads(encode_message(collect(events), asked))
    assert all(one.get(name, 1) >= 1 for one in (last, whole) for name in DURATIONS)
    assert last["prompt_eval_count"] == (given_tokens or estimate)


def test_durations_are_measured():
    asked = msgspec.structs.replace(ASKED, times=Times(2.5, 0.5))
    last = json.loads(grammar.run(StreamEncoder(asked), story())[-1])
    assert [last.get(name) for name in DURATIONS] == [2_500_000_000, None, 500_000_000, 2 * 10**9]
    whole = json.loads(encode_message(collect(story()), asked))
    assert [whole.get(name) for name in DURATIONS] == [2_500_000_000, None, None, 2_500_000_000]


def test_without_a_clock_no_duration_is_invented():
    assert not set(DURATIONS) & set(encode(story())[-1])


@pytest.mark.parametrize("given", [(9, 1, 3, 5), (9, None, 3, 5), (9, 0, -3, 5.0)])
def test_durations_of_an_ollama_server_are_passed_on(given):
    line = {"model": "m", "message": {"content": "Hi"}, "done": True, "eval_count": 1}
    reported = json.dumps(line | dict(zip(DURATIONS, given, strict=True))).encode()
    events = StreamDecoder(Ids("s")).feed(reported + b"\n")
    asked = msgspec.structs.replace(ASKED, times=Times(2.5, 0.5))
    wanted = {
        name: count for name, count in zip(DURATIONS, given, strict=True) if count and count > 0
    }
    for last in (
        json.loads(grammar.run(StreamEncoder(asked), events)[-1]),
        json.loads(encode_message(collect(events), asked)),
    ):
        assert {name: last[name] for name in DURATIONS if name in last} == wanted


@every_row(
    ("stop", "reason"),
    [
        ("end", "stop"),
        ("length", "length"),
        ("context_overflow", "length"),
        ("stop_sequence", "stop"),
        ("refusal", "stop"),
        ("pause", "stop"),
    ],
)
def test_a_stop_is_said_as_one_of_ollamas_two(stop, reason):
    assert encode(Draft().finish(stop))[-1]["done_reason"] == reason


@every_row(
    ("extra", "reason"),
    [
        ({"load": True}, "load"),
        ({"load": True, "keep_alive": 0}, "unload"),
        ({"load": True, "keep_alive": "5m"}, "load"),
        ({"keep_alive": 0}, "stop"),
    ],
)
def test_a_request_without_messages_is_answered_as_a_load(extra, reason):
    asked = AnswerContext(Request("m", extra=extra))
    assert encode(Draft().finish("end"), asked)[-1]["done_reason"] == reason


def test_a_call_that_could_not_be_read_keeps_its_words():
    draft = Draft()
    events = draft.call("a", name="f", id="c") + draft.arguments("a", "not-json") + draft.end("a")
    (call,) = flat(encode(events + draft.finish("end")))["tool_calls"]
    assert call["function"]["arguments"] == {"raw": "not-json"}


def test_a_failure_is_an_error_line_and_no_done():
    draft = Draft()
    lines = encode(draft.text("a") + draft.fail(Problem("truncated", "cut off")))
    assert [line.get("done") for line in lines] == [False, None]
    assert lines[-1] == {"error": "cut off"}


def test_half_a_call_is_never_sent():
    draft = Draft()
    events = draft.call("a", name="f") + draft.arguments("a", '{"x":1}')
    lines = encode(events + draft.fail(Problem("truncated", "cut off")))
    assert lines == [{"error": "cut off"}]


def test_interleaved_blocks_of_one_kind_come_out_one_after_another():
    draft = Draft()
    events = draft.text("a", 0) + draft.text("x", 1) + draft.text("b", 0) + draft.text("y", 1)
    events += draft.call("c", name="first") + draft.call("d", name="second") + draft.end("d")
    events += draft.end("c") + draft.finish("end")
    gathered = flat(encode(events))
    assert gathered["content"] == "abxy"
    assert [call["function"]["name"] for call in gathered["tool_calls"]] == ["first", "second"]
    assert [call["function"]["index"] for call in gathered["tool_calls"]] == [0, 1]


def test_the_first_open_block_does_not_wait():
    draft = Draft()
    encoder = StreamEncoder(ASKED)
    for event in draft.text("a", 0) + draft.think("t", 1):
        said = encoder.feed(event)
    assert json.loads(said[0])["message"]["thinking"] == "t"


def test_what_waits_behind_an_open_block_is_said_before_a_failure():
    draft = Draft()
    events = draft.text("a", 0) + draft.text("b", 1) + draft.think("t", 2) + draft.think("u", 3)
    events += draft.call("c", name="f") + draft.call("d", name="g") + draft.end("d")
    lines = encode(events + draft.fail(Problem("truncated", "cut off")))
    gathered = flat(lines[:-1])
    assert (gathered["content"], gathered["thinking"]) == ("ab", "tu")
    assert [call["function"]["name"] for call in gathered["tool_calls"]] == ["g"]


def test_silence_is_filled_with_an_empty_line():
    line = StreamEncoder(ASKED).keep_alive()
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "model": "qwen3",
        "created_at": "2026-11-15T18:00:00.123456Z",
        "message": {"role": "assistant", "content": ""},
        "done": False,
    }


def test_a_part_of_another_api_is_left_out():
    draft = Draft()
    events = draft.add(Foreign("anthropic", "server_tool_use", {"type": "server_tool_use"}))
    assert len(encode(events + draft.finish("end"))) == 1


GENERATE = AnswerContext(Request("m", extra={"generate": True}))


def test_generate_is_answered_in_its_own_shape():
    lines = encode(story(), GENERATE)
    assert all("message" not in line for line in lines)
    assert [line["response"] for line in lines] == ["", "so", "", "!", ""]
    assert lines[0]["thinking"] == "hm"
    assert lines[2]["tool_calls"][0]["function"]["name"] == "f"
    whole = json.loads(encode_message(collect(story()), GENERATE))
    assert (whole["response"], whole["thinking"]) == ("so!", "hm")


# ── laws ──


def read(data):
    return collect(grammar.run(StreamDecoder(Ids("back")), [data]))


def shown_calls(message):
    """The calls of a message as an API with atomic calls shows them: no cut one, broken ones last."""
    return [part for part in broken_last(message) if isinstance(part, Call)]


def kinds(message):
    calls = [
        Call("", call.name, {"raw": call.raw} if call.raw else call.arguments)
        for call in shown_calls(message)
    ]
    return message.text, message.thinking, calls


@given(strategies.answers(origin="ollama", parts=False, server_tools=False, failed=False))
def test_an_answer_comes_back_as_it_was(events):
    message = collect(events)
    back = read(b"".join(grammar.run(StreamEncoder(ASKED), events)))
    assert kinds(back) == kinds(message)
    assert back.usage == Usage(message.usage.input_total, message.usage.output)
    assert [call.id for call in back.calls] == [call.id for call in shown_calls(message)]
    assert (back.stop == "length") == (message.stop in {"length", "context_overflow"})


@given(strategies.answers(origin="ollama", parts=False, server_tools=False, failed=False))
def test_the_whole_body_and_the_stream_say_the_same(events):
    message = collect(events)
    whole = json.loads(encode_message(message, ASKED))
    lines = encode(events)
    lines[-1].pop("toolbridge", None)  # a whole reply reports losses in a header
    gathered = {name: value for name, value in flat(lines).items() if value or name == "content"}
    assert whole == {**lines[-1], "message": {"role": "assistant", **gathered}}
    assert kinds(read(encode_message(message, ASKED))) == kinds(message)


@given(strategies.answers(origin="ollama", parts=False, server_tools=False, failed=True))
def test_a_failed_answer_comes_back_failed_with_all_that_was_said(events):
    message = collect(events)
    back = read(b"".join(grammar.run(StreamEncoder(ASKED), events)))
    assert back.problem is not None
    assert (back.text, back.thinking) == (message.text, message.thinking)
    assert json.loads(encode_message(message, ASKED)) == {"error": message.problem.text}


# ── rejections ──


@every_row(
    ("problem", "status", "text"),
    [
        (Problem("malformed_request", "no", where="messages.0"), 400, "messages.0: no"),
        (Problem("unknown_model", "model 'x' not found"), 404, "model 'x' not found"),
        (Problem("overloaded", "busy"), 503, "busy"),
        (Problem("rate_limited", "slow"), 429, "slow"),
        (Problem("rejected", "no", status=418), 418, "no"),
        (Problem("unauthenticated", "who?"), 401, "who?"),
    ],
)
def test_a_problem_has_ollamas_status_and_envelope(problem, status, text):
    rejection = encode_rejection(problem, "req_1")
    assert (rejection.status, json.loads(rejection.body)) == (status, {"error": text})
    assert rejection.headers["x-request-id"] == "req_1"


@every_row("kind", sorted(KINDS))
def test_every_kind_of_problem_has_a_status(kind):
    assert 400 <= encode_rejection(Problem(kind, "x"), "").status < 600


def test_the_time_to_wait_is_told_in_whole_seconds():
    rejection = encode_rejection(Problem("rate_limited", "slow", retry_after=1.2), "")
    assert rejection.headers["retry-after"] == "2"


# ── time ──


@given(st.integers(0, 253_402_300_799), st.integers(0, 999_999))
def test_time_is_written_as_the_calendar_has_it(seconds, micro):
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    want = epoch + dt.timedelta(seconds=seconds)
    assert rfc3339(seconds) == f"{want:%Y-%m-%dT%H:%M:%S}.000000Z"
    if seconds < 2**31:
        assert rfc3339(seconds + micro / 1e6).endswith(f".{micro:06}Z")


def test_the_last_line_names_an_image_that_no_line_can_hold():
    draft = Draft(Ids("image"))
    events = draft.add(Image(data="aGk=", media_type="image/png")) + draft.finish("end")
    lines = encode(events)
    assert lines[0]["message"]["content"] == "[image/png that this API cannot show]"
    assert [loss.partition(":")[0] for loss in lines[-1]["toolbridge"]["lost"]] == ["answer.image"]
