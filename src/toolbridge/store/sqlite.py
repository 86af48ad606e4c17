"""The embedded store: one SQLite file, or memory.

Values have a scope (what they are and whose), a key, an end, and a bound on how many of a scope's
kind are kept. SQLite runs in a thread of its own, so that a slow disk does not stop the streams.
Keeping is a convenience: where it fails, that is said, and whoever wanted it goes on without.
"""

import asyncio
import sqlite3
import sys
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
    def __init__(self, path: Path | None = None, *, most: int = 10_000, wait: float = 5.0) -> None:
        self._path = path
        self._wait = wait
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
            try:
                self._connection = _connect(self._path, self._wait)
            except (OSError, sqlite3.Error) as error:
                _complain(f"nothing is kept beyond this run: {self._path}: {error}")
                self._connection = _connect(None, self._wait)
        return self._connection

    def _get(self, scope: str, key: str) -> bytes | None:
        found = self._open().execute(
            "select value from kept where scope = ? and key = ? and ends > ?",
            (scope, key, time.time()),
        )
        row = found.fetchone()
        return None if row is None else bytes(row[0])

    def _put(self, scope: str, key: str, value: bytes, seconds: float) -> None:
        try:
            self._write(self._open(), scope, key, value, seconds)
        except sqlite3.Error as error:  # a full disk, a lock that is not given up
            _complain(f"an answer was not kept: {self._path}: {error}")

    def _write(
        self, connection: sqlite3.Connection, scope: str, key: str, value: bytes, seconds: float
    ) -> None:
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


def _connect(path: Path | None, wait: float) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # conversations are nobody else's business
    connection = sqlite3.connect(path or ":memory:", timeout=wait, isolation_level=None)
    try:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        connection.executescript(_SCHEMA)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _complain(text: str) -> None:
    sys.stderr.write(f"toolbridge: {text}\n")
