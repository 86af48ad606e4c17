"""Structured streams over HTTP: SSE events, resume, abort and results of client-side tools."""

from contextlib import aclosing
from typing import TYPE_CHECKING

from toolbridge.core.caller import owner_of
from toolbridge.core.codec import Rejection
from toolbridge.core.errors import MalformedRequest, status_of
from toolbridge.core.json import JsonObject, dump_bytes, loads
from toolbridge.core.messages import Problem
from toolbridge.runs.kept_events import Record
from toolbridge.runs.streams import RunSubscription, parse_event_id
from toolbridge.server.http import HttpExchange
from toolbridge.server.keep_alive import KeepAlive
from toolbridge.server.request_log import Entry
from toolbridge.server.stream_meter import StreamMeter
from toolbridge.tools.registry import ToolOutcome

if TYPE_CHECKING:
    from toolbridge.server.app import App

PATH = "/v1/stream"
_PING = b"event: ping\ndata: {}\n\n"
_CODES = {
    "unauthenticated": "not_allowed",
    "rate_limited": "too_many_runs",
    "unknown_route": "unknown_run",
}


async def start(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """`POST /v1/stream`: start a stream, or resume one after `Last-Event-ID`."""
    entry.note(surface="stream")
    last = exchange.header("last-event-id")
    if last:
        run, after = parse_event_id(last)
        followed = await app.service.streams.follow(run, exchange.caller, after)
    else:
        entry.body = await exchange.body(app.config.max_body)
        body = _object(entry.body)
        key = exchange.header("idempotency-key").strip()
        if not key and b"idempotency-key" in exchange.head.headers:
            raise MalformedRequest("must not be empty", where="Idempotency-Key")
        followed = await app.service.open(body, exchange.caller, key, StreamMeter(app, exchange))
    await _send(app, exchange, entry, followed)


async def follow(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """`GET /v1/stream/{run}`: send the events of a run, from its start or after `Last-Event-ID`."""
    entry.note(surface="stream")
    run, after = _run_of(exchange), 0
    if last := exchange.header("last-event-id"):
        named, after = parse_event_id(last)
        if named != run:
            text = f"belongs to another run than {run}"
            raise MalformedRequest(text, where="Last-Event-ID")
    followed = await app.service.streams.follow(run, exchange.caller, after)
    await _send(app, exchange, entry, followed)


async def abort(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """`DELETE /v1/stream/{run}`: abort a run."""
    entry.note(surface="stream")
    ended = await app.service.streams.abort(_run_of(exchange), exchange.caller)
    await exchange.reply(200, dump_bytes({"aborted": ended}))


async def answer_tool(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """`POST /v1/stream/{run}/results`: the result of a client-side tool."""
    entry.note(surface="stream")
    body = _object(await exchange.body(app.config.max_body))
    id, outcome = read_outcome(body)
    run = _run_of(exchange)
    taken = await app.service.streams.answer_tool(run, exchange.caller, id, outcome)
    if not taken:
        raise MalformedRequest(f"no tool call {id!r} waits for a result", where="id")
    await exchange.reply(200, dump_bytes({"accepted": True}))


def read_outcome(body: JsonObject) -> tuple[str, ToolOutcome]:
    """Return the call id and the outcome in `body`; raise `MalformedRequest`."""
    id = body.get("id")
    if not isinstance(id, str) or not id:
        raise MalformedRequest("the id of the tool call is required", where="id")
    if "error" in body and "result" in body:
        raise MalformedRequest("a call has a `result` or an `error`, not both", where="error")
    if "error" in body:
        return id, ToolOutcome(None, "tool_failed", str(body["error"])[:2000])
    if "result" not in body:
        raise MalformedRequest("the tool's `result` or its `error` is required", where="result")
    return id, ToolOutcome(body["result"])


async def needs_upgrade(_: "App", exchange: HttpExchange, entry: Entry) -> None:
    """`GET /v1/stream/ws` without an upgrade: it is served as a WebSocket only."""
    entry.note(surface="stream")
    text = f"{exchange.path} is a WebSocket; send `Connection: Upgrade` and `Upgrade: websocket`"
    body = encode_rejection(Problem("upgrade_required", text))
    await exchange.reply(426, body, {"upgrade": "websocket"})


def encode_rejection(problem: Problem) -> bytes:
    """Return the body of an error response, sent before the first event."""
    error: JsonObject = {
        "code": _CODES.get(problem.kind, problem.kind),
        "message": problem.text,
    }
    if problem.where:
        error["where"] = problem.where
    return dump_bytes({"error": error})


def reject(problem: Problem) -> Rejection:
    headers = {}
    if problem.retry_after is not None:
        headers["retry-after"] = str(max(1, round(problem.retry_after)))
    return Rejection(status_of(problem), encode_rejection(problem), headers)


async def _send(
    app: "App", exchange: HttpExchange, entry: Entry, followed: RunSubscription
) -> None:
    entry.note(run=followed.run)
    app.run_requests.add(entry, owner_of(exchange.caller), followed.run)
    async with aclosing(followed.batches) as batches:
        await exchange.start(
            200,
            {
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-cache",
                "x-accel-buffering": "no",
                "x-toolbridge-run": followed.run,
            },
        )
        ping = app.config.stream.ping
        pulse = KeepAlive(lambda: exchange.write(_PING), first=ping, interval=ping)
        try:
            async for batch in batches:
                entry.note_first_token()
                pulse.touch()
                await exchange.write(b"".join([_encode(followed.run, r) for r in batch]))
        finally:
            pulse.stop()
    await exchange.finish()


def _encode(run: str, record: Record) -> bytes:
    head = f"id: {run}:{record.n}\nevent: {record.name}\ndata: "
    return b"%b%b\n\n" % (head.encode(), record.data)


def _run_of(exchange: HttpExchange) -> str:
    return exchange.path.removeprefix(f"{PATH}/").partition("/")[0]


def _object(body: bytes) -> JsonObject:
    try:
        found = loads(body)
    except ValueError as error:
        raise MalformedRequest(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise MalformedRequest("the body must be a JSON object")
    return found
