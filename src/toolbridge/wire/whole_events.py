"""Cut a byte stream into whole SSE events or NDJSON lines without changing a byte.

The parts, joined, are the bytes that were fed. Passthrough forwards them while a decoder reads a
copy. Bytes after the last whole part are held until `close`.
"""

import re

from toolbridge.core.errors import BrokenWire
from toolbridge.wire.sse import MAX_EVENT

_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
"""Two line ends in a row. WHATWG HTML, section 9.2.6: an empty line dispatches the event."""
_LONGEST_END = 4


class WholeEvents:
    """A stage that takes bytes and returns whole SSE events, each with its empty line."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._scanned = 0

    def feed(self, piece: bytes, /) -> list[bytes]:
        self._held += piece
        found: list[bytes] = []
        start = 0
        for end in _END.finditer(self._held, max(0, self._scanned - _LONGEST_END)):
            found.append(bytes(self._held[start : end.end()]))
            start = end.end()
        if start:
            del self._held[:start]
        self._scanned = len(self._held)
        _check_size(self._scanned, "an event")
        return found

    def close(self) -> list[bytes]:
        """Return the bytes after the last whole event."""
        rest, self._held = bytes(self._held), bytearray()
        return [rest] if rest else []


class WholeLines:
    """A stage that takes bytes and returns whole NDJSON lines, each with its line end."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes, /) -> list[bytes]:
        *whole, rest = piece.split(b"\n")
        found = [line + b"\n" for line in whole]
        if found and self._held:
            found[0] = b"".join([*self._held, found[0]])
            self._held = []
            self._size = 0
        if rest:
            self._held.append(rest)
            self._size += len(rest)
            _check_size(self._size, "a line")
        return found

    def close(self) -> list[bytes]:
        rest, self._held = b"".join(self._held), []
        return [rest] if rest else []


def _check_size(size: int, what: str) -> None:
    if size > MAX_EVENT:
        raise BrokenWire(f"the provider sent {what} of more than {MAX_EVENT} bytes")
