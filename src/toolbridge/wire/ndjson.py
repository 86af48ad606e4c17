"""JSON, one value a line."""

from toolbridge.core.errors import BrokenWire

MAX_LINE = 8 * 1024 * 1024


class LineReader:
    """Bytes in, lines out; empty lines are passed over, a last line needs no line end.

    Only LF ends a line: U+2028 and its like may stand raw inside a JSON string.
    """

    def __init__(self, *, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._held: list[bytes] = []
        self._size = 0
        self._broken: BrokenWire | None = None

    def feed(self, piece: bytes, /) -> list[bytes]:
        if self._broken:
            raise self._broken
        lines: list[bytes] = []
        first, *rest = piece.split(b"\n")
        try:
            self._hold(first)
            for start in rest:
                lines += self._take()
                self._hold(start)
        except BrokenWire as error:
            # What came before the fault is told first, wherever the network cut.
            self._broken = error
            if not lines:
                raise
        return lines

    def close(self) -> list[bytes]:
        if self._broken:
            raise self._broken
        return self._take()

    def _hold(self, part: bytes) -> None:
        self._held.append(part)
        self._size += len(part)
        if self._size > self._max_line:
            raise BrokenWire(f"a line is longer than {self._max_line} bytes")

    def _take(self) -> list[bytes]:
        last = b"".join(self._held).strip(b" \t\r")
        self._held = []
        self._size = 0
        return [last] if last else []
