"""Past runs over HTTP, read from their artifacts: a list, and one run in full.

Artifacts belong to the operator: a caller with the server's key may read all of them. A server
without a key serves loopback only. The redactor runs on the response as it did on the files.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.runs.folders import NO_LINK, Summary, list_runs, load_run, run_folder
from toolbridge.runs.streams import UnknownRun
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry

if TYPE_CHECKING:
    from toolbridge.server.app import App

PATH = "/v1/runs"
_MOST = 100
"""The most runs in the list."""
_PROMPT = 200
"""Characters of a prompt in the list."""
_LISTED = ("model", "total_ms", "events", "repairs", "heals", "degraded", "tool_calls", "errors")


class _StoredMessage(msgspec.Struct):
    content: str = ""


class _StoredRequest(msgspec.Struct):
    prompt: str = ""
    messages: tuple[_StoredMessage, ...] = ()


class _StoredPrompt(msgspec.Struct):
    order: _StoredRequest = msgspec.field(default_factory=_StoredRequest)


_prompt = msgspec.json.Decoder(_StoredPrompt)


async def listed(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """`GET /v1/runs`: the newest runs that have artifacts."""
    entry.note(surface="stream")
    state = app.gateway.state
    found = await asyncio.to_thread(_list, state / "runs") if state else []
    active = app.active_runs(exchange.caller)
    rows = {id: _active_row(id, elapsed) for id, elapsed in active.items()}
    for row in found:
        known = rows.get(str(row["id"]), {"active": False})
        rows[str(row["id"])] = {**row, **known, "prompt": row["prompt"]}
    await exchange.reply(200, app.gateway.redactor.json({"runs": list(rows.values())}))


async def one(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """`GET /v1/runs/{run}`: the artifacts of a run."""
    run = exchange.path.removeprefix(f"{PATH}/")
    entry.note(surface="stream", run=run)
    state = app.gateway.state
    if state is None:
        raise UnknownRun("this gateway keeps no runs: neither XDG_STATE_HOME nor HOME is set")
    try:
        found = await asyncio.to_thread(load_run, state / "runs", run)
    except LookupError:
        raise UnknownRun(f"there are no artifacts of {run}") from None
    elapsed = app.active_runs(exchange.caller).get(run)
    shown = {
        **msgspec.structs.asdict(found),
        "active": elapsed is not None,
        "elapsed_ms": None if elapsed is None else round(elapsed * 1000, 1),
    }
    # Redacted again: an earlier version may have written the files.
    await exchange.reply(200, await asyncio.to_thread(app.gateway.redactor.json, shown))


def _active_row(id: str, elapsed: float) -> JsonObject:
    """Return the row of an active run, which may have no artifacts."""
    started = time.time() - elapsed
    return {"id": id, "started": started, "finished": False, "prompt": "", "active": True}


def _list(root: Path) -> list[JsonObject]:
    return [_row(root, summary) for summary in list_runs(root)[:_MOST]]


def _row(root: Path, summary: Summary) -> JsonObject:
    listed_metrics = {name: summary.metrics[name] for name in _LISTED if name in summary.metrics}
    return {
        "id": summary.id,
        "started": summary.started,
        "bytes": summary.bytes,
        "finished": summary.finished,
        "prompt": _prompt_of(run_folder(root, summary.id) / "prompt.json")[:_PROMPT],
        **listed_metrics,
    }


def _prompt_of(file: Path) -> str:
    """Return the prompt of a run; empty if `prompt.json` cannot be read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | NO_LINK)
        with os.fdopen(descriptor, "rb") as opened:
            order = _prompt.decode(opened.read()).order
    except (OSError, ValueError):
        return ""
    return order.prompt or (order.messages[-1].content if order.messages else "")
