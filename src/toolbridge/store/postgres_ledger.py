"""The ledger in PostgreSQL, for all gateways that use the same database."""

from typing import Any  # noqa: TID251  a row of PostgreSQL

import msgspec
import psycopg

from toolbridge.core.json import dumps
from toolbridge.store.ledger import Grouping, LedgerRow, UsageTotal
from toolbridge.store.postgres import PostgresTables

_COLUMNS = LedgerRow.__struct_fields__
_GROUPS: dict[Grouping, str] = {
    "model": "case provider when '' then model else provider || '/' || model end",
    "key": "key",
    "day": "to_char(to_timestamp(at) at time zone 'UTC', 'YYYY-MM-DD')",
    "session": "session",
    "client": "client",
    "provider": "provider",
}
# Sums of bigint are numeric in PostgreSQL. The order is that of bytes, as in SQLite.
_TOTALS = """
select ({group}) collate "C", count(*), count(*) filter (where status >= 400 or error != ''),
    sum(input), sum(cache_read), sum(cache_write), sum(output), sum(thinking),
    sum(coalesce(cost, 0)),
    count(*) filter (where cost is null and input + cache_read + cache_write + output > 0),
    sum(estimated)
from toolbridge_requests where at >= %s group by 1 order by 1
"""


class PostgresLedger:
    """A `LedgerStore` in a database; all methods must be called in one thread."""

    def __init__(self, url: str) -> None:
        self._tables = PostgresTables(url)

    def append(self, rows: list[LedgerRow]) -> None:
        marks = ",".join(["%s"] * len(_COLUMNS))
        sql = f"insert into toolbridge_requests values ({marks}) on conflict (id) do nothing"  # noqa: S608  our own marks
        values = [_values(row) for row in rows]

        def work(connection: psycopg.Connection) -> None:
            with connection.cursor() as cursor:
                cursor.executemany(sql, values)

        self._tables.work(work)

    def forget(self, before: float) -> None:
        sql = "delete from toolbridge_requests where at < %s"
        self._tables.work(lambda connection: connection.execute(sql, (before,)))

    def totals(self, by: Grouping, since: float) -> list[UsageTotal]:
        sql = _TOTALS.format(group=_GROUPS[by])

        def work(connection: psycopg.Connection) -> list[UsageTotal]:
            rows = connection.execute(sql, (since,))
            return [UsageTotal(row[0], *(int(number) for number in row[1:])) for row in rows]

        return self._tables.work(work)

    def close(self) -> None:
        self._tables.shut()


def _values(row: LedgerRow) -> tuple[Any, ...]:
    found = msgspec.structs.asdict(row)
    found["routes"] = dumps(list(row.routes))
    found["estimated"] = int(row.estimated)
    return tuple(_storable(found[name]) for name in _COLUMNS)


def _storable(value: Any) -> Any:
    """Return a value without what PostgreSQL's text cannot hold: zero bytes and lone surrogates."""
    if not isinstance(value, str):
        return value
    return value.replace("\0", "").encode("utf-8", "replace").decode()
