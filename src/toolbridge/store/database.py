"""A SQLite database of values that expire, in a file or in memory.

A value has a scope (`kind/owner`), a key and an expiry time. Each kind has a maximum number and a
maximum size; the values that expire first are removed first, so that one kind cannot displace
another. Keys are stored as hashes: a client chooses its `Idempotency-Key`, which may be a secret.
"""

import sqlite3
import time
from collections.abc import Callable
from hashlib import blake2b

import msgspec

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
    "from kept where scope >= ?1 and scope < ?1 || '0' and (scope = ?1 or scope >= ?1 || '/')"
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

    def put(self, scope: str, key: str, value: bytes, seconds: float) -> None:
        """Store `value`, unless it is too large."""
        if len(value) > self._bounds.largest:
            return
        now = time.time()
        self.connection.execute(
            "insert or replace into kept values (?, ?, ?, ?)",
            (scope, _hashed(key), value, now + seconds),
        )
        self._written += 1
        self._bytes += len(value)
        if self._written >= self._pace[0] or self._bytes >= self._pace[1]:
            self._written = self._bytes = 0
            self.connection.execute("delete from kept where ends <= ?", (now,))
            self._trim(scope.partition("/")[0])

    def once(
        self,
        scope: str,
        key: str,
        make: Callable[[sqlite3.Connection], bytes],
        seconds: float,
        stored: Callable[[bytes], bytes],
    ) -> tuple[bytes, bool]:
        """Return the stored value, or call `make` and store it, in one transaction.

        `stored` returns what is written for a new value. The second item is true for a new value.
        """
        connection = self.connection
        # A claim must survive a power loss; other values can be computed again.
        connection.execute("pragma synchronous = full")
        try:
            connection.execute("begin immediate")
            try:
                kept = self.get(scope, key)
                value = make(connection) if kept is None else kept
                if kept is None:
                    self.put(scope, key, stored(value), seconds)
                connection.execute("commit")
            except BaseException:
                # A full disk may have rolled it back already.
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        finally:
            connection.execute("pragma synchronous = normal")
        return value, kept is None

    def drop(self, scope: str, key: str) -> bool:
        done = self.connection.execute(
            "delete from kept where scope = ? and key = ?", (scope, _hashed(key))
        )
        return done.rowcount > 0

    def _trim(self, kind: str) -> None:
        most = (kind, self._bounds.values, self._bounds.bytes)
        if (first := self.connection.execute(_EXCESS, most).fetchone()) is not None:
            self.connection.execute(f"delete {_OF_KIND} and ends <= ?2", (kind, first[0]))

    def close(self) -> None:
        self.connection.close()


def in_memory(bounds: Bounds) -> Database:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(_SCHEMA)
    connection.execute(_INDEX)
    return Database(connection, bounds)


def prepare(connection: sqlite3.Connection) -> None:
    """Create the tables of this version; raise `sqlite3.Error` if that fails."""
    if connection.execute("pragma journal_mode").fetchone()[0] != "wal":
        connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")
    connection.execute("pragma journal_size_limit = 8388608")
    if connection.execute("pragma user_version").fetchone()[0] == VERSION:
        return
    # Version 0 kept raw events: their bytes are overwritten, in the file and in its log.
    connection.execute("pragma secure_delete = on")
    connection.execute("begin immediate")
    try:
        if connection.execute("pragma user_version").fetchone()[0] != VERSION:
            for table in ("kept", "bookings"):
                connection.execute(f"drop table if exists {table}")
            connection.execute(_SCHEMA)
            connection.execute(_INDEX)
            connection.execute(f"pragma user_version = {VERSION}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.execute("pragma secure_delete = off")


def _hashed(key: str) -> str:
    return blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest()
