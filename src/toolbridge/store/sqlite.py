"""The store: values exact in memory and redacted in one SQLite file.

Every value is kept twice. Memory has the value itself, so that a repeat in the same process returns
the same bytes. The file has the value with its secrets masked, so that no secret is on the disk; after
a restart a repeat has masks in place of secrets. If the file cannot be used, the store continues in
memory and `trouble` has the reason: no answer depends on a disk. SQLite runs in its own thread, so
that a slow disk does not block the event loop.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from toolbridge.core.redaction import Redactor
from toolbridge.store.database import Bounds, Database, in_memory
from toolbridge.store.file import StoreFile, Unavailable
from toolbridge.store.notices import notice

P = ParamSpec("P")
T = TypeVar("T")

STORE_FILE = "toolbridge.sqlite"
"""The name of the file in the state directory."""
SIZE = 256 * 1024 * 1024
"""The maximum size of all values in the file, in bytes."""
MEMORY = 64 * 1024 * 1024
"""The maximum size of each kind of value in memory, in bytes."""


class SqliteStore:
    """The store of one gateway; without a `path` it is in memory only."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        redactor: Redactor | None = None,
        most: int = 10_000,
        size: int = SIZE,
        wait: float = 5.0,
    ) -> None:
        self.redactor = redactor or Redactor()
        # Two kinds are large: events of streams, and stored responses. Each gets half.
        bounds = Bounds(values=most, bytes=max(1, size // 2))
        self._file = None if path is None else StoreFile(path, bounds, wait)
        self._thread = ThreadPoolExecutor(1, "toolbridge-store")
        self._in_memory: Database | None = None
        self._too_large: set[str] = set()
        self._memory_bounds = Bounds(values=most, bytes=min(MEMORY, bounds.bytes))

    @property
    def trouble(self) -> str:
        """Why values are kept in memory only; empty while the file is used."""
        return "HOME is not set" if self._file is None else self._file.trouble

    async def get(self, scope: str, key: str) -> bytes | None:
        """Return the value: exact from memory, or with masked secrets from the file."""
        return await self._run(self._get, scope, key)

    async def put(self, scope: str, key: str, value: bytes, *, seconds: float) -> None:
        """Store a value: JSON, MessagePack or text."""
        await self._run(self._put, scope, key, value, seconds)

    async def put_pair(
        self,
        scope: str,
        exact: Iterable[tuple[str, bytes]],
        redacted: Callable[[], Iterable[tuple[str, bytes]]],
        *,
        seconds: float,
    ) -> None:
        """Store the pairs of `exact` in memory, and those that `redacted` returns in the file.

        For values that the caller must redact as a whole. `redacted` runs in the store's thread.
        """
        await self._run(self._put_pair, scope, exact, redacted, seconds)

    async def once(
        self,
        scope: str,
        key: str,
        make: Callable[[sqlite3.Connection], bytes],
        *,
        seconds: float,
    ) -> tuple[bytes, bool]:
        """Return the value under `key`, or make and store it; and whether it is new.

        `make` may write through the connection that it is given: its writes and the stored value are
        one transaction, also for another process and if this one is killed. It runs in the store's
        thread, so it must be short. Without the file this holds within this process only.
        """
        return await self._run(self._once, scope, key, make, seconds)

    async def drop(self, scope: str, key: str) -> bool:
        """Delete a value; return whether there was one."""
        return await self._run(self._drop, scope, key)

    async def check(self) -> str:
        """Write to the file as a test; return the error, empty on success."""
        return await self._run(self._check)

    async def close(self) -> None:
        await self._run(self._close)
        self._thread.shutdown()

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(work, *args, **kwargs))

    # ── in the thread ────────────────────────────────────────────────────────

    @property
    def _memory(self) -> Database:
        if self._in_memory is None:
            self._in_memory = in_memory(self._memory_bounds)
        return self._in_memory

    def _get(self, scope: str, key: str) -> bytes | None:
        value = self._memory.get(scope, key)
        return self._read(scope, key) if value is None else value

    def _read(self, scope: str, key: str) -> bytes | None:
        if self._file is not None:
            with suppress(Unavailable):
                return self._file.read(lambda file: file.get(scope, key))
        return None

    def _put(self, scope: str, key: str, value: bytes, seconds: float) -> None:
        self._put_pair(scope, [(key, value)], lambda: [(key, value)], seconds)

    def _put_pair(
        self,
        scope: str,
        exact: Iterable[tuple[str, bytes]],
        redacted: Callable[[], Iterable[tuple[str, bytes]]],
        seconds: float,
    ) -> None:
        for key, value in exact:
            self._refuse_large(scope, value)
            self._memory.put(scope, key, value, seconds)
        if self._file is None:
            return
        for key, value in redacted():
            # Redact again, whatever the caller did: no secret may reach the file.
            safe = self.redactor.encoded(value)
            with suppress(Unavailable):
                self._file.write(
                    partial(_put_in, scope=scope, key=key, value=safe, seconds=seconds)
                )

    def _refuse_large(self, scope: str, value: bytes) -> None:
        kind = scope.partition("/")[0]
        if len(value) > self._memory_bounds.largest and kind not in self._too_large:
            self._too_large.add(kind)
            notice(f"a value of {len(value)} bytes ({kind}) is too large to be kept in memory")

    def _once(
        self, scope: str, key: str, make: Callable[[sqlite3.Connection], bytes], seconds: float
    ) -> tuple[bytes, bool]:
        if self._file is not None:
            with suppress(Unavailable):
                return self._once_in(self._file, scope, key, make, seconds)
            if self._memory.get(scope, key) is None and (kept := self._read(scope, key)):
                return kept, False
        return self._memory.once(scope, key, make, seconds, bytes)

    def _once_in(
        self,
        file: StoreFile,
        scope: str,
        key: str,
        make: Callable[[sqlite3.Connection], bytes],
        seconds: float,
    ) -> tuple[bytes, bool]:
        held = self._memory.get(scope, key)  # it may date from when the file could not be used
        value, new = file.write(
            lambda database: database.once(
                scope, key, make if held is None else lambda _: held, seconds, self.redactor.encoded
            )
        )
        if held is not None:
            return held, False
        if new:
            self._memory.put(scope, key, value, seconds)
        return value, new

    def _drop(self, scope: str, key: str) -> bool:
        dropped = self._memory.drop(scope, key)
        if self._file is not None:
            with suppress(Unavailable):
                dropped |= self._file.write(lambda file: file.drop(scope, key))
        return dropped

    def _check(self) -> str:
        if self._file is not None:
            with suppress(Unavailable):
                self._file.write(_try_to_write)
        return self.trouble

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._in_memory is not None:
            self._in_memory.close()
            self._in_memory = None


def _put_in(file: Database, *, scope: str, key: str, value: bytes, seconds: float) -> None:
    file.put(scope, key, value, seconds)


def _try_to_write(file: Database) -> None:
    file.put("check", "check", b"0", 0.0)
    file.drop("check", "check")
