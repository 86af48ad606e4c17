"""Parses the text of a model in sentinel mode into pieces: text, and frames with their bodies.

Any chunking of the text gives the same pieces once adjacent texts and chunks are joined. The rules,
beyond the six sentinels:

- Inside a JSON string a sentinel is text. One exception keeps a string that is never closed from
  swallowing the answer: the frame's own end sentinel ends the frame, unless the string continues
  after it. It continues if, within `RESYNC` characters, a quote follows that closes it (the next
  character is `,`, `:`, `}` or `]`). A line end alone decides nothing. After such an end, the rest
  of the line opens no tool call.
- Outside strings no bracket is JSON, so any end there ends the frame. One of another id or kind, or
    a misspelt one (`⟦END OBJECT⟧`), does so with the fault `unexpected_end`.
- A frame that begins inside another ends that one: `unclosed_frame` when its JSON was whole and
  only the end was missing, `nested_frame` when it was not. Where anything but JSON stands in it (JSON
    that is not whole, prose, comments), no tool call opens before its own end or another object or
  result. The end of the answer ends a frame too.
- Between frames a sentinel that is quoted is text: see `quoting`.
- An end without an open frame is the fault `unexpected_end` and is not text.
- An id that was used before is the fault `duplicate_id`; the frame continues under a new id.
- At a limit the frame is closed at once and the rest of it, up to its end, is skipped.
- With a tag, a begin sentinel is valid only if its id ends in `-` and the tag (`id=T1-9f3c`).
"""

import re

from toolbridge.structured.body import FrameBody
from toolbridge.structured.limits import Limits
from toolbridge.structured.pieces import FrameFault, Piece, PlainText, join_pieces
from toolbridge.structured.quoting import QuoteTracker
from toolbridge.structured.sentinels import (
    CLOSING,
    OPENING,
    Sentinel,
    may_begin_sentinel,
    read_sentinel,
    write_end,
)
from toolbridge.wire.tags import Cursor, Marks, Wait

RESYNC = 2048
"""How many characters after a frame's own end are checked for the rest of a string."""

_BRACKET = Marks([OPENING])
_AFTER_END = re.compile(r'["\\\n\r]')
_SPACE = re.compile(r"[ \t\n\r]*+")
_LOOSE_END = re.compile(f"{OPENING} {{0,3}}/?END[^{OPENING}{CLOSING}\\n]{{0,240}}{CLOSING}")
_MAYBE_LOOSE = re.compile(
    f"{OPENING} {{0,3}}(?:/?(?:E(?:N(?:D[^{OPENING}{CLOSING}\\n]{{0,240}})?)?)?)?\\Z"
)


class Grammar:
    """A stage from text to pieces. `used` holds the ids of the stream, shared by all its answers."""

    def __init__(
        self, limits: Limits | None = None, used: set[str] | None = None, tag: str = ""
    ) -> None:
        self._limits = limits or Limits()
        self._used = set() if used is None else used
        self._suffix = f"-{tag}" if tag else ""
        self._cursor = Cursor()
        self._prose = QuoteTracker()
        self._out: list[Piece] = []
        self._frame: FrameBody | None = None
        self._reading = self._read()
        self._closed = False

    @property
    def open_id(self) -> str:
        """The id of the open frame, or an empty string."""
        frame = self._frame
        return frame.id if frame is not None and not frame.muted else ""

    def feed(self, piece: str, /) -> list[Piece]:
        if self._closed:
            return []
        self._cursor.feed(piece)
        next(self._reading, None)
        return self._take()

    def close(self) -> list[Piece]:
        if self._closed:
            return []
        self._closed = True
        self._cursor.end()
        next(self._reading, None)
        return self._take()

    def expire(self) -> list[Piece]:
        """Close the open frame at its timeout; the rest of it is skipped."""
        if self._frame is not None:
            self._out += self._frame.expire()
        return self._take()

    def _take(self) -> list[Piece]:
        out, self._out = self._out, []
        return join_pieces(out)

    def _say(self, text: str) -> None:
        self._prose.feed(text)
        self._out.append(PlainText(text))

    def _fault(self, code: str, message: str, id: str = "") -> None:
        self._out.append(FrameFault(code, message, id))

    # Text between frames.

    def _read(self) -> Wait[None]:
        cursor = self._cursor
        while (yield from cursor.until(_BRACKET, self._say, keep=True)):
            found = yield from self._sentinel()
            if found is None or not self._counts(found):
                self._say(cursor.take(found.size if found else 1))
                continue
            cursor.take(found.size)
            if not found.begins:
                self._fault("unexpected_end", "an end came where no frame is open", found.id)
            while found is not None and found.begins:
                found = yield from self._read_frame(found)
            self._prose.pass_frame()

    def _counts(self, found: Sentinel) -> bool:
        """Whether a sentinel between frames is valid; otherwise it is text."""
        if not found.id.endswith(self._suffix):
            return False
        return not self._prose.is_text(found)

    def _sentinel(self) -> Wait[Sentinel | None]:
        """Return the next sentinel without consuming it."""
        cursor = self._cursor
        while True:
            found = read_sentinel(cursor.text, cursor.at)
            if found is not None or cursor.ended:
                return found
            if not may_begin_sentinel(cursor.text, cursor.at):
                return None
            yield

    # Inside a frame.

    def _read_frame(self, begin: Sentinel) -> Wait[Sentinel | None]:
        """Read a frame to its end; return the begin sentinel of the next frame if that ended it."""
        frame = self._open(begin)
        cursor = self._cursor
        while True:
            self._read_body(frame)
            if cursor.at == len(cursor.text):
                if not cursor.ended:
                    yield
                    continue
                self._finish(frame, ended=False)
                return None
            if frame.in_string:
                over = yield from self._ends_in_string(frame, begin)
            else:
                over = yield from self._interrupted(frame, begin)
            if over is None:
                continue
            if over.begins and not self._counts(over):
                return None
            cursor.take(over.size)
            return over if over.begins else None

    def _open(self, begin: Sentinel) -> FrameBody:
        id = begin.id
        if id in self._used:
            self._fault("duplicate_id", f"the id {id} was used before in this stream", id)
            bare = id.removesuffix(self._suffix)[:48]
            again = 2
            while id in self._used:
                id = f"{bare}.{again}{self._suffix}"
                again += 1
        self._used.add(id)
        self._frame = FrameBody(begin.kind, id, begin.name, self._limits)
        self._out.append(self._frame.opened)
        return self._frame

    def _read_body(self, frame: FrameBody) -> None:
        """Read the body up to a bracket that may start a sentinel."""
        cursor = self._cursor
        while cursor.at < len(cursor.text):
            end = cursor.text.find(OPENING, cursor.at)
            if end == cursor.at and not frame.escaped:
                return
            size = 1 if end == cursor.at else (end if end >= 0 else len(cursor.text)) - cursor.at
            self._out += frame.feed(cursor.take(size))

    def _interrupted(self, frame: FrameBody, begin: Sentinel) -> Wait[Sentinel | None]:
        """Return the sentinel that ends the frame at a bracket outside strings; else read the bracket."""
        found = yield from self._sentinel()
        if found is None:
            found = yield from self._loose_end(frame)
        if found is None or (found.begins and not found.id.endswith(self._suffix)):
            self._out += frame.feed(self._cursor.take(1))
            return None
        if found.begins:
            if not frame.pure:
                self._prose.spoil_until_end(begin.kind, begin.id)
            self._finish(frame, ended=False, nested=True)
            return found
        if (found.kind, found.id) != (begin.kind, begin.id) and not frame.muted:
            self._fault("unexpected_end", "the frame was ended by an end not its own", frame.id)
        self._finish(frame, ended=True)
        return found

    def _loose_end(self, frame: FrameBody) -> Wait[Sentinel | None]:
        """Return a misspelt end sentinel."""
        cursor = self._cursor
        while True:
            found = _LOOSE_END.match(cursor.text, cursor.at)
            if found is not None:
                return Sentinel(frame.kind, "", size=len(found.group()))
            if cursor.ended or not _MAYBE_LOOSE.match(cursor.text, cursor.at):
                return None
            yield

    def _ends_in_string(self, frame: FrameBody, begin: Sentinel) -> Wait[Sentinel | None]:
        """Return the frame's own end inside a string if the string does not continue after it."""
        own = write_end(begin.kind, begin.id)
        if not (yield from self._cursor.stands(own)):
            self._out += frame.feed(self._cursor.take(1))
            return None
        # The end of a frame that is one string comes right after the quote.
        after = ",:}]" if frame.nested else OPENING
        if (yield from self._string_goes_on(len(own), after)):
            self._out += frame.feed(self._cursor.take(len(own)))
            return None
        self._prose.spoil()
        self._finish(frame, ended=True)
        return Sentinel(begin.kind, begin.id, size=len(own))

    def _string_goes_on(self, offset: int, after: str) -> Wait[bool]:
        """Whether the string is closed after the frame's own end, so that the end is part of it."""
        cursor = self._cursor
        edge = offset + RESYNC
        in_line = True
        while offset < edge:
            found = _AFTER_END.search(cursor.text, cursor.at + offset)
            if found is None:
                offset = max(offset, len(cursor.text) - cursor.at)
                if offset < edge and cursor.ended:
                    return False
                yield
                continue
            offset = found.end() - cursor.at
            if offset > edge:
                break
            if found.group() == "\\":
                offset += 1
            elif found.group() == '"':
                return (yield from self._follows_string(offset, edge, after))
            else:
                # A line end is not legal in a JSON string, but models write it there.
                in_line = False
        # No evidence against it within the line: inside a string a sentinel is text.
        return in_line

    def _follows_string(self, offset: int, edge: int, after: str) -> Wait[bool]:
        """Whether the characters after a string that closes at `offset` may follow a string."""
        cursor = self._cursor
        while True:
            found = _SPACE.match(cursor.text, cursor.at + offset)
            at = found.end() if found else cursor.at + offset
            if at - cursor.at > edge:
                return True
            if at < len(cursor.text):
                return cursor.text[at] in after
            if cursor.ended:
                return True
            yield

    def _finish(self, frame: FrameBody, *, ended: bool, nested: bool = False) -> None:
        self._frame = None
        self._out += frame.finish(ended=ended, nested=nested)
