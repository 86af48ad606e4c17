"""The statements of the ledger in SQL, for SQLite and PostgreSQL.

Both have the same columns, in the order of `LedgerRow`. What differs is a `LedgerDialect`.
"""

from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple  # noqa: TID251  a row of a database

import msgspec

from toolbridge.core.json import dumps
from toolbridge.store.ledger import Grouping, LedgerRow, RowFilter, RowQuery, UsageTotal

COLUMNS = LedgerRow.__struct_fields__
_GROUPS: dict[Grouping, str] = {
    "model": "case provider when '' then model else provider || '/' || model end",
    "key": "key",
    "session": "session",
    "client": "client",
    "provider": "provider",
}
_FAILED = "(status >= 400 or error != '')"
_UNPRICED = "cost is null and input + cache_read + cache_write + output > 0"
_FILTERS: dict[RowFilter, str] = {
    "errors": _FAILED,
    "healed": "healings > 0",
    "losses": "losses > 0",
}
_SEARCHED = ("id", "key", "client", "session", "api", "asked", "model", "provider", "routes")
_routes = msgspec.json.Decoder(tuple[str, ...])
_values = attrgetter(*COLUMNS)
_ROUTES, _ESTIMATED = COLUMNS.index("routes"), COLUMNS.index("estimated")


class LedgerDialect(NamedTuple):
    """How a database writes what SQL has in several forms."""

    table: str
    mark: str
    """A value in a statement, with `{}` in place of its name."""
    like: str
    """The comparison with a pattern in which case does not matter."""
    bytes: str
    """What makes the order of texts that of their bytes."""
    day: str
    """The day of the column `at`, in UTC."""
    sum: str = "sum"
    """The function that adds up a column."""

    def totals(self, by: Grouping) -> str:
        """Return the statement for `totals`; its values are `since` and `key`."""
        group = self.day if by == "day" else _GROUPS[by]
        since, key = self.mark.format("since"), self.mark.format("key")
        sums = [
            _count(_FAILED),
            *(f"{self.sum}({name})" for name in ("input", "cache_read", "cache_write")),
            *(f"{self.sum}({name})" for name in ("output", "thinking", "coalesce(cost, 0)")),
            *(_count(_UNPRICED), "sum(estimated)"),
        ]
        return (
            f"select ({group}){self.bytes}, count(*), {', '.join(sums)} from {self.table} "  # noqa: S608  our own names
            f"where at >= {since} and (cast({key} as text) is null or key = {key}) "
            "group by 1 order by 1"
        )

    def selection(self, query: RowQuery) -> tuple[str, dict[str, Any]]:
        """Return the statement for `rows`, and its values."""
        conditions = [f"at >= {self.mark.format('since')}"]
        values: dict[str, Any] = {"since": query.since, "most": query.most}
        if query.before is not None:
            before, after = self.mark.format("before"), self.mark.format("after")
            conditions.append(f"(at, id{self.bytes}) < ({before}, {after})")
            values["before"], values["after"] = query.before
        if query.id:
            conditions.append(f"id = {self.mark.format('id')}")
            values["id"] = query.id
        if query.key is not None:
            conditions.append(f"key = {self.mark.format('key')}")
            values["key"] = query.key
        if query.text:
            texts = (*_SEARCHED, "error", "cast(status as text)")
            pattern = f"{self.like} {self.mark.format('text')} escape '!'"
            conditions.append(f"({' or '.join(f'{text} {pattern}' for text in texts)})")
            values["text"] = f"%{_escaped(query.text)}%"
        if query.only:
            conditions.append(_FILTERS[query.only])
        sql = (
            f"select {', '.join(COLUMNS)} from {self.table} where {' and '.join(conditions)} "  # noqa: S608  our own names
            f"order by at desc, id{self.bytes} desc limit {self.mark.format('most')}"
        )
        return sql, values


def _count(condition: str) -> str:
    return f"sum(case when {condition} then 1 else 0 end)"


def _escaped(text: str) -> str:
    """Return `text` for `like … escape '!'`, where `%` and `_` stand for other characters."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return text


def total_of(found: tuple[Any, ...]) -> UsageTotal:
    """Return a row of `totals`."""
    return UsageTotal(found[0], *(int(number) for number in found[1:]))


def row_of(found: tuple[Any, ...]) -> LedgerRow:
    """Return a row of `selection`."""
    values = dict(zip(COLUMNS, found, strict=True))
    values |= {"routes": _routes.decode(values["routes"]), "estimated": bool(values["estimated"])}
    return LedgerRow(**values)


def values_of(row: LedgerRow) -> list[Any]:
    """Return the values of a row, in the order of the columns."""
    values = list(_values(row))
    values[_ROUTES] = _routes_text(row.routes)
    values[_ESTIMATED] = int(row.estimated)
    return values


@lru_cache(maxsize=256)
def _routes_text(routes: tuple[str, ...]) -> str:
    return dumps(list(routes))
