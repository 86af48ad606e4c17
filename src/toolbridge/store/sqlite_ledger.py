"""The ledger in a SQLite file."""

import sqlite3
from pathlib import Path
from typing import Any  # noqa: TID251  a row of SQLite

import msgspec

from toolbridge.core.json import dumps
from toolbridge.store.ledger import Grouping, LedgerRow, UsageTotal
from toolbridge.store.sqlite_tables import SqliteTables

_COLUMNS = LedgerRow.__struct_fields__
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
_GROUPS: dict[Grouping, str] = {
    "model": "case provider when '' then model else provider || '/' || model end",
    "key": "key",
    "day": "strftime('%Y-%m-%d', at, 'unixepoch')",
    "session": "session",
    "client": "client",
    "provider": "provider",
}
_TOTALS = """
select {group}, count(*), sum(status >= 400 or error != ''), sum(input), sum(cache_read),
    sum(cache_write), sum(output), sum(thinking), sum(coalesce(cost, 0)),
    sum(cost is null and input + cache_read + cache_write + output > 0), sum(estimated)
from requests where at >= ? group by 1 order by 1
"""


class SqliteLedger:
    """A `LedgerStore` in a file; all methods must be called in one thread."""

    def __init__(self, path: Path) -> None:
        self._tables = SqliteTables(path, _SCHEMA)

    def append(self, rows: list[LedgerRow]) -> None:
        marks = ",".join("?" * len(_COLUMNS))
        sql = f"insert or ignore into requests values ({marks})"  # noqa: S608  our own marks
        values = [_values(row) for row in rows]
        self._tables.work(lambda c: c.executemany(sql, values))

    def forget(self, before: float) -> None:
        self._tables.work(lambda c: c.execute("delete from requests where at < ?", (before,)))

    def totals(self, by: Grouping, since: float) -> list[UsageTotal]:
        sql = _TOTALS.format(group=_GROUPS[by])

        def work(connection: sqlite3.Connection) -> list[UsageTotal]:
            return [UsageTotal(*row) for row in connection.execute(sql, (since,))]

        return self._tables.work(work)

    def close(self) -> None:
        self._tables.shut()


def _values(row: LedgerRow) -> tuple[Any, ...]:
    found = msgspec.structs.asdict(row)
    found["routes"] = dumps(list(row.routes))
    return tuple(found[name] for name in _COLUMNS)
