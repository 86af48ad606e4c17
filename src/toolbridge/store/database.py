"""A SQLite database of values and logs that expire, in a file or in memory.

A value has a scope (`kind/owner`), a key and an expiry time. Each kind has a maximum number and a
maximum size; the values that expire first are removed first, so that one kind cannot displace
another. Keys are stored as hashes: a client chooses its `Idempotency-Key`, which may be a secret.
"""

import sqlite3
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TypeVar

import msgspec

from toolbridge.store import log_table
from toolbridge.store.interface import Numbered

T = TypeVar("T")

VERSION = 1
"""The version of the table; rows of another version are removed."""
_SCHEMA = """
create table if not exists kept (
    scope text not null, key text not null, value blob not null, ends real not null,
    unique (scope, key)
)
"""
_INDEX = "create index if not exists kept_ends on kept (ends)"
# All rows of a kind: its name alone, and `kind/…`. In ASCII, 0 comes after the slash.
_OF_KIND = (
    "from {table} where scope >= ?1 and scope < ?1 || '0' and (scope = ?1 or scope >= ?1 || '/')"
)
_EXCESS = f"""
select ends from (
    select ends, row_number() over newest as place, sum(length(value)) over newest as total
    {_OF_KIND} window newest as (order by ends desc rows unbounded preceding)
) where place > ?2 or total > ?3 order by ends desc limit 1
"""  # noqa: S608  our own words


class Bounds(msgspec.Struct, frozen=True):
    """The maximum number and size of the values of one kind."""

    values: int = 10_000
    bytes: int = 128 * 1024 * 1024

    @property
    def largest(self) -> int:
        """The maximum size of one value in bytes, so that it cannot displace all others."""
        return self.bytes // 4


class Database:
    """The table of values behind one SQLite connection."""

    def __init__(self, connection: sqlite3.Connection, bounds: Bounds) -> None:
        self.connection = connection
        self._bounds = bounds
        # Counting the rows of a kind is slow, so a kind may exceed its bounds by one percent.
        self._pace = max(1, bounds.values // 100), max(1, bounds.bytes // 64)
        self._written = 0
        self._bytes = 0

    def get(self, scope: str, key: str) -> bytes | None:
        found = self.connection.execute(
            "select value from kept where scope = ? and key = ? and ends > ?",
            (scope, _hashed(key), time.time()),
        )
        row = found.fetchone()
        return None if row is None else bytes(row[0])

    def values(self, scope: str, most: int) -> list[bytes]:
        found = self.connection.execute(
            "select value from kept where scope = ? and ends > ? limit ?",
            (scope, time.time(), most),
        )
        return [bytes(row[0]) for row in found]

    def put(self, scope: str, key: str, value: bytes, seconds: float) -> bool:
        """Store `value`; return false if it is too large."""
        if len(value) > self._bounds.largest:
            return False
        self.connection.execute(
            "insert or replace into kept values (?, ?, ?, ?)",
            (scope, _hashed(key), value, time.time() + seconds),
        )
        self._count(scope, len(value))
        return True

    def claim(self, scope: str, key: str, value: bytes, seconds: float) -> tuple[bytes, bool]:
        """Store `value` unless there is one; return the stored one, and whether it is new."""

        def work() -> tuple[bytes, bool]:
            kept = self.get(scope, key)
            if kept is None:
                self.put(scope, key, value, seconds)
            return value if kept is None else kept, kept is None

        return self._certain(work)

    def replace(self, scope: str, key: str, old: bytes, new: bytes, seconds: float) -> bool:
        """Store `new` if the value is `old`; return whether it was."""

        def work() -> bool:
            return self.get(scope, key) == old and self.put(scope, key, new, seconds)

        return self._certain(work)

    def _certain(self, work: Callable[[], T]) -> T:
        """Do `work` in one transaction that survives a power loss; other values can be lost."""
        self.connection.execute("pragma synchronous = full")
        try:
            return self._transaction(work)
        finally:
            self.connection.execute("pragma synchronous = normal")

    def _transaction(self, work: Callable[[], T]) -> T:
        connection = self.connection
        connection.execute("begin immediate")
        try:
            done = work()
            connection.execute("commit")
        except BaseException:
            # A full disk may have rolled it back already.
            if connection.in_transaction:
                connection.execute("rollback")
            raise
        return done

    def append(self, scope: str, key: str, entries: Sequence[Numbered], seconds: float) -> None:
        """Add entries to a log."""
        log = (scope, _hashed(key))
        self._transaction(lambda: log_table.append(self.connection, log, entries, seconds))
        self._count(scope, sum(len(value) for _, value in entries))

    def read(self, scope: str, key: str, after: int) -> list[Numbered]:
        """Return entries of a log."""
        return log_table.read(self.connection, (scope, _hashed(key)), after)

    @property
    def version(self) -> int:
        """A number that changes when another connection has written."""
        # SQLite, "PRAGMA data_version".
        return int(self.connection.execute("pragma data_version").fetchone()[0])

    def drop(self, scope: str, key: str) -> bool:
        done = self.connection.execute(
            "delete from kept where scope = ? and key = ?", (scope, _hashed(key))
        )
        return log_table.drop(self.connection, (scope, _hashed(key))) or done.rowcount > 0

    def _count(self, scope: str, size: int) -> None:
        """Remove what exceeds the bounds, after every few writes."""
        self._written += 1
        self._bytes += size
        if self._written >= self._pace[0] or self._bytes >= self._pace[1]:
            self._written = self._bytes = 0
            for table in ("kept", "logged"):
                self._trim(table, scope.partition("/")[0])

    def _trim(self, table: str, kind: str) -> None:
        run = self.connection.execute
        run(f"delete from {table} where ends <= ?", (time.time(),))  # noqa: S608  our own words
        most = (kind, self._bounds.values, self._bounds.bytes)
        excess = run(_EXCESS.format(table=table), most)
        if (first := excess.fetchone()) is not None:
            run(f"delete {_OF_KIND.format(table=table)} and ends <= ?2", (kind, first[0]))

    def close(self) -> None:
        self.connection.close()


def in_memory(bounds: Bounds) -> Database:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _create(connection)
    return Database(connection, bounds)


def prepare(connection: sqlite3.Connection) -> None:
    """Create the tables of this version; raise `sqlite3.Error` if that fails."""
    if connection.execute("pragma journal_mode").fetchone()[0] != "wal":
        connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")
    connection.execute("pragma journal_size_limit = 8388608")
    if connection.execute("pragma user_version").fetchone()[0] == VERSION:
        _create(connection)  # an earlier release of this version had no logs
        return
    # Version 0 kept raw events: their bytes are overwritten, in the file and in its log.
    connection.execute("pragma secure_delete = on")
    connection.execute("begin immediate")
    try:
        if connection.execute("pragma user_version").fetchone()[0] != VERSION:
            for table in ("kept", "bookings"):
                connection.execute(f"drop table if exists {table}")
            _create(connection)
            connection.execute(f"pragma user_version = {VERSION}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.execute("pragma secure_delete = off")


def _create(connection: sqlite3.Connection) -> None:
    for statement in (_SCHEMA, _INDEX, log_table.SCHEMA, log_table.INDEX):
        connection.execute(statement)


def _hashed(key: str) -> str:
    return blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest()
