"""SQLite files for keys, budgets and the ledger.

Other than the store of values (`store/file.py`), these files have no copy in memory: a key file that
cannot be read must not become a gateway without keys. So errors are raised as `StoreUnavailable`,
and the caller decides. Work runs in one thread for each file, so that a slow disk does not block the
event loop; several processes may use a file at the same time.
"""

import asyncio
import random
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from toolbridge.store import StoreUnavailable, private_files

T = TypeVar("T")
_WAIT = 5.0
"""Seconds to wait for the lock of another process."""


class SqliteTables:
    """The tables in one file; the engines pass it functions that use the connection."""

    def __init__(self, path: Path, schema: str) -> None:
        self.path = path
        self._schema = schema
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` with the connection, in the thread of the file."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"toolbridge-{self.path.stem}")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.work, work)

    def work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` in this thread, as one transaction."""
        try:
            connection = self._opened()
            connection.execute("begin immediate")
            try:
                done = work(connection)
                connection.execute("commit")
            except BaseException:
                # A full disk may have rolled it back already.
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"{self.path}: {str(error) or type(error).__name__}") from error
        return done

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """As `run`, without a transaction: for one statement that only reads."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"toolbridge-{self.path.stem}")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.read_here, work)

    def read_here(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """As `read`, in this thread."""
        until = time.monotonic() + _WAIT
        while True:
            try:
                return work(self._opened())
            except (OSError, sqlite3.Error) as error:
                # SQLite, "WAL": the busy timeout does not cover the end of another process's use.
                if not _is_lock(error) or time.monotonic() > until:
                    text = str(error) or type(error).__name__
                    raise StoreUnavailable(f"{self.path}: {text}") from error
                time.sleep(random.uniform(0.005, 0.05))  # noqa: S311  no secret

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            private_files.make_folder(self.path.parent)
            self.path.touch(mode=private_files.FILE)
            private_files.tighten(self.path, private_files.FILE)
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        until = time.monotonic() + _WAIT
        while True:
            # The thread of the file opens it and `close` closes it.
            connection = sqlite3.connect(
                self.path, timeout=_WAIT, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("pragma journal_mode = wal")
                connection.execute("pragma synchronous = normal")
                connection.executescript(self._schema)
            except sqlite3.OperationalError as error:
                connection.close()
                # SQLite's busy timeout does not apply to the switch to WAL.
                if not _is_lock(error) or time.monotonic() > until:
                    raise
                time.sleep(random.uniform(0.005, 0.05))  # noqa: S311  no secret
            except BaseException:
                connection.close()
                raise
            else:
                return connection

    async def close(self) -> None:
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.shut)
            self._thread.shutdown()
            self._thread = None

    def shut(self) -> None:
        """Close the connection; in the thread that used it last."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _is_lock(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
