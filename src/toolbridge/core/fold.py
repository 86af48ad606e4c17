"""Events in, message out: the partial message at any time, the whole one at the end."""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.messages import (
    Call,
    Foreign,
    HealingReport,
    Loss,
    Message,
    Part,
    Problem,
    Step,
    StopDetails,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
)
from toolbridge.core.usage import Usage

BlockEdge: TypeAlias = (
    ev.TextStart
    | ev.ThinkingStart
    | ev.CallStart
    | ev.TextEnd
    | ev.ThinkingEnd
    | ev.CallEnd
    | ev.PartAdded
)


class _Open:
    """A block that is being written. Its pieces are joined once, when somebody asks."""

    __slots__ = ("id", "kind", "name", "pieces")

    def __init__(self, kind: str, id: str = "", name: str = "") -> None:
        self.kind = kind
        self.id = id
        self.name = name
        self.pieces: list[str] = []

    def part(self) -> Part:
        written = "".join(self.pieces)
        if self.kind == "text":
            return Text(written)
        if self.kind == "thinking":
            return Thinking(written, field=self.name)
        return Call(self.id, self.name, raw=written)


class Fold:
    """The message so far. Feeding is cheap; `message` costs as much as the message is long."""

    def __init__(self) -> None:
        self.id = ""
        self.model = ""
        self.envelope: Foreign | None = None
        self.usage = Usage()
        self.healed: list[HealingReport] = []
        self.losses: list[Loss] = []
        self.logprobs: list[TokenLogprob] = []
        self.alternatives: dict[int, Fold] = {}
        self._blocks: dict[int, _Open | Part] = {}
        self._terminal: ev.Finished | ev.Failed | None = None

    def feed(self, event: ev.Event) -> None:
        match event:
            case ev.TextDelta(index, piece) | ev.ThinkingDelta(index, piece):
                self.append(index, piece)
            case ev.CallDelta(index, piece):
                self.append(index, piece)
            case ev.Started(id, model, envelope):
                self.id, self.model, self.envelope = id, model, envelope
            case ev.UsageReported(usage):
                self.usage = usage
            case ev.Healed(_, report):
                self.healed.append(report)
            case ev.LogprobsReported(tokens):
                self.logprobs += tokens
            case ev.Alternative(choice, inner):
                self.alternatives.setdefault(choice, Fold()).feed(inner)
            case ev.Lost(loss):
                self.losses.append(loss)
            case ev.Finished() | ev.Failed():
                self._terminal = event
            case _:
                self._feed_block(event)

    def append(self, index: int, piece: str) -> None:
        """Feed a delta, without making one: the common case, and all that it needs."""
        self._open(index).pieces.append(piece)

    def pieces(self, index: int) -> list[str]:
        """Return what is written of the open block `index`, for whoever goes on writing it."""
        return self._open(index).pieces

    def _feed_block(self, event: BlockEdge) -> None:
        match event:
            case ev.TextStart(index):
                self._blocks[index] = _Open("text")
            case ev.ThinkingStart(index, field):
                self._blocks[index] = _Open("thinking", name=field)
            case ev.CallStart(index, id, name):
                self._blocks[index] = _Open("call", id, name)
            case ev.TextEnd(index, part):
                self._blocks[index] = part
            case ev.ThinkingEnd(index, thought):
                self._blocks[index] = thought
            case ev.CallEnd(index, call):
                self._blocks[index] = call
            case ev.PartAdded(index, added):
                self._blocks[index] = added

    def _open(self, index: int) -> _Open:
        block = self._blocks[index]
        if not isinstance(block, _Open):
            raise TypeError(f"block {index} is closed")
        return block

    def written(self, index: int) -> str:
        """Return what was written into the open block `index`."""
        return "".join(self._open(index).pieces)

    @property
    def message(self) -> Message:
        if self._terminal is not None:
            return self._terminal.message
        return self.finished(None)

    def finished(
        self,
        stop: StopReason | None,
        *,
        stop_sequence: str = "",
        details: StopDetails | None = None,
        problem: Problem | None = None,
    ) -> Message:
        """Return the message as it is now, with its end."""
        blocks = (self._blocks[index] for index in sorted(self._blocks))
        return Message(
            id=self.id,
            model=self.model,
            content=tuple(b.part() if isinstance(b, _Open) else b for b in blocks),
            usage=self.usage,
            stop=stop,
            stop_sequence=stop_sequence,
            stop_details=details,
            logprobs=tuple(self.logprobs),
            healed=tuple(self.healed),
            losses=tuple(self.losses),
            alternatives=tuple(other.message for _, other in sorted(self.alternatives.items())),
            problem=problem,
            envelope=self.envelope,
        )

    def refinish(self, event: ev.Finished | ev.Failed) -> ev.Finished | ev.Failed:
        """Return `event` with the message of this fold: for stages that changed what came before."""
        old = event.message
        if isinstance(event, ev.Failed):
            message = self.finished(old.stop, problem=event.problem)
            return ev.Failed(event.problem, message)
        reason = derive_stop(
            event.reason, calls=any(isinstance(b, Call) for b in self._blocks.values())
        )
        stop_sequence = old.stop_sequence if reason == "stop_sequence" else ""
        details = old.stop_details if reason == "refusal" else None
        message = self.finished(reason, stop_sequence=stop_sequence, details=details)
        return ev.Finished(reason, message)


def derive_stop(claimed: StopReason, *, calls: bool) -> StopReason:
    """Return why the answer stopped: first by what was seen in it, then by what was claimed.

    Servers end a turn of calls with "stop", and claim calls where there is none; a client that
    believes either stalls. A cut, a refusal and the like stand as claimed.
    """
    if calls and claimed in {"end", "stop_sequence"}:
        return "tool_use"
    if not calls and claimed == "tool_use":
        return "end"
    return claimed


def collect(events: Iterable[ev.Event]) -> Message:
    """Return the message that `events` tell."""
    fold = Fold()
    for event in events:
        fold.feed(event)
    return fold.message


OWN_ENDS = frozenset({"end", "tool_use", "stop_sequence"})
"""Reasons with which a model ends by itself; at any other it was interrupted."""


def broken_last(message: Message) -> tuple[Part, ...]:
    """Return the parts for an API whose calls are atomic, as its stream sends them.

    A broken call waits for the end of the answer: where that was cut, the call is left out.
    """
    broken = [part for part in message.content if isinstance(part, Call) and part.raw]
    if not broken:
        return message.content
    whole = tuple(part for part in message.content if part not in broken)
    return (*whole, *broken) if message.stop is None or message.stop in OWN_ENDS else whole


def without_cut_calls(message: Message) -> Message:
    """Return `message` without a call that the end cut off, and with a report of each.

    A stream has shown its beginning already and closes it as it is; a whole reply need not.
    """
    cut = [part for part in message.content if isinstance(part, Call) and part.raw]
    if not cut or message.stop is None or message.stop in OWN_ENDS:
        return message
    known = {report.call_id for report in message.healed}
    reports = tuple(cut_report(call) for call in cut if call.id not in known)
    kept = tuple(part for part in message.content if part not in cut)
    return msgspec.structs.replace(message, content=kept, healed=message.healed + reports)


def cut_report(call: Call) -> HealingReport:
    """Return the report of a call that is left out because the token limit has cut it."""
    step = Step("cut off by the token limit", 0, call.raw[-60:], "")
    return HealingReport(call.id, call.name, 0, (step,))
