"""A JSON array that arrives in pieces, one element at a time."""

import re

from toolbridge.core.errors import BrokenWire

MAX_ELEMENT = 8 * 1024 * 1024

_OUTSIDE = re.compile(rb'["{}\[\],]')
_INSIDE = re.compile(rb'["\\]')
_SPACE = b" \t\r\n"


class ArrayReader:
    """Bytes in, elements out, each as soon as it is whole.

    Only the edges of elements are looked for; whoever decodes an element finds what is wrong in it.
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
            # What came before the fault is told first, wherever the network cut.
            self._broken = error
            if not elements:
                raise
        return elements

    def close(self) -> list[bytes]:
        """Return what is left of an element that was cut."""
        if self._broken:
            raise self._broken
        return self._take()

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
        """Go one level in or out; return where an element ends, if one does."""
        if mark in b"{[":
            self._depth += 1
            return (
                found.end() if self._depth == 1 else None
            )  # the array itself; what is before goes
        if mark in b"}]":
            self._depth -= 1
            if self._depth < 0:
                raise BrokenWire("the upstream sent more after the end of its array")
            if self._depth == 0:
                return found.start()
            return found.end() if self._depth == 1 else None
        return found.start() if self._depth == 1 else None

    def _hold(self, part: bytes) -> None:
        self._held.append(part)
        self._size += len(part)
        if self._size > self._max:
            raise BrokenWire(f"an element is longer than {self._max} bytes")

    def _take(self) -> list[bytes]:
        whole = b"".join(self._held).strip(_SPACE)
        self._held = []
        self._size = 0
        return [whole] if whole and whole != b"[" else []
