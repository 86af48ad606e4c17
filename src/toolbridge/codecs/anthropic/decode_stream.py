"""Answers of the Messages API, as our events.

A whole answer is read as the stream that would have carried it. Servers that imitate the API break
the grammar, and these variants are read too: blocks that all end at the end of the stream, calls
with their arguments in `content_block_start`, events without an `event:` line, and a stray `[DONE]`
(vllm-project/vllm#37510).
"""

from collections.abc import Iterable

import msgspec

from toolbridge.codecs.anthropic.rejections import decode_error
from toolbridge.codecs.anthropic.server_blocks import decode_server_block
from toolbridge.codecs.anthropic.shapes import (
    ORIGIN,
    STOP_REASONS,
    Block,
    Counts,
    Delta,
    Error,
    Reply,
    StreamEvent,
    decode_details,
)
from toolbridge.codecs.anthropic.signatures import decode_caller, decode_signature
from toolbridge.codecs.anthropic.usage import decode_usage
from toolbridge.core.draft import Draft
from toolbridge.core.errors import BrokenWire, Truncated, UpstreamError
from toolbridge.core.events import AddedPart, Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, dumps, maybe_object
from toolbridge.core.messages import Foreign, Opaque, Problem, StopDetails, StopReason
from toolbridge.core.usage import Usage
from toolbridge.wire.rejections import read_error
from toolbridge.wire.reply import ReplyReader, WholeBody
from toolbridge.wire.shapes import convert_counts, decode_chunk
from toolbridge.wire.sse import SseEvent

_events = msgspec.json.Decoder(StreamEvent)
_replies = msgspec.json.Decoder(Reply)

_EVENTS = frozenset(
    {
        "message_start", "content_block_start", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop", "error",
    }
)  # fmt: skip
_DELTAS = frozenset(
    {"text_delta", "thinking_delta", "input_json_delta", "signature_delta", "citations_delta"}
)
_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})


class StreamDecoder:
    """Decodes a stream, or a whole body, into events."""

    def __init__(self, ids: Ids) -> None:
        self._answer = _Answer(ids)
        self._reply = ReplyReader()

    def feed(self, piece: bytes, /) -> list[Event]:
        try:
            return self._read(self._reply.feed(piece))
        except BrokenWire as error:
            return self._answer.fail(error.problem)

    def close(self) -> list[Event]:
        try:
            events = self._read(self._reply.close())
        except UpstreamError as error:
            return self._answer.fail(error.problem)
        return events + self._answer.close()

    def _read(self, reply: list[SseEvent | WholeBody]) -> list[Event]:
        if reply and isinstance(reply[0], WholeBody):
            return self._answer.read_all(_split_answer(reply[0].data))
        events = (event for event in reply if isinstance(event, SseEvent))
        return self._answer.read_all(map(_decode_event, events))


def _decode_event(sse: SseEvent) -> StreamEvent:
    """Return an event; an empty one for an event of an unknown type."""
    try:
        event = decode_chunk(sse.data, _events)
    except BrokenWire:
        if sse.event == "error" and maybe_object(sse.data) is not None:
            # llama.cpp, server: the error of a stream has OpenAI's shape in Anthropic's event.
            return _error_event(sse.data)
        if sse.data == b"[DONE]" or _is_unknown(maybe_object(sse.data)):
            return StreamEvent()
        raise
    event.type = event.type or sse.event
    return event


def _error_event(body: bytes) -> StreamEvent:
    type, text = read_error(body, None)
    return StreamEvent("error", error=Error(type, text))


def _is_unknown(found: JsonObject | None) -> bool:
    """Return whether an event has a type that this codec does not know.

    Anthropic, streaming: new event and delta types may be added, and clients must ignore them.
    """
    if found is None:
        return False
    delta = found.get("delta")
    if isinstance(delta, dict) and "type" in delta and str(delta["type"]) not in _DELTAS:
        return True
    return str(found.get("type")) not in _EVENTS


def _split_answer(body: bytes) -> list[StreamEvent]:
    """Return a whole answer as the events of a stream."""
    found = maybe_object(body) or {}
    if "error" in found:
        return [_error_event(body)]
    reply = decode_chunk(body, _replies)
    if reply.content is None:
        raise BrokenWire("the upstream sent JSON that is no answer")
    events = [StreamEvent("message_start", message=reply)]
    for i, block in enumerate(reply.content):
        events += [
            StreamEvent("content_block_start", i, content_block=block),
            StreamEvent("content_block_stop", i),
        ]
    end = Delta(
        stop_reason=reply.stop_reason,
        stop_sequence=reply.stop_sequence,
        stop_details=reply.stop_details,
    )
    events.append(StreamEvent("message_delta", delta=end, usage=reply.usage))
    # Anthropic, Messages API: `stop_reason` is null only in `message_start`, before the answer ends.
    return [*events, StreamEvent("message_stop")] if reply.stop_reason else events


class _Answer:
    """The answer so far: turns Anthropic's events into ours."""

    def __init__(self, ids: Ids) -> None:
        self._draft = Draft(ids)
        self._usage = Usage()
        self._claimed: StopReason | None = None
        self._stop_sequence = ""
        self._details: StopDetails | None = None
        self._open: dict[int, _Held] = {}
        self._placeholder = True
        """True while the output count is that of `message_start`, which is 1 for any answer."""

    def read_all(self, received: Iterable[StreamEvent]) -> list[Event]:
        events: list[Event] = []
        try:
            for event in received:
                events += self._read(event)
        except BrokenWire as error:
            events += self._draft.fail(error.problem)
        return events

    def fail(self, problem: Problem) -> list[Event]:
        return self._draft.fail(problem)

    def close(self) -> list[Event]:
        """Finish if a stop reason came; Ollama's `/v1/messages` may leave out `message_stop`."""
        if self._claimed:
            return self._finish()
        return self._draft.fail(Truncated("the upstream stopped before its answer ended").problem)

    def _read(self, event: StreamEvent) -> list[Event]:
        if event.type == "content_block_delta":
            return self._read_delta(event.index, event.delta or Delta())
        if event.error is not None:
            return self._draft.fail(decode_error(event.error))
        match event.type:
            case "message_start":
                return self._start(event.message or Reply())
            case "content_block_start":
                return self._start_block(event.index, event.content_block or {})
            case "content_block_stop":
                return self._stop_block(event.index)
            case "message_delta":
                return self._read_end(event.delta or Delta(), event.usage)
            case "message_stop":
                return self._finish()
            case _:
                return []

    def _start(self, reply: Reply) -> list[Event]:
        if (
            self._draft.started
        ):  # a proxy that has retried sends a second one (maximhq/bifrost#4556)
            return []
        return self._draft.start(id=reply.id, model=reply.model) + self._count(reply.usage)

    def _count(self, counts: Json) -> list[Event]:
        if counts is None:
            return []
        self._usage = decode_usage(convert_counts(counts, Counts), self._usage)
        return self._draft.usage(self._usage)

    # ── blocks ───────────────────────────────────────────────────────────────

    def _start_block(self, index: int, raw: JsonObject) -> list[Event]:
        events = self._stop_block(index) if index in self._open else []
        kind = raw.get("type")
        if not isinstance(kind, str):
            return events
        held = self._open[index] = _Held()
        # Anthropic, web search tool: server tools and their results are blocks of the answer.
        if kind not in _BLOCKS:
            held.foreign = Foreign(ORIGIN, kind, raw)
            return events
        block = _read_block(raw)
        held.citations += block.citations or ()
        if kind == "tool_use":
            held.input = block.input or {}
            events += self._draft.call(("call", index), name=block.name, id=block.id)
            for token in decode_caller(block.caller):
                self._draft.tag_call(("call", index), token)
            return events
        # Anthropic, streaming: a redacted block comes whole in its start.
        if kind == "redacted_thinking":
            token = Opaque(ORIGIN, "redacted", block.data)
            return events + self._draft.seal(token, ("thinking", index))
        events += self._draft.text(block.text or "", ("text", index))
        events += self._draft.think(block.thinking or "", ("thinking", index))
        return events + self._seal(index, block.signature)

    def _read_delta(self, index: int, delta: Delta) -> list[Event]:
        held = self._open.get(index)
        if held is not None and held.foreign is not None:
            held.pieces.append(delta.partial_json)
            return []
        match delta.type:
            case "text_delta":
                return self._draft.text(delta.text, ("text", index))
            case "thinking_delta":
                return self._draft.think(delta.thinking, ("thinking", index))
            case "input_json_delta":
                return self._read_input(index, delta.partial_json)
            case "signature_delta":
                return self._seal(index, delta.signature)
            # Anthropic, citations: one delta holds one citation of the current text.
            case "citations_delta":
                if held is not None and delta.citation:
                    held.citations.append(delta.citation)
                return []
            case _:
                return []

    def _read_input(self, index: int, piece: str) -> list[Event]:
        if not piece or not self._draft.is_open(("call", index)):
            return []
        self._open[
            index
        ].input = {}  # the deltas repeat the arguments of the start (BerriAI/litellm#25321)
        return self._draft.arguments(("call", index), piece)

    def _seal(self, index: int, signature: str | None) -> list[Event]:
        events: list[Event] = []
        for token in decode_signature(signature):
            events += self._draft.seal(token, ("thinking", index))
        return events

    def _stop_block(self, index: int) -> list[Event]:
        held = self._open.pop(index, None) or _Held()
        if held.foreign is not None:
            return self._draft.add(held.whole(held.foreign))
        events: list[Event] = []
        if held.input:
            events += self._draft.arguments(("call", index), dumps(held.input))
        for citation in held.citations:
            events += self._draft.cite(citation, ("text", index))
        for kind in ("text", "thinking", "call"):
            events += self._draft.end((kind, index))
        return events

    # ── the end ──────────────────────────────────────────────────────────────

    def _read_end(self, delta: Delta, counts: Json) -> list[Event]:
        # Anthropic, streaming: only message_delta has the stop reason and the final counts.
        if self._placeholder and counts is not None:
            self._placeholder = False
            self._usage = msgspec.structs.replace(self._usage, output=0)
        if delta.stop_reason:
            self._claimed = STOP_REASONS.get(delta.stop_reason, "end")
        if delta.stop_sequence:
            self._stop_sequence = delta.stop_sequence
            # llama.cpp, server: a stop sequence comes with the stop reason "end_turn".
            self._claimed = "stop_sequence" if self._claimed == "end" else self._claimed
        if delta.stop_details:
            self._details = decode_details(delta.stop_details)
        return self._count(counts)

    def _finish(self) -> list[Event]:
        events: list[Event] = []
        for index in sorted(self._open):
            events += self._stop_block(index)
        return events + self._draft.finish(
            self._claimed or "end", stop_sequence=self._stop_sequence, details=self._details
        )


class _Held:
    """What is known of an open block and becomes events only at its end."""

    __slots__ = ("citations", "foreign", "input", "pieces")

    def __init__(self) -> None:
        self.input: JsonObject = {}
        """The arguments in the start of a call; Anthropic itself sends an empty object there."""
        self.citations: list[JsonObject] = []
        """Citations may come before the first character of their text."""
        self.foreign: Foreign | None = None
        self.pieces: list[str] = []

    def whole(self, part: Foreign) -> AddedPart:
        """Return the block with the input from the deltas that followed its start."""
        input = maybe_object("".join(self.pieces))
        raw = part.raw if input is None else part.raw | {"input": input}
        return decode_server_block(raw) or Foreign(part.origin, part.kind, raw)


def _read_block(raw: JsonObject) -> Block:
    try:
        return msgspec.convert(raw, Block)
    except msgspec.ValidationError as error:
        raise BrokenWire(
            f"the upstream sent a content block that cannot be decoded: {error}"
        ) from None
