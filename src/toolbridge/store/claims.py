"""Idempotency keys: which answer or run holds a key, and with which request.

A key is free again when the work that holds it has failed in a way that a repeat may avoid, or when
its process has died. Of several processes that claim a key, exactly one gets it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakValueDictionary

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

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._kind = kind
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def claim(
        self,
        owner: str,
        key: str,
        mine: Claim,
        find: Callable[[Claim], Awaitable[T | None]],
        *,
        seconds: float,
    ) -> T | None:
        """Claim `key` for a time; return what `find` returns for the work that holds it, or None.

        `find` returns None for work that a repeat must do again. Raise `IdempotencyConflict` if the
        key is held for another request. The caller must begin its work before it waits again.
        """
        # Answers of a server may arrive in another order than they were made. Without the lock, a
        # repeat might find the claim of this process before the work exists, and take it for dead.
        async with self._locks.setdefault((owner, key), asyncio.Lock()):
            return await self._claim(self._scope(owner), key, mine, find, seconds)

    async def _claim(
        self,
        scope: str,
        key: str,
        mine: Claim,
        find: Callable[[Claim], Awaitable[T | None]],
        seconds: float,
    ) -> T | None:
        new = msgspec.msgpack.encode(mine)
        while True:
            value, is_new = await self._store.claim(scope, key, new, seconds=seconds)
            if is_new:
                return None
            held = _claim.decode(value)
            if held.work:
                if held.request != mine.request:
                    text = "this Idempotency-Key was used with another request; use a new one"
                    raise IdempotencyConflict(text, where="Idempotency-Key")
                if (found := await find(held)) is not None:
                    return found
            if await self._store.replace(scope, key, value, new, seconds=seconds):
                return None
            await asyncio.sleep(_PAUSE)

    async def free(self, owner: str, key: str, mine: Claim, *, seconds: float) -> None:
        """Free a key, unless other work holds it meanwhile."""
        old = msgspec.msgpack.encode(mine)
        await self._store.replace(self._scope(owner), key, old, _FREE, seconds=seconds)

    def _scope(self, owner: str) -> str:
        return f"{self._kind}/{owner}"
