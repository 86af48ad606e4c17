"""Anthropic's answers, as our events.

A whole answer is a stream that came at once: its blocks are read as starts that hold everything.
Real servers bend the grammar, and all of these are read: blocks that all close at the end, calls
whose arguments stand in their start, frames without an `event:` line, a stray `[DONE]`.
"""

from collections.abc import Iterable, Mapping

import msgspec

from toolbridge.codecs.anthropic.code_execution import show_code
from toolbridge.codecs.anthropic.counts import Counts, read_counts
from toolbridge.codecs.anthropic.shapes import (
    ERROR_KINDS,
    ERROR_STATUSES,
    ORIGIN,
    STOP_REASONS,
    Block,
    Delta,
    Error,
    Reply,
    StreamEvent,
    read_details,
    read_signature,
    seal_caller,
)
from toolbridge.core.draft import Draft
from toolbridge.core.errors import BrokenWire, Truncated
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject, dumps, maybe_object
from toolbridge.core.messages import Foreign, Opaque, Problem, StopDetails, StopReason
from toolbridge.core.usage import Usage
from toolbridge.wire.rejections import read_error, read_problem, read_rejection
from toolbridge.wire.reply import ReplyReader, WholeBody
from toolbridge.wire.shapes import decode_frame
from toolbridge.wire.sse import SseEvent as SseFrame

_frames = msgspec.json.Decoder(StreamEvent)
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


def decode_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    return read_rejection(status, headers, body, ERROR_KINDS)


class StreamDecoder:
    """A stream, or a whole body, into events."""

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
            said = self._read(self._reply.close())
        except BrokenWire as error:
            return self._answer.fail(error.problem)
        return said + self._answer.close()

    def _read(self, reply: list[SseFrame | WholeBody]) -> list[Event]:
        if reply and isinstance(reply[0], WholeBody):
            return self._answer.read_all(_cut_up(reply[0].data))
        return self._answer.read_all(_frame(one) for one in reply if isinstance(one, SseFrame))


def _frame(sse: SseFrame) -> StreamEvent:
    """Read a frame; one that we do not know, or that was cut, becomes an empty one."""
    try:
        frame = decode_frame(sse.data, _frames)
    except BrokenWire:
        if sse.data == b"[DONE]" or not sse.whole or _is_stranger(maybe_object(sse.data)):
            return StreamEvent()
        raise
    frame.type = frame.type or sse.event
    return frame


def _is_stranger(found: JsonObject | None) -> bool:
    """Whether a frame is of a type that may have any shape, because we do not know it."""
    if found is None:
        return False
    delta = found.get("delta")
    if isinstance(delta, dict) and "type" in delta and str(delta["type"]) not in _DELTAS:
        return True
    return str(found.get("type")) not in _EVENTS


def _cut_up(body: bytes) -> list[StreamEvent]:
    """Return a whole answer as the stream that would have told it."""
    found = maybe_object(body) or {}
    if "error" in found:
        type, text = read_error(body)
        return [StreamEvent("error", error=Error(type, text))]
    reply = decode_frame(body, _replies)
    if reply.content is None:
        raise BrokenWire("the upstream sent JSON that is no answer")
    frames = [StreamEvent("message_start", message=reply)]
    for i, block in enumerate(reply.content):
        frames += [
            StreamEvent("content_block_start", i, content_block=block),
            StreamEvent("content_block_stop", i),
        ]
    end = Delta(
        stop_reason=reply.stop_reason,
        stop_sequence=reply.stop_sequence,
        stop_details=reply.stop_details,
    )
    return [*frames, StreamEvent("message_delta", delta=end), StreamEvent("message_stop")]


class _Answer:
    """Frames into events."""

    def __init__(self, ids: Ids) -> None:
        self._draft = Draft(ids)
        self._usage = Usage()
        self._claimed: StopReason | None = None
        self._stop_sequence = ""
        self._details: StopDetails | None = None
        self._open: dict[int, _Held] = {}

    def read_all(self, frames: Iterable[StreamEvent]) -> list[Event]:
        said: list[Event] = []
        try:
            for frame in frames:
                said += self._read(frame)
        except BrokenWire as error:
            said += self._draft.fail(error.problem)
        return said

    def fail(self, problem: Problem) -> list[Event]:
        return self._draft.fail(problem)

    def close(self) -> list[Event]:
        """End. Ollama may leave out the last frame; before a stop reason, the answer is cut."""
        if self._claimed:
            return self._finish()
        return self._draft.fail(Truncated("the upstream stopped before its answer ended").problem)

    def _read(self, frame: StreamEvent) -> list[Event]:
        if frame.type == "content_block_delta":
            return self._read_delta(frame.index, frame.delta or Delta())
        if frame.error is not None:
            return self._read_error(frame.error)
        match frame.type:
            case "message_start":
                return self._start(frame.message or Reply())
            case "content_block_start":
                return self._start_block(frame.index, frame.content_block or {})
            case "content_block_stop":
                return self._stop_block(frame.index)
            case "message_delta":
                return self._read_end(frame.delta or Delta(), frame.usage)
            case "message_stop":
                return self._finish()
            case _:
                return []

    def _start(self, reply: Reply) -> list[Event]:
        if self._draft.started:  # a proxy that tried twice says it twice
            return []
        return self._draft.start(id=reply.id, model=reply.model) + self._count(reply.usage)

    def _count(self, counts: Counts | None) -> list[Event]:
        if counts is None:
            return []
        self._usage = read_counts(self._usage, counts)
        return self._draft.usage(self._usage)

    # ── blocks ───────────────────────────────────────────────────────────────

    def _start_block(self, index: int, raw: JsonObject) -> list[Event]:
        said = self._stop_block(index) if index in self._open else []
        kind = raw.get("type")
        if not isinstance(kind, str):
            return said
        held = self._open[index] = _Held()
        if kind not in _BLOCKS:
            held.foreign = Foreign(ORIGIN, kind, raw)
            return said
        block = _read_block(raw)
        held.citations += block.citations or ()
        if kind == "tool_use":
            held.input = block.input or {}
            said += self._draft.call(("call", index), name=block.name, id=block.id)
            for token in seal_caller(block.caller):
                self._draft.tag_call(("call", index), token)
            return said
        if kind == "redacted_thinking":
            token = Opaque(ORIGIN, "redacted", block.data)
            return said + self._draft.seal(token, ("thinking", index))
        said += self._draft.text(block.text or "", ("text", index))
        said += self._draft.think(block.thinking or "", ("thinking", index))
        return said + self._seal(index, block.signature)

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
            case "citations_delta":
                if held is not None and delta.citation:
                    held.citations.append(delta.citation)
                return []
            case _:
                return []

    def _read_input(self, index: int, piece: str) -> list[Event]:
        if not piece or not self._draft.is_open(("call", index)):
            return []
        self._open[index].input = {}  # what the start said is said again here
        return self._draft.arguments(("call", index), piece)

    def _seal(self, index: int, signature: str | None) -> list[Event]:
        said: list[Event] = []
        for token in read_signature(signature):
            said += self._draft.seal(token, ("thinking", index))
        return said

    def _stop_block(self, index: int) -> list[Event]:
        held = self._open.pop(index, None) or _Held()
        if held.foreign is not None:
            return self._draft.add(held.whole(held.foreign))
        said: list[Event] = []
        if held.input:
            said += self._draft.arguments(("call", index), dumps(held.input))
        for citation in held.citations:
            said += self._draft.cite(citation, ("text", index))
        for kind in ("text", "thinking", "call"):
            said += self._draft.end((kind, index))
        return said

    # ── the end ──────────────────────────────────────────────────────────────

    def _read_end(self, delta: Delta, counts: Counts | None) -> list[Event]:
        if delta.stop_reason:
            self._claimed = STOP_REASONS.get(delta.stop_reason, "end")
        if delta.stop_sequence:
            self._stop_sequence = delta.stop_sequence
            # llama.cpp names the sequence and still calls it the end of the turn.
            self._claimed = "stop_sequence" if self._claimed == "end" else self._claimed
        if delta.stop_details:
            self._details = read_details(delta.stop_details)
        return self._count(counts)

    def _finish(self) -> list[Event]:
        said: list[Event] = []
        for index in sorted(self._open):
            said += self._stop_block(index)
        return said + self._draft.finish(
            self._claimed or "end", stop_sequence=self._stop_sequence, details=self._details
        )

    def _read_error(self, error: Error) -> list[Event]:
        type = error.type or ""
        status = ERROR_STATUSES.get(type, 0)
        text = error.message or "the upstream failed without a word"
        return self._draft.fail(read_problem(status, type, text, ERROR_KINDS))


class _Held:
    """What a block keeps for its end."""

    __slots__ = ("citations", "foreign", "input", "pieces")

    def __init__(self) -> None:
        self.input: JsonObject = {}
        """The arguments that stood in the start of a call: Anthropic's own starts have none."""
        self.citations: list[JsonObject] = []
        """They may come before the first character of the text that they belong to."""
        self.foreign: Foreign | None = None
        self.pieces: list[str] = []

    def whole(self, part: Foreign) -> Foreign:
        """Return `part` with the input that came in pieces after its start."""
        input = maybe_object("".join(self.pieces))
        raw = part.raw if input is None else part.raw | {"input": input}
        return Foreign(part.origin, part.kind, raw, text=show_code(raw))


def _read_block(raw: JsonObject) -> Block:
    try:
        return msgspec.convert(raw, Block)
    except msgspec.ValidationError as error:
        raise BrokenWire(f"the upstream sent a block that cannot be read: {error}") from None
