"""The ledger in PostgreSQL, for all gateways that use the same database."""

from typing import Any  # noqa: TID251  a row of PostgreSQL

import psycopg

from toolbridge.store import RowsRefused
from toolbridge.store.ledger import Grouping, LedgerRow, RowQuery, UsageTotal
from toolbridge.store.ledger_sql import COLUMNS, LedgerDialect, row_of, total_of, values_of
from toolbridge.store.postgres import PostgresTables

_SQL = LedgerDialect(
    table="toolbridge_requests",
    mark="%({})s",
    like="ilike",
    bytes=' collate "C"',
    day="to_char(to_timestamp(at) at time zone 'UTC', 'YYYY-MM-DD')",
)


class PostgresLedger:
    """A `LedgerStore` in a database; all methods must be called in one thread."""

    def __init__(self, url: str) -> None:
        self._tables = PostgresTables(url)

    def append(self, rows: list[LedgerRow]) -> None:
        marks = ",".join(["%s"] * len(COLUMNS))
        sql = f"insert into {_SQL.table} values ({marks}) on conflict (id) do nothing"  # noqa: S608  our own marks
        values = [tuple(map(_storable, values_of(row))) for row in rows]

        def work(connection: psycopg.Connection) -> None:
            with connection.cursor() as cursor:
                try:
                    cursor.executemany(sql, values)
                except psycopg.DataError as error:  # a number that the type of a column cannot hold
                    raise RowsRefused(" ".join(str(error).split())) from None

        self._tables.work(work)

    def forget(self, before: float) -> None:
        sql = "delete from toolbridge_requests where at < %s"
        self._tables.work(lambda connection: connection.execute(sql, (before,)))

    def totals(self, by: Grouping, since: float, key: str | None = None) -> list[UsageTotal]:
        sql, values = _SQL.totals(by), {"since": since, "key": key}
        return self._tables.work(lambda c: [total_of(row) for row in c.execute(sql, values)])

    def rows(self, query: RowQuery) -> list[LedgerRow]:
        sql, values = _SQL.selection(query)
        values = {name: _storable(value) for name, value in values.items()}
        return self._tables.work(lambda c: [row_of(found) for found in c.execute(sql, values)])

    def close(self) -> None:
        self._tables.shut()


def _storable(value: Any) -> Any:
    """Return a value without what PostgreSQL's text cannot hold: zero bytes and lone surrogates."""
    if not isinstance(value, str):
        return value
    return value.replace("\0", "").encode("utf-8", "replace").decode()
