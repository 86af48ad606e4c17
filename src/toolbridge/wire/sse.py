"""Read and write server-sent events (WHATWG HTML, section 9.2).

Lines end in LF, CR or CRLF, also when the network cuts between the two. Data stays bytes, so that
a multi-byte character that was cut is whole again before it is decoded.
"""

from itertools import repeat

import msgspec

from toolbridge.core.errors import BrokenWire

MAX_EVENT = 8 * 1024 * 1024
_END = b"\n\n"
_CR = 13
"""A number: for `bytes in bytes` Python makes an exception first, and catches it."""
BOM = b"\xef\xbb\xbf"
_DATA = b"data: "
_FIELDS = frozenset({b"", b"data", b"event", b"id", b"retry"})


class SseEvent(msgspec.Struct, frozen=True):
    """One event of a stream; several `data:` lines are joined by LF."""

    data: bytes
    event: str = ""
    id: str = ""


class SseReader(msgspec.Struct, eq=False):
    """A stage that takes bytes and returns events."""

    max_event: int = MAX_EVENT
    _line: list[bytes] = []
    """The pieces of a line that has not ended."""
    _line_size: int = 0
    _broken: BrokenWire | None = None
    _after_cr: bool = False
    _first: bool = True
    between: bool = False
    """True if nothing of an event waits, so that the next bytes begin one."""
    _data: list[bytes] = []
    _size: int = 0
    _event: str = ""
    _id: str = ""
    cut: bool = False
    """After `close`: True if the stream ended before the data of an event, or in the name of a field."""

    def feed(self, piece: bytes, /) -> list[SseEvent]:
        if self._broken:
            raise self._broken
        if self._after_cr and piece:
            # the second half of a CRLF cut by the network
            piece = piece[1:] if piece.startswith(b"\n") else piece
            self._after_cr = False
        if _CR in piece:
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = piece.split(b"\n")
        if lines and self._line:
            self._line.append(lines[0])
            lines[0] = self._whole_line()
        events: list[SseEvent] = []
        try:
            self._take_all(lines, events)
            if rest:
                self._hold(rest)
        except BrokenWire as error:
            # Events before the fault are returned first, wherever the network cut.
            self._broken = error
            self.between = False
            if not events:
                raise
            return events
        waits = self._line or self._size or self._event or self._id
        self.between = not (waits or self._first or self._after_cr)
        return events

    def only_data(self, piece: bytes) -> bytes:
        """Return the data of the only event that `feed` returns for a piece of one line; else b"".

        Nearly every piece of most APIs is such an event. A decoder that asks for it first does less.
        """
        end = len(piece) - 2
        if (
            self.between
            and piece.find(b"\n") == end
            and piece[end:] == _END
            and piece[:6] == _DATA
            and end < self.max_event
            and _CR not in piece
        ):
            return piece[6:end]
        return b""

    def skip(self) -> None:
        """Note that the first bytes were whole events, which something else has read."""
        self._first, self.between = False, True

    def close(self) -> list[SseEvent]:
        """Return an event whose empty line is missing, and perhaps the end of its data.

        The standard discards it; servers that leave out the last empty line need it.
        """
        if self._broken:
            raise self._broken
        if self._line:
            line = self._whole_line()
            name, colon, _ = (line.removeprefix(BOM) if self._first else line).partition(b":")
            self.cut = bool(name.strip()) and not (colon and name in _FIELDS)
            self._take(line)
        if not self._data:
            self.cut = self.cut or bool(self._event or self._id)
            return []
        data, self._data = b"\n".join(self._data), []
        return [SseEvent(data, self._event, self._id)]

    def _take_all(self, lines: list[bytes], events: list[SseEvent]) -> None:
        if self._first and lines and not lines[0].startswith(BOM):
            self._first = False
        if not (self._first or self._event or self._id or self._size or any(lines[1::2])):
            # Nearly every delivery of several events: a `data:` line and an empty one in turn.
            whole = len(lines) & ~1
            fields = lines[:whole:2]
            if (
                fields
                and all(map(bytes.startswith, fields, repeat(_DATA)))
                and max(map(len, fields)) <= self.max_event
            ):
                events += map(SseEvent, map(bytes.removeprefix, fields, repeat(_DATA)))
                lines = lines[whole:]
        for line in lines:
            if line.startswith(b"data: ") and not self._first:  # nearly every line
                if self._size + len(line) > self.max_event:
                    raise self._too_long()
                self._data.append(line[6:])
                self._size += len(line) - 5
            elif line or self._first:
                self._take(line)
            else:
                if self._data:
                    events.append(SseEvent(b"\n".join(self._data), self._event, self._id))
                self._data, self._size, self._event, self._id = [], 0, "", ""

    def _hold(self, piece: bytes) -> None:
        """Keep a piece of a line that has not ended."""
        self._line.append(piece)
        self._line_size += len(piece)
        if self._size + self._line_size > self.max_event:
            raise self._too_long()

    def _whole_line(self) -> bytes:
        line = b"".join(self._line)
        self._line = []
        self._line_size = 0
        return line

    def _take(self, line: bytes) -> None:
        """Read a line with a field."""
        if self._size + len(line) > self.max_event:
            raise self._too_long()
        if self._first:
            self._first = False
            line = line.removeprefix(BOM)
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1  # empty lines take room as well
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            self._id = value.decode("utf-8", "replace")
        # A line that begins with a colon is a comment; other fields are ignored.

    def _too_long(self) -> BrokenWire:
        return BrokenWire(f"the provider sent an event of more than {self.max_event} bytes")


def write_event(data: bytes, event: bytes = b"") -> bytes:
    """Return an event with one `data:` line: RFC 8259 allows no unescaped line end in a string."""
    if event:
        return b"event: " + event + b"\ndata: " + data + b"\n\n"
    return b"data: " + data + b"\n\n"
