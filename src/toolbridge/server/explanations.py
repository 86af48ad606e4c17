"""`GET /v1/explain/{id}`: how one request was routed, changed and answered.

The bodies of a kept request are decoded and compared here, in a thread, when an explanation is
asked for. A caller sees the requests of its own key only. Every value passes the redactor and is
shortened. A request that another process has answered is explained by that process (`team.py`); if
none has it any more, the row of the ledger is shown.
"""

import asyncio
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING

import msgspec

from toolbridge import codecs
from toolbridge.core.caller import owner_of
from toolbridge.core.errors import ToolbridgeError, UnknownRoute
from toolbridge.core.json import Json, JsonObject, dump_bytes, maybe_object
from toolbridge.core.messages import HealingReport, Loss, Problem, Request
from toolbridge.core.redaction import Redactor
from toolbridge.explain.edits import Comparison, Edit
from toolbridge.explain.prefix import Prefix, compare_prompts
from toolbridge.explain.reasons import explain_edits
from toolbridge.routing.exchange_trace import TracedAttempt, TracedToolRun
from toolbridge.server.http import HttpExchange
from toolbridge.server.kept_requests import KeptRequest
from toolbridge.server.request_log import Entry, stamp
from toolbridge.server.request_rows import RowView, ledger_row, newest_rows, own_row, read_ledger
from toolbridge.server.row_explanations import explain_row, explain_run
from toolbridge.server.team_records import TeamAnswer
from toolbridge.store import StoreUnavailable
from toolbridge.store.ledger import LedgerRow, RowQuery

if TYPE_CHECKING:
    from toolbridge.server.app import App

PATH = "/v1/explain"
_LONGEST = 400
"""Characters of one text."""
_MOST = 20
"""Items of one list inside a value."""
_MOST_EDITS = 200
_BROKE_OFF = "the client had got a part of the answer, which ended with this failure"
_NO_REASON = "no reason is recorded; please report this request"
_COMPARED = 8
"""Earlier requests that are compared; a client sends side requests between the turns."""


async def serve(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """Answer with the explanation of a request of the caller."""
    id = exchange.path.removeprefix(f"{PATH}/")
    entry.note(surface="explain")
    owner = owner_of(exchange.caller)
    own = await explain_own(app, id, owner)
    theirs: TeamAnswer | None = None
    if app.team is not None and (own is None or id == "last"):
        answers = await app.team.ask(id, owner, bodies=False)
        theirs = max((one for one in answers if one.contents), key=lambda one: one.at, default=None)
    if theirs is not None and (own is None or theirs.at > own[0]):
        shown, process = theirs.contents["explanation"], theirs.name
    elif own is not None:
        shown = own[1]
        process = "" if app.team is None else app.team.name
    else:
        shown, process = await _explain_row(app, exchange, id), ""
    named: JsonObject = {"process": process} if process else {}
    whole = shown | named if isinstance(shown, dict) else shown
    await exchange.reply(200, dump_bytes(whole))


async def explain_own(app: "App", id: str, owner: str) -> tuple[float, Json] | None:
    """Return when a request of this process began, and its explanation."""
    kept = app.gateway.kept_requests.find(id, owner)
    of_run = app.run_requests.find(id, owner)
    if of_run is not None and (kept is None or of_run.at > kept.entry.at):
        shown = explain_run(of_run, app.run_requests.calls_of(of_run.run))
        return of_run.at, _bounded(app.gateway.redactor.value(shown))
    return None if kept is None else (kept.entry.at, await explain_kept(app, kept))


async def _explain_row(app: "App", exchange: HttpExchange, id: str) -> Json:
    """Return what the row of a request has; raise `UnknownRoute`."""
    view = RowView(app.gateway.redactor, exchange.access)
    if id == "last":
        row = await _last_row(app, view)
        return _bounded(app.gateway.redactor.value(explain_row(row)))
    own = own_row(app, view, id)
    try:
        row = await ledger_row(app, view, id) if own is None else own[0]
    except UnknownRoute:
        raise UnknownRoute(_missing(id)) from None
    return _bounded(app.gateway.redactor.value(explain_row(row)))


async def _last_row(app: "App", view: RowView) -> LedgerRow:
    """Return the newest row that the caller may see, in memory or in the ledger."""
    found = newest_rows(app, view, 1)
    with suppress(StoreUnavailable):  # the error is reported where rows are listed
        found += await read_ledger(app, lambda ledger: ledger.rows(RowQuery(1, key=view.key)))
    if not found:
        raise UnknownRoute(_missing("last"))
    return max(found, key=lambda row: row.at)


async def explain_kept(app: "App", kept: KeptRequest) -> Json:
    """Return the explanation of a request, without secrets and with long texts shortened."""
    came: Request | ToolbridgeError
    try:
        asked = kept.ask.read(kept.body)
        came = await app.gateway.stored_responses.resume(asked, "", kept.owner)
    except ToolbridgeError as error:
        came = error
    why = app.gateway.model_routes.explain_name(kept.request_model) if kept.route else ""
    earlier = app.gateway.kept_requests.before(kept)[:_COMPARED]
    return await asyncio.to_thread(_explain, kept, came, why, earlier, app.gateway.redactor)


def _missing(id: str) -> str:
    what = "no request was made with this key" if id == "last" else f"there is no request {id!r}"
    return (
        f"{what} in the memory of the gateway or in the ledger: it is too old, was made with another "
        "key, or is not written yet. The id is in the header `request-id` and in the "
        "log; raise `explain_bytes` to keep more, or record requests with `--record DIR`"
    )


def _explain(
    kept: KeptRequest,
    came: Request | ToolbridgeError,
    why: str,
    earlier: list[KeptRequest],
    redactor: Redactor,
) -> Json:
    """Return the explanation, redacted before it is shortened: half a secret has no shape."""
    shown = _collect(kept, came, why)
    shown["prefix"] = _prefix(kept, earlier, redactor)
    return _bounded(redactor.value(shown))


def _collect(kept: KeptRequest, came: Request | ToolbridgeError, why: str) -> JsonObject:
    last = kept.trace.attempts[-1] if kept.trace.attempts else None
    shown: JsonObject = {
        "id": kept.id,
        "time": stamp(kept.entry.at),
        "status": kept.status,
        "client": _client(kept),
        "route": _route(kept, why),
        **({} if last is None else {"tool_mode": last.tool_mode, "dialect": last.dialect}),
        **({"tools": [_run(one) for one in kept.trace.tool_runs]} if kept.trace.tool_runs else {}),
        "edits": [],
        "healings": [_healing(report) for report in kept.entry.healed],
        "losses": _losses(kept, last),
        "prefix": None,
        "tokens": _tokens(kept),
        "times": _times(kept),
    }
    if kept.entry.inner:
        shown["descriptions"] = [_description(*one) for one in kept.entry.inner]
    if (failure := _failure(kept.entry)) is not None:
        shown["error"] = {"type": failure.kind, "message": failure.text}
    if isinstance(came, Request) and last is not None:
        shown |= _edits(kept, came, last)
    return shown


def _failure(entry: Entry) -> Problem | None:
    """Return why the request failed, also after a part of its answer was sent."""
    if kind := str(entry.fields.get("error.type") or ""):
        return Problem(kind, str(entry.fields.get("error.message") or ""))
    return None if entry.message is None else entry.message.problem


def _description(entry: Entry, status: int) -> JsonObject:
    """Return a description of an image that another model made (`describe_images`)."""
    row = entry.row(status)
    cost = None if row.cost is None else row.cost / 1e9
    shown: JsonObject = {"model": f"{row.provider}/{row.model}", "status": status}
    shown |= {"input": row.input, "output": row.output, "cost_usd": cost}
    return shown | ({"error": row.error} if row.error else {})


def _client(kept: KeptRequest) -> JsonObject:
    return {
        "api": kept.ask.codec.name,
        "path": kept.path,
        "model": kept.request_model,
        "session": kept.session,
        "bytes": len(kept.body),
    }


def _route(kept: KeptRequest, why: str) -> JsonObject:
    route = kept.route
    if route is None:
        return {"asked": kept.request_model, "why": "the request was rejected before it was routed"}
    return {
        "asked": kept.request_model,
        "why": why,
        "provider": route.provider,
        "model": route.target.model,
        "api": route.provider_config.api,
        "passthrough": any(one.passed_through for one in kept.trace.attempts),
        "attempts": _attempts(kept),
    }


def _attempts(kept: KeptRequest) -> list[Json]:
    attempts = kept.trace.attempts
    shown = [_attempt(one, after) for one, after in zip_longest(attempts, attempts[1:])]
    message = kept.entry.message
    if shown and message is not None and message.problem is not None:
        text = f"{message.problem.kind}: {message.problem.text}"
        broke_off: JsonObject = {"problem": text, "then": _BROKE_OFF}
        shown[-1] = broke_off | shown[-1]
    return [*shown]


def _attempt(attempt: TracedAttempt, after: TracedAttempt | None) -> JsonObject:
    shown: JsonObject = {
        "model": attempt.route.address,
        "at_ms": round(attempt.at * 1000, 1),
        "path": attempt.path,
        "bytes": len(attempt.body),
        "status": attempt.status,
        "tool_mode": attempt.tool_mode,
    }
    if attempt.answered_at:
        shown["answered_ms"] = round(attempt.answered_at * 1000, 1)
    if attempt.ready is not None:  # the demo model and nodes have no HTTP
        for name in ("path", "bytes", "status"):
            del shown[name]
    if attempt.problem is not None:
        shown["problem"] = f"{attempt.problem.kind}: {attempt.problem.text}"
        shown["then"] = attempt.outcome or _then(attempt, after)
    return shown


def _then(attempt: TracedAttempt, after: TracedAttempt | None) -> str:
    """Return what followed a failure that was not retried."""
    if after is None:
        return "the error was returned to the client"
    if after.route.address == attempt.route.address:
        return "the request was sent again in another form"
    return f"the request was sent to {after.route.address}, the next model of the chain"


def _run(run: TracedToolRun) -> JsonObject:
    """Return a run of a server tool; the texts of its result are not kept."""
    server: JsonObject = {"server": run.server} if run.server else {}
    return {
        "name": run.name,
        **server,
        "arguments": run.arguments,
        "at_ms": round(run.at * 1000, 1),
        "ms": round(run.seconds * 1000, 1),
        "result": run.result,
    }


# ── edits ────────────────────────────────────────────────────────────────────


def _edits(kept: KeptRequest, came: Request, attempt: TracedAttempt) -> JsonObject:
    """Return the edits of the request; a note where the sent request cannot be decoded."""
    api = attempt.route.provider_config.api
    sent = _sent(attempt, came)
    if sent is None:
        return {"note": f"a request of the API {api} is not decoded; the losses name its changes"}
    comparison = Comparison(
        came,
        sent,
        api,
        attempt.losses,
        attempt.tool_mode or "native",
        attempt.names,
        attempt.route.target.options,
    )
    found = explain_edits(comparison, kept.ask.codec.field_names)
    shown: JsonObject = {"edits": [_edit(edit) for edit in found[:_MOST_EDITS]]}
    if len(found) > _MOST_EDITS:
        shown["edits_left_out"] = len(found) - _MOST_EDITS
    return shown


def _sent(attempt: TracedAttempt, came: Request) -> Request | None:
    """Return the request as the target's own codec decodes it."""
    if attempt.ready is not None:
        return attempt.ready.request
    api = attempt.route.provider_config.api
    if api not in codecs.names():
        return None
    try:
        return codecs.load(api).decode_request(
            attempt.body, model=attempt.route.target.model, stream=came.stream
        )
    except ToolbridgeError:
        return None


def _edit(edit: Edit) -> JsonObject:
    return {
        "place": edit.place,
        "kind": edit.kind,
        "before": edit.before,
        "after": edit.after,
        "reason": edit.reason or _NO_REASON,
    }


def _healing(report: HealingReport) -> JsonObject:
    steps: list[Json] = [
        {"what": one.what, "level": one.level, "before": one.before, "after": one.after}
        for one in report.steps
    ]
    return {"call": report.call_id, "name": report.name, "level": report.level, "steps": steps}


def _losses(kept: KeptRequest, last: TracedAttempt | None) -> JsonObject:
    of_request = last.losses if last is not None else ()
    of_answer = [loss for loss in kept.entry.losses if loss not in of_request]
    return {"request": [_loss(one) for one in of_request], "answer": list(map(_loss, of_answer))}


def _loss(loss: Loss) -> Json:
    return {"what": loss.what, "why": loss.why, "minor": loss.minor}


# ── the prompt prefix, tokens and times ──────────────────────────────────────


def _prefix(kept: KeptRequest, earlier: list[KeptRequest], redactor: Redactor) -> Json:
    """Return the longest prefix that an earlier request had; null for the first of a session."""
    sent = maybe_object(kept.sent) if kept.sent else None
    if sent is None:
        return None
    message = kept.entry.message
    tokens = message.usage.input_total if message is not None else 0
    tokens = tokens or (kept.estimate.tokens if kept.estimate else 0)
    found: list[Prefix] = [
        compare_prompts(body, sent, one.id, tokens, lambda text: redactor.json_pieces([text])[0])
        for one in earlier
        if (body := maybe_object(one.sent)) is not None
    ]
    if not found:
        return None
    best = max(found, key=lambda prefix: prefix.characters)
    shown: JsonObject = msgspec.to_builtins(best)
    return {"text": best.sentence, **shown}


def _tokens(kept: KeptRequest) -> JsonObject:
    shown: JsonObject = {}
    if kept.estimate is not None:
        shown = {"estimated": kept.estimate.tokens, "accuracy": kept.estimate.accuracy}
    if (message := kept.entry.message) is not None:
        usage = message.usage
        shown |= {
            "input": usage.input_total,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "reasoning": usage.reasoning,
            "cost_usd": usage.cost.total if usage.cost is not None else None,
        }
    return shown


def _times(kept: KeptRequest) -> JsonObject:
    first = kept.entry.first_token
    return {
        "first_token_ms": None if first is None else round(first * 1000, 1),
        "total_ms": round(kept.duration * 1000, 1),
    }


def _bounded(value: Json) -> Json:
    """Return `value` with long texts and long lists of values shortened."""
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]}… ({len(value)} characters)"
    if isinstance(value, dict):
        return {name: _bounded(item) for name, item in value.items()}
    if isinstance(value, list):
        most = _MOST_EDITS if value and isinstance(value[0], dict) else _MOST
        more: list[Json] = [f"… ({len(value)} in all)"] if len(value) > most else []
        return [_bounded(item) for item in value[:most]] + more
    return value
