"""Our events in the words of pi's contract: what `toolbridge.stream` yields.

A type, the place of the block in the message, and the message so far. That message is made when
somebody looks at it: a delta must not cost as much as all that came before it.
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
"""A refusal is an error there; its message says that it was one."""


class _Log:
    """All that was said, folded as far as somebody has looked."""

    def __init__(self) -> None:
        self._said: list[ev.Event] = []
        self._fold = Fold()
        self._folded = 0

    @property
    def size(self) -> int:
        return len(self._said)

    def add(self, event: ev.Event) -> int:
        self._said.append(event)
        return len(self._said)

    def message(self, size: int) -> Message:
        """Return the message after `size` events."""
        if size < self._folded:
            self._fold, self._folded = Fold(), 0
        for event in self._said[self._folded : size]:
            self._fold.feed(event)
        self._folded = size
        return self._fold.message


class Moment:
    """A place in an answer."""

    __slots__ = ("_log", "_size")

    def __init__(self, log: _Log, size: int) -> None:
        self._log = log
        self._size = size

    def __repr__(self) -> str:
        return f"Moment({self._size})"

    @property
    def message(self) -> Message:
        """The message as it was then; a call that is being written has the arguments so far."""
        message = self._log.message(self._size)
        return replace(message, content=tuple(map(_readable, message.content)))

    @property
    def last_message(self) -> Message:
        """The message at the end: a call that was cut has no arguments, so that it is not run."""
        return self._log.message(self._size)


def _readable(part: Part) -> Part:
    """Return an unfinished call with its arguments as far as they can be read."""
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
        """The message as far as it had come with this event."""
        return self.moment.message


class _BlockEvent(_Event, frozen=True):
    content_index: int
    """The place of the block in `partial.content`."""


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
    """The answer as far as it came; its `problem` says what is wrong."""


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
    """A stage: our events in, pi's out. Counts, healing and losses stand in the message, not between."""

    def __init__(self) -> None:
        self._log = _Log()
        self._blocks: list[int] = []

    @property
    def message(self) -> Message:
        """The message as far as it was told."""
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
                self._place(index)
                return []
            case ev.UsageReported() | ev.LogprobsReported() | ev.Healed():
                return []
            case ev.Lost() | ev.Alternative():
                return []
            case _:
                return [self._block(now, event)]

    def _block(self, now: Moment, event: "_OfBlock") -> PiEvent:
        at = self._place(event.index)
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

    def _place(self, index: int) -> int:
        """Return where the block `index` stands among those that were seen."""
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
