"""What a gateway learns about models, in the store: tool modes, corrections, calibrated counts.

Each process learns in memory, so that no request waits for the store. What earlier processes knew
is read at the start. Processes that share a store, as workers or on a server, also read and write
at intervals, beside the requests.
"""

import asyncio
from contextlib import suppress

import msgspec

from toolbridge.accounting.calibrate import RatioState
from toolbridge.routing.router import Router
from toolbridge.store.interface import Store

INTERVAL = 15.0
"""Seconds between two exchanges with other processes."""
_SCOPE, _KEY = "calibration", "all"
_KEPT = 30 * 24 * 3600.0
_states = msgspec.msgpack.Decoder(dict[str, RatioState])


class SharedFacts:
    """Reads and writes what the router of a gateway has learned."""

    def __init__(self, router: Router, store: Store) -> None:
        self._router = router
        self._store = store
        self._sharing: asyncio.Task[None] | None = None
        self._has_values = False

    async def open(self, *, has_values: bool, shared: bool) -> None:
        """Read what is kept; with `shared`, go on at intervals."""
        self._has_values = has_values or shared
        # A file that does not exist is not created before there is something to store.
        await self._router.tool_modes.open(self._store, load=has_values)
        if has_values:
            await self._read_counts()
        if shared:
            self._sharing = asyncio.create_task(self._share())

    async def _share(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            await self._router.tool_modes.refresh()
            await self._router.sources.corrections.refresh()
            await self._write_counts()

    async def _read_counts(self) -> None:
        kept = await self._store.get(_SCOPE, _KEY)
        with suppress(msgspec.MsgspecError):  # of another version: it is learned again
            self._router.calibration.adopt(_states.decode(kept) if kept else {})

    async def _write_counts(self) -> None:
        await self._read_counts()
        if known := self._router.calibration.states():
            await self._store.put(_SCOPE, _KEY, msgspec.msgpack.encode(known), seconds=_KEPT)

    async def close(self) -> None:
        if self._sharing is not None:
            self._sharing.cancel()
            await asyncio.gather(self._sharing, return_exceptions=True)
        if self._has_values:
            await self._write_counts()
