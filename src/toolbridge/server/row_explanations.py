"""Explanations of what has a row in the ledger and no bodies in memory.

These are requests that no running process keeps any more, and the model calls of structured streams.
"""

from toolbridge.accounting.limits_of_keys import NANOS
from toolbridge.core.json import Json, JsonObject
from toolbridge.server.request_log import Entry, stamp
from toolbridge.server.run_requests import RunRequest
from toolbridge.store.ledger import LedgerRow


def explain_row(row: LedgerRow) -> JsonObject:
    """Return what the ledger has of a request whose bodies are not in this process."""
    return {
        "id": row.id,
        "time": stamp(row.at),
        "status": row.status,
        "client": {"api": row.api, "model": row.asked, "session": row.session},
        "route": {
            "asked": row.asked,
            "why": "the ledger has no reason",
            "provider": row.provider,
            "model": row.model,
            "attempts": [{"model": address} for address in row.routes],
        },
        "note": "no running process of the gateway has the bodies of this request, so that there is "
        f"nothing to compare. The ledger has {row.healings} healings and {row.losses} losses",
        "tokens": {
            "input": row.input + row.cache_read + row.cache_write,
            "output": row.output,
            "cache_read": row.cache_read,
            "cache_write": row.cache_write,
            "reasoning": row.thinking,
            "cost_usd": None if row.cost is None else row.cost / NANOS,
        },
        "times": {"first_token_ms": row.first_token_ms, "total_ms": row.total_ms},
        **({"error": {"type": row.error, "message": ""}} if row.error else {}),
    }


def explain_run(found: RunRequest, entries: list[Entry]) -> JsonObject:
    """Return the run of a request to a structured stream, with its calls of the model."""
    calls: list[Json] = [_call(one) for one in entries]
    asked = str(entries[0].fields.get("gen_ai.request.model", "")) if entries else ""
    return {
        "id": found.id,
        "time": stamp(found.at),
        "status": found.status,
        "client": {"api": "stream", "path": found.path, "model": asked, "session": found.run},
        "route": {"asked": asked, "why": _EACH if calls else _ELSEWHERE},
        "run": found.run,
        "calls": calls,
    }


_EACH = "a structured stream; each call of its model is a request with an id of its own"
_ELSEWHERE = "a structured stream; this process has called no model for it"


def _call(entry: Entry) -> JsonObject:
    running = entry.ended is None
    row = entry.ended or entry.row(0)
    shown: JsonObject = {
        "id": row.id,
        "time": stamp(row.at),
        "model": f"{row.provider}/{row.model}",
        "status": row.status,
        "input": row.input + row.cache_read + row.cache_write,
        "output": row.output,
        "total_ms": row.total_ms,
    }
    if running:
        return shown | {"running": True}
    return shown | ({"error": row.error} if row.error else {})
