import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.gemini.decode_stream import StreamDecoder
from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Call, Foreign, Image, Opaque, Text, Thinking
from toolbridge.core.server_tools import ServerCall

SIGNATURE = (Opaque("gemini", "thought_signature", "c2ln"),)


def frame(*parts, end=None, **fields):
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0} | fields
    if end:
        candidate["finishReason"] = end
    return {"candidates": [candidate], "responseId": "r", "modelVersion": "m"}


def sse(*frames):
    return b"".join(b"data: " + json.dumps(f).encode() + b"\r\n\r\n" for f in frames)


def events(data):
    decoder = StreamDecoder(Ids("t"))
    return decoder.feed(data) + decoder.close()


def read(*frames):
    return collect(events(sse(*frames)))


def said(*parts):
    return list(read(frame(*parts, end="STOP")).content)


@pytest.mark.req("ZG-18", "ZG-19", "ZG-35", "ZG-32")
def test_a_call_in_one_part_is_a_start_a_delta_and_an_end():
    call = {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}}
    found = events(sse(frame(call, end="STOP")))
    assert found[:-1] == [
        ev.Started("r", "m"),
        ev.CallStart(0, "c1", "f"),
        ev.CallDelta(0, '{"a":1}'),
        ev.CallEnd(0, Call("c1", "f", {"a": 1})),
    ]
    assert found[-1].reason == "tool_use"


@pytest.mark.req("ZG-20")
@every_row(
    ("parts", "expected"),
    [
        ([{"text": "a"}, {"text": "b"}], [Text("ab")]),
        ([{"text": "a", "thought": True}, {"text": "b"}], [Thinking("a"), Text("b")]),
        ([{"text": "a", "thoughtSignature": "c2ln"}, {"text": "b"}], [Text("a", opaque=SIGNATURE), Text("b")]),
        ([{"text": "a", "thought": True, "thoughtSignature": "c2ln"}], [Thinking("a", SIGNATURE)]),
        ([{"text": "a"}, {"text": "", "thoughtSignature": "c2ln"}], [Text("a", opaque=SIGNATURE)]),
        ([{"text": "a"}, {"thoughtSignature": "c2ln"}], [Text("a", opaque=SIGNATURE)]),
        ([{"text": "", "thoughtSignature": "c2ln"}], [Thinking("", SIGNATURE)]),
        ([{"text": "t", "thought": True}, {"text": "", "thoughtSignature": "c2ln"}], [Thinking("t"), Thinking("", SIGNATURE)]),
        ([{"text": "a"}, {"text": "", "thought": True, "thoughtSignature": "c2ln"}, {"text": "b"}], [Text("a"), Thinking("", SIGNATURE), Text("b")]),
        ([{"text": "a", "thoughtSignature": "skip_thought_signature_validator"}], [Text("a")]),
        ([{"inlineData": {"mimeType": "image/png", "data": "AA=="}}], [Image("AA==", "image/png")]),
        ([{"fileData": {"mimeType": "image/png", "fileUri": "gs://a"}}], [Image(url="gs://a", media_type="image/png")]),
        ([{"inlineData": {"mimeType": "application/pdf", "data": "AA=="}}], [Foreign("gemini", "application", {"inlineData": {"mimeType": "application/pdf", "data": "AA=="}})]),
        ([{"executableCode": {"code": "1"}}], [ServerCall("builtin_6c5da6f1574d12fd", "code_execution", "code_execution", {"code": "1"})]),
        ([{"text": None, "toolCall": {"id": "1"}}], [Foreign("gemini", "toolCall", {"text": None, "toolCall": {"id": "1"}})]),
        ([{}], []),
    ],
)  # fmt: skip
def test_parts(parts, expected):
    assert said(*parts) == expected


def test_a_call_keeps_its_signature_and_loses_its_prefix():
    call = {"functionCall": {"id": "1", "name": "default_api:f"}, "thoughtSignature": "c2ln"}
    assert said(call) == [Call("1", "f", opaque=SIGNATURE)]


def test_missing_and_repeated_ids_are_replaced():
    calls = said(*[{"functionCall": {"name": "f", "id": id}} for id in ("a", "a", None, "")])
    assert len({call.id for call in calls}) == 4


@every_row(
    ("reason", "stop"),
    [
        ("STOP", "end"), ("MAX_TOKENS", "length"), ("CONTINUATION", "length"), ("SAFETY", "refusal"),
        ("RECITATION", "refusal"), ("SPII", "refusal"), ("IMAGE_SAFETY", "refusal"),
        ("OTHER", "refusal"), ("BRAND_NEW", "end"),
    ],
)  # fmt: skip
def test_reasons_to_finish(reason, stop):
    assert read(frame({"text": "a"}, end=reason)).stop == stop


@every_row(
    ("reason", "kind"),
    [
        ("MALFORMED_FUNCTION_CALL", "broken_call"), ("UNEXPECTED_TOOL_CALL", "broken_call"),
        ("TOO_MANY_TOOL_CALLS", "broken_call"), ("MALFORMED_RESPONSE", "broken_call"),
        ("MISSING_THOUGHT_SIGNATURE", "rejected"),
    ],
)  # fmt: skip
def test_reasons_to_fail(reason, kind):
    message = read(frame({"text": "a"}, end=reason))
    assert message.problem.kind == kind
    assert reason in message.problem.text
    assert message.content == (Text("a"),)


@pytest.mark.parametrize("reason", [None, "FINISH_REASON_UNSPECIFIED"])
@pytest.mark.req("CL-05")
def test_without_a_reason_an_answer_is_cut(reason):
    assert read(frame({"text": "a"}, end=reason)).problem.kind == "truncated"


def test_what_comes_after_the_reason_still_counts():
    later = {"usageMetadata": {"promptTokenCount": 5}, "responseId": "r"}
    message = read(frame({"text": "a"}, end="STOP"), frame({"text": "b"}), later)
    assert message.text == "ab"
    assert message.usage.input == 5


def test_counts_that_a_frame_leaves_out_stay():
    first = {"usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 4}}
    second = {"usageMetadata": {"candidatesTokenCount": 3, "thoughtsTokenCount": 2}}
    usage = read(frame({"text": "a"}, end="STOP") | first, second).usage
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning) == (5, 4, 5, 2)


def test_more_cached_than_asked_is_not_less_than_nothing():
    counts = {"usageMetadata": {"promptTokenCount": 1, "cachedContentTokenCount": 4}}
    assert read(frame({"text": "a"}, end="STOP") | counts).usage.input == 0


def test_a_blocked_prompt_is_a_refusal():
    message = read({"promptFeedback": {"blockReason": "SAFETY"}})
    assert (message.stop, message.content) == ("refusal", ())


def test_other_candidates_are_passed_over():
    other = {
        "index": 1,
        "content": {"parts": [{"text": "x"}]},
        "finishReason": "MALFORMED_RESPONSE",
    }
    both = frame({"text": "a"}, end="STOP")
    both["candidates"].insert(0, other)
    assert read(both).text == "a"
    assert read(frame({"text": "a"}), {"candidates": [other]}).problem.kind == "truncated"


@pytest.mark.parametrize("name", ["citationSources", "citations"])
def test_sources_are_cited_once(name):
    cited = {"citationMetadata": {name: [{"uri": "u"}, 5]}}
    found = {"groundingMetadata": {"groundingChunks": [{"web": {"uri": "w"}}, {"maps": {}}, 7]}}
    message = read(
        frame({"text": "a"}, **cited), frame({"text": "b"}, end="STOP", **cited, **found)
    )
    link = {"type": "url_citation", "url": "w", "title": ""}
    source = {"type": "citation_source", "uri": "u"}
    assert message.content == (Text("ab", citations=(link, source)),)


def test_an_error_ends_the_stream_and_keeps_what_was_said():
    error = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow", "details": [{"retryDelay": "7s"}]}}  # fmt: skip
    message = read(frame({"text": "a"}), error, frame({"text": "b"}, end="STOP"))
    assert message.problem.kind == "rate_limited"
    assert message.problem.retry_after == 7
    assert message.content == (Text("a"),)


# ── framing ──────────────────────────────────────────────────────────────────

FRAMES = [frame({"text": "Good"}), frame({"text": "bye"}, end="STOP")]


@every_row(
    "data",
    [
        sse(*FRAMES),
        b"\n" + json.dumps(FRAMES, indent=2).encode(),
        b"[" + b"\r\n,\r\n".join(json.dumps(f).encode() for f in FRAMES) + b"]",
        sse(*FRAMES) + b"data: [DONE]\n\n",
        sse(*FRAMES)[:-4],
        json.dumps(frame({"text": "Goodbye"}, end="STOP"), indent=1).encode(),
        b": hello\n\n" + sse(*FRAMES),
    ],
)
def test_every_framing_says_the_same(data):
    message = collect(events(data))
    assert (message.text, message.stop, message.id) == ("Goodbye", "end", "r")


def test_white_space_in_front_says_nothing_about_the_framing():
    decoder = StreamDecoder(Ids("t"))
    assert decoder.feed(b"\r\n ") == []
    assert collect(decoder.feed(json.dumps(FRAMES).encode()) + decoder.close()).text == "Goodbye"


@pytest.mark.parametrize("data", [b"[" + json.dumps(FRAMES[0]).encode() + b',{"cand', sse(FRAMES[0]) + b'data: {"cand'])  # fmt: skip
def test_half_a_frame_at_the_end_is_not_read(data):
    message = collect(events(data))
    assert message.problem.kind == "truncated"
    assert message.text == "Good"


@every_row(
    "data",
    [
        b"data: {no\n\n",
        b"[{no}]",
        b"[]]",
        b'{"candidates":5}',
        sse({"candidates": [{"content": {"parts": [5]}}]}),
    ],
)
def test_what_cannot_be_read_is_a_broken_wire(data):
    assert collect(events(data)).problem.kind == "broken_wire"


@pytest.mark.parametrize(
    "data",
    [
        b'{"error":{"code":404,"message":"no such model","status":"NOT_FOUND"}}',
        b'[{"error":{"code":404,"message":"no such model","status":"NOT_FOUND"}}]',
        b'data: {"error":"no such model"}\n\n',
    ],
)
def test_an_error_alone_is_a_failure(data):
    problem = collect(events(data)).problem
    assert (problem.kind, problem.text) == ("rejected", "no such model")


def test_half_a_surrogate_pair_in_arguments_is_replaced():
    data = b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"id":"1","name":"f","args":{"a":"\\ud83d"}}}]},"finishReason":"STOP"}]}\n\n'  # fmt: skip
    assert collect(events(data)).content == (Call("1", "f", {"a": "\ufffd"}),)


# ── arguments in pieces ──────────────────────────────────────────────────────


def call(**fields):
    return {"functionCall": fields}


def piece(path, text, **fields):
    return {"jsonPath": path, "stringValue": text} | fields


def test_a_call_in_pieces_is_whole_when_it_ends():
    message = read(
        frame(call(name="f", id="1", willContinue=True)),
        frame(call(partialArgs=[piece("$.a", "x")], willContinue=True)),
        frame(call(partialArgs=[piece("$.a", "y")])),
        frame(call(name="g", id="2", args={"b": 1}), end="STOP"),
    )
    assert message.content == (Call("1", "f", {"a": "xy"}), Call("2", "g", {"b": 1}))


def test_a_new_call_cuts_the_one_before():
    message = read(
        frame(call(name="f", id="1", partialArgs=[piece("$.a", "x")], willContinue=True)),
        frame(call(name="g", id="2"), end="STOP"),
    )
    assert message.content == (Call("1", "f", raw='{"a":"x"'), Call("2", "g"))


@pytest.mark.parametrize(("reason", "kind"), [("STOP", "truncated"), (None, "truncated")])
def test_a_call_in_pieces_that_never_ends_is_no_call(reason, kind):
    opened = call(name="f", id="1", partialArgs=[piece("$.a", "x")], willContinue=True)
    message = read(frame(opened, end=reason))
    assert message.problem.kind == kind
    assert all(not found.arguments for found in message.calls)


def test_a_call_in_pieces_that_the_limit_cut_is_kept_as_it_is():
    opened = call(name="f", id="1", partialArgs=[piece("$.a", "x")], willContinue=True)
    message = read(frame(opened, end="MAX_TOKENS"))
    assert message.content == (Call("1", "f", raw='{"a":"x"'),)
    assert message.stop == "length"


@pytest.mark.parametrize("before", [[], [{"text": "Well"}]])
def test_a_part_that_cannot_be_read_fails_behind_what_was_said(before):
    told = events(sse(frame(*before, {"text": True}, {"text": "more"}, end="STOP")))
    assert isinstance(told[0], ev.Started)
    assert isinstance(told[-1], ev.Failed)
    assert told[-1].problem.kind == "broken_wire"
    assert collect(told).text == "".join(part["text"] for part in before)
