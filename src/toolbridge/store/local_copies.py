"""The exact values of this process beside the masked ones outside of it.

A copy knows what was written outside: its digest, or nothing while that has failed. So a value that
another process has replaced or dropped since is never returned from here, and one that could not be
written is. Every engine of the store uses it; it is also the whole store of a process without any
other.
"""

from hashlib import blake2b
from typing import NamedTuple

from toolbridge.store.database import Bounds, in_memory

_SIZE = 17
_UNWRITTEN = bytes(_SIZE)


class LocalCopy(NamedTuple):
    """A value, and the mark of what was written outside; empty for nothing."""

    value: bytes
    mark: bytes
    """The number of the place that it was written to, in one byte, and `mark_of` what was written."""


class LocalCopies:
    """A bounded table in memory."""

    def __init__(self, bounds: Bounds) -> None:
        self._database = in_memory(bounds)
        self.largest = bounds.largest - _SIZE
        """The maximum size of one value in bytes; its mark needs the rest."""
        self.append = self._database.append
        self.read = self._database.read
        self.drop = self._database.drop
        self.close = self._database.close

    def get(self, scope: str, key: str) -> LocalCopy | None:
        found = self._database.get(scope, key)
        if found is None:
            return None
        mark = found[:_SIZE]
        return LocalCopy(found[_SIZE:], b"" if mark == _UNWRITTEN else mark)

    def put(self, scope: str, key: str, copy: LocalCopy, seconds: float) -> None:
        self._database.put(scope, key, (copy.mark or _UNWRITTEN) + copy.value, seconds)


def mark_of(written: bytes) -> bytes:
    """Return the digest of what was written outside."""
    return blake2b(written, digest_size=_SIZE - 1).digest()
