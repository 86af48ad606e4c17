"""Answers of the Converse API: event streams at every cut, whole bodies, failures."""

import json

import pytest
from tests.clouds import event, exception, message
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Call, Opaque, Text, Thinking
from toolbridge.core.usage import Usage

CODEC = codecs.load_target("bedrock")


def delta(index: int, **fields) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": fields})


def start(index: int, id: str, name: str) -> bytes:
    tool = {"toolUseId": id, "name": name}
    return event("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": tool}})


def stop(index: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index})


COUNTS = {
    "inputTokens": 10, "outputTokens": 20, "totalTokens": 37, "cacheReadInputTokens": 3,
    "cacheWriteInputTokens": 4, "cacheDetails": [{"ttl": "1h", "inputTokens": 4}],
}  # fmt: skip
WHOLE = [
    event("messageStart", {"role": "assistant"}),
    delta(0, reasoningContent={"text": "let me "}),
    delta(0, reasoningContent={"text": "see"}),
    delta(0, reasoningContent={"signature": "sig"}),
    stop(0),
    delta(1, text="It is "),
    delta(1, text="☔"),
    stop(1),
    start(2, "tooluse_a", "weather"),
    start(3, "tooluse_b", "weather"),
    delta(2, toolUse={"input": '{"c": "Os'}),
    delta(3, toolUse={"input": '{"c": "Rome"}'}),
    delta(2, toolUse={"input": 'lo"}'}),
    stop(2),
    stop(3),
    event("somethingNew", {"x": 1}),
    event("messageStop", {"stopReason": "tool_use"}),
    event("metadata", {"usage": COUNTS, "metrics": {"latencyMs": 1}}),
]
USAGE = Usage(input=10, output=20, cache_read=3, cache_write=4, cache_write_long=4)


def decode(*pieces: bytes) -> list[ev.Event]:
    decoder = CODEC.stream_decoder(Ids("seed"))
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


def test_an_answer_with_thinking_text_and_two_calls():
    found = collect(decode(*WHOLE))
    assert found.content == (
        Thinking("let me see", (Opaque("bedrock", "signature", "sig"),)),
        Text("It is ☔"),
        Call("tooluse_a", "weather", {"c": "Oslo"}),
        Call("tooluse_b", "weather", {"c": "Rome"}),
    )
    assert found.stop == "tool_use"
    assert found.usage == USAGE


def test_every_cut_gives_the_same_answer():
    data = b"".join(WHOLE)
    expected = decode(*WHOLE)
    for cut in range(len(data) + 1):
        assert decode(data[:cut], data[cut:]) == expected
    assert decode(*(data[i : i + 1] for i in range(len(data)))) == expected


def test_every_truncation_is_a_failure_but_that_between_the_stop_reason_and_the_counts():
    data = b"".join(WHOLE)
    complete = len(data) - len(WHOLE[-1])
    for cut in range(len(data)):
        last = decode(data[:cut])[-1]
        assert isinstance(last, ev.Finished if cut == complete else ev.Failed), cut
        if isinstance(last, ev.Failed):
            assert last.problem.kind == "truncated"


def test_a_damaged_byte_is_a_failure():
    data = b"".join(WHOLE)
    right = set(map(repr, decode(data)))
    for at in range(0, len(data) - len(WHOLE[-1]), 7):
        damaged = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        found = decode(damaged)
        assert isinstance(found[-1], ev.Failed), at
        assert found[-1].problem.kind in {"broken_wire", "truncated"}
        assert {repr(e) for e in found[:-1]} <= right


def test_a_whole_body_is_the_same_answer():
    content = [
        {"reasoningContent": {"reasoningText": {"text": "let me see", "signature": "sig"}}},
        {"text": "It is ☔"},
        {"toolUse": {"toolUseId": "tooluse_a", "name": "weather", "input": {"c": "Oslo"}}},
        {"toolUse": {"toolUseId": "tooluse_b", "name": "weather", "input": {"c": "Rome"}}},
    ]
    reply = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use", "usage": COUNTS, "metrics": {"latencyMs": 1},
    }  # fmt: skip
    data = json.dumps(reply).encode()
    streamed = collect(decode(*WHOLE))
    assert collect(decode(data)) == streamed
    assert collect(decode(b" \n", data[:9], data[9:])) == streamed


@every_row(
    ("reason", "expected"),
    [
        ("end_turn", "end"), ("max_tokens", "length"), ("stop_sequence", "stop_sequence"),
        ("guardrail_intervened", "refusal"), ("content_filtered", "refusal"),
        ("model_context_window_exceeded", "context_overflow"), ("brand_new", "end"),
    ],
)  # fmt: skip
def test_stop_reasons(reason, expected):
    found = decode(delta(0, text="hi"), event("messageStop", {"stopReason": reason}))
    assert found[-1].reason == expected


@pytest.mark.parametrize("reason", ["malformed_model_output", "malformed_tool_use"])
def test_an_answer_that_the_model_broke_is_a_failure_that_can_be_retried(reason):
    last = decode(event("messageStop", {"stopReason": reason}), event("metadata", {}))[-1]
    assert isinstance(last, ev.Failed)
    assert last.problem.kind == "broken_call"


@every_row(
    ("type", "kind"),
    [
        ("throttlingException", "rate_limited"),
        ("serviceUnavailableException", "overloaded"),
        ("modelStreamErrorException", "broken_call"),
        ("modelTimeoutException", "timed_out"),
        ("internalServerException", "rejected"),
        ("validationException", "rejected"),
    ],
)
def test_an_exception_in_mid_stream_ends_the_answer(type, kind):
    found = decode(delta(0, text="hi"), exception(type, "Too many tokens."), *WHOLE)
    assert isinstance(found[-1], ev.Failed)
    assert found[-1].problem.kind == kind
    assert "Too many tokens." in found[-1].problem.text
    assert sum(isinstance(e, ev.TextDelta) for e in found) == 1


def test_an_error_message_has_its_text_in_a_header():
    def text(value: str) -> tuple[int, bytes]:
        return 7, len(value).to_bytes(2) + value.encode()

    raw = {":message-type": text("error"), ":error-code": text("InternalError"), ":error-message": text("it broke")}  # fmt: skip
    (_, last) = decode(message(b"", raw))
    assert "it broke" in last.problem.text


def test_an_overlong_prompt_is_an_overflow():
    last = decode(exception("validationException", "prompt is too long: 9 tokens > 5 maximum"))[-1]
    assert last.problem.kind == "context_overflow"


def test_redacted_thinking_and_content_that_cannot_be_shown():
    found = decode(
        delta(0, reasoningContent={"redactedContent": "c2VjcmV0"}), stop(0),
        delta(1, citation={"title": "t"}), delta(1, text="so"),
        delta(2, image={"format": "png"}), event("messageStop", {"stopReason": "end_turn"}),
    )  # fmt: skip
    answer = collect(found)
    assert answer.content[0] == Thinking("", (Opaque("bedrock", "redacted", "c2VjcmV0"),))
    assert {loss.what for loss in answer.losses} == {"answer.citations", "answer.images"}


def test_a_body_that_is_no_answer_is_a_failure():
    for data in (b"{}", b'{"output": {}}', b'{"output": 5}', b"{", b"garbage that is no stream"):
        last = decode(data)[-1]
        assert isinstance(last, ev.Failed), data
    last = decode(b'{"message": "no such thing"}')[-1]
    assert "no such thing" in last.problem.text
