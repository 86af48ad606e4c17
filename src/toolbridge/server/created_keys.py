"""The created keys of a running gateway, read again when the store has changed.

A new, changed or revoked key takes effect within a second. Once a key has existed, a key stays
required for as long as the process runs: a lost file must not open the gateway. While the store
cannot be read, the keys that were read last are valid; before the first read, none is.
"""

import asyncio
import time
from collections.abc import Mapping

from toolbridge.config import Config
from toolbridge.core.errors import Busy, ConfigError, NotAllowed
from toolbridge.core.messages import Loss, Request
from toolbridge.policy.key_scopes import allowed_tools
from toolbridge.state_dir import state_dir
from toolbridge.store import StoreUnavailable
from toolbridge.store.engines import Engines
from toolbridge.store.keys import KeyRecord, KeyStore, fits, id_of
from toolbridge.store.notices import notice, worker_notices
from toolbridge.store_settings import remedy

_PAUSE = 1.0
"""Seconds for which the keys are not read again."""
_WAIT = 1.0
"""Seconds for which a request waits for the keys of a server."""
_MISSING = -1
"""The version of the keys while their file is missing."""
_RETRY = 5.0
"""Seconds after which a client may try again while the keys cannot be read."""


class CreatedKeys:
    """Finds the record of a key that a client has sent."""

    def __init__(self, store: KeyStore | None) -> None:
        self._store = store
        self.required = store is not None and store.may_exist()
        """Whether every request needs a key."""
        self._records: dict[str, KeyRecord] = {}
        self._version: int | None = None
        self.fresh_until = float("-inf")
        """The time of `time.monotonic` until which the keys are not read again."""
        self._trouble = ""
        self._lock = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read the keys of a server; raise `ConfigError` if they cannot be read."""
        if self._store is None or self._store.local:
            return
        try:
            await self._read(self._store)
        except StoreUnavailable as error:
            raise ConfigError(f"`ledger`: {error}; {remedy(str(error), 'ledger')}") from None

    async def refresh(self) -> None:
        """Read the keys again, at most once a second and only if they have changed.

        Requests that arrive while a file is read wait for the end of the reading.
        """
        if self._store is None or self.is_fresh:
            return
        if self._store.local:
            async with self._lock:
                if not self.is_fresh:
                    await self._try_to_read(self._store)
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._try_to_read(self._store))
        # Under load no request waits for the server. After a pause the known keys are too old: one may
        # have been revoked. While the server does not answer, the keys that were read last are valid.
        if not self._trouble and time.monotonic() > self.fresh_until + _PAUSE:
            await asyncio.wait({self._reading}, timeout=_WAIT)

    @property
    def is_fresh(self) -> bool:
        """Whether the keys were read in the last second."""
        return time.monotonic() < self.fresh_until

    async def _try_to_read(self, store: KeyStore) -> None:
        await self._read_or_report(store)
        self.fresh_until = time.monotonic() + _PAUSE  # not after a cancellation

    async def _read_or_report(self, store: KeyStore) -> None:
        if not self.required and not store.may_exist():
            return  # the usual case: one person, and no file
        self.required = self.required or store.local
        try:
            await self._read(store)
        except StoreUnavailable as error:
            if not self._trouble:
                text = f"the keys cannot be read: {error}; the last known keys stay valid"
                worker_notices.report("keys", text, fault=True)
            self._trouble = str(error)
            return
        if self._trouble and not store.local:
            worker_notices.report("keys", "the keys are read again", fault=False)
        self._trouble = ""

    async def _read(self, store: KeyStore) -> None:
        version = await store.version()
        if version != self._version:
            self._records = {record.id: record for record in await store.all()}
            if store.local and version == _MISSING:
                notice(
                    "keys were created, and keys.sqlite is missing in the state directory: no created "
                    "key is admitted. Restore the file, create keys with `toolbridge key create "
                    "NAME`, or delete keys.created beside it to serve without keys"
                )
            # A file exists once a key was created. A server has records of revoked keys too.
            had_keys = self.required and self._version is not None
            self.required = store.local or had_keys or bool(self._records)
            self._version = version

    def find(self, shown: list[str]) -> KeyRecord | None:
        """Return the record of the first created key among those that a client has sent.

        Raise `NotAllowed` for a revoked or expired key, and `Busy` if no key could be read yet.
        """
        if not self.required:
            return None
        for key in shown:
            record = self._records.get(id_of(key))
            if fits(record, key) and record is not None:
                if (state := record.state(time.time())) != "active":
                    raise NotAllowed(
                        f"the key {record.name!r} ({record.prefix}…) is {state}; the gateway's "
                        f"operator creates a new one with `toolbridge key create {record.name}`"
                    )
                return record
        if self._version is None and any(id_of(key) for key in shown):
            raise Busy(
                "the keys cannot be read now; the gateway's operator finds the cause with "
                "`toolbridge doctor`",
                retry_after=_RETRY,
            )
        return None

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._store is not None:
            await self._store.close()


def created_keys(config: Config, env: Mapping[str, str]) -> CreatedKeys:
    """Return the created keys that a gateway with these settings admits."""
    return CreatedKeys(Engines(config, state_dir(env), env).keys())


def permitted_request(
    request: Request, key: KeyRecord | None, loop_guard: int
) -> tuple[Request, tuple[Loss, ...]]:
    """Return the request without forbidden tools, with a note of the loop guard, and the changes."""
    removed: tuple[Loss, ...] = ()
    if key is not None:
        request, removed = allowed_tools(key.name, key.scopes, request)
    if not loop_guard:
        return request, removed
    from toolbridge.policy.loop_guard import break_loop

    request, noted = break_loop(request, loop_guard)
    return request, removed + noted
