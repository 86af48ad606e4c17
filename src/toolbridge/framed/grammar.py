"""What a model writes, as pieces: text, and frames with their bodies.

Every cut of the text gives the same pieces once adjacent texts and adjacent chunks are joined. The
rules, beyond the six sentinels:

- Inside a JSON string a sentinel is text. One exception keeps a string that is never closed from
  swallowing the answer: the frame's own end, exactly as it must be written, ends it after all unless
  what follows shows a string that goes on: within `RESYNC` characters, on the same line and before
  any frame begins, a quote closes it and `,`, `:`, `}` or `]` comes next.
- Outside strings no bracket is JSON, so any end there ends the frame. One of another id or kind, or
  one that is misspelt (`⟦END OBJECT⟧`), does so with the fault `unexpected_end`.
- A frame that begins inside another ends that one: `unclosed_frame` when its JSON was whole and
  only the end was missing, `nested_frame` when it was not. So does the end of the answer.
- An end where nothing is open is the fault `unexpected_end`, and no text.
- An id that was used before is the fault `duplicate_id`; the frame goes on under another.
- At a limit the frame is closed at once and the rest of it, up to its end, is passed over.
"""

import re

from toolbridge.framed.limits import Limits
from toolbridge.framed.pieces import Body, Closed, Fault, Opened, Piece, Said, Trouble, join_pieces
from toolbridge.framed.sentinels import (
    CLOSING,
    OPENING,
    Kind,
    Sentinel,
    may_begin_sentinel,
    read_sentinel,
    write_end,
)
from toolbridge.wire.tags import Cursor, Marks, Wait

RESYNC = 2048
"""How far to look whether a string goes on after the frame's own end."""

_BRACKET = Marks([OPENING])
_OUTSIDE = re.compile(f'["{{}}\\[\\]{OPENING}]')
_INSIDE = re.compile(f'["\\\\{OPENING}]')
_AFTER_END = re.compile(f'["\\\\\\n\\r{OPENING}]')
_SPACE = re.compile(r"[ \t\n\r]*+")
_LOOSE_END = re.compile(f"{OPENING} {{0,3}}/?END[^{OPENING}{CLOSING}\\n]{{0,240}}{CLOSING}")
_MAYBE_LOOSE = re.compile(
    f"{OPENING} {{0,3}}(?:/?(?:E(?:N(?:D[^{OPENING}{CLOSING}\\n]{{0,240}})?)?)?)?\\Z"
)


class _Frame:
    """A frame that is being read: where in its JSON we are, and what was told of it."""

    __slots__ = ("begin", "chunks", "depth", "id", "in_string", "most", "muted", "seen", "size")

    def __init__(self, begin: Sentinel, id: str, most: int) -> None:
        self.begin = begin
        self.id = id
        self.most = most
        self.size = 0
        self.depth = 0
        self.in_string = False
        self.seen = False
        """Whether there is anything but white space in it."""
        self.muted = False
        """Whether it was closed already and the rest is passed over."""
        self.chunks: list[str] = []

    @property
    def whole(self) -> bool:
        return self.seen and self.depth <= 0 and not self.in_string


class Grammar:
    """Text in, pieces out. `used` are the ids of the stream, shared by all its answers."""

    def __init__(self, limits: Limits | None = None, used: set[str] | None = None) -> None:
        self._limits = limits or Limits()
        self._used = set() if used is None else used
        self._cursor = Cursor()
        self._out: list[Piece] = []
        self._frame: _Frame | None = None
        self._reading = self._read()
        self._closed = False

    @property
    def open_id(self) -> str:
        """The id of the frame that is being told, or nothing."""
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
        """Close the open frame for taking too long; the rest of it is passed over."""
        frame = self._frame
        if frame is None or frame.muted:
            return []
        self._stop(frame, "frame_timeout", "the frame was not finished in time")
        return self._take()

    def _take(self) -> list[Piece]:
        out, self._out = self._out, []
        return join_pieces(out)

    def _say(self, text: str) -> None:
        self._out.append(Said(text))

    def _fault(self, code: str, message: str, id: str = "") -> None:
        self._out.append(Fault(code, message, id))

    # Text between frames.

    def _read(self) -> Wait[None]:
        cursor = self._cursor
        while (yield from cursor.until(_BRACKET, self._say, keep=True)):
            found = yield from self._sentinel()
            if found is None:
                self._say(cursor.take(1))
                continue
            cursor.take(found.size)
            if not found.begins:
                self._fault("unexpected_end", "an end came where no frame is open", found.id)
            while found is not None and found.begins:
                found = yield from self._read_frame(found)

    def _sentinel(self, offset: int = 0) -> Wait[Sentinel | None]:
        """Return the sentinel at `offset` from here, without taking it."""
        cursor = self._cursor
        while True:
            at = cursor.at + offset
            found = read_sentinel(cursor.text, at)
            if found is not None or cursor.ended or not may_begin_sentinel(cursor.text, at):
                return found
            yield

    # Inside a frame.

    def _read_frame(self, begin: Sentinel) -> Wait[Sentinel | None]:
        """Read a frame to its end; return the beginning of the next one if that is what ended it."""
        frame = self._open(begin)
        while True:
            yield from self._read_body(frame)
            if self._cursor.at == len(self._cursor.text):
                if not self._cursor.ended:
                    yield
                    continue
                self._finish(frame, ended=False)
                return None
            if frame.in_string:
                over = yield from self._ends_in_string(frame)
            else:
                over = yield from self._interrupted(frame)
            if over is not None:
                self._cursor.take(over.size)
                return over if over.begins else None

    def _open(self, begin: Sentinel) -> _Frame:
        id = begin.id
        if id in self._used:
            self._fault("duplicate_id", f"the id {id} was used before in this stream", id)
            again = 2
            while id in self._used:
                id = f"{begin.id[:58]}.{again}"
                again += 1
        self._used.add(id)
        limits = self._limits
        most = min(limits.arguments, limits.frame) if begin.kind == "tool" else limits.frame
        self._frame = _Frame(begin, id, most)
        self._out.append(Opened(begin.kind, id, begin.name))
        return self._frame

    def _read_body(self, frame: _Frame) -> Wait[None]:
        """Take what is there of the body, up to a bracket that may be a sentinel's."""
        cursor = self._cursor
        at = cursor.at
        while found := (_INSIDE if frame.in_string else _OUTSIDE).search(cursor.text, at):
            if found.group() == OPENING:
                break
            at = found.end()
            if found.group() != "\\":
                self._step(frame, found.group(), found.start())
                continue
            if at == len(cursor.text) and not cursor.ended:  # what it escapes has not come yet
                self._tell(frame, cursor.take(at - 1 - cursor.at))
                yield from cursor.need(2)
                at = cursor.at + 1
            at += 1
        end = found.start() if found else len(cursor.text)
        self._tell(frame, cursor.take(end - cursor.at))

    def _step(self, frame: _Frame, mark: str, at: int) -> None:
        """Go into a string or out of it, one level down or up."""
        if mark == '"':
            frame.in_string = not frame.in_string
        elif mark in "}]":
            frame.depth -= 1
        else:
            if frame.depth == self._limits.depth and not frame.muted:
                self._tell(frame, self._cursor.take(at - self._cursor.at))
                self._too_deep(frame)
            frame.depth += 1

    def _interrupted(self, frame: _Frame) -> Wait[Sentinel | None]:
        """Return what ends the frame at a bracket outside strings, or take it as what it is."""
        found = yield from self._sentinel()
        if found is None:
            found = yield from self._loose_end(frame)
        if found is None:
            self._tell(frame, self._cursor.take(1))
            return None
        if found.begins:
            self._finish(frame, ended=False, nested=True)
            return found
        if (found.kind, found.id) != (frame.begin.kind, frame.begin.id) and not frame.muted:
            self._fault("unexpected_end", "the frame was ended by an end not its own", frame.id)
        self._finish(frame, ended=True)
        return found

    def _loose_end(self, frame: _Frame) -> Wait[Sentinel | None]:
        """Return an end that is not written as it must be."""
        cursor = self._cursor
        while True:
            found = _LOOSE_END.match(cursor.text, cursor.at)
            if found is not None:
                return Sentinel(frame.begin.kind, "", size=len(found.group()))
            if cursor.ended or not _MAYBE_LOOSE.match(cursor.text, cursor.at):
                return None
            yield

    def _ends_in_string(self, frame: _Frame) -> Wait[Sentinel | None]:
        """Return the frame's own end inside a string if the string does not go on after it."""
        own = write_end(frame.begin.kind, frame.begin.id)
        if not (yield from self._cursor.stands(own)):
            self._tell(frame, self._cursor.take(1))
            return None
        if (yield from self._string_goes_on(len(own))):
            self._tell(frame, self._cursor.take(len(own)))
            return None
        self._finish(frame, ended=True)
        return Sentinel(frame.begin.kind, frame.begin.id, size=len(own))

    def _string_goes_on(self, offset: int) -> Wait[bool]:
        cursor = self._cursor
        edge = offset + RESYNC
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
                return (yield from self._follows_string(offset, edge))
            elif found.group() != OPENING:
                return False
            else:
                begin = yield from self._sentinel(offset - 1)
                if begin is not None and begin.begins:
                    return False
        # Nothing speaks against it, so the rule holds: inside a string a sentinel is text.
        return True

    def _follows_string(self, offset: int, edge: int) -> Wait[bool]:
        """Whether, after a string that closes at `offset`, comes what may follow one."""
        cursor = self._cursor
        while True:
            found = _SPACE.match(cursor.text, cursor.at + offset)
            at = found.end() if found else cursor.at + offset
            if at - cursor.at > edge:
                return True
            if at < len(cursor.text):
                return cursor.text[at] in ",:}]"
            if cursor.ended:
                return True
            yield

    # What is told of a frame.

    def _tell(self, frame: _Frame, chunk: str) -> None:
        if frame.muted or not chunk:
            return
        frame.seen = frame.seen or not chunk.isspace()
        size = len(chunk) if chunk.isascii() else len(chunk.encode("utf-8", "surrogatepass"))
        if frame.size + size <= frame.most:
            frame.size += size
            self._tell_within(frame, chunk)
            return
        room = frame.most - frame.size
        self._tell_within(frame, _first_bytes(chunk, room))
        code: Trouble = "frame_too_large"
        if frame.begin.kind == "tool" and self._limits.arguments <= self._limits.frame:
            code = "arguments_too_large"
        self._stop(frame, code, f"the frame is longer than {frame.most} bytes")

    def _tell_within(self, frame: _Frame, chunk: str) -> None:
        if chunk:
            frame.chunks.append(chunk)
            self._out.append(Body(frame.id, chunk))

    def _too_deep(self, frame: _Frame) -> None:
        if not frame.muted:
            text = f"the frame is nested more than {self._limits.depth} deep"
            self._stop(frame, "frame_too_deep", text)

    def _stop(self, frame: _Frame, code: Trouble, message: str) -> None:
        """Close a frame before its end."""
        self._fault(code, message, frame.id)
        self._close_frame(frame, Closed(*_told(frame), ended=False, whole=False, trouble=code))

    def _finish(self, frame: _Frame, *, ended: bool, nested: bool = False) -> None:
        self._frame = None
        if frame.muted:
            return
        if not ended and nested and not frame.whole:
            self._fault("nested_frame", "another frame began inside this one", frame.id)
        elif not ended:
            self._fault("unclosed_frame", "the frame has no end", frame.id)
        self._close_frame(frame, Closed(*_told(frame), ended=ended, whole=frame.whole))

    def _close_frame(self, frame: _Frame, closed: Closed) -> None:
        frame.muted = True
        frame.chunks = []
        self._out.append(closed)


def _told(frame: _Frame) -> tuple[Kind, str, str, str]:
    return frame.begin.kind, frame.id, frame.begin.name, "".join(frame.chunks)


def _first_bytes(text: str, most: int) -> str:
    """Return the longest beginning of `text` that takes at most `most` bytes."""
    encoded = text[: most + 1].encode("utf-8", "surrogatepass")
    while most < len(encoded) and encoded[most] & 0xC0 == 0x80:  # in the middle of a character
        most -= 1
    return encoded[:most].decode("utf-8", "surrogatepass")
