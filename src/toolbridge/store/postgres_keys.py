"""Keys in PostgreSQL, for all gateways that use the same database."""

import msgspec
import psycopg

from toolbridge.store import StoreUnavailable
from toolbridge.store.keys import KeyRecord
from toolbridge.store.postgres import PostgresTables

_SECONDS = 3.0
"""The most that one call takes; a request may wait for the first one."""


class PostgresKeys:
    """A `KeyStore` in a database."""

    local = False

    def __init__(self, url: str) -> None:
        self._tables = PostgresTables(url, _SECONDS)

    def may_exist(self) -> bool:
        return True

    async def version(self) -> int:
        return await self._tables.run(_version)

    async def all(self) -> list[KeyRecord]:
        return await self._tables.run(_all)

    async def put(self, record: KeyRecord) -> None:
        row = (record.id, record.created, msgspec.msgpack.encode(record))
        await self._tables.run(lambda connection: _put(connection, row))

    async def close(self) -> None:
        await self._tables.close()


def _version(connection: psycopg.Connection) -> int:
    row = connection.execute("select keys_version from toolbridge_schema").fetchone()
    return -1 if row is None else int(row[0])


def _put(connection: psycopg.Connection, row: tuple[str, float, bytes]) -> None:
    # The lock of this row orders the changes of all processes.
    connection.execute("update toolbridge_schema set keys_version = keys_version + 1")
    connection.execute(
        "insert into toolbridge_keys values (%s, %s, %s) "
        "on conflict (id) do update set created = excluded.created, record = excluded.record",
        row,
    )


def _all(connection: psycopg.Connection) -> list[KeyRecord]:
    rows = connection.execute("select record from toolbridge_keys order by created, id").fetchall()
    try:
        return [msgspec.msgpack.decode(row[0], type=KeyRecord) for row in rows]
    except msgspec.MsgspecError as error:
        raise StoreUnavailable(f"a record of a key cannot be read: {error}") from None
