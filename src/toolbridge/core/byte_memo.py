"""Results by the JSON or the text from which they were made, bounded by its length.

An agent sends its tools and its whole conversation with every request, and nearly all of it is what
it sent the last time. Values are shared between requests, so nothing may change them.
"""

from typing import Generic, TypeVar

K = TypeVar("K", str, bytes)
V = TypeVar("V")


class ByteMemo(Generic[K, V]):
    """A cache in two generations: entries that were used lately, and those used before them."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._size = 0

    def get(self, key: K) -> V | None:
        found = self._young.get(key)
        if found is None and (found := self._old.pop(key, None)) is not None:
            self.put(key, found)
        return found

    def get_all(self, keys: list[K]) -> list[V | None]:
        """Return the value of each key, as `get` does."""
        found: list[V | None] = [*map(self._young.get, keys)]
        if None in found and self._old:
            return [*map(self.get, keys)]
        return found

    def put(self, key: K, value: V) -> None:
        """Keep `value`; older entries are dropped when the keys exceed the limit."""
        if len(key) > self._half:
            return
        self._size += len(key)
        if self._size > self._half:
            self._old, self._young, self._size = self._young, {}, len(key)
        self._young[key] = value
