"""The fold: events in, one message out.

The code that needs a message holds one `Fold`: the gateway's reply, the streams of the SDK,
`AnswerAttempts.message`. No stage of the pipe builds a message; `Finished` carries the reason
why the answer stopped, and this module derives that reason.
"""

from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TypeAlias

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.growing_text import MOST_PIECES, GrowingText
from toolbridge.core.messages import (
    Call,
    Foreign,
    HealingReport,
    Loss,
    Message,
    Part,
    Step,
    StopDetails,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
)
from toolbridge.core.usage import Usage

BlockEdge: TypeAlias = ev.ThinkingStart | ev.CallStart | ev.ThinkingEnd | ev.CallEnd | ev.PartAdded
WrittenPiece: TypeAlias = ev.TextDelta | ev.ThinkingDelta | ev.CallDelta
AnswerReport: TypeAlias = ev.Healed | ev.LogprobsReported | ev.Alternative | ev.Lost


class _OpenBlock(GrowingText):
    """A block that has not ended. Its text is made only when the message is read."""

    kind: str = "text"
    id: str = ""
    name: str = ""

    def part(self) -> Part:
        written = self.text
        if self.kind == "text":
            return Text(written)
        if self.kind == "thinking":
            return Thinking(written, field=self.name)
        return Call(self.id, self.name, raw=written)


class Fold(msgspec.Struct, eq=False):
    """The message that the events so far describe.

    Feeding an event is cheap; reading `message` takes as long as the message is. The end of a
    block carries the whole block, so a consumer that reads the message of finished answers only
    may leave out the deltas, as the stream encoders do.
    """

    _parts: "_FoldedParts | None" = None
    """What the events before those that wait describe."""
    _message: Message | None = None
    """The message of an answer that has ended; that of a running one would keep its text twice."""
    _waiting: list[ev.Event] = []

    def feed(self, event: ev.Event) -> None:
        self._message = None
        self._waiting.append(event)
        if len(self._waiting) > _MOST_WAITING:
            self._folded()

    def feed_all(self, events: list[ev.Event]) -> None:
        """Feed events in their order."""
        if self._message is not None:
            self._message = None
        waiting = self._waiting
        waiting += events
        if len(waiting) > _MOST_WAITING:
            self._folded()

    @property
    def id(self) -> str:
        return self._folded().id

    @property
    def losses(self) -> list[Loss]:
        return self._folded().losses

    @property
    def message(self) -> Message:
        """The message so far; it has a `stop` once `Finished` or `Failed` was fed."""
        if self._message is None:
            message = plain_message(self._waiting) if self._parts is None else None
            if message is None:
                message = self._folded().message()
            if message.stop is None:
                return message
            self._message = message
        return self._message

    def so_far(self) -> tuple[Usage, int]:
        """Return the usage of `message`, and how many characters the model wrote, without making it."""
        parts = self._folded()
        return parts.usage, parts.written()

    def _folded(self) -> "_FoldedParts":
        if self._parts is None:
            self._parts = _FoldedParts()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._parts.feed_all(waiting)
        return self._parts


_MOST_WAITING = 64
"""Events that are folded together."""
AROUND_TEXT = 5
"""Events of an answer of one text beside its deltas."""


def plain_message(events: list[ev.Event]) -> Message | None:
    """Return the message of a whole answer that is one text, as most are; None for any other.

    Its events are `Started`, `TextStart`, deltas, `UsageReported`, `TextEnd` and `Finished`, and
    every API can represent it without losses.
    """
    if len(events) < AROUND_TEXT:
        return None
    started, last, usage, text = events[0], events[-1], events[-3], events[-2]
    if (
        isinstance(last, ev.Finished)
        and isinstance(started, ev.Started)
        and isinstance(text, ev.TextEnd)
        and isinstance(usage, ev.UsageReported)
        and isinstance(events[1], ev.TextStart)
        and not text.text.citations
        and last.details is None
        and [*map(type, events)].count(ev.TextDelta) == len(events) - AROUND_TEXT
    ):
        return Message(
            id=started.id,
            model=started.model,
            content=(text.text,),
            usage=usage.usage,
            stop=last.reason,
            stop_sequence=last.stop_sequence,
            envelope=started.envelope,
        )
    return None


def whole_text(events: list[ev.Event]) -> str:
    """Return the text of an answer that is only this, whole and in one piece; "" for any other."""
    if [*map(type, events)] != _WHOLE or events[-1] != PLAIN_END:
        return ""
    first, piece, end = events[1], events[2], events[4]
    if (
        isinstance(first, ev.TextStart)
        and isinstance(piece, ev.TextDelta)
        and isinstance(end, ev.TextEnd)
        and first.index == 0
        and end.text.text == piece.text
    ):
        return piece.text
    return ""


_WHOLE = [ev.Started, ev.TextStart, ev.TextDelta, ev.UsageReported, ev.TextEnd, ev.Finished]


class _FoldedParts:
    """The parts of a message, from any events."""

    id = ""
    _model = ""
    _envelope: Foreign | None = None
    usage = Usage()
    _terminal: ev.Finished | ev.Failed | None = None

    def __init__(self) -> None:
        self._healed: list[HealingReport] = []
        self.losses: list[Loss] = []
        self._logprobs: list[TokenLogprob] = []
        self._alternatives: dict[int, Fold] = {}
        self._blocks: dict[int, _OpenBlock | Part] = {}

    def feed_all(self, events: list[ev.Event]) -> None:
        """Feed events: one call for all pieces of a text.

        The end of a block has its whole text, so the pieces of a block that ends with them add
        nothing.
        """
        texts: list[ev.TextDelta] = []
        for kind, run in groupby(events, type):
            if kind is ev.TextDelta:
                texts += run  # type: ignore[arg-type]  # the types of a group are those of all
            else:
                for event in run:
                    self._feed(event)
        indices = {*map(_index_of, texts)}
        for index in indices:
            block = self._blocks[index]
            if type(block) is _OpenBlock:
                own = texts if len(indices) == 1 else [one for one in texts if one.index == index]
                block.pieces += map(_text_of, own)
                if len(block.pieces) > MOST_PIECES:
                    block.join()
            elif ev.TextEnd not in map(type, events):
                raise TypeError(f"block {index} is closed")

    def _feed(self, event: ev.Event) -> None:
        # Every answer has these; a `match` takes twice as long.
        if isinstance(event, ev.TextStart):
            self._blocks[event.index] = _OpenBlock()
        elif isinstance(event, ev.TextEnd):
            self._blocks[event.index] = event.text
        elif isinstance(event, ev.Started):
            self.id, self._model, self._envelope = event.id, event.model, event.envelope
        elif isinstance(event, ev.UsageReported):
            self.usage = event.usage
        elif isinstance(event, ev.Finished):
            self._terminal = event
        else:
            self._feed_other(event)

    def _feed_other(self, event: ev.Failed | WrittenPiece | AnswerReport | BlockEdge) -> None:
        match event:
            case ev.TextDelta(index, piece) | ev.ThinkingDelta(index, piece):
                self._append(index, piece)
            case ev.CallDelta(index, piece):
                self._append(index, piece)
            case ev.Failed():
                self._terminal = event
            case ev.Healed() | ev.LogprobsReported() | ev.Alternative() | ev.Lost():
                self._feed_report(event)
            case _:
                self._feed_block(event)

    def _feed_report(self, event: AnswerReport) -> None:
        match event:
            case ev.Healed(_, report):
                self._healed.append(report)
            case ev.LogprobsReported(tokens):
                self._logprobs += tokens
            case ev.Alternative(choice, inner):
                self._alternatives.setdefault(choice, Fold()).feed(inner)
            case ev.Lost(loss):
                self.losses.append(loss)

    def _append(self, index: int, piece: str) -> None:
        block = self._blocks[index]
        if not isinstance(block, _OpenBlock):
            raise TypeError(f"block {index} is closed")
        block.pieces.append(piece)
        if len(block.pieces) > MOST_PIECES:
            block.join()

    def _feed_block(self, event: BlockEdge) -> None:
        match event:
            case ev.ThinkingStart(index, field):
                self._blocks[index] = _OpenBlock(kind="thinking", name=field)
            case ev.CallStart(index, id, name):
                self._blocks[index] = _OpenBlock(kind="call", id=id, name=name)
            case ev.ThinkingEnd(index, thought):
                self._blocks[index] = thought
            case ev.CallEnd(index, call):
                self._blocks[index] = call
            case ev.PartAdded(index, added):
                self._blocks[index] = added

    def written(self) -> int:
        total = 0
        for block in self._blocks.values():
            if not isinstance(block, _OpenBlock):
                total += written_length(block)
            elif block.kind == "call":
                total += written_length(block.part())
            else:
                total += block.length
        for other in self._alternatives.values():
            total += other.so_far()[1]
        return total

    def message(self) -> Message:
        end = self._terminal
        blocks = [block for _, block in sorted(self._blocks.items(), key=_index)]
        content = [b.part() if isinstance(b, _OpenBlock) else b for b in blocks]
        others = sorted(self._alternatives.items()) if self._alternatives else ()
        return Message(
            id=self.id,
            model=self._model,
            content=tuple(content),
            usage=self.usage,
            stop=None if end is None else _stop_of(end),
            stop_sequence=end.stop_sequence if isinstance(end, ev.Finished) else "",
            stop_details=end.details if isinstance(end, ev.Finished) else None,
            logprobs=tuple(self._logprobs),
            healed=tuple(self._healed),
            losses=tuple(self.losses),
            alternatives=tuple([other.message for _, other in others]) if others else (),
            problem=end.problem if isinstance(end, ev.Failed) else None,
            envelope=self._envelope,
        )


def written_length(part: Part) -> int:
    """Return how many characters of a part the model wrote."""
    if isinstance(part, Text | Thinking):
        return len(part.text)
    if isinstance(part, Call):
        return len(part.name) + len(part.raw or msgspec.json.encode(part.arguments))
    return 0


_index = itemgetter(0)
_index_of = attrgetter("index")
_text_of = attrgetter("text")


def _stop_of(end: ev.Finished | ev.Failed) -> StopReason:
    if isinstance(end, ev.Finished):
        return end.reason
    return "aborted" if end.problem.kind == "aborted" else "error"


def finished(
    claimed: StopReason,
    *,
    calls: bool,
    stop_sequence: str = "",
    details: StopDetails | None = None,
) -> ev.Finished:
    """Return the end of an answer, with the reason that `derive_stop` gives.

    A stop sequence and the details of a refusal are kept only where they are the reason.
    """
    reason = derive_stop(claimed, calls=calls)
    stop_sequence = stop_sequence if reason == "stop_sequence" else ""
    return ev.Finished(reason, stop_sequence, details if reason == "refusal" else None)


PLAIN_END = ev.Finished("end")
"""The end of nearly every answer."""


def settled_end(event: ev.Finished, *, calls: bool) -> ev.Finished:
    """Return the end of an answer to which a stage has added calls or from which it removed them."""
    if event == PLAIN_END and not calls:
        return event
    return finished(
        event.reason, calls=calls, stop_sequence=event.stop_sequence, details=event.details
    )


def derive_stop(claimed: StopReason, *, calls: bool) -> StopReason:
    """Return why the answer stopped, from its content first and then from the upstream's claim.

    Some servers end a turn of calls with "stop", and others claim calls where the answer has
    none; a client that follows either claim waits forever. Other reasons stay as claimed.
    """
    if calls and claimed in {"end", "stop_sequence"}:
        return "tool_use"
    if not calls and claimed == "tool_use":
        return "end"
    return claimed


def collect(events: list[ev.Event]) -> Message:
    """Return the message that `events` describe."""
    fold = Fold()
    fold.feed_all(events)
    return fold.message


OWN_ENDS = frozenset({"end", "tool_use", "stop_sequence"})
"""Stop reasons of an answer that the model ended itself; others interrupted it."""


def broken_last(message: Message) -> tuple[Part, ...]:
    """Return the parts of `message` in the order in which streams of atomic calls send them.

    Such a stream holds a broken call until the answer ends, and omits it from an interrupted one.
    """
    broken = [part for part in message.content if isinstance(part, Call) and part.raw]
    if not broken:
        return message.content
    whole = tuple(part for part in message.content if part not in broken)
    return (*whole, *broken) if message.stop is None or message.stop in OWN_ENDS else whole


def without_cut_calls(message: Message) -> Message:
    """Return `message` without calls that were cut off, and with a report of each.

    Only for whole bodies: a stream has sent the beginning of such a call already.
    """
    if message.stop is None or message.stop in OWN_ENDS:
        return message
    cut = [part for part in message.content if isinstance(part, Call) and part.raw]
    if not cut:
        return message
    known = {report.call_id for report in message.healed}
    reports = tuple(cut_report(call) for call in cut if call.id not in known)
    kept = tuple(part for part in message.content if part not in cut)
    return msgspec.structs.replace(message, content=kept, healed=message.healed + reports)


def cut_report(call: Call) -> HealingReport:
    """Return the report of a call that is left out because the token limit cut it off."""
    step = Step("cut off by the token limit", 0, call.raw[-60:], "")
    return HealingReport(call.id, call.name, 0, (step,))
