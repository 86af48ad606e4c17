"""Request dispatch: from an HTTP exchange or a WebSocket to its route.

Every request gets an id, passes the key, host and origin checks, is answered by its route and is
recorded in the metrics and the request log. An error becomes a response in the error envelope of
the API that the path belongs to.
"""

import asyncio
import math
import re
from collections.abc import Coroutine

from toolbridge import codecs
from toolbridge.core.codec import Rejection
from toolbridge.core.errors import (
    Aborted,
    Busy,
    ToolbridgeError,
    UnknownRoute,
    WrongMethod,
)
from toolbridge.core.messages import Problem
from toolbridge.server import routes
from toolbridge.server.app import App
from toolbridge.server.http import HttpExchange, IncomingRequest, cancelled_by_client
from toolbridge.server.http_head import Head
from toolbridge.server.http_protocol import ServerState
from toolbridge.server.kept_paths import keeps_answer
from toolbridge.server.request_fields import note_caller
from toolbridge.server.request_log import Entry
from toolbridge.server.scopes import Receive, Scope, Send
from toolbridge.store.notices import notice, report_fault

_METRICS = "/metrics"
_OPEN = frozenset(
    {"/", "/health", "/health/liveness", "/health/liveliness", "/health/readiness"}
    | {"/healthz", "/livez", "/readyz"}
    | routes.PAGES
)
"""Paths that need no key."""

_START_FAILED = 3
"""The exit code of a process whose `App` cannot start."""
_LONG = 60.0
"""Seconds after which a client should not wait for the end of a limit by itself."""


class Dispatcher:
    """Calls the route of each request with an `App`."""

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def app(self) -> App:
        """The `App` of new requests."""
        return self._app

    def use(self, app: App) -> None:
        """Serve new requests with `app`; running ones keep theirs."""
        self._app = app

    async def start(self) -> None:
        """Start the `App`; raise `SystemExit` if it cannot start."""
        try:
            await self._app.start()
        except ToolbridgeError as error:
            notice(str(error))
            await self._app.stop()
            raise SystemExit(_START_FAILED) from None
        if (team := self._app.team) is not None:
            from toolbridge.server.own_requests import OwnRequests

            await team.open(OwnRequests(lambda: self._app))

    async def stop(self) -> None:
        """Stop the `App` after its last request."""
        await self._app.stop()

    def websocket(self, state: ServerState, head: Head) -> asyncio.Protocol:
        """Return the protocol of a connection that a client upgrades to a WebSocket."""
        from toolbridge.server import stream_ws
        from toolbridge.server.websocket import websocket_protocol

        app = self._app
        # The head as it is checked for every request. uvicorn's scope has the names of the header fields
        # as the client wrote them, in which a check for `origin` does not find `Origin`.
        request = IncomingRequest(head)
        request.id, request.path = app.request_id(), routes.WEBSOCKET

        async def serve(_: Scope, receive: Receive, send: Send) -> None:
            await stream_ws.serve(app, request, receive, send)

        return websocket_protocol(serve, state, app.config.max_body)

    def serve(self, exchange: HttpExchange) -> Coroutine[None, None, None]:
        """Answer one request and record it."""
        app = self._app  # a reload may replace it while the request runs
        exchange.id = app.request_id()
        if exchange.path not in routes.PATHS:
            exchange.path = plain_path(exchange.path)
        return self._recorded(app, exchange, app.open_entry(exchange))

    async def _recorded(
        self, app: App, exchange: HttpExchange, entry: Entry, make: routes.Serve | None = None
    ) -> None:
        """Answer one request and record it; `make` answers one that was admitted before."""
        # The entry of a kept answer belongs to the task that makes the answer.
        makes_answer = make is not None
        try:
            try:
                if make is None and entry.started >= app.guard.created.fresh_until:
                    await self._refresh_keys(app, exchange)
                serve = make or self._admitted(app, exchange, entry)
                await serve(app, exchange, entry)
            except Aborted:
                raise
            except Exception as error:  # noqa: BLE001  one faulty request must not stop the server
                await _answer_error(app, exchange, entry, error)
                _forget_frames(error)
        except Aborted as error:
            if makes_answer or not entry.handed_over:
                _note_disconnect(exchange, entry, error)
        except asyncio.CancelledError:
            if cancelled_by_client(exchange):
                if makes_answer or not entry.handed_over:
                    _note_disconnect(exchange, entry, Aborted("the client disconnected"))
                return
            # The server is shutting down and the grace period of this request is over.
            text = "the gateway is shutting down; try again when it runs"
            entry.note(error__type="aborted", error__message=text)
            await _reject(exchange, Problem("overloaded", text))
            raise
        finally:
            app.in_flight.pop(exchange, None)  # `release`, without its call
            if makes_answer or not entry.handed_over:
                app.record(entry, exchange.status)

    def refuse(self, method: str, path: str, error: ToolbridgeError) -> Rejection:
        """Record a request that is not valid HTTP; return the response for the API at its path."""
        request = IncomingRequest(Head(method, plain_path(path), b"", {}))
        request.id = self._app.request_id()
        entry = self._app.open_entry(request)
        entry.note(error__type=error.kind, error__message=str(error))
        rejection = _rejection(request, error.problem)
        self._app.record(entry, rejection.status)
        ids = {"request-id": request.id, "x-request-id": request.id}
        return Rejection(rejection.status, rejection.body, ids | rejection.headers)

    def is_websocket(self, path: str) -> bool:
        return plain_path(path) == routes.WEBSOCKET

    async def _refresh_keys(self, app: App, exchange: HttpExchange) -> None:
        """Read the created keys again, if the request needs one."""
        self._allow_origin(exchange)  # also for an error
        if exchange.method != "OPTIONS" and exchange.path not in _OPEN:
            await app.guard.refresh()

    def _admitted(self, app: App, exchange: HttpExchange, entry: Entry) -> routes.Serve:
        """Check the caller; return what answers the request."""
        method, path, headers = exchange.method, exchange.path, exchange.head.headers
        if method == "OPTIONS" or b"origin" in headers:
            self._allow_origin(exchange)
        if method == "OPTIONS":
            return _reply_to_options
        if path not in _OPEN:
            app.guard.check_now(exchange)
            if path != _METRICS:
                app.admit(exchange, entry)
        if method == "GET":
            app.flush()  # what it reads has the requests before it, also those of this turn
        if keeps_answer(exchange, app.config):
            return self._resume
        return _route(exchange)

    async def _resume(self, app: App, exchange: HttpExchange, entry: Entry) -> None:
        """Answer with a kept answer: a new one, or one that was asked for before."""
        from toolbridge.server import resuming

        async def make(app: App, produced: HttpExchange, entry: Entry) -> None:
            app.in_flight[produced] = entry  # it was admitted as the request of the client
            await _route(produced)(app, produced, entry)

        async def produce(produced: HttpExchange) -> None:
            await self._recorded(app, produced, entry, make)

        await resuming.serve(app, exchange, entry, routes.api_of(exchange), produce)

    def _allow_origin(self, exchange: HttpExchange) -> None:
        """Set the CORS headers of the response."""
        origin = exchange.header("origin")
        allowed = self._app.guard.allowed_origin(origin) if origin else ""
        if exchange.method == "OPTIONS" or allowed:
            exchange.extra_headers |= {
                "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
                "access-control-allow-headers": exchange.header("access-control-request-headers")
                or "content-type, x-api-key, authorization, anthropic-version, anthropic-beta, "
                "idempotency-key, last-event-id, x-toolbridge-resume",
                "access-control-max-age": "600",
            }
        if allowed:
            exchange.extra_headers |= {
                "access-control-allow-origin": allowed,
                "access-control-expose-headers": "request-id, x-toolbridge-warning, x-toolbridge-tried, "
                "x-toolbridge-run, x-toolbridge-answer",
                "vary": "origin",
            }


async def _reply_to_options(_: App, exchange: HttpExchange, __: Entry) -> None:
    await exchange.reply(200, b"")


async def _answer_error(app: App, exchange: HttpExchange, entry: Entry, error: Exception) -> None:
    """Answer with the error that a route has raised."""
    if isinstance(error, ToolbridgeError):
        entry.note(error__type=error.kind, error__message=str(error))
        if isinstance(error, Busy) and routes.asks_model(exchange):
            # The keys cannot be read: the ledger has a row of each rejected request.
            note_caller(entry, exchange)
            entry.note(surface=routes.api_of(exchange))
        await _reject(exchange, error.problem)
        return
    report_fault(error, app.gateway.redactor)
    entry.note(error__type="internal", error__message=type(error).__name__)
    text = (
        f"toolbridge failed with {type(error).__name__}; "
        f"the log has the details under {exchange.id}"
    )
    await _reject(exchange, Problem("internal", text))


def _forget_frames(error: BaseException) -> None:
    """Free the objects of a request that has failed.

    An error refers to the frames that it has passed, and some of them to the error; so all of them
    would wait for the garbage collector, which runs rarely.
    """
    found: BaseException | None = error
    while found is not None:
        found.__traceback__ = None
        found = found.__context__


def _route(exchange: HttpExchange) -> routes.Serve:
    """Return the function that serves the exchange; raise `UnknownRoute` or `WrongMethod`."""
    methods = routes.PATHS.get(exchange.path) or routes.find(exchange.path)
    if methods is None:
        raise UnknownRoute(
            f"nothing is served at {exchange.path[:200]}; {routes.offer_of(exchange)}"
        )
    method = "GET" if exchange.method == "HEAD" and "GET" in methods else exchange.method
    if method not in methods:
        exchange.extra_headers["allow"] = ", ".join(methods)
        raise WrongMethod(f"{exchange.path} takes {' or '.join(methods)}, not {exchange.method}")
    return methods[method]


def _note_disconnect(exchange: HttpExchange, entry: Entry, error: Aborted) -> None:
    exchange.status = exchange.status or error.status
    entry.note(error__type=error.kind, error__message=str(error))


async def _reject(exchange: HttpExchange, problem: Problem) -> None:
    if exchange.status:
        return  # the response has begun: only closing the connection can report the failure now
    rejection = _rejection(exchange, problem)
    await exchange.reply(rejection.status, rejection.body, rejection.headers)


def _rejection(request: IncomingRequest, problem: Problem) -> Rejection:
    """Return `problem` in the error envelope of the API that the request belongs to."""
    if routes.is_stream(request.path):
        return routes.reject_stream(problem)
    found = codecs.load(routes.api_of(request)).encode_rejection(problem, request.id)
    if problem.kind == "idempotency_conflict":
        # SDKs of Anthropic and OpenAI repeat a 409, which would be the same again.
        return Rejection(found.status, found.body, {"x-should-retry": "false"} | found.headers)
    if problem.retry_after is None:
        return found
    # Gemini's own envelope has the delay in the body only; clients of any API read the header.
    delay = {"retry-after": str(math.ceil(problem.retry_after))}
    if problem.kind == "rate_limited" and not problem.status:
        # The limit of a key. SDKs of Anthropic and OpenAI would repeat the request in seconds, also
        # where the limit is used up until tomorrow.
        delay["x-should-retry"] = "false" if problem.retry_after > _LONG else "true"
    return Rejection(found.status, found.body, delay | found.headers)


# Parts of base URLs that people configure before the path that the client itself appends.
_BASE = re.compile(r"^/(?:anthropic|openai|genai|api|v1|v1beta)(?=/(?:api|v1|v1beta)/)")


def plain_path(path: str) -> str:
    """Return the path of the route that a client means.

    Clients are configured with base URLs with and without `/v1`, with the version or the API twice
    (`/v1/v1/messages`, `/v1/api/chat`), with a prefix that names the API (`/anthropic/v1/messages`;
    Google's own for OpenAI's clients is `/v1beta/openai`), and with duplicate or trailing slashes.
    """
    if routes.find(path) is not None:
        return path
    path = re.sub(r"/{2,}", "/", path).rstrip("/") or "/"
    path = re.sub(r"^/v1beta/openai(?=/)", "/v1", path)
    while routes.find(path) is None and (prefix := _BASE.match(path)):
        path = path[prefix.end() :]
    if routes.find(path) is None and routes.find(f"/v1{path}") is not None:
        return f"/v1{path}"
    return path
