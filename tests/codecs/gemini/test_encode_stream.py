import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.gemini.decode_stream import StreamDecoder
from toolbridge.codecs.gemini.encode_stream import StreamEncoder, encode_message
from toolbridge.codecs.gemini.rejections import encode_rejection
from toolbridge.core.codec import AnswerContext
from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Message,
    Opaque,
    Problem,
    Request,
    StopDetails,
    Text,
    Thinking,
)
from toolbridge.core.usage import Usage
from toolbridge.wire.sse import SseReader

OWN = Opaque("gemini", "thought_signature", "c2ln")
ALIEN = Opaque("anthropic", "signature", "abc")
ASKED = AnswerContext(Request(model="asked"))
ARRAY = AnswerContext(Request(model="asked", extra={"alt": "json"}))


def written(events, asked=ASKED):
    encoder = StreamEncoder(asked)
    return b"".join([piece for event in events for piece in encoder.feed(event)] + encoder.close())


def frames(events):
    return [json.loads(frame.data) for frame in SseReader().feed(written(events))]


def parts(events):
    return [
        part
        for frame in frames(events)
        for candidate in frame.get("candidates", ())
        for part in candidate["content"]["parts"]
    ]


def answer(write, end=lambda draft: draft.finish("end")):
    draft = Draft(Ids("t"))
    events = draft.start(id="r1", model="real")
    for step in write:
        events += step(draft)
    return events + end(draft)


def test_every_frame_has_the_same_envelope():
    found = frames(answer([lambda d: d.text("a"), lambda d: d.text("b")]))
    assert len(found) == 3
    for frame in found:
        assert (frame["modelVersion"], frame["responseId"]) == ("asked", "r1")
        assert frame["candidates"][0]["content"]["role"] == "model"
        assert frame["candidates"][0]["index"] == 0


def test_the_name_of_the_model_is_the_upstreams_where_none_was_asked_for():
    data = written(answer([lambda d: d.text("a")]), AnswerContext())
    assert json.loads(SseReader().feed(data)[0].data)["modelVersion"] == "real"


def test_only_the_last_frame_says_why_it_ended_and_what_it_cost():
    usage = Usage(input=5, output=9, cache_read=3, cache_write=2, reasoning=4)
    *first, last = frames(answer([lambda d: d.text("a"), lambda d: d.usage(usage)]))
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert last["usageMetadata"] == {
        "promptTokenCount": 10,
        "candidatesTokenCount": 5,
        "totalTokenCount": 19,
        "thoughtsTokenCount": 4,
        "cachedContentTokenCount": 3,
    }
    assert all("usageMetadata" not in f and "finishReason" not in f["candidates"][0] for f in first)


def test_an_estimate_stands_in_for_a_count_that_never_came():
    body = json.loads(encode_message(Message(), AnswerContext(estimate=7)))
    assert body["usageMetadata"]["promptTokenCount"] == 7


@every_row(
    ("stop", "reason"),
    [
        ("end", "STOP"), ("tool_use", "STOP"), ("stop_sequence", "STOP"), ("pause", "STOP"),
        ("length", "MAX_TOKENS"), ("context_overflow", "MAX_TOKENS"), ("refusal", "SAFETY"),
    ],
)  # fmt: skip
def test_reasons_to_finish(stop, reason):
    *_, last = frames(answer([lambda d: d.text("a")], lambda d: d.finish(stop)))
    assert last["candidates"][0]["finishReason"] == reason


@pytest.mark.req("ZG-18")
def test_a_call_is_written_whole_when_it_ends():
    steps = [
        lambda d: d.call("k", name="f", id="c1"),
        lambda d: d.arguments("k", '{"a":'),
        lambda d: d.arguments("k", "1}"),
        lambda d: d.tag_call("k", OWN) or [],
        lambda d: d.end("k"),
    ]
    events = answer(steps)
    call = {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    assert parts(events) == [call, {"text": ""}]


def test_a_call_that_is_no_json_keeps_the_words_of_the_model():
    body = json.loads(encode_message(Message(content=(Call("1", "f", raw="{x"),)), ASKED))
    (part,) = body["candidates"][0]["content"]["parts"]
    assert part["functionCall"]["args"] == {"raw": "{x"}


def test_a_picture_is_written_where_it_stands():
    steps = [lambda d: d.text("a"), lambda d: d.add(Image("AA==", "image/png"))]
    picture = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
    assert parts(answer(steps)) == [{"text": "a"}, picture, {"text": ""}]


def test_thoughts_have_a_flag_and_signatures_of_others_stay_away():
    steps = [lambda d: d.think("t"), lambda d: d.seal(OWN), lambda d: d.seal(ALIEN)]
    assert parts(answer(steps)) == [
        {"text": "t", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": "c2ln"},
        {"text": ""},
    ]
    assert parts(answer([lambda d: d.think("t"), lambda d: d.seal(ALIEN)])) == [
        {"text": "t", "thought": True},
        {"text": ""},
    ]


def test_blocks_that_interleave_are_written_one_after_the_other():
    steps = [
        lambda d: d.call("k", name="f", id="c1"),
        lambda d: d.text("late"),
        lambda d: d.arguments("k", "{}"),
        lambda d: d.text("r"),
        lambda d: d.end("k"),
    ]
    kinds = [next(iter(part.items())) for part in parts(answer(steps))]
    assert [key for key, _ in kinds] == ["functionCall", "text", "text", "text"]
    assert [text for key, text in kinds if key == "text"] == ["late", "r", ""]


@pytest.mark.req("CL-05")
def test_a_failure_is_the_last_frame_and_half_a_call_is_never_written():
    steps = [
        lambda d: d.call("k", name="f", id="c1"),
        lambda d: d.arguments("k", '{"a":'),
        lambda d: d.text("said"),
    ]
    events = answer(steps, lambda d: d.fail(Problem("overloaded", "busy")))
    found = frames(events)
    assert [part.get("text") for part in parts(events)] == ["said"]
    assert found[-1]["error"]["code"] == 503
    assert found[-1]["error"]["status"] == "UNAVAILABLE"
    assert "functionCall" not in json.dumps(found)


@pytest.mark.req("CL-04")
def test_a_keep_alive_is_an_empty_text_also_before_the_start():
    encoder = StreamEncoder(ASKED)
    for _ in range(2):
        (frame,) = SseReader().feed(encoder.keep_alive())
        found = json.loads(frame.data)
        assert found["candidates"][0]["content"]["parts"] == [{"text": ""}]
        assert "finishReason" not in found["candidates"][0]
        encoder.feed(answer([])[0])


@pytest.mark.parametrize(
    "end", [lambda d: d.finish("end"), lambda d: d.fail(Problem("truncated", "cut"))]
)
def test_a_stream_may_be_one_array(end):
    events = answer([lambda d: d.text("a"), lambda d: d.text("b")], end)
    found = json.loads(written(events, ARRAY))
    assert found == frames(events)
    assert isinstance(json.loads(written([events[0], events[-1]], ARRAY)), list)


def test_keep_alives_are_elements_of_the_array():
    encoder = StreamEncoder(ARRAY)
    events = answer([lambda d: d.text("a")])
    data = encoder.keep_alive()
    for event in events[:-1]:
        data += b"".join(encoder.feed(event)) + encoder.keep_alive()
    assert len(json.loads(data + b"".join(encoder.feed(events[-1])))) == len(events) + 2


@every_row(
    ("part", "expected"),
    [
        (Text("a"), [{"text": "a"}]),
        (Text("a", opaque=(OWN,)), [{"text": "a", "thoughtSignature": "c2ln"}]),
        (Thinking("t"), [{"text": "t", "thought": True}]),
        (Thinking("t", (OWN,)), [{"text": "t", "thought": True, "thoughtSignature": "c2ln"}]),
        (Thinking("", (OWN,)), [{"text": "", "thoughtSignature": "c2ln"}]),
        (Thinking("", (ALIEN,)), []),
        (Image("AA==", "image/png"), [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]),
        (Image(file_id="x"), [{"text": "[image that this API cannot show]"}]),
        (Foreign("gemini", "x", {"x": 1}), [{"x": 1}]),
        (Foreign("anthropic", "x", {"x": 1}), []),
    ],
)
def test_parts_of_a_whole_body(part, expected):
    body = json.loads(encode_message(Message(content=(part,)), ASKED))
    assert body["candidates"][0]["content"]["parts"] == (expected or [{"text": ""}])


def test_a_whole_body_of_a_failure_is_an_error():
    body = json.loads(encode_message(Message(problem=Problem("truncated", "cut")), ASKED))
    assert body == {"error": {"code": 502, "message": "cut", "status": "INTERNAL"}}


def test_sources_are_told_at_the_end():
    cited = {"uri": "u", "title": "T"}
    steps = [
        lambda d: d.text("a"),
        lambda d: d.cite({"type": "citation_source", **cited}),
        lambda d: d.cite({"type": "url_citation", "url": "x"}),
    ]
    events = answer(steps)
    for body in (frames(events)[-1], json.loads(encode_message(collect(events), ASKED))):
        candidate = body["candidates"][0]
        assert candidate["citationMetadata"] == {"citationSources": [cited]}
        assert candidate["groundingMetadata"] == {
            "groundingChunks": [{"web": {"uri": "x", "title": ""}}]
        }


# ── rejections ───────────────────────────────────────────────────────────────


def detail(error, kind):
    return next((d for d in error["details"] if d["@type"].endswith(kind)), None)


@every_row(
    ("problem", "status", "name"),
    [
        (Problem("malformed_request", "x"), 400, "INVALID_ARGUMENT"),
        (Problem("unauthenticated", "x"), 401, "UNAUTHENTICATED"),
        (Problem("not_allowed", "x"), 403, "PERMISSION_DENIED"),
        (Problem("unknown_model", "x"), 404, "NOT_FOUND"),
        (Problem("too_large", "x"), 413, "INVALID_ARGUMENT"),
        (Problem("rejected", "x", status=422), 422, "INVALID_ARGUMENT"),
        (Problem("rate_limited", "x"), 429, "RESOURCE_EXHAUSTED"),
        (Problem("truncated", "x"), 502, "INTERNAL"),
        (Problem("overloaded", "x"), 503, "UNAVAILABLE"),
        (Problem("timed_out", "x"), 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_a_rejection_has_a_number_and_a_name(problem, status, name):
    rejection = encode_rejection(problem, "req_1")
    error = json.loads(rejection.body)["error"]
    assert (rejection.status, error["code"], error["status"]) == (status, status, name)
    assert detail(error, "RequestInfo")["requestId"] == "req_1"


def test_a_rejection_says_where_the_fault_is():
    error = json.loads(encode_rejection(Problem("malformed_request", "bad", "contents.0"), "r").body)["error"]  # fmt: skip
    assert error["message"] == "contents.0: bad"
    assert detail(error, "BadRequest")["fieldViolations"] == [
        {"field": "contents.0", "description": "bad"}
    ]


@pytest.mark.parametrize(
    ("problem", "delay"),
    [
        (Problem("rate_limited", "x", retry_after=12.5), "12.5s"),
        (Problem("overloaded", "x"), "5s"),
        (Problem("rejected", "x", retry_after=30.0), "30s"),
    ],
)
def test_a_rejection_says_how_long_to_wait(problem, delay):
    error = json.loads(encode_rejection(problem, "r").body)["error"]
    assert detail(error, "RetryInfo")["retryDelay"] == delay


BLOCKED = {
    "promptFeedback": {"blockReason": "SAFETY", "safetyRatings": [{"category": "C"}]},
    "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7},
}


@pytest.mark.parametrize("stream", [False, True])
def test_a_blocked_prompt_has_its_feedback_and_no_candidate(stream):
    decoder = StreamDecoder(Ids("t"))
    events = decoder.feed(b"data: %b\n\n" % json.dumps(BLOCKED).encode()) + decoder.close()
    (body,) = frames(events) if stream else [json.loads(encode_message(collect(events), ASKED))]
    assert body["promptFeedback"] == BLOCKED["promptFeedback"]
    assert "candidates" not in body
    assert body["usageMetadata"]["promptTokenCount"] == 7


def test_another_apis_refusal_without_content_is_a_candidate():
    refused = Message(stop="refusal", stop_details=StopDetails(raw={"promptFeedback": {}}))
    body = json.loads(encode_message(refused, ASKED))
    assert body["candidates"][0]["finishReason"] == "SAFETY"
    assert "promptFeedback" not in body
