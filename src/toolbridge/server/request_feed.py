"""`GET /v1/requests/stream`: requests as they begin, are answered and end, as server-sent events.

A watcher compares what it has sent with what there is, five times a second. So a request does
nothing for its watchers, and a slow watcher gets the latest state of a row, not every state.
"""

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from toolbridge.core.errors import RateLimited, ToolbridgeError
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry
from toolbridge.server.request_rows import RowView, newest_rows, read_ledger, running_rows
from toolbridge.store import StoreUnavailable
from toolbridge.store.ledger import INTERRUPTED, LedgerRow, RowQuery

if TYPE_CHECKING:
    from toolbridge.server.app import App
    from toolbridge.server.team import Team
    from toolbridge.server.team_records import TeamRows

_TICK = 0.2
"""Seconds between two comparisons."""
_FIRST = 100
"""Past rows that a new watcher gets."""
_MOST = 250
"""Rows of one event; older ones are left out and counted."""
_REMEMBERED = 5000
"""Ended requests of other processes that a watcher is known to have."""
_PATIENCE = 12
"""Reads of the team's rows without a running request, until it counts as lost: six seconds."""
_PING = 15.0
_CHECK = 5.0
"""Seconds between two checks of the key, which may be revoked meanwhile."""
_LONGEST = 600.0
"""Seconds after which a watcher has to connect again, under the settings of that time."""
MOST_WATCHERS = 32
_SHARED = 2.0
"""Seconds between two reads of the ledger for the rows of other processes."""
_TEAM = 0.5
"""Seconds between two reads of the rows of processes that share the store."""
_LATE = 900.0
"""Seconds; longer requests of other processes appear when the page is loaded again."""


class TeamFeed:
    """What one watcher has not seen yet of the requests of other processes."""

    def __init__(self, view: RowView) -> None:
        self._view = view
        self.ended: dict[str, None] = {}
        """The ids of ended requests that were sent, the oldest first."""
        self._running: dict[str, tuple[str, LedgerRow]] = {}
        """The id of each running request that was sent → its process and its row."""
        self._missed: Counter[str] = Counter()
        """The id of each of them that was missing lately → the number of reads without it."""

    def changes(self, team: "list[TeamRows]") -> list[Json]:
        found: list[Json] = []
        running: dict[str, tuple[str, LedgerRow]] = {}
        for rows in team:
            for row in filter(self._view.sees, rows.ended):
                self._running.pop(row.id, None)
                if row.id not in self.ended:
                    self.ended[row.id] = None
                    found.append(self._view.shown(row, process=rows.name))
            for row in filter(self._view.sees, rows.running):
                running[row.id] = rows.name, row
                before = self._running.pop(row.id, None)
                if row.id not in self.ended and (before is None or _differs(before[1], row)):
                    found.append(self._view.shown(row, running=True, process=rows.name))
        found += self._lost(running)
        self._running = running
        while len(self.ended) > _REMEMBERED:
            del self.ended[next(iter(self.ended))]
        return found

    def _lost(self, running: dict[str, tuple[str, LedgerRow]]) -> list[Json]:
        """Return the requests whose process is gone; one that is only late is waited for."""
        self._missed = Counter({id: self._missed[id] + 1 for id in self._running})
        found: list[Json] = []
        for id, (process, row) in self._running.items():
            if self._missed[id] > _PATIENCE:
                broken = msgspec.structs.replace(row, error=row.error or INTERRUPTED)
                found.append(self._view.shown(broken, process=process))
            else:
                running[id] = process, row
        return found


def _differs(before: LedgerRow, row: LedgerRow) -> bool:
    return _state(before) != _state(row)


def _state(row: LedgerRow) -> tuple[object, ...]:
    """Return what changes while a request runs."""
    return row.asked, row.provider, row.model, row.first_token_ms


class RequestFeed:
    """What one watcher has not seen yet."""

    def __init__(self, app: "App", view: RowView) -> None:
        self._app = app
        self._view = view
        self._number = app.recent_requests.number
        self._running: dict[str, tuple[object, ...]] = {}
        """The id of each running request that was sent → what was sent of it."""
        self._others: set[str] = set()
        """The ids of rows of other processes that were sent from the ledger."""
        self._team = TeamFeed(view)
        self._process = "" if app.team is None else app.team.name

    def first(self) -> JsonObject:
        """Return the newest rows, running ones last."""
        newest = newest_rows(self._app, self._view, _FIRST)
        return {"rows": self._shown(newest) + self._begun()}

    def changes(self) -> JsonObject | None:
        """Return the rows that are new or have changed; None without any."""
        recent = self._app.recent_requests
        ended = [row for row in recent.after(self._number) if self._view.sees(row)]
        self._number = recent.number
        skipped = max(0, len(ended) - _MOST)
        rows = self._shown(ended[skipped:]) + self._begun()
        return {"rows": rows, "skipped": skipped} if rows else None

    def _shown(self, rows: list[LedgerRow]) -> list[Json]:
        return [self._view.shown(row, process=self._process) for row in rows]

    def _begun(self) -> list[Json]:
        """Return the running requests that are new, have a model now, or have begun to answer."""
        before, self._running = self._running, {}
        found: list[Json] = []
        for row in reversed(running_rows(self._app, self._view)):
            state = _state(row)
            self._running[row.id] = state
            if before.get(row.id) != state:
                found.append(self._view.shown(row, running=True, process=self._process))
        return found

    async def of_team(self, team: "Team") -> JsonObject | None:
        """Return new and changed rows of other processes that share the store."""
        if self._app.gateway.store.trouble:
            return None
        rows = self._team.changes(await team.rows())
        return {"rows": rows, "skipped": 0} if rows else None

    async def of_others(self) -> JsonObject | None:
        """Return new rows of other processes of this gateway, which only the ledger has."""
        query = RowQuery(_MOST, since=time.time() - _LATE, key=self._view.key)
        try:
            rows: list[LedgerRow] = await read_ledger(self._app, lambda ledger: ledger.rows(query))
        except StoreUnavailable:
            return None
        own = {row.id for row in self._app.recent_requests.all()}
        known = own | self._others | self._team.ended.keys()
        new = [row for row in reversed(rows) if row.id not in known]
        self._others = {row.id for row in rows}
        return {"rows": [*map(self._view.shown, new)], "skipped": 0} if new else None


async def stream(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """Send rows until the client leaves, its key ends or the gateway shuts down."""
    entry.note(surface="page")
    if len(app.watchers) >= MOST_WATCHERS:
        text = f"{MOST_WATCHERS} pages watch the requests already; close one of them"
        raise RateLimited(text, retry_after=5.0)
    app.release(exchange)  # a watcher is no request that a model works on
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
    due = dict.fromkeys(("ping", "check", "team", "others"), loop.time())
    while app.lifecycle.phase == "ready" and loop.time() < end:
        if (changes := feed.changes()) is not None:
            await exchange.write(_encode("rows", changes))
        if loop.time() >= due["check"]:
            due["check"] = loop.time() + _CHECK
            try:
                await app.guard.check(exchange)
            except ToolbridgeError:
                return
        if app.team is not None and loop.time() >= due["team"]:
            due["team"] = loop.time() + _TEAM
            if (changes := await feed.of_team(app.team)) is not None:
                await exchange.write(_encode("rows", changes))
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
