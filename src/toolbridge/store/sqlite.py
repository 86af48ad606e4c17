"""The embedded store: one SQLite file, or memory.

Values have a scope (what they are and whose: `kind/whose`), a key, an end, and a bound on how many
of a kind are kept. SQLite runs in a thread of its own, so that a slow disk does not stop the streams.
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
        # Looking at all of a kind takes as long as there are many; so a hundredth more may stand.
        self._pace = max(1, most // 100)
        self._written = 0
        self._thread = ThreadPoolExecutor(1, "toolbridge-store")
        self._connection: sqlite3.Connection | None = None

    async def get(self, scope: str, key: str) -> bytes | None:
        return await self._run(self._get, scope, key)

    async def put(self, scope: str, key: str, value: bytes, *, seconds: float) -> None:
        await self._run(self._put, scope, key, value, seconds)

    async def once(
        self,
        scope: str,
        key: str,
        make: Callable[[sqlite3.Connection], bytes],
        *,
        seconds: float,
    ) -> tuple[bytes, bool]:
        """Return what is kept under `key`, or make it and keep it; and whether it was made now.

        `make` may write through the connection that it is given: what it writes and what is kept are
        one transaction, also for another process and also when this one is killed. It runs in the
        store's own thread, so it must be short. Raise `sqlite3.Error` where nothing could be kept.
        """
        return await self._run(self._once, scope, key, make, seconds)

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

    def _once(
        self, scope: str, key: str, make: Callable[[sqlite3.Connection], bytes], seconds: float
    ) -> tuple[bytes, bool]:
        connection = self._open()
        # What others rely on must outlive a loss of power too; the rest may be asked for again.
        connection.execute("pragma synchronous = full")
        try:
            connection.execute("begin immediate")
            try:
                kept = self._get(scope, key)
                value = make(connection) if kept is None else kept
                if kept is None:
                    self._write(connection, scope, key, value, seconds)
                connection.execute("commit")
            except BaseException:
                # A full disk may have rolled it back already.
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        finally:
            connection.execute("pragma synchronous = normal")
        return value, kept is None

    def _write(
        self, connection: sqlite3.Connection, scope: str, key: str, value: bytes, seconds: float
    ) -> None:
        now = time.time()
        connection.execute(
            "insert or replace into kept values (?, ?, ?, ?)", (scope, key, value, now + seconds)
        )
        self._written += 1
        if self._written % self._pace == 0:
            connection.execute("delete from kept where ends <= ?", (now,))
            self._trim(connection, scope.partition("/")[0])

    def _trim(self, connection: sqlite3.Connection, kind: str) -> None:
        """Let go of what ends first where there is too much of a kind: none crowds out another."""
        span = (kind, f"{kind}0")  # a kind alone, and `kind/…`: in ASCII, 0 comes after the slash
        among = "from kept where scope >= ?1 and scope < ?2 and (scope = ?1 or scope >= ?1 || '/')"
        found = connection.execute(
            f"select ends {among} order by ends desc limit 1 offset ?3",
            (*span, self._most),
        )
        if (first := found.fetchone()) is not None:
            connection.execute(f"delete {among} and ends <= ?3", (*span, first[0]))

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
