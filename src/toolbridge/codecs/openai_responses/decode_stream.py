"""Answers of the Responses API, as our events.

A whole answer is a stream that came at once: its items are read as ends of items that hold
everything. Real servers bend the grammar, and all of these are read: items without a number, items
that nobody announced, arguments that come only at the end, the same number for two items.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from toolbridge.codecs.openai_responses.builtins import BY_CALL
from toolbridge.codecs.openai_responses.decode_output import (
    OUTPUTS,
    OutputItem,
    PictureOutput,
    SpokenOutput,
)
from toolbridge.codecs.openai_responses.marks import read_counts
from toolbridge.codecs.openai_responses.shapes import (
    ERROR_KINDS,
    INCOMPLETE,
    Error,
    Item,
    Reply,
    StreamEvent,
)
from toolbridge.core.draft import Draft
from toolbridge.core.errors import Aborted, BrokenWire, Truncated
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, maybe_object
from toolbridge.core.messages import Problem, StopReason
from toolbridge.wire.rejections import read_error, read_problem, read_rejection
from toolbridge.wire.shapes import decode_frame
from toolbridge.wire.sse import SseEvent as SseFrame
from toolbridge.wire.sse import SseReader

_frames = msgspec.json.Decoder(StreamEvent)
_replies = msgspec.json.Decoder(Reply)

_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_DELTAS = {
    "response.output_text.delta": ("message", "text"),
    "response.refusal.delta": ("message", "refusal"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary"),
    "response.reasoning_text.delta": ("reasoning", "content"),
    "response.reasoning.delta": ("reasoning", "content"),
    "response.function_call_arguments.delta": ("function_call", ""),
    "response.custom_tool_call_input.delta": ("custom_tool_call", ""),
}
_WHOLES = {name.replace(".delta", ".done"): kind for name, kind in _DELTAS.items()}
_OTHERS = frozenset(
    {
        "response.created", "response.in_progress", "response.output_item.added",
        "response.output_item.done", "response.output_text.annotation.added", "error",
    }
)  # fmt: skip


def decode_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    """Read a rejection. What is wrong stands in its code, and in its type where it has none."""
    problem = read_rejection(status, headers, body, ERROR_KINDS)
    error = (maybe_object(body) or {}).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    kind = ERROR_KINDS.get(str(code), problem.kind)
    return problem if problem.kind == "context_overflow" else _as(problem, kind)


def _as(problem: Problem, kind: str) -> Problem:
    return msgspec.structs.replace(problem, kind=kind)


class StreamDecoder:
    """A stream, or a whole body, into events."""

    def __init__(self, ids: Ids) -> None:
        self._answer = _Answer(ids)
        self._sse = SseReader()
        self._begun = False
        self._whole: list[bytes] | None = None
        """The pieces of a body that is one JSON object."""

    def feed(self, piece: bytes, /) -> list[Event]:
        if not self._begun:
            piece = piece.lstrip(b" \t\r\n")
            if not piece:
                return []
            self._begun = True
            self._whole = [] if piece.startswith(b"{") else None
        if self._whole is not None:
            self._whole.append(piece)
            return []
        try:
            return self._read(self._sse.feed(piece))
        except BrokenWire as error:
            return self._answer.fail(error.problem)

    def close(self) -> list[Event]:
        try:
            if self._whole is not None:
                said = self._answer.read_all(_cut_up(b"".join(self._whole)))
            else:
                said = self._read(self._sse.close())
        except BrokenWire as error:
            return self._answer.fail(error.problem)
        return said + self._answer.close()

    def _read(self, frames: list[SseFrame]) -> list[Event]:
        return self._answer.read_all(map(_frame, frames))


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
    type = str(found.get("type"))
    return not any(type in known for known in (_ENDS, _DELTAS, _WHOLES, _OTHERS))


def _cut_up(body: bytes) -> list[StreamEvent]:
    """Return a whole answer as the stream that would have told it."""
    found = maybe_object(body) or {}
    if found.get("error") and "output" not in found:
        type, text = read_error(body)
        return [StreamEvent("error", error=Error(text, type))]
    reply = decode_frame(body, _replies)
    if reply.output is None:
        raise BrokenWire("the upstream sent JSON that is no answer")
    return [
        StreamEvent("response.created", response=reply),
        StreamEvent(f"response.{reply.status or 'completed'}", response=reply),
    ]


class _Answer:
    """Frames into events."""

    def __init__(self, ids: Ids) -> None:
        self._draft = Draft(ids)
        self._outputs: list[OutputItem] = []
        self._open: dict[int | str, OutputItem] = {}
        """By number, or by id at servers that do not number their items."""
        self._named: dict[str, OutputItem] = {}
        """By id, where an item has one: not every event has the number as well."""
        self._last: int | str = ""
        self._ways: dict[str, Callable[[StreamEvent], list[Event]]] = {
            "response.created": self._start,
            "response.in_progress": self._start,
            "response.output_item.added": self._add,
            "response.output_item.done": self._end_item,
            "response.output_text.annotation.added": self._cite,
            "error": self._read_error,
        }

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
        return self._draft.fail(Truncated("the upstream stopped before its answer ended").problem)

    def _read(self, frame: StreamEvent) -> list[Event]:
        if self._draft.ended:
            return []
        if frame.type in _DELTAS:
            return self._write(frame, *_DELTAS[frame.type])
        if frame.type in _WHOLES:
            return self._fill(frame, *_WHOLES[frame.type])
        if frame.type in _ENDS:
            return self._finish(frame.response or Reply(), _ENDS[frame.type])
        if frame.type in self._ways:
            return self._ways[frame.type](frame)
        return self._read_error(frame) if frame.error is not None else []

    def _start(self, frame: StreamEvent) -> list[Event]:
        reply = frame.response or Reply()
        return self._draft.start(id=reply.id, model=reply.model)

    # ── items ────────────────────────────────────────────────────────────────

    def _key(self, frame: StreamEvent, id: str) -> int | str:
        """Return what an event's item is known by: its number first, for ids may change."""
        if frame.output_index is not None:
            self._last = frame.output_index
        elif id and id not in self._named:
            self._last = id
        return self._last

    def _add(self, frame: StreamEvent) -> list[Event]:
        item = _read_item(frame.item or {})
        key = self._key(frame, item.id or "")
        numbered = frame.output_index is not None
        known = self._open.get(key) if numbered else self._named.get(item.id or "")
        if known is not None and _names(known.item) == _names(item):
            return []  # announced twice
        said = self._settle(key)
        if not numbered:
            said += self._settle_flow()
        output = self._open[key] = self._output(item)
        return said + output.begin()

    def _settle_flow(self) -> list[Event]:
        """End what was said before the next item of a server that does not number its items.

        Such a server writes one after the other, but may end all of them only after the last.
        """
        said: list[Event] = []
        for key, output in [*self._open.items()]:
            if output.kind in {"message", "reasoning"}:
                said += self._settle(key)
        return said

    def _output(self, item: Item) -> OutputItem:
        output = OUTPUTS.get(item.type, OutputItem)(self._draft, item)
        self._outputs.append(output)
        if item.id:
            self._named[item.id] = output
        return output

    def _at(self, frame: StreamEvent, kind: str) -> tuple[OutputItem, list[Event]]:
        """Return the item that an event belongs to, be it announced or not."""
        key = self._key(frame, frame.item_id or "")
        for output in (self._named.get(frame.item_id or ""), self._open.get(key)):
            if output is not None and output.kind == kind:
                return output, []
        said = self._settle(key)
        output = self._open[key] = self._output(Item(kind, frame.item_id))
        return output, said

    def _write(self, frame: StreamEvent, kind: str, channel: str) -> list[Event]:
        output, said = self._at(frame, kind)
        if output.done:
            return said
        said += output.write(_piece(frame.delta), _place(frame, channel), channel)
        if frame.logprobs and isinstance(output, SpokenOutput):
            said += output.measure(frame.logprobs)
        return said

    def _fill(self, frame: StreamEvent, kind: str, channel: str) -> list[Event]:
        output, said = self._at(frame, kind)
        if output.done:
            return said
        found = (frame.text, frame.refusal, frame.arguments, frame.input)
        whole = next((text for text in found if text is not None), "")
        return said + output.fill(whole, _place(frame, channel), channel)

    def _cite(self, frame: StreamEvent) -> list[Event]:
        output, said = self._at(frame, "message")
        if isinstance(output, SpokenOutput) and frame.annotation:
            output.cite(frame.annotation, frame.content_index)
        return said

    def _end_item(self, frame: StreamEvent) -> list[Event]:
        raw = frame.item or {}
        item = _read_item(raw)
        key = self._key(frame, item.id or frame.item_id or "")
        for output in (self._named.get(item.id or ""), self._open.get(key)):
            if output is not None and output.kind == _kind(item.type):
                return self._end(output, item, raw)
        said = self._settle(key)
        output = self._open[key] = self._output(item)
        return said + self._end(output, item, raw)

    def _end(self, output: OutputItem, item: Item, raw: JsonObject) -> list[Event]:
        if output.done:
            return []
        output.done = True
        return output.finish(item, raw)

    def _settle(self, key: int | str, status: str | None = None) -> list[Event]:
        """End an item with what came of it so far; its own end may still come, and add to it."""
        output = self._open.pop(key, None)
        if output is None or output.done:
            return []
        return output.finish(Item(output.kind, status=status), {})

    # ── the end ──────────────────────────────────────────────────────────────

    def _finish(self, reply: Reply, claimed: str) -> list[Event]:
        said = self._draft.start(id=reply.id, model=reply.model)
        status = reply.status if f"response.{reply.status}" in _ENDS else claimed
        if status in {"failed", "cancelled"}:
            return said + self._count(reply) + self._fail(reply, status)
        for place, raw in enumerate(reply.output or ()):
            said += self._reconcile(place, raw)
        for key in [*self._open]:
            said += self._settle(key, status)
        return said + self._count(reply) + self._draft.finish(self._stop(reply, status))

    def _reconcile(self, place: int, raw: JsonObject) -> list[Event]:
        """Read an item of the whole answer: it may be the first word on it, or the last."""
        item = _read_item(raw)
        there = self._outputs[place] if place < len(self._outputs) else None
        for known in (self._named.get(item.id or ""), there):
            if known is not None and known.kind == _kind(item.type):
                return self._end(known, item, raw)
        return self._end(self._output(item), item, raw)

    def _stop(self, reply: Reply, status: str) -> StopReason:
        if status == "incomplete":
            reason = reply.incomplete_details and reply.incomplete_details.reason
            return INCOMPLETE.get(reason or "", "length")
        spoken = (output for output in self._outputs if isinstance(output, SpokenOutput))
        return "refusal" if any(output.refused for output in spoken) else "end"

    def _count(self, reply: Reply) -> list[Event]:
        return self._draft.usage(read_counts(reply.usage)) if reply.usage else []

    def _fail(self, reply: Reply, status: str) -> list[Event]:
        if status == "cancelled":
            return self._draft.fail(Aborted("the answer was cancelled at the upstream").problem)
        return self._fail_with(reply.error or Error())

    def _read_error(self, frame: StreamEvent) -> list[Event]:
        return self._fail_with(frame.error or Error(frame.message, code=frame.code))

    def _fail_with(self, error: Error) -> list[Event]:
        text = error.message or "the upstream failed without a word"
        code = error.code if isinstance(error.code, str) else error.type or ""
        return self._draft.fail(read_problem(0, code, text, ERROR_KINDS))


def _place(frame: StreamEvent, channel: str) -> int:
    return frame.summary_index if channel == "summary" else frame.content_index


def _piece(delta: Json) -> str:
    """Return the text of a delta; an early draft of the API wrapped it."""
    if isinstance(delta, dict):
        delta = delta.get("text")
    return delta if isinstance(delta, str) else ""


def _names(item: Item) -> tuple[str, str | None, str | None]:
    return item.type, item.id, item.call_id


def _kind(type: str) -> str:
    return type if type in OUTPUTS else ""


_READ = OUTPUTS.keys() - BY_CALL.keys() - {PictureOutput.kind}
"""The items that are read whole."""
_NAMES = ("id", "call_id", "status")
"""What is read of an item whose other fields may have any shape."""


def _read_item(raw: JsonObject) -> Item:
    type = raw.get("type")
    if not isinstance(type, str) or type not in _READ:
        names = {name: raw[name] for name in _NAMES if isinstance(raw.get(name), str)}
        return msgspec.convert(names | {"type": str(type or "")}, Item)
    try:
        return msgspec.convert(raw, Item)
    except msgspec.ValidationError as error:
        raise BrokenWire(f"the upstream sent an item that cannot be read: {error}") from None
