"""The connection to a PostgreSQL server, for the ledger and the keys of a process.

As with `SqliteTables`, errors are raised as `StoreUnavailable`, and the caller decides. Work runs in
one thread for each engine. Every call has a time limit: a server that hangs does not answer even a
request to cancel, so a timer closes the socket. The tables are created and migrated by the first
process that connects, under a lock.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

import psycopg

from toolbridge.store import StoreUnavailable
from toolbridge.store.postgres_schema import LOCK, MIGRATIONS
from toolbridge.store_settings import ServerUrl

T = TypeVar("T")
_CONNECT = 3
"""Seconds to connect; libpq takes whole seconds, at least 2."""


class PostgresTables:
    """The tables of toolbridge in one database."""

    def __init__(self, url: str, seconds: float = 10.0) -> None:
        self.url = ServerUrl(url)
        self._seconds = seconds
        self._connection: psycopg.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Call `work` with the connection, in the thread of the engine."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "toolbridge-postgres")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.work, work)

    def work(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Call `work` in this thread, as one transaction."""
        try:
            connection = self._opened()
            with self._limited(connection), connection.transaction():
                return work(connection)
        except (psycopg.Error, OSError) as error:
            self.shut()
            text = self.url.without_password(" ".join(str(error).split()))
            raise StoreUnavailable(f"{self.url.shown}: {text or type(error).__name__}") from None

    def _opened(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            milliseconds = round(self._seconds * 1000)
            self._connection = psycopg.connect(
                self.url.text,
                autocommit=True,
                connect_timeout=_CONNECT,
                application_name="toolbridge",
                options=f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds}",
            )
            with self._limited(self._connection), self._connection.transaction():
                _migrate(self._connection)
        return self._connection

    @contextmanager
    def _limited(self, connection: psycopg.Connection) -> Iterator[None]:
        """Close the socket of the connection if the block takes too long."""
        # A copy of the descriptor: the connection may close its own meanwhile.
        with socket.socket(fileno=os.dup(connection.fileno())) as copy:
            timer = threading.Timer(self._seconds, _disconnect, (copy,))
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()

    async def close(self) -> None:
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.shut)
            self._thread.shutdown()
            self._thread = None

    def shut(self) -> None:
        """Close the connection; in the thread that used it last."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):  # it may be broken already
                connection.close()


def _disconnect(copy: socket.socket) -> None:
    with suppress(OSError):
        copy.shutdown(socket.SHUT_RDWR)


def _migrate(connection: psycopg.Connection) -> None:
    """Create the tables, or change those of an earlier version; one process at a time."""
    connection.execute("select pg_advisory_xact_lock(%s)", (LOCK,))
    connection.execute(
        "create table if not exists toolbridge_schema (version integer, keys_version bigint)"
    )
    row = connection.execute("select version from toolbridge_schema").fetchone()
    if row is None:
        connection.execute("insert into toolbridge_schema values (0, 0)")
    version = row[0] if row is not None else 0
    if version > len(MIGRATIONS):
        raise StoreUnavailable(
            f"the tables have version {version}, and this toolbridge has {len(MIGRATIONS)}; "
            "upgrade toolbridge on this machine"
        )
    for step in MIGRATIONS[version:]:
        connection.execute(step)
    if version < len(MIGRATIONS):
        connection.execute("update toolbridge_schema set version = %s", (len(MIGRATIONS),))
