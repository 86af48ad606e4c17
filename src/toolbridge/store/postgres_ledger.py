"""The ledger in PostgreSQL, for all gateways that use the same database."""

from typing import Any  # noqa: TID251  a row of PostgreSQL

import msgspec
import psycopg

from toolbridge.core.json import dumps
from toolbridge.store.ledger import Grouping, LedgerRow, RowFilter, RowQuery, UsageTotal, escaped
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
from toolbridge_requests
where at >= %(since)s and (%(key)s::text is null or key = %(key)s) group by 1 order by 1
"""
_routes = msgspec.json.Decoder(tuple[str, ...])
_FILTERS: dict[RowFilter, str] = {
    "errors": "(status >= 400 or error != '')",
    "healed": "healings > 0",
    "losses": "losses > 0",
}
_SEARCHED = ("id", "key", "client", "session", "api", "asked", "model", "provider", "routes")
_TEXT = " or ".join(
    f"{name} ilike %(text)s escape '!'" for name in (*_SEARCHED, "error", "status::text")
)


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

    def totals(self, by: Grouping, since: float, key: str | None = None) -> list[UsageTotal]:
        sql = _TOTALS.format(group=_GROUPS[by])
        values = {"since": since, "key": key}

        def work(connection: psycopg.Connection) -> list[UsageTotal]:
            rows = connection.execute(sql, values)
            return [UsageTotal(row[0], *(int(number) for number in row[1:])) for row in rows]

        return self._tables.work(work)

    def rows(self, query: RowQuery) -> list[LedgerRow]:
        sql, values = _selection(query)

        def work(connection: psycopg.Connection) -> list[LedgerRow]:
            return [_row(found) for found in connection.execute(sql, values)]

        return self._tables.work(work)

    def close(self) -> None:
        self._tables.shut()


def _selection(query: RowQuery) -> tuple[str, dict[str, Any]]:
    """Return the statement for a query, and its values."""
    conditions = ["at >= %(since)s"]
    values: dict[str, Any] = {"since": query.since, "most": query.most}
    if query.before is not None:
        conditions.append('(at, id collate "C") < (%(before)s, %(after)s)')
        values["before"], values["after"] = query.before
    if query.id:
        conditions.append("id = %(id)s")
        values["id"] = query.id
    if query.key is not None:
        conditions.append("key = %(key)s")
        values["key"] = query.key
    if query.text:
        conditions.append(f"({_TEXT})")
        values["text"] = f"%{escaped(query.text)}%"
    if query.only:
        conditions.append(_FILTERS[query.only])
    where = " and ".join(conditions)
    # Only names from this module are in the statement.
    sql = f"select {', '.join(_COLUMNS)} from toolbridge_requests where {where}"  # noqa: S608
    values = {name: _storable(value) for name, value in values.items()}
    return f'{sql} order by at desc, id collate "C" desc limit %(most)s', values


def _row(found: tuple[Any, ...]) -> LedgerRow:
    values = dict(zip(_COLUMNS, found, strict=True))
    values |= {"routes": _routes.decode(values["routes"]), "estimated": bool(values["estimated"])}
    return LedgerRow(**values)


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
