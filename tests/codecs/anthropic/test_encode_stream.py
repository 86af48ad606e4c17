"""Answers in Anthropic's words: the grammar of the stream, whole bodies and rejections."""

import json

import pytest
from hypothesis import given, settings
from tests.examples import examples
from tests.strategies import answers
from tests.tables import every_row

from toolbridge.codecs.anthropic import CODEC
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext
from toolbridge.core.draft import Draft
from toolbridge.core.errors import KINDS
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
    Text,
    Thinking,
)
from toolbridge.core.usage import Usage
from toolbridge.wire.sse import SseReader

ASKED = AnswerContext(Request(model="claude-sonnet-4-5"), estimate=42)


def written(events, asked=ASKED):
    """The frames of a stream: their data; that the name fits is checked on the way."""
    encoder = CODEC.stream_encoder(asked)
    data = b"".join(piece for event in events for piece in encoder.feed(event))
    frames = SseReader().feed(data + b"".join(encoder.close()))
    found = [json.loads(frame.data) for frame in frames]
    assert [frame.event for frame in frames] == [value["type"] for value in found]
    return found


def told(*steps, finish="end", usage=None):
    draft = Draft(Ids("test"))
    events = draft.start(id="msg_1", model="upstream")
    for step in steps:
        events += step(draft)
    events += draft.usage(usage) if usage else []
    return events + draft.finish(finish)


def text(piece):
    return lambda draft: draft.text(piece)


def think(piece, *opaque):
    def step(draft):
        said = draft.think(piece)
        for token in opaque:
            said += draft.seal(token)
        return said + draft.end()

    return step


def call(id, name, *pieces):
    def step(draft):
        said = draft.call(id, name=name, id=id)
        for piece in pieces:
            said += draft.arguments(id, piece)
        return said + draft.end(id)

    return step


def shape(frames):
    return [
        (frame["type"], frame["index"]) if "index" in frame else frame["type"] for frame in frames
    ]


@pytest.mark.req("CB-13", "CL-03", "PX-46")
def test_a_stream_has_its_order():
    assert shape(written(told(text("Hi"), text("!")))) == [
        "message_start",
        ("content_block_start", 0),
        "ping",
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        "message_delta",
        "message_stop",
    ]


@pytest.mark.req("CB-04", "CB-13", "PX-49")
def test_the_start_has_all_that_strict_clients_want():
    assert written(told())[0] == {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 42,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 1,
            },
        },
    }


def test_without_a_question_the_upstreams_name_is_told():
    assert written(told(), AnswerContext())[0]["message"]["model"] == "upstream"


@pytest.mark.req("CB-04", "CB-14")
def test_an_id_from_elsewhere_gets_anthropics_prefix():
    draft = Draft(Ids("test"))
    events = draft.start(id="chatcmpl-1") + draft.finish("end")
    assert written(events)[0]["message"]["id"] == "msg_chatcmpl-1"
    assert json.loads(CODEC.encode_message(collect(events), ASKED))["id"] == "msg_chatcmpl-1"


@pytest.mark.req("PX-12", "PX-13", "PX-40", "PX-41", "PX-42", "PX-43", "PX-47")
def test_a_thought_is_closed_before_the_text_opens():
    frames = written(told(think("Hm"), text("Hi")))
    assert shape(frames)[1:8] == [
        ("content_block_start", 0),
        "ping",
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
    ]
    assert frames[1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert frames[3]["delta"] == {"type": "thinking_delta", "thinking": "Hm"}
    assert frames[4]["delta"]["type"] == "signature_delta"
    assert frames[4]["delta"]["signature"].startswith("tb1.")
    assert frames[6]["content_block"] == {"type": "text", "text": ""}


@pytest.mark.req("PX-14", "PX-15", "PX-44", "CB-32")
def test_a_call_opens_empty_and_gets_its_input_in_pieces():
    frames = written(told(text("Hi"), call("toolu_1", "f", '{"x"', ":1}"), finish="tool_use"))
    assert frames[5]["content_block"] == {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "f",
        "input": {},
    }
    assert [frame["delta"] for frame in frames[6:8]] == [
        {"type": "input_json_delta", "partial_json": '{"x"'},
        {"type": "input_json_delta", "partial_json": ":1}"},
    ]
    assert frames[-2]["delta"]["stop_reason"] == "tool_use"
    assert [frame["index"] for frame in frames[5:9]] == [1, 1, 1, 1]


def test_a_call_without_pieces_still_gets_its_input():
    events = [
        ev.Started("msg_1", "m"),
        ev.CallStart(0, "a", "f"),
        ev.CallEnd(0, Call("a", "f", {"x": 1})),
        ev.CallStart(1, "b", "g"),
        ev.CallEnd(1, Call("b", "g")),
        ev.CallStart(2, "c", "h"),
        ev.CallEnd(2, Call("c", "h", raw="not-json")),
    ]
    deltas = [f["delta"]["partial_json"] for f in written(events) if "delta" in f]
    assert deltas == ['{"x":1}', "{}", '{"raw":"not-json"}']


def test_tokens_of_anthropic_go_out_as_they_came():
    signed = Opaque("anthropic", "signature", "s")
    redacted = Opaque("anthropic/work", "redacted", "d")
    hidden = lambda draft: draft.seal(redacted) + draft.end()  # noqa: E731
    frames = written(told(think("Hm", signed), hidden))
    assert {"type": "signature_delta", "signature": "s"} in [f.get("delta") for f in frames]
    assert frames[6]["content_block"] == {"type": "redacted_thinking", "data": "d"}


def test_tokens_of_others_are_not_shown():
    foreign = Opaque("gemini", "thought_signature", "secret")
    frames = written(told(think("Hm", foreign)))
    assert "secret" not in json.dumps(frames)


def test_a_thought_without_words_has_its_signature():
    events = [ev.Started("m", ""), ev.ThinkingStart(0), ev.ThinkingEnd(0, Thinking(""))]
    assert shape(written(events))[1:] == [
        ("content_block_start", 0),
        "ping",
        ("content_block_delta", 0),
        ("content_block_stop", 0),
    ]


def test_blocks_of_anthropic_go_through_and_a_picture_is_a_note():
    result = Foreign("anthropic", "web_search_tool_result", {"type": "web_search_tool_result"})
    use = Foreign("anthropic", "server_tool_use", {"type": "server_tool_use", "input": {"q": 1}})
    other = Foreign("gemini", "executableCode", {})
    steps = [
        lambda draft, part=part: draft.add(part) for part in (Image(data="x"), use, other, result)
    ]
    frames = written(told(*steps))
    assert shape(frames)[1:-2] == [
        ("content_block_start", 0),
        "ping",
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("content_block_start", 2),
        ("content_block_stop", 2),
    ]
    assert frames[3]["delta"]["text"] == "[image that this API cannot show]"
    assert frames[5]["content_block"] == {"type": "server_tool_use", "input": {}}
    assert frames[6]["delta"]["partial_json"] == '{"q":1}'
    assert frames[-2]["toolbridge"]["lost"] == [
        "answer.image: left out: an answer of anthropic holds no such image",
        "answer.executableCode: only gemini has such a part",
    ]


def test_citations_of_anthropic_come_before_the_end_of_their_text():
    known, unknown = {"type": "char_location"}, {"type": "url_citation"}
    events = [
        ev.Started("m", ""),
        ev.TextStart(0),
        ev.TextDelta(0, "a"),
        ev.TextEnd(0, Text("a", citations=(known, unknown))),
    ]
    deltas = [frame["delta"] for frame in written(events) if "delta" in frame]
    assert deltas[1:] == [{"type": "citations_delta", "citation": known}]


@pytest.mark.req("CB-36")
def test_the_end_tells_the_counts():
    usage = Usage(5, 20, cache_read=7, cache_write=9, cache_write_long=6, reasoning=8, searches=2)
    assert written(told(usage=usage))[-2]["usage"] == {
        "input_tokens": 5,
        "cache_creation_input_tokens": 9,
        "cache_read_input_tokens": 7,
        "output_tokens": 20,
        "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 6},
        "output_tokens_details": {"thinking_tokens": 8},
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
    }
    assert written(told(usage=Usage(output=3)))[-2]["usage"]["input_tokens"] == 42


@pytest.mark.req("CL-07")
@every_row(
    ("ours", "theirs"),
    [
        ("end", "end_turn"),
        ("length", "max_tokens"),
        ("refusal", "refusal"),
        ("pause", "pause_turn"),
        ("context_overflow", "model_context_window_exceeded"),
        ("tool_use", "end_turn"),
    ],
)
def test_every_stop_reason_is_written(ours, theirs):
    assert written(told(text("Hi"), finish=ours))[-2]["delta"] == {
        "stop_reason": theirs,
        "stop_sequence": None,
    }


@pytest.mark.req("CL-05", "CB-22", "CB-05")
def test_a_failure_closes_nothing():
    draft = Draft(Ids("test"))
    events = draft.start() + draft.call("a", name="f") + draft.arguments("a", '{"x')
    frames = written(events + draft.fail(Problem("truncated", "cut")))
    assert shape(frames)[-2:] == [("content_block_delta", 0), "error"]
    assert frames[-1] == {"type": "error", "error": {"type": "api_error", "message": "cut"}}


def test_a_ping_keeps_the_stream_alive():
    assert CODEC.stream_encoder(ASKED).keep_alive() == b'event: ping\ndata: {"type":"ping"}\n\n'


def check_grammar(frames):
    """Fail unless blocks follow one another, numbered without a gap, and the ends are in place."""
    assert frames[0]["type"] == "message_start"
    inside, number = False, 0
    for frame in frames[1:]:
        match frame["type"]:
            case "content_block_start":
                assert (inside, frame["index"]) == (False, number)
                inside = True
            case "content_block_delta":
                assert (inside, frame["index"]) == (True, number)
            case "content_block_stop":
                assert (inside, frame["index"]) == (True, number)
                inside, number = False, number + 1
            case "message_delta":
                assert not inside
    kinds = [frame["type"] for frame in frames]
    assert kinds[-1] in {"message_stop", "error"}
    assert kinds.count("message_delta") == kinds.count("message_stop") == (kinds[-1] != "error")


@pytest.mark.req("CL-03", "CL-08", "PX-40")
@settings(max_examples=examples(60))
@given(answers())
def test_any_answer_is_a_legal_stream(events):
    check_grammar(written(events))


@pytest.mark.req("CB-33", "PX-38", "PX-39")
def test_a_whole_body_has_all_blocks():
    message = Message(
        "msg_1",
        "upstream",
        (
            Thinking("Hm", (Opaque("anthropic", "signature", "s"),)),
            Text("Hi", citations=({"type": "char_location"},)),
            Call("a", "f", {"x": 1}),
            Call("b", "g", raw="{x"),
        ),
        Usage(3, 4),
        "tool_use",
    )
    assert json.loads(CODEC.encode_message(message, ASKED)) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": "s"},
            {"type": "text", "text": "Hi", "citations": [{"type": "char_location"}]},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
            {"type": "tool_use", "id": "b", "name": "g", "input": {"raw": "{x"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 4,
        },
    }


@pytest.mark.req("PX-48", "CB-05", "PX-19", "CL-09")
@every_row(
    ("problem", "status", "type"),
    [
        (Problem("malformed_request", "x"), 400, "invalid_request_error"),
        (Problem("unsupported", "x"), 400, "invalid_request_error"),
        (Problem("thinking_not_supported", "x"), 400, "thinking_not_supported"),
        (Problem("context_overflow", "x", status=413), 400, "invalid_request_error"),
        (Problem("too_large", "x"), 413, "request_too_large"),
        (Problem("unknown_model", "x"), 404, "not_found_error"),
        (Problem("unknown_route", "x"), 404, "not_found_error"),
        (Problem("wrong_method", "x"), 405, "invalid_request_error"),
        (Problem("not_allowed", "x"), 403, "permission_error"),
        (Problem("unauthenticated", "x"), 401, "authentication_error"),
        (Problem("rate_limited", "x"), 429, "rate_limit_error"),
        (Problem("overloaded", "x", status=503), 529, "overloaded_error"),
        (Problem("timed_out", "x"), 504, "timeout_error"),
        (Problem("truncated", "x"), 502, "api_error"),
        (Problem("broken_call", "x"), 502, "api_error"),
        (Problem("config", "x"), 500, "api_error"),
        (Problem("rejected", "x", status=400), 400, "invalid_request_error"),
        (Problem("rejected", "x", status=401), 401, "authentication_error"),
        (Problem("rejected", "x", status=404), 404, "not_found_error"),
        (Problem("rejected", "x", status=422), 422, "invalid_request_error"),
        (Problem("rejected", "x", status=500), 500, "api_error"),
        (Problem("rejected", "x"), 502, "api_error"),
    ],
)
def test_every_problem_has_its_envelope(problem, status, type):
    rejection = CODEC.encode_rejection(problem, "req_1")
    assert rejection.status == status
    assert json.loads(rejection.body) == {
        "type": "error",
        "error": {"type": type, "message": "x"},
        "request_id": "req_1",
    }


def test_the_path_of_a_fault_stands_in_front():
    problem = Problem("malformed_request", "field required", where="messages.0.role")
    body = json.loads(CODEC.encode_rejection(problem, "").body)
    assert body["error"]["message"] == "messages.0.role: field required"


@pytest.mark.req("CL-09")
@every_row(
    ("problem", "headers"),
    [
        (Problem("overloaded", "x"), {"retry-after": "5"}),
        (Problem("overloaded", "x", retry_after=1.2), {"retry-after": "2"}),
        (Problem("rate_limited", "x", retry_after=0), {"retry-after": "0"}),
        (Problem("malformed_request", "x"), {"x-should-retry": "false"}),
        (Problem("rejected", "x", status=401), {"x-should-retry": "false"}),
        (Problem("config", "x"), {"x-should-retry": "false"}),
        (Problem("rejected", "x", status=409), {}),
        (Problem("rejected", "x", status=500), {}),
        (Problem("truncated", "x"), {}),
        (Problem("aborted", "x"), {}),
    ],
)
def test_clients_are_told_whether_to_ask_again(problem, headers):
    assert CODEC.encode_rejection(problem, "").headers == headers


@every_row("kind", sorted(KINDS))
def test_no_kind_of_problem_is_without_an_envelope(kind):
    body = json.loads(CODEC.encode_rejection(Problem(kind, "x"), "").body)
    assert body["error"]["type"]
