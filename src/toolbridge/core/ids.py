"""Names for what has none.

Ids are drawn from a seed and a counter, so this room needs no dice: the shell seeds each request
from the operating system, a test seeds it with a word and gets the same ids every time.
"""

from hashlib import blake2b


class Ids:
    """An endless row of ids, the same for the same seed."""

    def __init__(self, seed: bytes | str = b"") -> None:
        self._seed = seed.encode() if isinstance(seed, str) else seed
        self._drawn = 0

    def draw(self, digits: int) -> str:
        self._drawn += 1
        key = self._seed + self._drawn.to_bytes(8, "big")
        return blake2b(key, digest_size=(digits + 1) // 2).hexdigest()[:digits]

    def call(self) -> str:
        return f"toolu_{self.draw(16)}"

    def message(self) -> str:
        return f"msg_{self.draw(16)}"

    def request(self) -> str:
        return f"req_{self.draw(8)}"


class SeenIds:
    """The ids that came last, to tell one that is repeated from one that is new."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._seen: dict[str, None] = {}

    def is_new(self, id: str) -> bool:
        """Whether `id` did not come before; from now on it did."""
        if id in self._seen:
            return False
        self._seen[id] = None
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
        return True
