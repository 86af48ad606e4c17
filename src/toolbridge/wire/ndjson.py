"""Split NDJSON (newline-delimited JSON) into lines while it arrives. Ollama streams in it."""

from itertools import repeat, takewhile

import msgspec

from toolbridge.core.errors import BrokenWire

MAX_LINE = 8 * 1024 * 1024
_BLANKS = b" \t\r"
BETWEEN = b"}\n{"
"""Between two objects, and never inside one: strings have no unescaped LF."""


class LineReader(msgspec.Struct, eq=False):
    """A stage that takes bytes and returns lines without their line ends.

    Empty lines are skipped, and the last line needs no line end. Only LF ends a line (NDJSON,
    section 3.1): RFC 8259 allows U+2028 and U+2029 unescaped inside a string.
    """

    max_line: int = MAX_LINE
    _held: list[bytes] = []
    _size: int = 0
    _broken: BrokenWire | None = None

    def feed(self, piece: bytes, /) -> list[bytes]:
        if self._broken:
            raise self._broken
        if b"\n" not in piece:  # a body without streaming
            if piece:
                self._hold(piece)
            return []
        lines: list[bytes] = []
        *whole, rest = piece.split(b"\n")
        try:
            if self._held:
                self._hold(whole[0])
                whole[0] = self._take()
            fitting = whole
            if max(map(len, whole)) > self.max_line:
                fitting = [*takewhile(lambda line: len(line) <= self.max_line, whole)]
            lines += filter(None, map(bytes.strip, fitting, repeat(_BLANKS)))
            if fitting is not whole:
                raise self._too_long()
            if rest:
                self._hold(rest)
        except BrokenWire as error:
            # Lines before the fault are returned first, so that the result does not depend on
            # how the network cut the bytes; the next call raises.
            self._broken = error
            if not lines:
                raise
        return lines

    def only_line(self, piece: bytes) -> bytes:
        """Return what `feed` returns alone for a piece of one line, as nearly every piece; else b"".

        A decoder that asks for it first does less for each piece.
        """
        end = len(piece) - 1
        if (
            piece.find(b"\n") == end
            and not (self._held or self._broken)
            and 0 < end <= self.max_line
            and piece[:1] == b"{"
            and piece[end - 1 : end] == b"}"
        ):
            return piece[:end]
        return b""

    def last_line(self, piece: bytes) -> int:
        """Return where the last of several objects begins that `feed` may return for a piece; else 0."""
        if (
            piece[-2:] == b"}\n"
            and piece[:1] == b"{"
            and not (self._held or self._broken)
            and len(piece) <= self.max_line
        ):
            begin = piece.rfind(BETWEEN) + 2
            return begin if begin > 1 else 0
        return 0

    def close(self) -> list[bytes]:
        if self._broken:
            raise self._broken
        last = self._take().strip(_BLANKS)
        return [last] if last else []

    def _hold(self, part: bytes) -> None:
        self._held.append(part)
        self._size += len(part)
        if self._size > self.max_line:
            self._broken = self._too_long()
            raise self._broken

    def _too_long(self) -> BrokenWire:
        return BrokenWire(f"the provider sent a line of more than {self.max_line} bytes")

    def _take(self) -> bytes:
        last = b"".join(self._held)
        self._held = []
        self._size = 0
        return last
