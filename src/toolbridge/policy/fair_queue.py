"""A queue that is fair between keys: each key in turn gets its oldest item."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items of several keys; a key with many items does not delay the other keys."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()
        """Key → its items; the first key is the next one."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, key: str, item: T) -> None:
        self._lines.setdefault(key, deque()).append(item)
        self._size += 1

    def remove(self, key: str, item: T) -> None:
        """Remove an item that no longer waits."""
        line = self._lines[key]
        line.remove(item)
        self._size -= 1
        if not line:
            del self._lines[key]

    def pop(self) -> T | None:
        """Remove and return the oldest item of the next key; None if nothing waits."""
        if not self._lines:
            return None
        key, line = self._lines.popitem(last=False)
        item = line.popleft()
        self._size -= 1
        if line:
            self._lines[key] = line
        return item
