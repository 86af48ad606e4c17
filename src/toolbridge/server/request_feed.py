"""`GET /v1/requests/stream`: requests as they begin, are answered and end, as server-sent events.

A watcher compares what it has sent with what there is, five times a second. So a request does
nothing for its watchers, and a slow watcher gets the latest state of a row, not every state.
"""

import asyncio
import time
from typing import TYPE_CHECKING

from toolbridge.core.errors import RateLimited, ToolbridgeError
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry
from toolbridge.server.request_rows import RowView, newest_rows, read_ledger, running_rows
from toolbridge.store import StoreUnavailable
from toolbridge.store.ledger import LedgerRow, RowQuery

if TYPE_CHECKING:
    from toolbridge.server.app import App

_TICK = 0.2
"""Seconds between two comparisons."""
_FIRST = 100
"""Past rows that a new watcher gets."""
_MOST = 250
"""Rows of one event; older ones are left out and counted."""
_PING = 15.0
_CHECK = 5.0
"""Seconds between two checks of the key, which may be revoked meanwhile."""
_LONGEST = 600.0
"""Seconds after which a watcher has to connect again, under the settings of that time."""
MOST_WATCHERS = 32
_SHARED = 2.0
"""Seconds between two reads of the ledger for the rows of other processes."""
_LATE = 900.0
"""Seconds; longer requests of other processes appear when the page is loaded again."""


class RequestFeed:
    """What one watcher has not seen yet."""

    def __init__(self, app: "App", view: RowView) -> None:
        self._app = app
        self._view = view
        self._number = app.recent_requests.number
        self._running: dict[str, tuple[object, ...]] = {}
        """The id of each running request that was sent → what was sent of it."""
        self._others: set[str] = set()
        """The ids of rows of other processes that were sent."""

    def first(self) -> JsonObject:
        """Return the newest rows, running ones last."""
        rows: list[Json] = [self._view.shown(r) for r in newest_rows(self._app, self._view, _FIRST)]
        return {"rows": rows + self._begun()}

    def changes(self) -> JsonObject | None:
        """Return the rows that are new or have changed; None without any."""
        recent = self._app.recent_requests
        ended = [row for row in recent.after(self._number) if self._view.sees(row)]
        self._number = recent.number
        skipped = max(0, len(ended) - _MOST)
        rows: list[Json] = [self._view.shown(row) for row in ended[skipped:]]
        rows += self._begun()
        return {"rows": rows, "skipped": skipped} if rows else None

    def _begun(self) -> list[Json]:
        """Return the running requests that are new, have a model now, or have begun to answer."""
        before, self._running = self._running, {}
        found: list[Json] = []
        for row in reversed(running_rows(self._app, self._view)):
            state = (row.asked, row.provider, row.model, row.first_token_ms)
            self._running[row.id] = state
            if before.get(row.id) != state:
                found.append(self._view.shown(row, running=True))
        return found

    async def of_others(self) -> JsonObject | None:
        """Return new rows of other processes of this gateway, which only the ledger has."""
        query = RowQuery(_MOST, since=time.time() - _LATE, key=self._view.key)
        try:
            rows: list[LedgerRow] = await read_ledger(self._app, lambda ledger: ledger.rows(query))
        except StoreUnavailable:
            return None
        own = {row.id for row in self._app.recent_requests.all()}
        new = [row for row in reversed(rows) if row.id not in own | self._others]
        self._others = {row.id for row in rows}
        return {"rows": [*map(self._view.shown, new)], "skipped": 0} if new else None


async def stream(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """Send rows until the client leaves, its key ends or the gateway shuts down."""
    entry.note(surface="page")
    if len(app.watchers) >= MOST_WATCHERS:
        text = f"{MOST_WATCHERS} pages watch the requests already; close one of them"
        raise RateLimited(text, retry_after=5.0)
    app.release()  # a watcher is no request that a model works on
    head = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    await exchange.start(200, {**head, "x-accel-buffering": "no"})
    if exchange.method == "HEAD":
        await exchange.finish()
        return
    app.watchers.add(exchange.id)
    try:
        await _watch(app, exchange)
    finally:
        app.watchers.discard(exchange.id)
    await exchange.finish()


async def _watch(app: "App", exchange: HttpExchange) -> None:
    loop = asyncio.get_running_loop()
    feed = RequestFeed(app, RowView(app.gateway.redactor, exchange.access))
    await exchange.write(_encode("first", feed.first()))
    # Workers, and gateways on other machines, write to the same ledger.
    shared = app.config.workers > 1 or app.config.ledger not in {"auto", "off"}
    end = loop.time() + _LONGEST
    due = dict.fromkeys(("ping", "check", "others"), loop.time())
    while app.lifecycle.phase == "ready" and loop.time() < end:
        if (changes := feed.changes()) is not None:
            await exchange.write(_encode("rows", changes))
        if loop.time() >= due["check"]:
            due["check"] = loop.time() + _CHECK
            try:
                await app.guard.check(exchange)
            except ToolbridgeError:
                return
        if shared and loop.time() >= due["others"]:
            due["others"] = loop.time() + _SHARED
            if (changes := await feed.of_others()) is not None:
                await exchange.write(_encode("rows", changes))
        if loop.time() >= due["ping"]:
            due["ping"] = loop.time() + _PING
            await exchange.write(_encode("ping", {}))
        await asyncio.sleep(_TICK)


def _encode(name: str, data: JsonObject) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dump_bytes(data))
