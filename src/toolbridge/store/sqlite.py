"""The store in one SQLite file, or in memory: the default engine.

The file has the values with their secrets masked, so that no secret is on the disk; after a restart
a repeat has masks in place of secrets. SQLite runs in its own thread, so that a slow disk does not
block the event loop. Processes on the same file see one another's values at once, and the entries
of logs within `POLL` seconds.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from toolbridge.core.redaction import Redactor
from toolbridge.store.database import Bounds, Database
from toolbridge.store.file import StoreFile, Unavailable
from toolbridge.store.interface import MOST_VALUES, Numbered
from toolbridge.store.local_copies import LocalCopies, LocalCopy, mark_of
from toolbridge.store.log_waiters import LogWaiters
from toolbridge.store.masked import masked
from toolbridge.store.notices import notice

P = ParamSpec("P")
T = TypeVar("T")

SIZE = 256 * 1024 * 1024
"""The maximum size of all values in the file, in bytes."""
MEMORY = 64 * 1024 * 1024
"""The maximum size of each kind of value in memory, in bytes."""
POLL = 0.05
"""Seconds between two checks whether another process has written to the file."""


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
        self._in_memory: LocalCopies | None = None
        self._waiters = LogWaiters()
        self._too_large: set[str] = set()
        self._memory_bounds = Bounds(values=most, bytes=min(MEMORY, bounds.bytes))

    @property
    def trouble(self) -> str:
        """Why values are kept in memory only; empty while the file is used."""
        return "HOME is not set" if self._file is None else self._file.trouble

    async def get(self, scope: str, key: str) -> bytes | None:
        return await self._run(self._get, scope, key)

    async def values(self, kind: str) -> list[bytes]:
        return await self._run(self._values, kind)

    async def put(self, scope: str, key: str, value: bytes, *, seconds: float) -> None:
        await self._run(self._put, scope, key, value, seconds)

    async def claim(
        self, scope: str, key: str, value: bytes, *, seconds: float
    ) -> tuple[bytes, bool]:
        return await self._run(self._claim, scope, key, value, seconds)

    async def replace(
        self, scope: str, key: str, old: bytes, new: bytes, *, seconds: float
    ) -> bool:
        return await self._run(self._replace, scope, key, (old, new), seconds)

    async def drop(self, scope: str, key: str) -> bool:
        return await self._run(self._drop, scope, key)

    async def append(
        self,
        scope: str,
        key: str,
        first: int,
        entries: Sequence[bytes],
        *,
        seconds: float,
        redacted: Callable[[], Sequence[Numbered]] | None = None,
    ) -> None:
        numbered = list(enumerate(entries, first))
        await self._run(self._append, (scope, key), numbered, redacted, seconds)
        self._waiters.wake((scope, key))

    async def read(self, scope: str, key: str, after: int, *, wait: float = 0.0) -> list[Numbered]:
        until = asyncio.get_running_loop().time() + wait
        version = -1
        while True:
            with self._waiters.waiting((scope, key)) as signal:
                found, version = await self._run(self._read_log, (scope, key), after, version)
                left = until - asyncio.get_running_loop().time()
                if found or left <= 0:
                    return found
                if await signal.wait(left if self._file is None else min(left, POLL)):
                    version = -1

    async def connection(self) -> str:
        return ""  # all processes are on this machine, where process ids are enough

    async def is_connected(self, name: str) -> bool:
        return not name

    async def check(self) -> str:
        return await self._run(self._check)

    async def close(self) -> None:
        await self._run(self._close)
        self._thread.shutdown()

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(work, *args, **kwargs))

    # ── in the thread ────────────────────────────────────────────────────────

    @property
    def _memory(self) -> LocalCopies:
        if self._in_memory is None:
            self._in_memory = LocalCopies(self._memory_bounds)
        return self._in_memory

    def _get(self, scope: str, key: str) -> bytes | None:
        copy = self._memory.get(scope, key)
        if self._file is None or (copy is not None and not self._is_written(copy)):
            return None if copy is None else copy.value
        try:
            kept = self._file.read(lambda file: file.get(scope, key))
        except Unavailable:
            return None if copy is None else copy.value
        # The file may have been renamed just now.
        if copy is not None and (not self._is_written(copy) or self._has_written(copy, kept)):
            return copy.value
        return kept

    def _values(self, kind: str) -> list[bytes]:
        if self._file is not None:
            with suppress(Unavailable):
                return self._file.read(lambda file: file.values(kind, MOST_VALUES))
        return []

    def _is_written(self, copy: LocalCopy) -> bool:
        """Return whether the present file has or had the value."""
        return self._file is not None and copy.mark[:1] == _generation(self._file)

    def _has_written(self, copy: LocalCopy, kept: bytes | None) -> bool:
        """Return whether what the file has is the value of this process, masked."""
        return kept is not None and copy.mark[1:] == mark_of(kept)

    def _put(self, scope: str, key: str, value: bytes, seconds: float) -> None:
        self._refuse_large(scope, value)
        mark = b""
        if self._file is not None:
            # No secret may reach the file.
            safe = self.redactor.encoded(value)
            with suppress(Unavailable):
                if self._file.write(lambda file: file.put(scope, key, safe, seconds)):
                    mark = self._mark(safe)
        self._memory.put(scope, key, LocalCopy(value, mark), seconds)

    def _mark(self, safe: bytes) -> bytes:
        return b"" if self._file is None else _generation(self._file) + mark_of(safe)

    def _refuse_large(self, scope: str, value: bytes) -> None:
        kind = scope.partition("/")[0]
        if len(value) > self._memory.largest and kind not in self._too_large:
            self._too_large.add(kind)
            notice(f"a value of {len(value)} bytes ({kind}) is too large to be kept in memory")

    def _claim(self, scope: str, key: str, value: bytes, seconds: float) -> tuple[bytes, bool]:
        held = self._memory.get(scope, key)
        if self._file is not None:
            with suppress(Unavailable):
                if held is None or self._is_written(held):
                    return self._claim_outside(self._file, scope, key, value, seconds)
                # It dates from when the file could not be used.
                return self._claim_outside(self._file, scope, key, held.value, seconds)[0], False
            if held is None and (kept := self._get(scope, key)) is not None:
                return kept, False
        if held is not None:
            return held.value, False
        self._memory.put(scope, key, LocalCopy(value, b""), seconds)
        return value, True

    def _claim_outside(
        self, file: StoreFile, scope: str, key: str, value: bytes, seconds: float
    ) -> tuple[bytes, bool]:
        safe = self.redactor.encoded(value)
        kept, new = file.write(lambda database: database.claim(scope, key, safe, seconds))
        if new:
            self._memory.put(scope, key, LocalCopy(value, self._mark(safe)), seconds)
            return value, True
        held = self._memory.get(scope, key)
        mine = held is not None and (not held.mark or self._has_written(held, kept))
        return held.value if held is not None and mine else kept, False

    def _replace(self, scope: str, key: str, values: tuple[bytes, bytes], seconds: float) -> bool:
        old, new = values
        safe = [self.redactor.encoded(value) for value in values]
        held, mark = self._memory.get(scope, key), b""
        try:
            if self._file is None or (held is not None and not self._is_written(held)):
                # A value of memory alone dates from when the file could not be used.
                done = held is not None and held.value == old
                if done and self._file is not None:
                    self._file.write(lambda file: file.put(scope, key, safe[1], seconds))
            else:
                done = self._file.write(
                    lambda file: file.replace(scope, key, safe[0], safe[1], seconds)
                )
            mark = self._mark(safe[1])
        except Unavailable:
            # A file on a full disk can still be read.
            done = self._get(scope, key) == old
        if done:
            self._memory.put(scope, key, LocalCopy(new, mark), seconds)
        return done

    def _drop(self, scope: str, key: str) -> bool:
        dropped = self._memory.drop(scope, key)
        if self._file is not None:
            with suppress(Unavailable):
                dropped |= self._file.write(lambda file: file.drop(scope, key))
        return dropped

    def _append(
        self,
        log: tuple[str, str],
        entries: list[Numbered],
        redacted: Callable[[], Sequence[Numbered]] | None,
        seconds: float,
    ) -> None:
        self._memory.append(*log, entries, seconds)
        if self._file is None:
            return
        outside = entries if redacted is None else redacted()
        safe = [(n, masked(self.redactor, entry)) for n, entry in outside]
        if safe:
            with suppress(Unavailable):
                self._file.write(lambda file: file.append(*log, safe, seconds))

    def _read_log(
        self, log: tuple[str, str], after: int, version: int
    ) -> tuple[list[Numbered], int]:
        """Return entries of a log, and the version of the file; none if that is `version`."""
        mine = self._memory.read(*log, after)
        if self._file is None or (mine and mine[0][0] == after + 1):
            return mine, -1
        with suppress(Unavailable):
            now = self._file.read(lambda file: file.version)
            if now == version:
                return mine, now
            return self._file.read(lambda file: file.read(*log, after)) or mine, now
        return mine, -1

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


def _generation(file: StoreFile) -> bytes:
    return bytes([file.generation % 255 + 1])


def _try_to_write(file: Database) -> None:
    file.put("check", "check", b"0", 0.0)
    file.drop("check", "check")
