"""Answers that are one text: whole streams, as short ones arrive, their beginnings and ends, and bodies.

They are read in one pass, in place of a call for each chunk. The shapes list the fields of `Chunk`,
and accept nothing that such an answer does not have; any other stream is read chunk by chunk.
"""

from operator import attrgetter
from typing import Literal

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.text_chunks import UNDECODABLE
from toolbridge.codecs.openai_chat.usage import decode_usage
from toolbridge.core.draft import Draft
from toolbridge.core.events import Event
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Foreign
from toolbridge.core.usage import Usage
from toolbridge.wire.shapes import AnyObject
from toolbridge.wire.sse import MAX_EVENT


class PlainDelta(msgspec.Struct, gc=False):
    """A delta with text, or with nothing."""

    content: str | None = None
    reasoning_content: None = None
    reasoning: None = None
    thinking: None = None
    reasoning_details: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    annotations: None = None
    images: None = None
    audio: None = None


class PlainChoice(msgspec.Struct, gc=False):
    """The choice of a `PlainChunk`."""

    delta: PlainDelta
    index: Literal[0] | None = None
    message: None = None
    text: None = None
    finish_reason: str | None = None
    stop_reason: None = None
    logprobs: None = None
    usage: None = None
    error: None = None


class PlainChunk(msgspec.Struct, gc=False):
    """A chunk of a text, its end, or its counts."""

    choices: list[PlainChoice]
    id: str | None = None
    model: str | None = None
    usage: AnyObject | None = None
    x_groq: None = None
    error: None = None
    created: Json = None
    system_fingerprint: Json = None
    service_tier: Json = None
    provider: Json = None


class PlainMessage(msgspec.Struct, gc=False):
    """The message of a whole body that is one text."""

    content: str
    reasoning_content: None = None
    reasoning: None = None
    thinking: None = None
    reasoning_details: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    annotations: tuple[()] | None = None
    images: None = None
    audio: None = None


class PlainBodyChoice(msgspec.Struct, gc=False):
    """The choice of a `PlainBody`."""

    message: PlainMessage
    finish_reason: str
    index: Literal[0] | None = None
    delta: None = None
    text: None = None
    stop_reason: None = None
    logprobs: None = None
    usage: None = None
    error: None = None


class PlainBody(msgspec.Struct, gc=False):
    """A body that is one text with its counts."""

    choices: tuple[PlainBodyChoice]
    usage: AnyObject
    id: str | None = None
    model: str | None = None
    x_groq: None = None
    error: None = None
    created: Json = None
    system_fingerprint: Json = None
    service_tier: Json = None
    provider: Json = None


class PlainAnswer(msgspec.Struct):
    """A text with its counts."""

    first: PlainChunk | PlainBody
    pieces: list[str]
    finish_reason: str
    usage: Usage


_decoder = msgspec.json.Decoder(PlainChunk)
_bodies = msgspec.json.Decoder(PlainBody)
_choices = attrgetter("choices")
_content = attrgetter("delta.content")
_reason = attrgetter("finish_reason")
_usage = attrgetter("usage")


LAST_EVENT = b"}\n\ndata: [DONE]\n\n"
EVENT_END = b"}\n\n"
_BETWEEN = b"}\n\ndata: {"
"""Between two objects, and never inside one: strings have no unescaped LF."""
_FIRST, _REMOVED = b"data: ", len(_BETWEEN) - 2
_DONE = len(LAST_EVENT) - len(EVENT_END)


def plain_answer(stream: bytes) -> PlainAnswer | None:
    """Return the answer in a whole stream that ends with `LAST_EVENT`, or in the end of one; else None."""
    chunks = _chunks(stream[:-_DONE])
    if not chunks:
        return None
    # OpenAI chat, streaming: usage arrives after `finish_reason`, in a chunk with empty `choices`.
    choices = [choice for chunk in chunks for choice in chunk.choices]
    counts = chunks[-1].usage
    without = 0 if chunks[-1].choices else 1
    if not counts or len(choices) != len(chunks) - without or not all(map(_choices, chunks[:-1])):
        return None
    reason = choices[-1].finish_reason if choices else None
    if not reason or reason in shapes.BROKEN_STOPS or any(map(_usage, chunks[:-1])):
        return None
    pieces = [*filter(None, map(_content, choices))]
    return PlainAnswer(chunks[0], pieces, reason, decode_usage(counts))


def plain_beginning(stream: bytes) -> tuple[PlainChunk, list[str]] | None:
    """Return the first chunk and the texts of whole events at the beginning of a stream; else None."""
    chunks = _chunks(stream)
    if not chunks or any(map(_usage, chunks)) or not all(map(_choices, chunks)):
        return None
    choices = [choice for chunk in chunks for choice in chunk.choices]
    if len(choices) != len(chunks) or any(map(_reason, choices)):
        return None
    return chunks[0], [*filter(None, map(_content, choices))]


def _chunks(events: bytes) -> list[PlainChunk]:
    """Return the chunks of events that end with `EVENT_END`; none if one has more than text."""
    objects = events[len(_FIRST) : -2]
    joined = objects.replace(_BETWEEN, b"}{")
    if (
        events[: len(_FIRST)] != _FIRST
        or b"\n" in joined
        or b"\r" in joined  # WHATWG HTML, section 9.2.6: it ends a line as well
        or len(events) > MAX_EVENT
    ):
        return []
    try:
        chunks = _decoder.decode_lines(joined)
    except UNDECODABLE:
        return []
    # else two objects in one event
    return chunks if (len(chunks) - 1) * _REMOVED == len(objects) - len(joined) else []


def plain_body(data: bytes) -> PlainAnswer | None:
    """Return the answer in a whole body; None for any other than one text with its counts."""
    try:
        body = _bodies.decode(data)
    except UNDECODABLE:
        return None
    choice = body.choices[0]
    reason = choice.finish_reason
    if not body.usage or not reason or reason in shapes.BROKEN_STOPS:
        return None
    return PlainAnswer(body, [choice.message.content], reason, decode_usage(body.usage))


def write_plain(plain: PlainAnswer, draft: Draft) -> list[Event]:
    """Return the events of an answer that is one text; none where that needs the long way."""
    first, reason = plain.first, shapes.STOPS.get(plain.finish_reason, "end")
    return draft.plain(
        plain.pieces,
        plain.usage,
        reason,
        id=first.id or "",
        model=first.model or "",
        envelope=read_envelope(first),
    )


_ENVELOPE: dict[str, type] = {
    "created": int, "system_fingerprint": str, "service_tier": str, "provider": str,
}  # fmt: skip
"""Fields of a chunk that are copied to a client of the same API."""


def read_envelope(chunk: shapes.Chunk | PlainChunk | PlainBody) -> Foreign:
    """Return what is copied of the first chunk of an answer."""
    kept: JsonObject = {}
    for name, kind in _ENVELOPE.items():
        value: Json = getattr(chunk, name)
        if isinstance(value, kind):
            kept[name] = value
    return Foreign(shapes.ORIGIN, "envelope", kept)
