"""The created keys of a running gateway, read again when the store has changed.

A new, changed or revoked key takes effect within a second. Once a key has existed, a key stays
required for as long as the process runs: a lost file must not open the gateway. While the store
cannot be read, the keys that were read last are valid; before the first read, none is.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from toolbridge.core.errors import Busy, NotAllowed
from toolbridge.core.messages import Loss, Request
from toolbridge.policy.key_scopes import allowed_tools
from toolbridge.state_dir import state_dir
from toolbridge.store import StoreUnavailable
from toolbridge.store.budgets import Budgets
from toolbridge.store.keys import KeyRecord, KeyStore, fits, id_of
from toolbridge.store.notices import notice
from toolbridge.store.sqlite_keys import KEYS_FILE, SqliteKeys

_PAUSE = 1.0
"""Seconds for which the keys are not read again."""
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
        self._read_at = float("-inf")
        self._trouble = ""
        self._lock = asyncio.Lock()

    async def refresh(self) -> None:
        """Read the keys again, at most once a second and only if they have changed.

        Requests that arrive while the keys are read wait for the end of the reading.
        """
        if self._store is None or self._is_fresh():
            return
        async with self._lock:
            if not self._is_fresh():
                await self._try_to_read(self._store)
                self._read_at = time.monotonic()

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._read_at < _PAUSE

    async def _try_to_read(self, store: KeyStore) -> None:
        if not self.required and not store.may_exist():
            return  # the usual case: one person, and no file
        self.required = True
        try:
            version = await store.version()
            if version != self._version:
                self._records = {record.id: record for record in await store.all()}
                self._version = version
            self._trouble = ""
        except StoreUnavailable as error:
            if not self._trouble:
                notice(f"the keys cannot be read: {error}; the last known keys stay valid")
            self._trouble = str(error)

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
                f"the keys cannot be read: {self._trouble}; run `toolbridge doctor`",
                retry_after=_RETRY,
            )
        return None

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()


def created_keys(env: Mapping[str, str]) -> CreatedKeys:
    """Return the created keys of the state directory."""
    state = state_dir(env)
    return CreatedKeys(SqliteKeys(state / KEYS_FILE) if state else None)


def budgets_in(state: Path | None) -> Callable[[], Budgets] | None:
    """Return the function that opens the budgets of the state directory, for the first limit."""
    if state is None:
        return None

    def open_budgets() -> Budgets:
        from toolbridge.store.sqlite_budgets import SqliteBudgets

        return SqliteBudgets(state / KEYS_FILE)

    return open_budgets


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
