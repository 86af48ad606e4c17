"""The embedded store: one SQLite file, or memory.

Values have a scope (what they are and whose), a key, an end, and a bound on how many of a scope's
kind are kept. SQLite runs in a thread of its own, so that a slow disk does not stop the streams.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SCHEMA = """
create table if not exists kept (
    scope text not null, key text not null, value blob not null, ends real not null,
    primary key (scope, key)
) without rowid;
create index if not exists kept_ends on kept (ends);
"""


class SqliteStore:
    def __init__(self, path: Path | None = None, *, most: int = 10_000) -> None:
        self._path = path
        self._most = most
        self._thread = ThreadPoolExecutor(1, "toolbridge-store")
        self._connection: sqlite3.Connection | None = None

    async def get(self, scope: str, key: str) -> bytes | None:
        return await self._run(self._get, scope, key)

    async def put(self, scope: str, key: str, value: bytes, *, seconds: float) -> None:
        await self._run(self._put, scope, key, value, seconds)

    async def drop(self, scope: str, key: str) -> bool:
        """Forget a value; return whether there was one."""
        return await self._run(self._drop, scope, key)

    async def close(self) -> None:
        await self._run(self._close)
        self._thread.shutdown()

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(work, *args, **kwargs))

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path or ":memory:", isolation_level=None)
            self._connection.execute("pragma journal_mode = wal")
            self._connection.execute("pragma synchronous = normal")
            self._connection.executescript(_SCHEMA)
        return self._connection

    def _get(self, scope: str, key: str) -> bytes | None:
        found = self._open().execute(
            "select value from kept where scope = ? and key = ? and ends > ?",
            (scope, key, time.time()),
        )
        row = found.fetchone()
        return None if row is None else bytes(row[0])

    def _put(self, scope: str, key: str, value: bytes, seconds: float) -> None:
        connection = self._open()
        now = time.time()
        connection.execute(
            "insert or replace into kept values (?, ?, ?, ?)", (scope, key, value, now + seconds)
        )
        connection.execute("delete from kept where ends <= ?", (now,))
        connection.execute(
            "delete from kept where (scope, key) in "
            "(select scope, key from kept order by ends desc limit -1 offset ?)",
            (self._most,),
        )

    def _drop(self, scope: str, key: str) -> bool:
        return (
            self._open()
            .execute("delete from kept where scope = ? and key = ?", (scope, key))
            .rowcount
            > 0
        )

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
