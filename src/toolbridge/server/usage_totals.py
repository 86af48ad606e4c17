"""`GET /v1/usage`: the sums of the ledger, as `toolbridge usage --json` prints them."""

import time
from typing import TYPE_CHECKING

from toolbridge.core.errors import Busy, MalformedRequest
from toolbridge.core.json import Json, JsonObject
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry, stamp
from toolbridge.server.request_rows import read_ledger
from toolbridge.store import StoreUnavailable
from toolbridge.store.ledger import GROUPINGS
from toolbridge.store.usage_records import record_of, start_of

if TYPE_CHECKING:
    from toolbridge.server.app import App

_USUAL = "30d"


async def totals(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """Answer with the sums by model, key, day, session, client or provider.

    A created key gets the sums of its own requests.
    """
    entry.note(surface="page")
    by = exchange.query("by") or "model"
    if by not in GROUPINGS:
        raise MalformedRequest(f"must be one of {', '.join(GROUPINGS)}", where="by")
    start = start_of(exchange.query("since") or _USUAL, time.time())
    key = None if exchange.access is None else exchange.access.name
    try:
        found = await read_ledger(app, lambda ledger: ledger.totals(by, start, key))
    except StoreUnavailable as error:
        why = f": {error}" if exchange.access is None else " now"
        raise Busy(f"the ledger cannot be read{why}; run `toolbridge doctor`") from None
    records: list[Json] = [record_of(by, total) for total in found]
    shown: JsonObject = {
        "by": by,
        "since": stamp(start),
        "ledger": "off" if app.ledger is None else "on",
        "totals": records,
    }
    await exchange.reply(200, app.gateway.redactor.json(shown))
