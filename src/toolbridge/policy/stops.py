"""Stop sequences for providers that support none, or fewer than the request has.

Only text blocks are searched, not thinking and call arguments. No more text is held back than may
be the beginning of a stop sequence. The answer ends at the first one; the caller can then close the
connection to the provider.
"""

from collections import deque
from collections.abc import Sequence

from toolbridge.core import events as ev
from toolbridge.core.fold import finished
from toolbridge.core.messages import Text

# ── in text ──────────────────────────────────────────────────────────────────


class Scissors:
    """Cuts text at the first stop sequence while it arrives.

    Text that may be the beginning of a stop sequence is held back. Of several sequences, the one
    that ends first applies, so that the cut does not depend on how the text arrives in pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._finders = [_Finder(stop) for stop in stops if stop]
        self._held: deque[str] = deque()
        self._told = 0
        """How many characters of the first held piece were returned already."""
        self._size = 0
        self.hit = ""
        """The sequence that was found."""

    def feed(self, piece: str) -> str:
        """Return the text that cannot be part of a stop sequence."""
        if self.hit or not piece:
            return ""
        self._held.append(piece)
        ends = [(end, -len(f.stop), f.stop) for f in self._finders if (end := f.feed(piece)) >= 0]
        if ends:
            end, _, self.hit = min(ends)
            before = self._take(self._size + end - len(self.hit))
            self._held.clear()
            return before
        self._size += len(piece)
        kept = max((finder.matched for finder in self._finders), default=0)
        return self._take(self._size - kept)

    def close(self) -> str:
        """Return the text that was held and did not become a stop sequence."""
        return "" if self.hit else self._take(self._size)

    def _take(self, count: int) -> str:
        self._size -= count
        pieces: list[str] = []
        while count:
            first = self._held[0]
            piece = first[self._told : self._told + count]
            pieces.append(piece)
            count -= len(piece)
            self._told += len(piece)
            if self._told == len(first):
                self._held.popleft()
                self._told = 0
        return "".join(pieces)


class _Finder:
    """Searches for one sequence with the Knuth-Morris-Pratt algorithm, in linear time."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0
        """How many characters at the end of the text are a beginning of the sequence."""
        self._shorter = _borders(stop)

    def feed(self, piece: str) -> int:
        """Return the offset in `piece` at which the sequence ends, or -1."""
        at = 0
        while at < len(piece):
            if not self.matched:
                at = piece.find(self.stop[0], at)
                if at < 0:
                    return -1
            self.matched = _grown(self.stop, self._shorter, self.matched, piece[at])
            at += 1
            if self.matched == len(self.stop):
                return at
        return -1


def _borders(stop: str) -> list[int]:
    """Return, for each prefix of `stop`, the length of its longest proper prefix that is a suffix."""
    borders = [0]
    for character in stop[1:]:
        borders.append(_grown(stop, borders, borders[-1], character))
    return borders


def _grown(stop: str, borders: list[int], matched: int, character: str) -> int:
    while matched and stop[matched] != character:
        matched = borders[matched - 1]
    return matched + (stop[matched] == character)


# ── in answers ───────────────────────────────────────────────────────────────


class StopScanner:
    """A stage that ends an answer at the first stop sequence.

    A thinking block or a call that is open at that point is still completed: a client must not get
    half a call.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._texts: dict[int, Scissors] = {}
        """The texts that are open."""
        self._begun: dict[int, list[str]] = {}
        """The pieces of each text that has been started in the output."""
        self._calls = False
        self._others: set[int] = set()
        """The thoughts and calls that are open."""
        self._hit = ""
        self.done = False
        """Whether the answer has ended, although the provider may send more."""

    def feed(self, event: ev.Event, /) -> list[ev.Event]:
        if self.done:
            return []
        if isinstance(event, ev.Finished | ev.Failed):
            return self._end(event)
        return self._feed_rest(event) if self._hit else self._scan(event)

    def close(self) -> list[ev.Event]:
        return []

    def _scan(self, event: ev.Event) -> list[ev.Event]:
        match event:
            case ev.TextStart(index):
                said = self._begin_all()
                self._texts[index] = Scissors(self._stops)
                return said  # A block that begins with a stop sequence is not started at all.
            case ev.TextDelta(index, text):
                return self._cut(index, text)
            case ev.TextEnd(index):
                said = self._tell(index, self._texts[index].close()) + self._begin(index)
                del self._texts[index]
                return [*said, event]
            case ev.ThinkingStart(index) | ev.CallStart(index):
                self._others.add(index)
                return [*self._begin_all(), event]
            case ev.ThinkingEnd(index) | ev.CallEnd(index):
                return self._end_other(index, event)
            case ev.PartAdded():
                return [*self._begin_all(), event]
            case _:
                return [event]

    def _cut(self, index: int, text: str) -> list[ev.Event]:
        scissors = self._texts[index]
        said = self._tell(index, scissors.feed(text))
        if not scissors.hit:
            return said
        self._hit = scissors.hit
        for place in sorted(self._texts):
            said += self._tell(place, self._texts[place].close())
            if place in self._begun:
                said.append(ev.TextEnd(place, Text("".join(self._begun[place]))))
        return said + self._maybe_end()

    def _feed_rest(self, event: ev.Event) -> list[ev.Event]:
        """Return events of the blocks that were open at the cut, usage and losses; drop all others."""
        match event:
            case ev.UsageReported() | ev.Lost():
                return [event]
            case ev.ThinkingDelta(index) | ev.CallDelta(index) if index in self._others:
                return [event]
            case ev.ThinkingEnd(index) | ev.CallEnd(index) if index in self._others:
                return self._end_other(index, event) + self._maybe_end()
            case _:
                return []

    def _end_other(self, index: int, event: ev.ThinkingEnd | ev.CallEnd) -> list[ev.Event]:
        self._others.discard(index)
        self._calls = self._calls or isinstance(event, ev.CallEnd)
        return [event]

    def _maybe_end(self) -> list[ev.Event]:
        return [] if self._others else self._end(ev.Finished("end"))

    def _end(self, event: ev.Finished | ev.Failed) -> list[ev.Event]:
        self.done = bool(self._hit)
        if not self._hit:
            return [*self._flush(), event]
        if isinstance(event, ev.Failed):
            return [event]
        return [finished("stop_sequence", calls=self._calls, stop_sequence=self._hit)]

    def _flush(self) -> list[ev.Event]:
        """Return the held text of blocks that a failure leaves open."""
        said = self._begin_all()
        for index, scissors in self._texts.items():
            said += self._tell(index, scissors.close())
        return said

    def _tell(self, index: int, text: str) -> list[ev.Event]:
        if not text:
            return []
        said = self._begin(index)
        self._begun[index].append(text)
        return [*said, ev.TextDelta(index, text)]

    def _begin_all(self) -> list[ev.Event]:
        """Start the open text blocks: blocks must start in the order of their indexes."""
        return [said for index in self._texts for said in self._begin(index)]

    def _begin(self, index: int) -> list[ev.Event]:
        if index in self._begun:
            return []
        self._begun[index] = []
        return [ev.TextStart(index)]
