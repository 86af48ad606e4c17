"""Answers that are one text, as most are: whole ones, their beginning and their end, each in one pass.

Each function returns exactly the bytes that the encoder writes for these events one by one, and b""
for events of any other answer. tests/properties/test_deliveries.py compares both.
"""

from operator import attrgetter

import msgspec

from toolbridge.codecs.anthropic.shapes import STOPS
from toolbridge.codecs.anthropic.usage import encode_usage
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext
from toolbridge.core.fold import plain_message
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import StopReason
from toolbridge.core.usage import Usage
from toolbridge.wire.sse import write_event

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_text_of = attrgetter("text")
PING = write_event(b'{"type":"ping"}', b"ping")
MESSAGE_STOP = write_event(b'{"type":"message_stop"}', b"message_stop")
LEAST_EDGE = 3
"""The least events of a beginning (`Started`, `TextStart`, deltas), and of an end."""

# Most events of a stream are deltas: constant bytes around one number and one string.
DELTA_TAIL = b"}}\n\n"
DELTA_HEAD = (
    b"event: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":%%d,"delta":{"type":"%b","%b":'
)
TEXT_HEAD = DELTA_HEAD % (b"text_delta", b"text")
TEXT_START = (
    b"event: content_block_start\n"
    b'data: {"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}\n\n'
)
STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'

_START = (
    b"event: message_start\n"
    b'data: {"type":"message_start","message":{"id":%b,"type":"message","role":"assistant","model":%b,'
    b'"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,'
    b'"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}\n\n'
)
_HEAD = TEXT_HEAD % 0
_OPENING = TEXT_START % 0 + PING + _HEAD
_BETWEEN = DELTA_TAIL + _HEAD
_CLOSING = STOP % 0 + b"event: message_delta\ndata: "
_END = b"\n\n" + MESSAGE_STOP


def write_whole(events: list[ev.Event], asked: AnswerContext) -> bytes:
    """Return the bytes of a whole answer, as short ones arrive."""
    message = plain_message(events)
    if message is None:
        return b""
    try:
        start = _start(message.id, message.model, asked)
        pieces = joined(events[2:-3], _BETWEEN)
        end = _end(message.stop or "end", message.stop_sequence, message.usage, asked)
        return b"".join((start, _OPENING, pieces, DELTA_TAIL, _CLOSING, end, _END))
    except UnicodeEncodeError:  # a lone surrogate
        return b""


def write_beginning(events: list[ev.Event], asked: AnswerContext) -> bytes:
    """Return the bytes of the first events of a stream: `Started`, `TextStart` and deltas."""
    started, start, *deltas = events
    if not (
        isinstance(started, ev.Started)
        and isinstance(start, ev.TextStart)
        and {*map(type, deltas)} == {ev.TextDelta}
    ):
        return b""
    try:
        opening = _start(started.id, started.model, asked) + _OPENING
        return opening + joined(deltas, _BETWEEN) + DELTA_TAIL
    except UnicodeEncodeError:  # a lone surrogate
        return b""


def write_ending(events: list[ev.Event], asked: AnswerContext) -> bytes:
    """Return the bytes of the last events of a stream that had a text, which is open, and no more."""
    *deltas, usage, text, last = events
    if not (
        isinstance(last, ev.Finished)
        and isinstance(text, ev.TextEnd)
        and isinstance(usage, ev.UsageReported)
        and {*map(type, deltas)} <= {ev.TextDelta}
        and not text.text.citations
        and last.details is None
    ):
        return b""
    try:
        pieces = _HEAD + joined(deltas, _BETWEEN) + DELTA_TAIL if deltas else b""
        end = _end(last.reason, last.stop_sequence, usage.usage, asked)
        return b"".join((pieces, _CLOSING, end, _END))
    except UnicodeEncodeError:  # a lone surrogate
        return b""


def joined(deltas: list[ev.Event], between: bytes) -> bytes:
    """Return the texts of deltas as JSON, joined by `between`; raise if one has a lone surrogate."""
    # JSON has no unescaped LF in a string, so each LF is the end of a line.
    return _encode_lines([*map(_text_of, deltas)])[:-1].replace(b"\n", between)


def _start(id: str, model: str, asked: AnswerContext) -> bytes:
    return _START % (_encode(own_id(id)), _encode(asked.request.model or model), asked.estimate)


def own_id(id: str) -> str:
    # Anthropic, Messages API: the id of a message begins with "msg_".
    return id if id.startswith("msg_") else f"msg_{id}"


def _end(reason: StopReason, sequence: str, usage: Usage, asked: AnswerContext) -> bytes:
    """Return the data of `message_delta`, for an answer without details and losses."""
    ending: JsonObject = {
        "type": "message_delta",
        "delta": {
            "stop_reason": STOPS.get(reason, "end_turn"),
            "stop_sequence": sequence or None,
        },
        "usage": encode_usage(usage, asked.estimate),
    }
    return _encode(ending)
