"""Server-sent events, read and written as the HTML standard says (section 9.2).

Lines end in LF, CR or CRLF, also when the network cuts between the two. Data stays bytes: a
multi-byte character that was cut is whole again before anybody decodes it.
"""

import msgspec

from toolbridge.core.errors import BrokenWire

MAX_FRAME = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True):
    data: bytes
    event: str = ""
    id: str = ""
    whole: bool = True
    """False for what was left when the stream ended without the empty line."""


class SseReader:
    """Bytes in, frames out."""

    def __init__(self, *, max_frame: int = MAX_FRAME) -> None:
        self._max_frame = max_frame
        self._line = bytearray()
        self._scanned = 0
        self._newline = 0
        self._broken: BrokenWire | None = None
        self._after_cr = False
        self._first = True
        self._clear()

    def feed(self, piece: bytes, /) -> list[SseEvent]:
        if self._broken:
            raise self._broken
        if self._after_cr and piece:
            # the second half of a CRLF cut by the network
            piece = piece[1:] if piece.startswith(b"\n") else piece
            self._after_cr = False
        self._line += piece
        frames: list[SseEvent] = []
        try:
            self._take_lines(frames)
        except BrokenWire as error:
            # What came before the fault is told first, wherever the network cut.
            self._broken = error
            if not frames:
                raise
        return frames

    def close(self) -> list[SseEvent]:
        if self._broken:
            raise self._broken
        frames: list[SseEvent] = []
        if self._line:
            self._take(bytes(self._line), frames)
            self._line.clear()
        if self._data:
            frames.append(self._frame(whole=False))
            self._clear()
        return frames

    def _take_lines(self, frames: list[SseEvent]) -> None:
        start = 0
        while (end := self._line_end()) >= 0:
            self._take(bytes(self._line[start:end]), frames)
            start = self._scanned = self._skip_line_end(end)
        if start:
            del self._line[:start]
        self._scanned = len(self._line)
        self._newline = 0
        self._check_size(len(self._line))

    def _line_end(self) -> int:
        # Where the next LF stands is remembered: lines that end in CR do not look for it again.
        if self._newline <= self._scanned:
            newline = self._line.find(b"\n", self._scanned)
            self._newline = newline if newline >= 0 else len(self._line)
        carriage = self._line.find(b"\r", self._scanned, self._newline)
        if carriage >= 0:
            return carriage
        return self._newline if self._newline < len(self._line) else -1

    def _skip_line_end(self, end: int) -> int:
        if self._line[end : end + 1] == b"\n":
            return end + 1
        if end + 1 == len(self._line):
            self._after_cr = True
            return end + 1
        return end + 2 if self._line[end + 1 : end + 2] == b"\n" else end + 1

    def _take(self, line: bytes, frames: list[SseEvent]) -> None:
        self._check_size(len(line))
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                frames.append(self._frame(whole=True))
            self._clear()
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1  # empty lines take room as well
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            self._id = value.decode("utf-8", "replace")
        # A line that begins with a colon is a comment; any other field is none of ours.

    def _frame(self, *, whole: bool) -> SseEvent:
        return SseEvent(b"\n".join(self._data), self._event, self._id, whole)

    def _clear(self) -> None:
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id = ""

    def _check_size(self, more: int) -> None:
        if self._size + more > self._max_frame:
            raise BrokenWire(f"an event is longer than {self._max_frame} bytes")


def write_frame(data: bytes, event: bytes = b"") -> bytes:
    """Return one event. JSON has no raw line ends, so one `data:` line holds it."""
    if event:
        return b"event: " + event + b"\ndata: " + data + b"\n\n"
    return b"data: " + data + b"\n\n"
