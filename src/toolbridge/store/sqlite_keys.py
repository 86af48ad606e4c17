"""Keys in a SQLite file, which `toolbridge key create` creates."""

import sqlite3
from pathlib import Path

import msgspec

from toolbridge.store import StoreUnavailable, private_files
from toolbridge.store.keys import KeyRecord
from toolbridge.store.sqlite_tables import SqliteTables

_SCHEMA = """
create table if not exists keys (id text primary key, created real not null, record blob not null);
"""


class SqliteKeys:
    """A `KeyStore` in a file; without the file there are no keys."""

    local = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tables = SqliteTables(path, _SCHEMA)
        self._mark = path.with_suffix(".created")
        """Exists once a key was created: a lost file of keys must not open the gateway."""
        self._file = 0
        """The number of the file that is open."""

    def may_exist(self) -> bool:
        return self._path.exists() or self._mark.exists()

    async def version(self) -> int:
        if not self._path.exists():
            await self._tables.close()  # a file that is created later is another one
            return -1
        if not self._mark.exists():  # the file was made by an earlier release
            self._leave_mark()
        file = self._path.stat().st_ino
        if file != self._file:  # it was restored from a copy; the open one is gone
            self._file = file
            await self._tables.close()
        # SQLite, "PRAGMA data_version": it changes when another connection commits.
        return await self._tables.read(_version) + (file << 32)

    async def all(self) -> list[KeyRecord]:
        return await self._tables.read(_all) if self._path.exists() else []

    async def put(self, record: KeyRecord) -> None:
        self._leave_mark()
        row = (record.id, record.created, msgspec.msgpack.encode(record))
        await self._tables.run(
            lambda c: c.execute("insert or replace into keys values (?,?,?)", row)
        )

    def _leave_mark(self) -> None:
        try:
            private_files.make_folder(self._mark.parent)
            self._mark.touch(mode=private_files.FILE)
        except OSError as error:
            raise StoreUnavailable(f"{self._mark}: {error.strerror}") from error

    async def close(self) -> None:
        await self._tables.close()


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma data_version").fetchone()[0])


def _all(connection: sqlite3.Connection) -> list[KeyRecord]:
    rows = connection.execute("select record from keys order by created, id")
    try:
        return [msgspec.msgpack.decode(row[0], type=KeyRecord) for row in rows]
    except msgspec.MsgspecError as error:
        raise sqlite3.DatabaseError(f"a record of a key cannot be read: {error}") from None
