"""The events of pi's API: what `toolbridge.stream` yields.

An event has a type, the index of its block, and the message so far (`partial`). That message is built
only when it is read, so that a delta does not cost as much as the whole answer before it.
"""

from bisect import bisect_left, insort
from typing import ClassVar, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from toolbridge.core import events as ev
from toolbridge.core.fold import Fold
from toolbridge.core.messages import Call, Message, Part, StopReason
from toolbridge.wire.json_stream import JsonReader

DoneReason: TypeAlias = Literal["stop", "length", "toolUse"]
ErrorReason: TypeAlias = Literal["error", "aborted"]

_DONE: dict[StopReason, DoneReason] = {
    "end": "stop",
    "stop_sequence": "stop",
    "pause": "stop",
    "length": "length",
    "context_overflow": "length",
    "tool_use": "toolUse",
}
"""Our stop reasons → pi's. A refusal is an error in pi; its message has the stop reason."""


class _Log:
    """All events of an answer, folded as far as a message was read."""

    def __init__(self) -> None:
        self._events: list[ev.Event] = []
        self._fold = Fold()
        self._folded = 0

    @property
    def size(self) -> int:
        return len(self._events)

    def add(self, event: ev.Event) -> int:
        self._events.append(event)
        return len(self._events)

    def message(self, size: int) -> Message:
        """Return the message after `size` events."""
        if size < self._folded:
            self._fold, self._folded = Fold(), 0
        for event in self._events[self._folded : size]:
            self._fold.feed(event)
        self._folded = size
        return self._fold.message


class Moment:
    """A position in an answer."""

    __slots__ = ("_log", "_size")

    def __init__(self, log: _Log, size: int) -> None:
        self._log = log
        self._size = size

    def __repr__(self) -> str:
        return f"Moment({self._size})"

    @property
    def message(self) -> Message:
        """The message at this position; an incomplete call has its arguments so far."""
        message = self._log.message(self._size)
        return replace(message, content=tuple(map(_readable, message.content)))

    @property
    def last_message(self) -> Message:
        """The message at the end: a call that was cut has no arguments, so that it is not run."""
        return self._log.message(self._size)


def _readable(part: Part) -> Part:
    """Return an incomplete call with its arguments as far as they can be parsed."""
    if not isinstance(part, Call) or not part.raw:
        return part
    reader = JsonReader()
    reader.feed(part.raw)
    value = reader.value
    return replace(part, arguments=value) if isinstance(value, dict) else part


class _Event(msgspec.Struct, frozen=True):
    type: ClassVar[str]
    moment: Moment

    @property
    def partial(self) -> Message:
        """The message up to this event."""
        return self.moment.message


class _BlockEvent(_Event, frozen=True):
    content_index: int
    """The index of the block in `partial.content`."""


class _Delta(_BlockEvent, frozen=True):
    delta: str


class _TextualEnd(_BlockEvent, frozen=True):
    content: str
    """The whole block."""


class Start(_Event, frozen=True):
    type: ClassVar[Literal["start"]] = "start"


class TextStart(_BlockEvent, frozen=True):
    type: ClassVar[Literal["text_start"]] = "text_start"


class TextDelta(_Delta, frozen=True):
    type: ClassVar[Literal["text_delta"]] = "text_delta"


class TextEnd(_TextualEnd, frozen=True):
    type: ClassVar[Literal["text_end"]] = "text_end"


class ThinkingStart(_BlockEvent, frozen=True):
    type: ClassVar[Literal["thinking_start"]] = "thinking_start"


class ThinkingDelta(_Delta, frozen=True):
    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"


class ThinkingEnd(_TextualEnd, frozen=True):
    type: ClassVar[Literal["thinking_end"]] = "thinking_end"


class ToolCallStart(_BlockEvent, frozen=True):
    type: ClassVar[Literal["toolcall_start"]] = "toolcall_start"


class ToolCallDelta(_Delta, frozen=True):
    type: ClassVar[Literal["toolcall_delta"]] = "toolcall_delta"


class ToolCallEnd(_BlockEvent, frozen=True):
    type: ClassVar[Literal["toolcall_end"]] = "toolcall_end"
    tool_call: Call


class Done(_Event, frozen=True):
    type: ClassVar[Literal["done"]] = "done"
    reason: DoneReason
    message: Message


class Error(_Event, frozen=True):
    type: ClassVar[Literal["error"]] = "error"
    reason: ErrorReason
    error: Message
    """The partial message; its `problem` is the error."""


PiEvent: TypeAlias = (
    Start
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | Done
    | Error
)


class PiEncoder:
    """A stage from our events to pi's. Usage, healing and losses are only in the message."""

    def __init__(self) -> None:
        self._log = _Log()
        self._blocks: list[int] = []

    @property
    def message(self) -> Message:
        """The message so far."""
        return Moment(self._log, self._log.size).message

    def feed(self, event: ev.Event, /) -> list[PiEvent]:
        now = Moment(self._log, self._log.add(event))
        match event:
            case ev.Started():
                return [Start(now)]
            case ev.Finished(reason):
                return [_end(now, reason)]
            case ev.Failed(problem):
                why: ErrorReason = "aborted" if problem.kind == "aborted" else "error"
                return [Error(now, why, now.last_message)]
            case ev.PartAdded(index):
                self._position(index)
                return []
            case ev.UsageReported() | ev.LogprobsReported() | ev.Healed():
                return []
            case ev.Lost() | ev.Alternative():
                return []
            case _:
                return [self._block(now, event)]

    def _block(self, now: Moment, event: "_OfBlock") -> PiEvent:
        at = self._position(event.index)
        match event:
            case ev.TextStart():
                return TextStart(now, at)
            case ev.TextDelta(_, piece):
                return TextDelta(now, at, piece)
            case ev.TextEnd(_, text):
                return TextEnd(now, at, text.text)
            case ev.ThinkingStart():
                return ThinkingStart(now, at)
            case ev.ThinkingDelta(_, piece):
                return ThinkingDelta(now, at, piece)
            case ev.ThinkingEnd(_, thinking):
                return ThinkingEnd(now, at, thinking.text)
            case ev.CallStart():
                return ToolCallStart(now, at)
            case ev.CallDelta(_, piece):
                return ToolCallDelta(now, at, piece)
            case ev.CallEnd(_, call):
                return ToolCallEnd(now, at, call)

    def _position(self, index: int) -> int:
        """Return the position of the block `index` among the blocks so far."""
        at = bisect_left(self._blocks, index)
        if at == len(self._blocks) or self._blocks[at] != index:
            insort(self._blocks, index)
        return at

    def close(self) -> list[PiEvent]:
        return []


_OfBlock: TypeAlias = (
    ev.TextStart
    | ev.TextDelta
    | ev.TextEnd
    | ev.ThinkingStart
    | ev.ThinkingDelta
    | ev.ThinkingEnd
    | ev.CallStart
    | ev.CallDelta
    | ev.CallEnd
)


def _end(now: Moment, reason: StopReason) -> Done | Error:
    done = _DONE.get(reason)
    message = now.last_message
    return Error(now, "error", message) if done is None else Done(now, done, message)
