"""Rows of requests as a caller may see them: `GET /v1/requests`, running ones and past ones.

A created key sees its own requests; the key of the configuration, and a gateway without keys, all
of them. The newest rows are in memory, older ones in the ledger. Clients choose most of the texts,
so each passes the redactor and is shortened.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from toolbridge.core.errors import MalformedRequest, UnknownRoute
from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.core.redaction import Redactor
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry
from toolbridge.store import StoreUnavailable
from toolbridge.store.keys import KeyRecord
from toolbridge.store.ledger import LedgerRow, LedgerStore, RowFilter, RowQuery
from toolbridge.store.usage_records import decimal

if TYPE_CHECKING:
    from toolbridge.server.app import App
    from toolbridge.server.team_records import TeamRows

T = TypeVar("T")
PATH = "/v1/requests"
MOST_RUNNING = 200
"""Running requests that are shown."""
_MOST = 200
"""Rows of one answer."""
_USUAL = 100
_LONGEST = 200
_MEMORY = 4096
"""Redacted texts that one view remembers; most rows repeat the texts of others."""
_TEXTS = ("key", "client", "session", "asked", "model", "provider")
_SEARCHED = ("id", *_TEXTS, "api", "error", "status")
_FILTERS: tuple[RowFilter, ...] = ("", "errors", "healed", "losses")


class RowView:
    """The rows that one caller may see, as JSON."""

    def __init__(self, redactor: Redactor, access: KeyRecord | None) -> None:
        self._redactor = redactor
        self.key = None if access is None else access.name
        self._texts: dict[str, str] = {}

    def sees(self, row: LedgerRow) -> bool:
        return self.key is None or row.key == self.key

    def shown(self, row: LedgerRow, *, running: bool = False, process: str = "") -> JsonObject:
        """Return a row as JSON; `process` names the one of several that has the request."""
        safe = self.safe(row)
        found: JsonObject = msgspec.structs.asdict(safe)
        cost = None if row.cost is None else decimal(row.cost)
        found |= {"routes": list(safe.routes), "cost": cost, "running": running}
        return found | ({"process": process} if process else {})

    def safe(self, row: LedgerRow) -> LedgerRow:
        """Return a row with its texts redacted and shortened."""
        texts = {name: self._text(getattr(row, name)) for name in _TEXTS}
        return msgspec.structs.replace(row, routes=tuple(map(self._text, row.routes)), **texts)

    def _text(self, text: str) -> str:
        known = self._texts.get(text)
        if known is None:
            known = self._redactor.text(text)
            known = known if len(known) <= _LONGEST else f"{known[:_LONGEST]}…"
            if len(self._texts) >= _MEMORY:
                self._texts.clear()
            self._texts[text] = known
        return known


def running_rows(app: "App", view: RowView) -> list[LedgerRow]:
    """Return the newest running requests to models, as their rows would be now."""
    entries = [entry for entry in app.in_flight.values() if entry.asks_model]
    rows = (entry.row(0) for entry in sorted(entries, key=lambda one: -one.at))
    return [row for row in rows if view.sees(row)][:MOST_RUNNING]


async def listed(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """`GET /v1/requests`: running requests, then past ones, the newest first."""
    entry.note(surface="page")
    view = RowView(app.gateway.redactor, exchange.access)
    query = _query_of(exchange, view)
    trouble = ""
    found = {row.id: row for row in app.recent_requests.all() if _matches(row, query)}
    team = [] if app.team is None else await app.team.all_rows()
    processes = process_names(app, team)
    found |= {r.id: r for rows in team for r in rows.ended if _matches(r, query)}
    try:
        older = await read_ledger(app, lambda ledger: ledger.rows(query))
    except StoreUnavailable as error:
        trouble, older = str(error), []
    rows = sorted((found | {r.id: r for r in older if r.id not in found}).values(), key=_order)
    rows.reverse()
    page = rows[: query.most - 1]
    shown: JsonObject = {
        "requests": [view.shown(row, process=processes.get(row.id, "")) for row in page],
        "next": cursor_of(page[-1]) if len(rows) > len(page) else None,
        "ledger": _state(app, trouble),
    }
    if query.before is None and not query.only:
        running = [*running_rows(app, view), *(r for rows in team for r in rows.running)]
        running = [row for row in running if view.sees(row) and _contains(row, query.text)]
        running.sort(key=_order, reverse=True)
        shown["running"] = [
            view.shown(row, running=True, process=processes.get(row.id, "")) for row in running
        ]
    await exchange.reply(200, dump_bytes(shown))


def newest_rows(app: "App", view: RowView, most: int) -> list[LedgerRow]:
    """Return the newest rows in memory that the caller may see, the oldest first."""
    return sorted(filter(view.sees, app.recent_requests.all()), key=_order)[-most:]


def process_names(app: "App", team: "list[TeamRows]") -> dict[str, str]:
    """Return the id of each request → the process that has it; nothing for a single process."""
    if app.team is None:
        return {}
    own = {row.id: app.team.name for row in app.recent_requests.all()}
    own |= {entry.id: app.team.name for entry in app.in_flight.values()}
    return own | {row.id: one.name for one in team for row in (*one.running, *one.ended)}


def own_row(app: "App", view: RowView, id: str) -> tuple[LedgerRow, bool] | None:
    """Return a request of this process that the caller may see, and whether it runs."""
    for row in running_rows(app, view):
        if row.id == id:
            return row, True
    for row in app.recent_requests.all():
        if row.id == id and view.sees(row):
            return row, False
    return None


async def ledger_row(app: "App", view: RowView, id: str) -> LedgerRow:
    """Return a request by its id from the ledger; raise `UnknownRoute`."""
    query = RowQuery(1, id=id, key=view.key)
    try:
        found = await read_ledger(app, lambda ledger: ledger.rows(query))
    except StoreUnavailable:
        found = []  # the error is reported where rows are listed
    if not found:
        raise UnknownRoute(
            f"there is no request {id[:64]!r} of this key in memory or in the ledger; the id is in "
            "the header `request-id` and in the log"
        )
    return found[0]


async def read_ledger(app: "App", work: Callable[[LedgerStore], list[T]]) -> list[T]:
    """Call `work` with the ledger, in a thread; return nothing if the ledger is off."""
    writer = app.ledger
    if writer is None:
        return []

    def read() -> list[T]:
        writer.catch_up()
        ledger = writer.open_store()
        try:
            return work(ledger)
        finally:
            ledger.close()

    async with app.ledger_reads:
        return await asyncio.to_thread(read)


def cursor_of(row: LedgerRow) -> str:
    return f"{row.at!r},{row.id}"


def _state(app: "App", trouble: str) -> str:
    """Return `on`, `off`, or why the ledger cannot be read."""
    return trouble or ("off" if app.ledger is None else "on")


def _order(row: LedgerRow) -> tuple[float, str]:
    return row.at, row.id


def _query_of(exchange: HttpExchange, view: RowView) -> RowQuery:
    limit, only = exchange.query("limit") or str(_USUAL), exchange.query("only")
    if not limit.isdecimal() or not 1 <= int(limit) <= _MOST:
        raise MalformedRequest(f"must be a number from 1 to {_MOST}", where="limit")
    if only not in _FILTERS:
        raise MalformedRequest(f"must be one of {', '.join(_FILTERS[1:])}", where="only")
    before = _cursor(exchange.query("before"))
    text = exchange.query("q")[:_LONGEST]
    # One row more shows whether there are further ones.
    return RowQuery(int(limit) + 1, before=before, key=view.key, text=text, only=only)


def _cursor(text: str) -> tuple[float, str] | None:
    if not text:
        return None
    at, _, id = text.partition(",")
    try:
        return float(at), id
    except ValueError:
        raise MalformedRequest("must be `next` of the answer before", where="before") from None


def _matches(row: LedgerRow, query: RowQuery) -> bool:
    """Return whether a row in memory fits the query, as the ledger would decide it."""
    if query.key is not None and row.key != query.key:
        return False
    if query.before is not None and _order(row) >= query.before:
        return False
    kinds = {
        "errors": row.status >= 400 or bool(row.error),
        "healed": row.healings > 0,
        "losses": row.losses > 0,
    }
    return kinds.get(query.only, True) and _contains(row, query.text)


def _contains(row: LedgerRow, text: str) -> bool:
    texts: Iterable[str] = (str(getattr(row, name)) for name in _SEARCHED)
    wanted = text.lower()
    return not wanted or any(wanted in one.lower() for one in (*texts, *row.routes))
