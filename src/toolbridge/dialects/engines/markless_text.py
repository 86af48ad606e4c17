"""Text without marks: nearly every answer, and the beginning of most others.

A `TextReader` parses text. Text without a mark of its dialect needs no parser: `MarklessText` writes the
same events for it. At the first mark `DialectStage` opens a reader, which begins with the text so far.
"""

from collections.abc import Callable

from toolbridge.core import events as ev
from toolbridge.core.growing_text import MOST_PIECES, GrowingText
from toolbridge.core.messages import Text
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.partial_marks import is_certain
from toolbridge.wire.tags import SPACE


class MarklessText:
    """The text of one block, up to its first mark."""

    __slots__ = ("_begins", "_find", "_held", "_index", "_marks", "_space", "_written", "is_empty")

    def __init__(self, reader: MarkReader, index: int) -> None:
        self._marks = reader.marks
        self._find = reader.marks.beginning.search
        self._begins: Callable[[str], bool | None] | None = reader.begins_as_text
        """Set to None once the text cannot be the header of a message any more."""
        self._index = index
        self._written = GrowingText()
        self.is_empty = True
        """Whether nothing was written yet."""
        self._space = ""
        """White space that is not written yet: if a call follows, it belongs to the markup."""
        self._held = ""
        """The text after that, which may be the beginning of a mark or of a header."""

    @property
    def text(self) -> str:
        """All of the text so far."""
        return self._written.text + self._space + self._held

    def feed(self, piece: str) -> list[ev.Event] | None:
        """Return the events of the next piece; None if it is not read, because it has a mark."""
        held = ""
        if self._held:
            piece = self._held + piece
        if self._begins is not None:
            begins = self._begins(piece)
            if begins is None:
                self._held = piece
                return []
            if not begins:
                return None
        if self._find(piece) is not None:
            begin, end = self._marks.find(piece, 0, ended=False)
            if end > begin:
                return None
            held, piece = piece[begin:], piece[:begin]
        self._begins = None
        self._held = held
        pieces = self._written.pieces
        if piece and piece[-1] not in SPACE and 0 < len(pieces) < MOST_PIECES:  # most pieces
            text = self._space + piece
            self._space = ""
            pieces.append(text)
            return [ev.TextDelta(self._index, text)]
        return self._write(piece)

    def take_run(self, events: list[ev.Event], start: int) -> int:
        """Return how many events from `start` on `feed` would return as they are, and read them."""
        if self._held or self._space or self.is_empty or self._begins is not None:
            return 0
        find, index, pieces = self._find, self._index, self._written.pieces
        before = len(pieces)
        for event in events[start:] if start else events:
            if type(event) is not ev.TextDelta or event.index != index:
                break
            text = event.text
            if not text or text[-1] in SPACE or find(text) is not None:
                break
            pieces.append(text)
        count = len(pieces) - before
        if len(pieces) > MOST_PIECES:
            self._written.join()
        return count

    def _write(self, piece: str) -> list[ev.Event]:
        body = piece.rstrip(SPACE)
        if not body:
            self._space += piece
            return []
        text = self._space + body
        self._space = piece[len(body) :]
        pieces = self._written.pieces
        pieces.append(text)
        if len(pieces) > MOST_PIECES:
            self._written.join()
        delta = ev.TextDelta(self._index, text)
        if self.is_empty:
            self.is_empty = False
            return [ev.TextStart(self._index), delta]
        return [delta]

    def close(self, ended: Text) -> list[ev.Event] | None:
        """Return the end of the block, with the citations and tokens of `ended`.

        None if the end of the text is a part of a mark or of a header.
        """
        held, self._held = self._held, ""
        if held and (self._begins is not None or is_certain(held)):
            self._held = held
            return None
        events = self._write(held) if held else []
        if self.is_empty and not self._space:
            return []
        if self.is_empty:
            self.is_empty = False
            events.append(ev.TextStart(self._index))
        if self._space:
            self._written.pieces.append(self._space)
            events.append(ev.TextDelta(self._index, self._space))
        whole = Text(self._written.text, citations=ended.citations, opaque=ended.opaque)
        return [*events, ev.TextEnd(self._index, whole)]
