"""Generated ids of messages, calls and requests.

Ids are derived from a seed and a counter, so pure packages need no randomness. The server seeds
each request from the operating system; a test passes a fixed seed and gets the same ids every time.
"""

from hashlib import blake2b

import msgspec

_OWN_DIGITS = 10
"""Digits of the id of a request that differ from those of its neighbours."""
_NEIGHBOURS = 256
"""About as many ids of requests have the same first digits."""


class Ids(msgspec.Struct, eq=False, gc=False):
    """A sequence of ids that depends only on the seed."""

    seed: bytes | str = b""
    _drawn: int = 0
    _beginning: str = ""
    _requests: int = 0
    _digits: str = ""
    """Digits for the next requests."""

    def draw(self, digits: int) -> str:
        self._drawn += 1
        seed = self.seed.encode() if isinstance(self.seed, str) else self.seed
        key = seed + self._drawn.to_bytes(8, "big")
        return blake2b(key, digest_size=(digits + 1) // 2).hexdigest()[:digits]

    def skip(self) -> None:
        """Leave one id out, where another path draws it."""
        self._drawn += 1

    def call(self) -> str:
        return f"toolu_{self.draw(16)}"

    def message(self) -> str:
        return f"msg_{self.draw(16)}"

    def request(self) -> str:
        """Return the id of a request.

        Neighbouring ids begin alike, so that the index of the ledger changes few of its pages.
        """
        if not self._requests % _NEIGHBOURS:
            self._beginning = self.draw(6)
        self._requests += 1
        digits = self._digits or self.draw(_OWN_DIGITS * 12)
        self._digits = digits[_OWN_DIGITS:]
        return f"req_{self._beginning}{digits[:_OWN_DIGITS]}"


class CallIds(Ids, eq=False, gc=False):
    """The ids of the calls of an answer; its message gets an id later (`policy.answer_stages`)."""

    def message(self) -> str:
        self._drawn += 1
        return ""


class SeenIds:
    """The most recent ids, for detecting a repeated one."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._seen: dict[str, None] = {}

    def is_new(self, id: str) -> bool:
        """Record `id` and return whether it was not recorded before."""
        if id in self._seen:
            return False
        self._seen[id] = None
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]
        return True
