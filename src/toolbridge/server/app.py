"""The application: routes, and what every exchange has in common.

Every exchange gets an id, is checked, answered, and written down; whatever goes wrong
becomes an error in the envelope of the API that the path belongs to, and the server goes on.
"""

import asyncio
import math
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from toolbridge import codecs
from toolbridge.config import Config, StreamConfig, secret
from toolbridge.core.codec import Rejection
from toolbridge.core.errors import (
    Aborted,
    RateLimited,
    ToolbridgeError,
    UnknownRoute,
    WrongMethod,
)
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Problem
from toolbridge.server import routes
from toolbridge.server.auth import Guard
from toolbridge.server.gateway import Gateway
from toolbridge.server.http import HttpExchange, IncomingRequest, cancelled_by_client
from toolbridge.server.http_head import Head
from toolbridge.server.metrics import Metrics, configured_models
from toolbridge.server.request_log import Entry, RequestLog
from toolbridge.server.scopes import Receive, Scope, Send
from toolbridge.store import private_files
from toolbridge.store.notices import report_fault
from toolbridge.upstream.http import Upstream

if TYPE_CHECKING:
    from toolbridge.runs.service import StreamService

_METRICS = "/metrics"
_OPEN = frozenset({"/", "/health", "/health/liveness", "/health/liveliness", "/health/readiness"})


class App:
    def __init__(self, config: Config, env: Mapping[str, str] = os.environ) -> None:
        self.config = config
        self._env = env
        self.guard = Guard(config, secret(config.key, env))
        self.upstream = Upstream()
        self.gateway = Gateway(config, self.upstream, env)
        self.metrics = Metrics(configured_models(config), self.gateway.redactor)
        self._request_log = RequestLog(config.log, redactor=self.gateway.redactor)
        self._ids = Ids(os.urandom(16))
        self._stack = AsyncExitStack()
        self.in_flight: set[asyncio.Task[object]] = set()
        """The tasks of requests whose callers may call; `http.max_requests` bounds them."""
        self.started = time.time()

    async def start(self) -> None:
        await self._stack.enter_async_context(self.upstream)
        self._stack.push_async_callback(self.gateway.close)
        if self.gateway.state is not None:
            with suppress(OSError):  # not there yet, or not ours: the store says so when it matters
                private_files.tighten(self.gateway.state, private_files.FOLDER)
        if self.config.stream != StreamConfig():
            _ = (
                self.service.catalog
            )  # a fault in the configuration is told now, not to the first caller
        await self.gateway.model_routes.look_around()

    async def stop(self) -> None:
        await self._stack.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve what uvicorn tells over ASGI; HTTP comes from `http_protocol` to `serve`."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._serve_line(scope, receive, send)
        else:
            raise RuntimeError("use toolbridge.server.serving.settings: HTTP does not come as ASGI")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    @cached_property
    def service(self) -> "StreamService":
        """Where structured streams are ordered; what they need is loaded for the first one."""
        from toolbridge.runs.service import StreamService

        gateway = self.gateway
        made = StreamService(
            gateway.router, gateway.store, self.config.stream, gateway.state, self._env
        )
        self._stack.push_async_callback(made.close)
        return made

    async def _serve_line(self, scope: Scope, receive: Receive, send: Send) -> None:
        from toolbridge.server import stream_ws

        await stream_ws.serve(self, scope, receive, send)

    async def serve(self, exchange: HttpExchange) -> None:
        """Answer one request, and write down how."""
        exchange.id = self._ids.request()
        exchange.path = plain_path(exchange.path)
        entry = _entry(exchange.id, exchange.method, exchange.path)
        try:
            await self._answer(exchange, entry)
        except Aborted as error:
            _note_departure(exchange, entry, error)
        except asyncio.CancelledError:
            if cancelled_by_client(exchange):
                _note_departure(exchange, entry, Aborted("the client left"))
                return
            # The server stops, and this request has outlived its grace.
            entry.note(error__type="aborted")
            await self._reject(exchange, Problem("overloaded", "the gateway is being stopped"))
            raise
        finally:
            self.release()
            self._record(entry, exchange.status)

    def refuse(self, method: str, path: str, error: ToolbridgeError) -> Rejection:
        """Write down a request that cannot be read; return the answer for the API at its path."""
        request = IncomingRequest(Head(method, plain_path(path), b"", {}))
        request.id = self._ids.request()
        entry = _entry(request.id, method, request.path)
        entry.note(error__type=error.kind, error__message=str(error))
        rejection = _rejection(request, error.problem)
        self._record(entry, rejection.status)
        ids = {"request-id": request.id, "x-request-id": request.id}
        return Rejection(rejection.status, rejection.body, ids | rejection.headers)

    def is_websocket(self, path: str) -> bool:
        return plain_path(path) == routes.WEBSOCKET

    async def _answer(self, exchange: HttpExchange, entry: Entry) -> None:
        try:
            self._allow_origin(exchange)
            if exchange.method == "OPTIONS":
                await exchange.reply(200, b"")
                return
            if exchange.path not in _OPEN and not routes.is_page(exchange.path):
                self.guard.check(exchange)
                if exchange.path != _METRICS:
                    self.admit()
            await self._route(exchange)(self, exchange, entry)
        except Aborted:
            raise
        except ToolbridgeError as error:
            entry.note(error__type=error.kind, error__message=str(error))
            await self._reject(exchange, error.problem)
        except Exception as error:  # noqa: BLE001  a fault of ours must not take the server down
            report_fault(error, self.gateway.redactor)
            entry.note(error__type="internal", error__message=type(error).__name__)
            text = f"toolbridge failed: {type(error).__name__}; the log has {exchange.id}"
            await self._reject(exchange, Problem("internal", text))

    def admit(self) -> None:
        """Count this task as a request under way, or refuse it when there are too many.

        Only after the key was checked, so that strangers take no room.
        """
        most = self.config.http.max_requests
        if len(self.in_flight) >= most:
            text = f"{most} requests are under way, which is the limit (http.max_requests)"
            raise RateLimited(f"{text}; try again in a moment", retry_after=1.0)
        if (task := asyncio.current_task()) is not None:
            self.in_flight.add(task)

    def release(self) -> None:
        """Count this task no longer."""
        if (task := asyncio.current_task()) is not None:
            self.in_flight.discard(task)

    async def _reject(self, exchange: HttpExchange, problem: Problem) -> None:
        if exchange.status:
            return  # the reply has begun: closing without an end is all that is left to say
        rejection = _rejection(exchange, problem)
        await exchange.reply(rejection.status, rejection.body, rejection.headers)

    def _route(self, exchange: HttpExchange) -> "Route":
        methods = routes.find(exchange.path)
        if methods is None:
            raise UnknownRoute(
                f"there is nothing at {exchange.path[:200]}; {routes.offer_of(exchange)}"
            )
        method = "GET" if exchange.method == "HEAD" and "GET" in methods else exchange.method
        if method not in methods:
            exchange.extra_headers["allow"] = ", ".join(methods)
            raise WrongMethod(
                f"{exchange.path} takes {' or '.join(methods)}, not {exchange.method}"
            )
        return methods[method]

    def _allow_origin(self, exchange: HttpExchange) -> None:
        origin = exchange.header("origin")
        allowed = self.guard.allowed_origin(origin) if origin else ""
        if exchange.method == "OPTIONS" or allowed:
            exchange.extra_headers |= {
                "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
                "access-control-allow-headers": exchange.header("access-control-request-headers")
                or "content-type, x-api-key, authorization, anthropic-version, anthropic-beta, "
                "idempotency-key, last-event-id",
                "access-control-max-age": "600",
            }
        if allowed:
            exchange.extra_headers |= {
                "access-control-allow-origin": allowed,
                "access-control-expose-headers": "request-id, x-toolbridge-warning, x-toolbridge-run",
                "vary": "origin",
            }

    def _record(self, entry: Entry, status: int) -> None:
        self.metrics.record(entry, status, time.monotonic() - entry.started)
        if self._request_log.writes:
            self._request_log.write(entry.line(status))


Route = Callable[[App, HttpExchange, Entry], Awaitable[None]]


def _entry(id: str, method: str, path: str) -> Entry:
    entry = Entry(id)
    entry.fields["http.request.method"] = method
    entry.fields["url.path"] = path
    return entry


def _note_departure(exchange: HttpExchange, entry: Entry, error: Aborted) -> None:
    exchange.status = exchange.status or error.status
    entry.note(error__type=error.kind)


def _rejection(request: IncomingRequest, problem: Problem) -> Rejection:
    """Return `problem` in the envelope of the API that the request belongs to."""
    if routes.is_stream(request.path):
        return routes.reject_stream(problem)
    found = codecs.load(routes.api_of(request)).encode_rejection(problem, request.id)
    if problem.retry_after is None or "retry-after" in found.headers:
        return found
    # Gemini says it in the body only; clients of any API read the header.
    waits = {"retry-after": str(math.ceil(problem.retry_after))}
    return Rejection(found.status, found.body, found.headers | waits)


def plain_path(path: str) -> str:
    """Return the path that a client meant.

    Base URLs are given with and without `/v1`, behind a prefix that names the API, and with slashes
    too many.
    """
    if routes.find(path) is not None:
        return path
    path = re.sub(r"/{2,}", "/", path)
    path = re.sub(r"^/(anthropic|openai|genai)(?=/v1|/api)", "", path)
    path = re.sub(r"^(/v1)+(?=/v1)", "", path)
    path = path.rstrip("/") or "/"
    if routes.find(path) is None and routes.find(f"/v1{path}") is not None:
        return f"/v1{path}"
    return path
