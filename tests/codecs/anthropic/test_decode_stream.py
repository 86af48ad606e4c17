"""Anthropic's answers, read, also from the servers that bend its grammar."""

import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.anthropic import CODEC
from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Call, Foreign, Opaque, Text, Thinking
from toolbridge.core.usage import Usage

START = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 5, "output_tokens": 1}},
}
STOP = {"type": "message_stop"}


def frames(*values):
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (value["type"].encode(), json.dumps(value).encode())
        for value in values
    )


def run(*pieces):
    decoder = CODEC.stream_decoder(Ids("test"))
    said = [event for piece in pieces for event in decoder.feed(piece)]
    return said + decoder.close()


def begin(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, type, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": type} | fields}


def end(index):
    return {"type": "content_block_stop", "index": index}


def finish(reason="end_turn", **usage):
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": usage,
    }


def answer(*values, reason="end_turn"):
    return collect(run(frames(START, *values, finish(reason, output_tokens=2), STOP)))


@pytest.mark.req("ZG-07", "ZG-08", "ZG-09", "ZG-32", "ZG-35")
def test_a_call_is_read_from_its_start_and_its_pieces():
    events = run(
        frames(
            START,
            begin(0, type="tool_use", id="toolu_1", name="f", input={}),
            delta(0, "input_json_delta", partial_json=""),
            delta(0, "input_json_delta", partial_json='{"x"'),
            delta(0, "input_json_delta", partial_json=":1}"),
            end(0),
            finish("tool_use"),
            STOP,
        )
    )
    assert events[2:6] == [
        ev.CallStart(0, "toolu_1", "f"),
        ev.CallDelta(0, '{"x"'),
        ev.CallDelta(0, ":1}"),
        ev.CallEnd(0, Call("toolu_1", "f", {"x": 1})),
    ]
    assert collect(events).content == (Call("toolu_1", "f", {"x": 1}),)


@pytest.mark.req("ZG-09")
def test_a_call_ends_as_soon_as_its_block_does():
    decoder = CODEC.stream_decoder(Ids("test"))
    decoder.feed(frames(START, begin(0, type="tool_use", id="a", name="f", input={})))
    decoder.feed(frames(delta(0, "input_json_delta", partial_json='{"x":1}')))
    assert decoder.feed(frames(end(0))) == [ev.CallEnd(0, Call("a", "f", {"x": 1}))]


def test_pieces_win_over_the_start():
    message = answer(
        begin(0, type="tool_use", id="a", name="f", input={"old": 1}),
        delta(0, "input_json_delta", partial_json='{"new":2}'),
        end(0),
    )
    assert message.content == (Call("a", "f", {"new": 2}),)


def test_arguments_in_the_start_count_even_without_a_stop():
    message = answer(begin(0, type="tool_use", id="a", name="f", input={"x": 1}))
    assert message.content == (Call("a", "f", {"x": 1}),)


def test_a_block_that_starts_again_ends_the_one_before():
    message = answer(
        begin(0, type="tool_use", id="a", name="f"),
        begin(0, type="tool_use", id="b", name="g"),
        end(0),
    )
    assert message.content == (Call("a", "f"), Call("b", "g"))


@every_row(
    ("theirs", "ours"),
    [
        ("end_turn", "end"),
        ("max_tokens", "length"),
        ("pause_turn", "pause"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "context_overflow"),
        ("compaction", "end"),
        ("brand_new", "end"),
        (None, "end"),
    ],
)
def test_every_stop_reason_is_read(theirs, ours):
    assert answer(reason=theirs).stop == ours


def test_a_stop_sequence_is_named():
    last = {
        "type": "message_delta",
        "delta": {"stop_reason": "stop_sequence", "stop_sequence": "X"},
    }
    message = collect(run(frames(START, last, STOP)))
    assert (message.stop, message.stop_sequence) == ("stop_sequence", "X")


def test_counts_are_totals_and_zero_is_not_repeated():
    first = START | {
        "message": START["message"]
        | {
            "usage": {
                "input_tokens": 5,
                "cache_read_input_tokens": 7,
                "cache_creation_input_tokens": 9,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 6},
                "output_tokens": 1,
            }
        }
    }
    last = finish(
        input_tokens=0,
        cache_creation=None,
        output_tokens=20,
        output_tokens_details={"thinking_tokens": 8},
        server_tool_use={"web_search_requests": 2},
    )
    assert collect(run(frames(first, last, STOP))).usage == Usage(
        input=5, output=20, cache_read=7, cache_write=9, cache_write_long=6, reasoning=8, searches=2
    )


@pytest.mark.req("ZG-23")
def test_counts_are_reported_at_the_start_and_at_the_end():
    events = run(frames(START, finish(output_tokens=9), STOP))
    reported = [event.usage for event in events if isinstance(event, ev.UsageReported)]
    assert reported == [Usage(input=5, output=1), Usage(input=5, output=9)]


def test_a_second_start_changes_neither_name_nor_counts():
    again = {"type": "message_start", "message": {"id": "msg_2", "usage": {"input_tokens": 99}}}
    message = collect(run(frames(START, again, finish(output_tokens=2), STOP)))
    assert (message.id, message.usage) == ("msg_1", Usage(input=5, output=2))


@pytest.mark.req("PX-03")
def test_thoughts_keep_their_tokens():
    message = answer(
        begin(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Hm"),
        delta(0, "signature_delta", signature="s"),
        end(0),
        begin(1, type="redacted_thinking", data="d"),
        end(1),
        begin(2, type="thinking", thinking=""),
        delta(2, "signature_delta", signature=""),
        end(2),
    )
    assert message.content == (
        Thinking("Hm", (Opaque("anthropic", "signature", "s"),)),
        Thinking("", (Opaque("anthropic", "redacted", "d"),)),
    )


def test_citations_belong_to_their_text_wherever_they_stand():
    one, two = {"type": "char_location", "n": 1}, {"type": "char_location", "n": 2}
    message = answer(
        begin(0, type="text", text="", citations=[]),
        delta(0, "citations_delta", citation=one),
        delta(0, "text_delta", text="a"),
        delta(0, "citations_delta", citation=two),
        end(0),
    )
    assert message.content == (Text("a", citations=(one, two)),)


def test_a_strange_block_takes_no_other_text():
    message = answer(
        begin(0, type="hologram"),
        delta(0, "text_delta", text="not speech"),
        end(0),
        begin(1, type="text", text=""),
        delta(1, "text_delta", text="speech"),
    )
    assert message.content == (
        Foreign("anthropic", "hologram", {"type": "hologram"}),
        Text("speech"),
    )


def test_a_block_without_a_type_is_passed_over():
    assert answer(begin(0, text="x"), begin(1, type=7), end(0), end(1)).content == ()


def test_pieces_without_a_start_are_spoken_or_passed_over():
    message = answer(
        delta(0, "text_delta", text="Hi"),
        delta(1, "input_json_delta", partial_json="{}"),
        delta(2, "citations_delta", citation={"type": "x"}),
        end(5),
    )
    assert message.content == (Text("Hi"),)


@every_row(
    ("error", "kind", "status"),
    [
        ({"type": "overloaded_error", "message": "Oh."}, "overloaded", 0),
        ({"type": "rate_limit_error", "message": "Oh."}, "rate_limited", 0),
        ({"type": "timeout_error", "message": "Oh."}, "timed_out", 0),
        ({"type": "api_error", "message": "Oh."}, "rejected", 500),
        ({"type": "invalid_request_error", "message": "Oh."}, "rejected", 400),
        ({"type": None, "message": None}, "rejected", 0),
        ({}, "rejected", 0),
        (
            {
                "type": "invalid_request_error",
                "message": "prompt is too long: 2 tokens > 1 maximum",
            },
            "context_overflow",
            400,
        ),
    ],
)
def test_an_error_event_ends_the_answer(error, kind, status):
    events = run(frames(START, {"type": "error", "error": error}, STOP))
    assert isinstance(events[-1], ev.Failed)
    assert (events[-1].problem.kind, events[-1].problem.status) == (kind, status)
    assert events[-1].problem.text


def test_an_error_in_another_envelope_ends_the_answer():
    events = run(b'data: {"error":{"message":"Oh.","type":"server_error","code":500}}\n\n')
    assert [type(event) for event in events] == [ev.Started, ev.Failed]


@every_row(
    ("data", "kind"),
    [
        (b"", "truncated"),
        (b"<html>", "truncated"),
        (frames(START), "truncated"),
        (frames(START) + b'data: {"type":"message_st', "truncated"),
        (frames(START) + b"data: {oh\n\n", "broken_wire"),
        (frames(START) + b'data: {"type":"content_block_delta","index":"x"}\n\n', "broken_wire"),
        (frames(START, begin(0, type="text", text=7)), "broken_wire"),
        (b'{"id":"msg_1","content":[', "broken_wire"),
        (b'{"id":"msg_1"}', "broken_wire"),
        (b'{"error":"Oh."}', "rejected"),
    ],
)
def test_what_is_cut_or_broken_is_a_failure(data, kind):
    events = run(data)
    assert isinstance(events[-1], ev.Failed)
    assert events[-1].problem.kind == kind


def test_a_last_frame_needs_no_empty_line():
    events = run(
        frames(START, finish())[:-1] + b'\nevent: message_stop\ndata: {"type":"message_stop"}'
    )
    assert isinstance(events[-1], ev.Finished)


def test_nothing_is_said_after_the_end():
    assert run(frames(START, finish(), STOP), frames(START, STOP))[-1].reason == "end"
    assert sum(isinstance(e, ev.Finished) for e in run(frames(START, finish(), STOP, STOP))) == 1


def test_halves_of_a_surrogate_pair_are_joined():
    halves = [
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ud83d"}}',
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ude00"}}',
    ]
    data = frames(START, begin(0, type="text", text="")) + b"\n\n".join([*halves, b""])
    message = collect(run(data + frames(end(0), finish(), STOP)))
    assert message.content == (Text("\U0001f600"),)


def test_white_space_may_stand_before_a_whole_body():
    body = {"id": "msg_1", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
    assert collect(run(b" \n", b"\n" + json.dumps(body).encode())).text == "Hi"


def test_half_a_surrogate_pair_in_a_whole_body_is_replaced():
    body = b'{"id":"msg_1","content":[{"type":"text","text":"a\\ud83d"}],"stop_reason":"end_turn"}'
    assert isinstance(run(body)[-1], ev.Finished)


@pytest.mark.req("CL-09")
def test_a_rejection_is_read_with_its_wait():
    problem = CODEC.decode_rejection(
        529,
        {"Retry-After": "3"},
        b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    )
    assert (problem.kind, problem.text, problem.retry_after) == ("overloaded", "Overloaded", 3.0)
