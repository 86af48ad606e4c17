"""`Draft` builds the events of an answer in a legal order.

It emits `Started` first, opens a block before it writes into it, closes open blocks before
`Finished`, ends once, and ignores every later call. Every decoder, the demo model and the text
dialects emit their events through a `Draft`.
"""

from collections.abc import Hashable
from itertools import repeat

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.errors import BrokenWire
from toolbridge.core.fold import PLAIN_END, finished
from toolbridge.core.growing_text import MOST_PIECES, GrowingText
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject, maybe_object, replace_lone_surrogates
from toolbridge.core.messages import (
    Call,
    Foreign,
    Loss,
    Opaque,
    Problem,
    StopDetails,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
)
from toolbridge.core.usage import Usage, plausible

NAMELESS = "unknown"
"""The name of a call without one: clients crash on an empty name but reject an unknown one."""
FLOW = "flow"
"""The key of text and thinking in APIs that do not number their blocks."""

MOST_WRITTEN = 64 * 1024 * 1024
"""The most characters of an answer: the text of a whole answer is in memory until its end."""
_LARGE = 16 * 1024
"""Characters of a piece that is joined at once, so that they are counted."""

_DELTAS: dict[str, type[ev.TextDelta | ev.ThinkingDelta | ev.CallDelta]] = {
    "text": ev.TextDelta,
    "thinking": ev.ThinkingDelta,
    "call": ev.CallDelta,
}


_NO_USAGE = Usage()


class _Block(GrowingText):
    kind: str = "text"
    index: int = 0
    id: str = ""
    name: str = ""
    opaque: list[Opaque] = msgspec.field(default_factory=list)
    citations: list[JsonObject] = msgspec.field(default_factory=list)
    surrogate: str = ""
    """A high surrogate whose low surrogate has not arrived yet."""


class Draft(msgspec.Struct, eq=False):
    """The events of one answer, while it is decoded.

    The caller names blocks by its own keys. Without a key, text and thinking share one: writing
    text ends the open thinking block and the reverse, as in APIs that only append.
    """

    _ids: Ids = msgspec.field(default_factory=Ids)
    _texts: list[GrowingText] = []
    _open: dict[Hashable, _Block] = {}
    _called: dict[str, None] = {}
    """The ids of the calls."""
    _lost: dict[str, None] = {}
    """What was reported as lost."""
    _usage: Usage = _NO_USAGE
    _next: int = 0
    _written: int = 0
    """The characters of all blocks, without the pieces that are not joined yet."""
    _calls: bool = False
    started: bool = False
    ended: bool = False

    @property
    def texts(self) -> list[str]:
        """The text of every text block so far, in their order."""
        return [written.text for written in self._texts]

    @property
    def empty(self) -> bool:
        """Whether no block has been opened yet."""
        return self._next == 0

    def is_open(self, key: Hashable = FLOW) -> bool:
        return key in self._open

    def start(
        self, *, id: str = "", model: str = "", envelope: Foreign | None = None
    ) -> list[ev.Event]:
        """Return `Started`; later calls return nothing."""
        if self.started or self.ended:
            return []
        self.started = True
        return [ev.Started(id or self._ids.message(), model, envelope)]

    def text(self, piece: str, key: Hashable = FLOW) -> list[ev.Event]:
        """Write text. A block is opened by its first character, so no block is empty."""
        block = self._open.get(key)
        if (  # nearly every piece of nearly every stream
            block is not None
            and block.kind == "text"
            and not (block.surrogate or self.ended)
            and piece.isascii()
            and piece
        ):
            pieces = block.pieces
            pieces.append(piece)
            if len(pieces) > MOST_PIECES or len(piece) > _LARGE:
                return [ev.TextDelta(block.index, piece), *self._joined(block)]
            return [ev.TextDelta(block.index, piece)]
        return self._write("text", piece, key)

    def text_pieces(self, pieces: list[str]) -> list[ev.Event]:
        """Write pieces of text one after the other, as `text` does."""
        block = self._open.get(FLOW)
        whole = pieces[0] if len(pieces) == 1 else "".join(pieces)
        if (
            block is None
            or block.kind != "text"
            or block.surrogate
            or self.ended
            or not all(pieces)
            or not (whole.isascii() or replace_lone_surrogates(whole) is whole)
        ):
            return [event for piece in pieces for event in self.text(piece)]
        block.pieces.append(whole)
        events: list[ev.Event] = [*map(ev.TextDelta, repeat(block.index), pieces)]
        if len(block.pieces) > MOST_PIECES or len(whole) > _LARGE:
            events += self._joined(block)
        return events

    def plain(
        self,
        pieces: list[str],
        usage: Usage,
        claimed: StopReason,
        *,
        id: str = "",
        model: str = "",
        envelope: Foreign | None = None,
    ) -> list[ev.Event]:
        """Return the events of an answer that arrived whole and is one text; none for any other.

        They are those of `start`, `text_pieces`, `usage` and `finish`, made at once.
        """
        whole = "".join(pieces)
        if (
            self.started
            or self.ended
            or not whole
            or not all(pieces)
            or not (whole.isascii() or replace_lone_surrogates(whole) is whole)
            or usage == _NO_USAGE
            or plausible(usage) is not usage
        ):
            return []
        self.started = self.ended = True
        return [
            ev.Started(id or self._ids.message(), model, envelope),
            ev.TextStart(0),
            *map(ev.TextDelta, repeat(0), pieces),
            ev.UsageReported(usage),
            ev.TextEnd(0, Text(whole)),
            PLAIN_END if claimed == "end" else finished(claimed, calls=False),
        ]

    def think(self, piece: str, key: Hashable = FLOW, *, field: str = "") -> list[ev.Event]:
        return self._write("thinking", piece, key, field)

    def seal(self, opaque: Opaque, key: Hashable = FLOW) -> list[ev.Event]:
        """Add an opaque token to the thinking at `key`; redacted thinking has nothing else."""
        if self.ended:
            return []
        events: list[ev.Event] = []
        if key not in self._open or (key == FLOW and self._open[key].kind != "thinking"):
            events = self._begin("thinking", key)
        self._open[key].opaque.append(opaque)
        return events

    def cite(self, citation: JsonObject, key: Hashable = FLOW) -> list[ev.Event]:
        """Add a citation to the text at `key`; without an open text it is reported as lost."""
        block = self._open.get(key)
        if block is None or block.kind != "text":
            return self.lose("answer.citations", "they came without the text that they belong to")
        block.citations.append(citation)
        return []

    def call(self, key: Hashable, *, name: str, id: str = "") -> list[ev.Event]:
        """Open a call. A missing or repeated id is replaced."""
        if self.ended:
            return []
        events = self.end(FLOW) + self.end(key)
        while not id or id in self._called:
            id = self._ids.call()
        self._called[id] = None
        self._calls = True
        return events + self._begin("call", key, id, name or NAMELESS)

    def arguments(self, key: Hashable, piece: str) -> list[ev.Event]:
        """Write a piece of the JSON text of a call's arguments."""
        if self.ended or not piece:
            return []
        return self._write_piece(self._open[key], piece)

    def tag_call(self, key: Hashable, opaque: Opaque) -> None:
        if key in self._open:
            self._open[key].opaque.append(opaque)

    def add(self, part: ev.AddedPart) -> list[ev.Event]:
        """Add a block that has no deltas."""
        if self.ended:
            return []
        events = self.start() + self.end(FLOW)
        self._next += 1
        return [*events, ev.PartAdded(self._next - 1, part)]

    def end(self, key: Hashable = FLOW) -> list[ev.Event]:
        """Close the block at `key`, if it is open."""
        block = self._open.pop(key, None)
        return [] if block is None or self.ended else self._close(block)

    def _close(self, block: _Block) -> list[ev.Event]:
        if block.surrogate:  # the low surrogate never arrived
            rest = self._delta(block, "\ufffd")
            block.surrogate = ""
            return rest + self._close(block)
        self._written += sum(map(len, block.pieces))
        written = block.text
        opaque = tuple(block.opaque)
        if block.kind == "text":
            part = Text(written, citations=tuple(block.citations), opaque=opaque)
            return [ev.TextEnd(block.index, part)]
        if block.kind == "thinking":
            return [ev.ThinkingEnd(block.index, Thinking(written, opaque, block.name))]
        return [ev.CallEnd(block.index, _call(block, written))]

    def usage(self, usage: Usage) -> list[ev.Event]:
        """Report the counts of the provider, without those that cannot be right."""
        if self.ended or usage == self._usage:
            return []
        self._usage = usage
        counted = plausible(usage)
        events: list[ev.Event] = [] if self.started else self.start()
        events.append(ev.UsageReported(counted))
        if counted is not usage:
            why = "the provider reported a count that cannot be right"
            events += self.lose("answer.usage", why)
        return events

    def logprobs(self, tokens: tuple[TokenLogprob, ...]) -> list[ev.Event]:
        """Report the log probabilities of tokens of the text."""
        if self.ended or not tokens:
            return []
        return [*self.start(), ev.LogprobsReported(tokens)]

    def alternative(self, choice: int, events: list[ev.Event]) -> list[ev.Event]:
        """Report events of another answer to the same request, which its own draft made."""
        if self.ended:
            return []
        inside = [ev.Alternative(choice, event) for event in events]
        return [*self.start(), *inside]

    def lose(self, what: str, why: str, *, minor: bool = False) -> list[ev.Event]:
        """Report content that events cannot represent, once for each `what`."""
        if self.ended or what in self._lost:
            return []
        self._lost[what] = None
        return [*self.start(), ev.Lost(Loss(what, why, minor))]

    def finish(
        self, claimed: StopReason, *, stop_sequence: str = "", details: StopDetails | None = None
    ) -> list[ev.Event]:
        """Close all blocks and finish. The reason follows from the calls, then from `claimed`."""
        if self.ended:
            return []
        events = [] if self.started else self.start()
        # Blocks are added when they open, so this is the order of their indices.
        for block in self._open.values():
            events += self._close(block)
        self._open.clear()
        self.ended = True
        if claimed == "end" and not self._calls:  # nearly every answer
            events.append(PLAIN_END)
            return events
        end = finished(claimed, calls=self._calls, stop_sequence=stop_sequence, details=details)
        events.append(end)
        return events

    def fail(self, problem: Problem) -> list[ev.Event]:
        """Fail. Open blocks stay open, so that a partial call is never closed.

        Where the error contains what the model wrote, the answer may go on, so text and thinking
        end.
        """
        if self.ended:
            return []
        events = self.start()
        if problem.generated:
            for key in [key for key, block in self._open.items() if block.kind != "call"]:
                events += self.end(key)
        self.ended = True
        return [*events, ev.Failed(problem)]

    def _write(self, kind: str, piece: str, key: Hashable, name: str = "") -> list[ev.Event]:
        if not piece or self.ended:
            return []
        block = self._open.get(key)
        if block is not None and block.kind == kind:
            return self._write_piece(block, piece)
        events = self._begin(kind, key, name=name)
        if not self.ended:
            events += self._write_piece(self._open[key], piece)
        return events

    def _write_piece(self, block: _Block, piece: str) -> list[ev.Event]:
        """Write `piece`, but hold a high surrogate until its low surrogate arrives."""
        if not block.surrogate and piece.isascii():
            return self._delta(block, piece)
        whole = block.surrogate + piece
        block.surrogate = whole[-1] if "\ud800" <= whole[-1] <= "\udbff" else ""
        whole = replace_lone_surrogates(whole[: len(whole) - len(block.surrogate)])
        return self._delta(block, whole) if whole else []

    def _delta(self, block: _Block, piece: str) -> list[ev.Event]:
        block.pieces.append(piece)
        delta = _DELTAS[block.kind](block.index, piece)
        if len(block.pieces) > MOST_PIECES or len(piece) > _LARGE:
            return [delta, *self._joined(block)]
        return [delta]

    def _joined(self, block: _Block) -> list[ev.Event]:
        """Join the pieces of a block, so that they take less memory; fail if they are too many."""
        self._written += sum(map(len, block.pieces))
        block.join()
        return self._too_long() if self._written > MOST_WRITTEN else []

    def _too_long(self) -> list[ev.Event]:
        text = f"the model's answer has more than {MOST_WRITTEN:,} characters; limit it with `max_tokens`"
        return self.fail(BrokenWire(text).problem)

    def _begin(self, kind: str, key: Hashable, id: str = "", name: str = "") -> list[ev.Event]:
        events = [] if self.started else self.start()
        if key in self._open:
            events += self.end(key)
        index = self._next
        self._next += 1
        block = self._open[key] = _Block(kind=kind, index=index, id=id, name=name)
        if kind == "text":
            self._texts.append(block)
            events.append(ev.TextStart(index))
        elif kind == "thinking":
            events.append(ev.ThinkingStart(index, name))
        else:
            events.append(ev.CallStart(index, id, name))
        return events if self._written <= MOST_WRITTEN else events + self._too_long()


def _call(block: _Block, written: str) -> Call:
    opaque = tuple(block.opaque)
    if not written.strip():  # servers often send an empty text for a call without arguments
        return Call(block.id, block.name, opaque=opaque)
    arguments = maybe_object(written)
    if arguments is None:
        return Call(block.id, block.name, raw=written, opaque=opaque)
    return Call(block.id, block.name, arguments, opaque=opaque)
