"""An answer while it is being written: the only way in which events are made.

A `Draft` cannot say anything illegal. It starts before it speaks, opens a block before it writes
into it, closes what is open before it finishes, ends once, and is silent afterwards. Every decoder,
the demo model and the text dialects write through one.
"""

from collections.abc import Hashable

from toolbridge.core import events as ev
from toolbridge.core.fold import finished
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject, maybe_object, replace_lone_surrogates
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Loss,
    Opaque,
    Problem,
    StopDetails,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
)
from toolbridge.core.usage import Usage

NAMELESS = "unknown"
"""The name of a call without one: clients stop at an empty name, but tell the model of a wrong one."""
FLOW = "flow"
"""The key of running text or thought in APIs that do not number their blocks."""

_DELTAS: dict[str, type[ev.TextDelta | ev.ThinkingDelta | ev.CallDelta]] = {
    "text": ev.TextDelta,
    "thinking": ev.ThinkingDelta,
    "call": ev.CallDelta,
}


class _Block:
    __slots__ = ("citations", "delta", "half", "id", "index", "kind", "name", "opaque", "pieces")

    def __init__(self, kind: str, index: int, id: str = "", name: str = "") -> None:
        self.kind = kind
        self.index = index
        self.id = id
        self.name = name
        self.opaque: list[Opaque] = []
        self.citations: list[JsonObject] = []
        self.delta = _DELTAS[kind]
        self.pieces: list[str] = []
        self.half = ""
        """The first half of a surrogate pair whose second half has not come yet."""


class Draft:
    """Turns what a decoder understood into events.

    Blocks are named by the caller's keys. Without a key, text and thought share one flow: writing
    the one ends the other, as in APIs that only ever append.
    """

    def __init__(self, ids: Ids | None = None) -> None:
        self._ids = ids or Ids()
        self._usage = Usage()
        self._texts: list[list[str]] = []
        self._open: dict[Hashable, _Block] = {}
        self._next = 0
        self._called: set[str] = set()
        self._lost: set[str] = set()
        self._calls = False
        self.started = False
        self.ended = False

    @property
    def texts(self) -> list[str]:
        """The text of every text block so far, in their order."""
        return ["".join(pieces) for pieces in self._texts]

    @property
    def empty(self) -> bool:
        """Whether no block was opened yet."""
        return self._next == 0

    def is_open(self, key: Hashable = FLOW) -> bool:
        return key in self._open

    def start(
        self, *, id: str = "", model: str = "", envelope: Foreign | None = None
    ) -> list[ev.Event]:
        """Begin, once; later calls say nothing."""
        if self.started or self.ended:
            return []
        self.started = True
        return [ev.Started(id or self._ids.message(), model, envelope)]

    def text(self, piece: str, key: Hashable = FLOW) -> list[ev.Event]:
        """Write text. A block opens with its first character, so there are no empty ones."""
        block = self._open.get(key)
        if (  # nearly every piece of nearly every stream
            block is not None
            and block.kind == "text"
            and not (block.half or self.ended)
            and piece.isascii()
            and piece
        ):
            block.pieces.append(piece)
            return [ev.TextDelta(block.index, piece)]
        return self._write("text", piece, key)

    def think(self, piece: str, key: Hashable = FLOW, *, field: str = "") -> list[ev.Event]:
        return self._write("thinking", piece, key, field)

    def seal(self, opaque: Opaque, key: Hashable = FLOW) -> list[ev.Event]:
        """Give the thought at `key` its opaque token; thinking that is hidden is nothing else."""
        if self.ended:
            return []
        said: list[ev.Event] = []
        if key not in self._open or (key == FLOW and self._open[key].kind != "thinking"):
            said = self._begin("thinking", key)
        self._open[key].opaque.append(opaque)
        return said

    def cite(self, citation: JsonObject, key: Hashable = FLOW) -> list[ev.Event]:
        """Give the text at `key` a citation. One that comes after its text has no place."""
        block = self._open.get(key)
        if block is None or block.kind != "text":
            return self.lose("answer.citations", "they came without the text that they belong to")
        block.citations.append(citation)
        return []

    def call(self, key: Hashable, *, name: str, id: str = "") -> list[ev.Event]:
        """Open a call. An id that is missing or was used before is replaced."""
        if self.ended:
            return []
        said = self.end(FLOW) + self.end(key)
        while not id or id in self._called:
            id = self._ids.call()
        self._called.add(id)
        self._calls = True
        return said + self._begin("call", key, id, name or NAMELESS)

    def arguments(self, key: Hashable, piece: str) -> list[ev.Event]:
        """Write a piece of a call's arguments, as JSON text."""
        if self.ended or not piece:
            return []
        return self._pour(self._open[key], piece)

    def tag_call(self, key: Hashable, opaque: Opaque) -> None:
        if key in self._open:
            self._open[key].opaque.append(opaque)

    def add(self, part: Image | Foreign) -> list[ev.Event]:
        """Add a block that came whole."""
        if self.ended:
            return []
        said = self.start() + self.end(FLOW)
        self._next += 1
        return [*said, ev.PartAdded(self._next - 1, part)]

    def end(self, key: Hashable = FLOW) -> list[ev.Event]:
        """Close the block at `key`, if it is open."""
        block = self._open.pop(key, None)
        if block is None or self.ended:
            return []
        if block.half:  # its second half never came
            return self._delta(block, "\ufffd") + self._close(block)
        return self._close(block)

    def _close(self, block: _Block) -> list[ev.Event]:
        written = "".join(block.pieces)
        opaque = tuple(block.opaque)
        if block.kind == "text":
            part = Text(written, citations=tuple(block.citations), opaque=opaque)
            return [ev.TextEnd(block.index, part)]
        if block.kind == "thinking":
            return [ev.ThinkingEnd(block.index, Thinking(written, opaque, block.name))]
        return [ev.CallEnd(block.index, _call(block, written))]

    def usage(self, usage: Usage) -> list[ev.Event]:
        if self.ended or usage == self._usage:
            return []
        self._usage = usage
        return [*self.start(), ev.UsageReported(usage)]

    def logprobs(self, tokens: tuple[TokenLogprob, ...]) -> list[ev.Event]:
        """Report how likely tokens of the text were."""
        if self.ended or not tokens:
            return []
        return [*self.start(), ev.LogprobsReported(tokens)]

    def alternative(self, choice: int, events: list[ev.Event]) -> list[ev.Event]:
        """Report what another answer to the same request does; its own draft wrote `events`."""
        if self.ended:
            return []
        said = self.start()
        for event in events:
            said.append(ev.Alternative(choice, event))
        return said

    def lose(self, what: str, why: str, *, minor: bool = False) -> list[ev.Event]:
        """Report something of the answer that events cannot hold, once for each `what`."""
        if self.ended or what in self._lost:
            return []
        self._lost.add(what)
        return [*self.start(), ev.Lost(Loss(what, why, minor))]

    def finish(
        self, claimed: StopReason, *, stop_sequence: str = "", details: StopDetails | None = None
    ) -> list[ev.Event]:
        """End well. The reason follows what was said, then what the upstream claims."""
        if self.ended:
            return []
        said = self.start()
        # A block is added when it opens, so their order is that of their indices.
        for key in list(self._open):
            said += self.end(key)
        self.ended = True
        end = finished(claimed, calls=self._calls, stop_sequence=stop_sequence, details=details)
        return [*said, end]

    def fail(self, problem: Problem) -> list[ev.Event]:
        """End badly, with all that came before; what is open stays open."""
        if self.ended:
            return []
        said = self.start()
        self.ended = True
        return [*said, ev.Failed(problem)]

    def _write(self, kind: str, piece: str, key: Hashable, name: str = "") -> list[ev.Event]:
        if not piece or self.ended:
            return []
        block = self._open.get(key)
        if block is not None and block.kind == kind:
            return self._pour(block, piece)
        said = self._begin(kind, key, name=name)
        return said + self._pour(self._open[key], piece)

    def _pour(self, block: _Block, piece: str) -> list[ev.Event]:
        """Write `piece`, but hold a half of a surrogate pair until the other half comes."""
        if not block.half and piece.isascii():
            return self._delta(block, piece)
        whole = block.half + piece
        block.half = whole[-1] if "\ud800" <= whole[-1] <= "\udbff" else ""
        whole = replace_lone_surrogates(whole[: len(whole) - len(block.half)])
        return self._delta(block, whole) if whole else []

    def _delta(self, block: _Block, piece: str) -> list[ev.Event]:
        block.pieces.append(piece)
        return [block.delta(block.index, piece)]

    def _begin(self, kind: str, key: Hashable, id: str = "", name: str = "") -> list[ev.Event]:
        said = self.start() + self.end(key)
        index = self._next
        self._next += 1
        block = self._open[key] = _Block(kind, index, id, name)
        if kind == "text":
            self._texts.append(block.pieces)
            return [*said, ev.TextStart(index)]
        if kind == "thinking":
            return [*said, ev.ThinkingStart(index, name)]
        return [*said, ev.CallStart(index, id, name)]


def _call(block: _Block, written: str) -> Call:
    opaque = tuple(block.opaque)
    if not written.strip():  # a call without arguments often comes as nothing at all
        return Call(block.id, block.name, opaque=opaque)
    arguments = maybe_object(written)
    if arguments is None:
        return Call(block.id, block.name, raw=written, opaque=opaque)
    return Call(block.id, block.name, arguments, opaque=opaque)
