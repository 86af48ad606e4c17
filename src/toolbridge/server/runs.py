"""Past runs over HTTP, from their artifacts: a list, and one of them whole.

Artifacts are the operator's. Whoever has the key may read all of them; without a key the server
answers its own machine only. What is shown passes the redactor, as did what was written.
"""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolbridge.core.json import Json
from toolbridge.runs.folders import NO_LINK, Summary, list_runs, load_run, run_folder
from toolbridge.runs.streams import UnknownRun
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry

if TYPE_CHECKING:
    from toolbridge.server.app import App

PATH = "/v1/runs"
_MOST = 100
"""Runs that are listed."""
_PROMPT = 200
"""Characters of a prompt in the list."""
_TOLD = ("model", "total_ms", "events", "repairs", "heals", "degraded", "tool_calls", "errors")


class _Said(msgspec.Struct):
    content: str = ""


class _Order(msgspec.Struct):
    prompt: str = ""
    messages: tuple[_Said, ...] = ()


class _Prompt(msgspec.Struct):
    order: _Order = msgspec.field(default_factory=_Order)


_prompt = msgspec.json.Decoder(_Prompt)


async def listed(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """`GET /v1/runs`: the newest runs that left artifacts."""
    entry.note(surface="stream")
    state = app.gateway.state
    found = await asyncio.to_thread(_list, state / "runs") if state else []
    await exchange.reply(200, app.gateway.redactor.json({"runs": found}))


async def one(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """`GET /v1/runs/{run}`: all that is left of a run."""
    run = exchange.path.removeprefix(f"{PATH}/")
    entry.note(surface="stream", run=run)
    state = app.gateway.state
    if state is None:
        raise UnknownRun("this gateway keeps no runs: it has no home to keep them in")
    try:
        found = await asyncio.to_thread(load_run, state / "runs", run)
    except LookupError:
        raise UnknownRun(f"nothing is kept of {run}") from None
    # Redacted once more: an earlier version may have written it.
    await exchange.reply(200, await asyncio.to_thread(app.gateway.redactor.json, found))


def _list(root: Path) -> list[Json]:
    return [_row(root, summary) for summary in list_runs(root)[:_MOST]]


def _row(root: Path, summary: Summary) -> Json:
    told = {name: summary.metrics[name] for name in _TOLD if name in summary.metrics}
    return {
        "id": summary.id,
        "started": summary.started,
        "bytes": summary.bytes,
        "finished": summary.finished,
        "prompt": _asked(run_folder(root, summary.id) / "prompt.json")[:_PROMPT],
        **told,
    }


def _asked(file: Path) -> str:
    """Return what the run was asked; nothing where that cannot be read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | NO_LINK)
        with os.fdopen(descriptor, "rb") as opened:
            order = _prompt.decode(opened.read()).order
    except (OSError, ValueError):
        return ""
    return order.prompt or (order.messages[-1].content if order.messages else "")
