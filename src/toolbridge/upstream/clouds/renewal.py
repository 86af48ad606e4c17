"""Credentials that expire: fetched when first used, renewed before they expire, once for all.

Requests that need a credential at the same time wait for one fetch. While an old credential is still
valid, a failed renewal is not reported.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from toolbridge.core.errors import ToolbridgeError

T = TypeVar("T")
EARLY = 300.0
"""Seconds before its end at which a credential is renewed."""
NEVER = float("inf")
_FRESH = 10.0
"""Seconds for which a credential is new: one that is rejected then is not fetched again."""


class Expiring(msgspec.Struct, Generic[T], frozen=True):
    """A credential and the time until which it is valid, in seconds since the epoch."""

    value: T
    until: float = NEVER


class RenewedCredential(Generic[T]):
    """One credential of a provider, shared by all of its requests."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Expiring[T]]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = asyncio.Lock()
        self._held: Expiring[T] | None = None
        self._since = 0.0
        self._renew_at = NEVER

    async def get(self) -> T:
        """Return the credential; fetch it first, or again shortly before it expires."""
        held = self._held
        if held is not None and self._clock() < self._renew_at:
            return held.value
        async with self._lock:
            if self._held is not None and self._clock() < self._renew_at:
                return self._held.value  # another request has fetched it
            return await self._renew()

    async def _renew(self) -> T:
        now, held = self._clock(), self._held
        try:
            fetched = await self._fetch()
        except ToolbridgeError:
            if held is None or now >= held.until:
                raise
            self._renew_at = min(held.until, now + _FRESH)
            return held.value
        self._held, self._since = fetched, now
        # A short-lived one is renewed after three quarters of its life.
        self._renew_at = max(fetched.until - EARLY, now + (fetched.until - now) * 0.75)
        return fetched.value

    def forget(self) -> bool:
        """Drop a credential that was rejected; return whether a new one may differ from it."""
        if self._held is None or self._clock() - self._since < _FRESH:
            return False
        self._held = None
        return True
