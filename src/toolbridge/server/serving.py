"""uvicorn's settings: our protocol class for HTTP, uvicorn's own for WebSockets."""

import asyncio

import msgspec
import uvicorn
from uvicorn.server import ServerState

from toolbridge.config import HttpConfig
from toolbridge.server.app import App
from toolbridge.server.dispatch import Dispatcher
from toolbridge.server.http_protocol import SPARE, HttpConnection
from toolbridge.upstream.turn_writes import TurnWrites

_OTHER_FILES = 64
"""File descriptors for the database, the log, libraries and other files."""


class _Connections:
    """Makes the protocol of each new connection, with the limits that are set at that time."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._http = dispatcher.app.config.http
        self._limits = fitting(self._http)
        self._writes = TurnWrites()

    def __call__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> HttpConnection:
        if (http := self._dispatcher.app.config.http) is not self._http:
            self._http, self._limits = http, fitting(http)
        return HttpConnection(
            self._dispatcher, self._limits, self._writes, config, server_state, app_state, _loop
        )


def settings(app: App, *, host: str = "127.0.0.1", port: int = 0, grace: int = 1) -> uvicorn.Config:
    """Return uvicorn's settings for `app`."""
    return settings_for(Dispatcher(app), host=host, port=port, grace=grace)


def settings_for(
    dispatcher: Dispatcher, *, host: str = "127.0.0.1", port: int = 0, grace: int = 1
) -> uvicorn.Config:
    """Return uvicorn's settings for a dispatcher, whose `App` may be replaced."""
    return uvicorn.Config(
        dispatcher,
        host=host,
        port=port,
        http=_Connections(dispatcher),  # type: ignore[arg-type]
        ws="none",  # loaded by the connection that needs it
        ws_max_size=dispatcher.app.config.max_body,
        lifespan="on",
        log_config=None,  # it would be configured for `log_level` alone
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=grace,
    )


def fitting(http: HttpConfig) -> HttpConfig:
    """Raise the limit of file descriptors; return `http` with the connections that it allows.

    A process without free descriptors cannot accept a connection even to reject it. Every
    connection needs one, and every running request another one for its provider.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return http
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = http.max_connections + min(http.max_connections, http.max_requests) + _others()
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return http
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return msgspec.structs.replace(http, max_connections=connections_for(allowed, http))


def _others() -> int:
    return SPARE + _OTHER_FILES


def connections_for(files: int, http: HttpConfig) -> int:
    """Return the number of connections for `files` descriptors, at most `http.max_connections`."""
    room = max(8, files - _others())
    return min(http.max_connections, max(room // 2, room - http.max_requests))
