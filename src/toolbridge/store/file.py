"""The SQLite file of the store, and its error handling.

A busy database is retried, a corrupt file is renamed, and after any other error (a full or read-only
disk) the store continues in memory and tries the file again at intervals. Each change of state is
reported once on standard error; `trouble` has the current error.
"""

import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from toolbridge.store import private_files
from toolbridge.store.database import Bounds, Database, prepare
from toolbridge.store.notices import notice, worker_notices

T = TypeVar("T")

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PAUSE = 5.0
"""Seconds after an error during which the file is not opened again."""
_SHORT_WAIT = 50
"""Milliseconds to wait for a lock during that time."""
_KEPT_CORRUPT = 3
"""Renamed corrupt files that are kept."""


class Unavailable(Exception):
    """Raised while the file cannot be used."""


class _TooSoon(sqlite3.OperationalError):
    """Raised within `_PAUSE` seconds after the file could not be opened."""


class StoreFile:
    """The database file, opened on first use and again after errors."""

    def __init__(self, path: Path, bounds: Bounds, wait: float) -> None:
        self.path = path
        self.trouble = ""
        """The error because of which the file is not used; empty while it is used."""
        self.generation = 1
        """Changes when a new file takes the place of a corrupt one."""
        self._bounds = bounds
        self._wait = wait
        self._database: Database | None = None
        self._inode = 0
        self._failed = float("-inf")

    def read(self, work: Callable[[Database], T]) -> T:
        """Call `work` with the database; raise `Unavailable` if the file cannot be used."""
        try:
            return self._work(work)
        except (OSError, sqlite3.Error) as error:
            self._fail(error)
            raise Unavailable(self.trouble) from error

    def write(self, work: Callable[[Database], T]) -> T:
        """As `read`, for writing: only a write shows that a full disk has space again."""
        done = self.read(work)
        # A nearly full disk accepts small values and rejects large ones, so wait for the pause.
        if self.trouble and time.monotonic() - self._failed >= _PAUSE:
            self._recover()
        return done

    def _work(self, work: Callable[[Database], T]) -> T:
        try:
            return work(self._opened())
        except sqlite3.DatabaseError as error:
            if _code(error) not in _CORRUPT:
                raise
            self._set_aside(error)
        return work(self._opened())

    def _opened(self) -> Database:
        if self._database is None:
            if self.trouble and time.monotonic() - self._failed < _PAUSE:
                raise _TooSoon(self.trouble)
            self._database = self._open()
        return self._database

    def _open(self) -> Database:
        private_files.make_folder(self.path.parent)
        self.path.touch(mode=private_files.FILE)
        private_files.tighten(self.path, private_files.FILE)
        self._inode = self.path.stat().st_ino
        until = time.monotonic() + self._wait
        while True:
            try:
                return Database(_connect(self.path, self._wait), self._bounds)
            except sqlite3.OperationalError as error:
                # SQLite's busy timeout does not apply to the lock for the switch to WAL, because
                # two connections could wait for each other; so the retry is here.
                if _code(error) not in _BUSY or time.monotonic() > until:
                    raise
                time.sleep(random.uniform(0.005, 0.05))  # noqa: S311  no secret

    def _fail(self, error: Exception) -> None:
        if isinstance(error, _TooSoon):
            return
        code, text = _code(error), str(error) or type(error).__name__
        if not self.trouble:
            shown = (
                f"{self.path}: {text}; values are kept in memory only until this is fixed "
                "(run `toolbridge doctor`)"
            )
            worker_notices.report(str(self.path), shown, fault=True)
        self.trouble = self.trouble or text
        self._failed = time.monotonic()
        if self._database is not None and code in _BUSY:
            self._database.connection.execute(f"pragma busy_timeout = {_SHORT_WAIT}")
        elif code != sqlite3.SQLITE_FULL:  # a file on a full disk can still be read
            self.close()

    def _recover(self) -> None:
        worker_notices.report(str(self.path), f"{self.path} is in use again", fault=False)
        self.trouble = ""
        if self._database is not None:
            wait = round(self._wait * 1000)
            self._database.connection.execute(f"pragma busy_timeout = {wait}")

    def _set_aside(self, error: Exception) -> None:
        """Rename a corrupt file, unless another process has already done so."""
        self.close()
        self.generation += 1
        with suppress(FileNotFoundError):
            if self.path.stat().st_ino != self._inode:
                return
        aside = Path(f"{self.path}.corrupt-{time.strftime('%Y%m%dT%H%M%S')}")
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")  # noqa: PTH105  a suffix
        notice(
            f"{self.path} is corrupt ({error}); it was renamed to {aside.name}, "
            "and a new file is created"
        )
        old = sorted(self.path.parent.glob(f"{self.path.name}.corrupt-*"))
        names = sorted({str(file).removesuffix("-wal").removesuffix("-shm") for file in old})
        for file in old:
            if str(file).startswith(tuple(names[:-_KEPT_CORRUPT])):
                file.unlink(missing_ok=True)

    def close(self) -> None:
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None


def _connect(path: Path, wait: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=wait, isolation_level=None)
    try:
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _code(error: Exception) -> int:
    """Return SQLite's primary error code; 0 for other errors."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
