"""Idempotency keys: which answer or run holds a key, and with which request.

A key is free again when the work that holds it has failed in a way that a repeat may avoid, or when
its process has died. Of several processes that claim a key, exactly one gets it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from toolbridge.core.errors import IdempotencyConflict
from toolbridge.store.interface import Store

T = TypeVar("T")


class Claim(msgspec.Struct, frozen=True):
    """The work that holds a key, the hash of its request, and its process; without work it is free."""

    work: str = ""
    request: str = ""
    process: str = ""


_claim = msgspec.msgpack.Decoder(Claim)
_PAUSE = 0.01
"""Seconds before a key that another process has taken is read again."""
_FREE = msgspec.msgpack.encode(Claim())


class Claims:
    """The keys of one kind, in scopes of the callers."""

    def __init__(self, store: Store, kind: str, seconds: float) -> None:
        self._store = store
        self._kind = kind
        self._seconds = seconds

    async def claim(
        self, owner: str, key: str, mine: Claim, find: Callable[[Claim], Awaitable[T | None]]
    ) -> T | None:
        """Claim `key`; return what `find` returns for the work that holds it already, or None.

        `find` returns None for work that a repeat must do again. Raise `IdempotencyConflict` if the
        key is held for another request.
        """
        scope, new = self._scope(owner), msgspec.msgpack.encode(mine)
        while True:
            value, is_new = await self._store.claim(scope, key, new, seconds=self._seconds)
            if is_new:
                return None
            held = _claim.decode(value)
            if held.work:
                if held.request != mine.request:
                    text = "this Idempotency-Key was used with another request; use a new one"
                    raise IdempotencyConflict(text, where="Idempotency-Key")
                if (found := await find(held)) is not None:
                    return found
            if await self._store.replace(scope, key, value, new, seconds=self._seconds):
                return None
            await asyncio.sleep(_PAUSE)

    async def free(self, owner: str, key: str, mine: Claim) -> None:
        """Free a key, unless other work holds it meanwhile."""
        old = msgspec.msgpack.encode(mine)
        await self._store.replace(self._scope(owner), key, old, _FREE, seconds=self._seconds)

    def _scope(self, owner: str) -> str:
        return f"{self._kind}/{owner}"
