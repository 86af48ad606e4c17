"""The ledger in a SQLite file."""

import sqlite3
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

from toolbridge.store import RowsRefused, StoreUnavailable
from toolbridge.store.ledger import Grouping, LedgerRow, RowQuery, UsageTotal
from toolbridge.store.ledger_sql import COLUMNS, LedgerDialect, row_of, total_of, values_of
from toolbridge.store.sqlite_tables import SqliteTables

_SCHEMA = """
create table if not exists requests (
    id text primary key, at real not null, key text not null, client text not null,
    session text not null, api text not null, asked text not null, model text not null,
    provider text not null, routes text not null, status integer not null, error text not null,
    input integer not null, cache_read integer not null, cache_write integer not null,
    output integer not null, thinking integer not null, estimated integer not null, cost integer,
    currency text not null, first_token_ms real, total_ms real not null, healings integer not null,
    losses integer not null
);
create index if not exists requests_at on requests (at);
"""
_SQL = LedgerDialect(
    table="requests",
    mark=":{}",
    like="like",
    bytes="",
    day="strftime('%Y-%m-%d', at, 'unixepoch')",
)
# Each call of SQLite gives up Python's lock, and then waits for the event loop to get it back. So a
# statement has many rows, as many as every SQLite has variables for: 999 before 3.32. A rest is
# divided into a few sizes, whose statements the connection has parsed before.
_SIZES = (999 // len(COLUMNS), 32, 16, 8, 4, 2, 1)
# SQLite: an integer has 64 bits, and a text is UTF-8 of limited length.
_REFUSALS = (OverflowError, UnicodeError, sqlite3.DataError)


class SqliteLedger:
    """A `LedgerStore` in a file; all methods must be called in one thread."""

    def __init__(self, path: Path) -> None:
        self._tables = SqliteTables(path, _SCHEMA)

    def append(self, rows: list[LedgerRow]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for part in _parts(rows):
                values = chain.from_iterable(map(values_of, part))
                try:
                    connection.execute(_insertion(len(part)), tuple(values))
                except _REFUSALS as error:
                    raise RowsRefused(str(error)) from error

        self._tables.work(work)

    def forget(self, before: float) -> None:
        self._tables.work(lambda c: c.execute("delete from requests where at < ?", (before,)))

    def totals(self, by: Grouping, since: float, key: str | None = None) -> list[UsageTotal]:
        try:
            return self._totals(_SQL.totals(by), since, key)
        except StoreUnavailable as error:
            # SQLite: `sum` of integers is exact up to 64 bits, and `total` is a float of any size.
            if "integer overflow" not in str(error):
                raise
            return self._totals(_SQL._replace(sum="total").totals(by), since, key)

    def _totals(self, sql: str, since: float, key: str | None) -> list[UsageTotal]:
        values = {"since": since, "key": key}
        return self._tables.read_here(lambda c: [total_of(row) for row in c.execute(sql, values)])

    def rows(self, query: RowQuery) -> list[LedgerRow]:
        sql, values = _SQL.selection(query)
        return self._tables.read_here(lambda c: [row_of(found) for found in c.execute(sql, values)])

    def close(self) -> None:
        self._tables.shut()


def _parts(rows: list[LedgerRow]) -> Iterator[list[LedgerRow]]:
    """Yield the rows of each statement."""
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


@cache
def _insertion(rows: int) -> str:
    """Return the statement that adds rows."""
    marks = f"({','.join('?' * len(COLUMNS))})"
    return f"insert or ignore into {_SQL.table} values {','.join([marks] * rows)}"  # noqa: S608  our own marks
