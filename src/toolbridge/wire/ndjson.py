"""JSON, one value a line."""

from toolbridge.core.errors import BrokenWire

MAX_LINE = 8 * 1024 * 1024


class LineReader:
    """
    Bytes in, lines out; empty lines are passed over, a last line needs no line end.

    Only LF ends a line: U+2028 and its like may stand raw inside a JSON string.
    """

    def __init__(self, *, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes, /) -> list[bytes]:
        first, *rest = piece.split(b"\n")
        self._held.append(first)
        self._size += len(first)
        if self._size > self._max_line:
            raise BrokenWire(f"a line is longer than {self._max_line} bytes")
        if not rest:
            return []
        whole = [b"".join(self._held), *rest[:-1]]
        self._held = [rest[-1]]
        self._size = len(rest[-1])
        return [line for raw in whole if (line := raw.strip(b" \t\r"))]

    def close(self) -> list[bytes]:
        last = b"".join(self._held).strip(b" \t\r")
        self._held = []
        self._size = 0
        return [last] if last else []
