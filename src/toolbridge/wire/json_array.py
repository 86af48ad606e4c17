"""Split a JSON array into its elements while it arrives.

Gemini's `streamGenerateContent` answers with one JSON array of chunks unless `alt=sse` is set.
"""

import re

from toolbridge.core.errors import BrokenWire

MAX_ELEMENT = 8 * 1024 * 1024

_OUTSIDE = re.compile(rb'["{}\[\],]')
_INSIDE = re.compile(rb'["\\]')
_SPACE = b" \t\r\n"


class ArrayReader:
    """A stage that takes bytes and returns the elements of a JSON array, each once it is whole.

    Only brackets, commas and quotes are followed. An element that is not valid JSON is reported
    when it is decoded.
    """

    def __init__(self, *, max_element: int = MAX_ELEMENT) -> None:
        self._max = max_element
        self._held: list[bytes] = []
        self._size = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._broken: BrokenWire | None = None

    def feed(self, piece: bytes, /) -> list[bytes]:
        if self._broken:
            raise self._broken
        elements: list[bytes] = []
        try:
            self._read(piece, elements)
        except BrokenWire as error:
            # Elements before the fault are returned first, so that the result does not depend on
            # how the network cut the bytes; the next call raises.
            self._broken = error
            if not elements:
                raise
        return elements

    def close(self) -> list[bytes]:
        """Return the beginning of an element that was cut off, if there is one."""
        if self._broken:
            raise self._broken
        return self._take()

    @property
    def is_open(self) -> bool:
        """Whether the end of the array has not come."""
        return self._depth > 0

    def _read(self, piece: bytes, elements: list[bytes]) -> None:
        at = start = 0
        while at < len(piece):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_INSIDE if self._in_string else _OUTSIDE).search(piece, at)
            if found is None:
                break
            at = found.end()
            mark = found.group()
            if self._in_string:
                self._in_string = mark != b'"'
                self._escaped = mark == b"\\"
            elif mark == b'"':
                self._in_string = True
            elif (edge := self._step(mark, found)) is not None:
                self._hold(piece[start:edge])
                elements += self._take()
                start = at
        self._hold(piece[start:])

    def _step(self, mark: bytes, found: "re.Match[bytes]") -> int | None:
        """Follow a bracket or comma; return the offset at which an element ends, or None."""
        if mark in b"{[":
            self._depth += 1
            # The bracket of the array itself; bytes before it are dropped.
            return found.end() if self._depth == 1 else None
        if mark in b"}]":
            self._depth -= 1
            if self._depth < 0:
                raise BrokenWire("the provider sent more bytes after the end of its JSON array")
            if self._depth == 0:
                return found.start()
            return found.end() if self._depth == 1 else None
        return found.start() if self._depth == 1 else None

    def _hold(self, part: bytes) -> None:
        self._held.append(part)
        self._size += len(part)
        if self._size > self._max:
            raise BrokenWire(f"the provider sent an array element of more than {self._max} bytes")

    def _take(self) -> list[bytes]:
        whole = b"".join(self._held).strip(_SPACE)
        self._held = []
        self._size = 0
        return [whole] if whole and whole != b"[" else []
