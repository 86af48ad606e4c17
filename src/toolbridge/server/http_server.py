"""The HTTP server of one process: its listening sockets, its connections, and an orderly end."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from toolbridge.config import HttpConfig
from toolbridge.server.dispatch import Dispatcher
from toolbridge.server.http_protocol import SPARE, HttpConnection, ServerState
from toolbridge.upstream.turn_writes import TurnWrites

if TYPE_CHECKING:
    from toolbridge.server.fair_acceptor import FairAcceptor
    from toolbridge.server.worker_loads import WorkerLoad

_BACKLOG = 2048
"""Connections that wait to be accepted."""
_OTHER_FILES = 64
"""File descriptors for the database, the log, libraries and other files."""
_SHORTEST_STEP, _LONGEST_STEP = 0.001, 0.1
"""Seconds between two checks whether the connections of a server that stops have ended."""
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class HttpServer:
    """Serves the connections of its sockets with the `App` of a dispatcher."""

    def __init__(self, dispatcher: Dispatcher, load: "WorkerLoad | None" = None) -> None:
        """`load` compares this process with others that accept from the same sockets."""
        self._dispatcher = dispatcher
        self._load = load
        self._http = dispatcher.app.config.http
        self._limits = fitting(self._http)
        self._writes = TurnWrites()
        self._servers: list[asyncio.Server] = []
        self._acceptors: list[FairAcceptor] = []
        self._state = ServerState()
        self._retires = False
        self._clock: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there are no connections and no requests."""
        opening = any(acceptor.is_opening for acceptor in self._acceptors)
        return not (self._state.connections or self._state.tasks or opening)

    @property
    def running(self) -> int:
        """The number of running requests."""
        return len(self._state.tasks)

    async def start(self, listener: socket.socket) -> None:
        """Start the `App` and accept connections; raise `SystemExit` if it cannot start."""
        await self._dispatcher.start()
        self._set_date()
        await self.listen(listener)

    async def listen(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Accept connections of one more socket, with TLS if there is a context."""
        # A client that does not finish its handshake has as long as for a head.
        handshake = None if context is None else self._http.head_timeout
        if self._load is not None:
            from toolbridge.server.fair_acceptor import FairAcceptor

            listener.listen(_BACKLOG)
            acceptor = FairAcceptor(
                listener, self._connection, self._may_accept, context=context, handshake=handshake
            )
            self._acceptors.append(acceptor)
            return
        server = await asyncio.get_running_loop().create_server(
            self._connection, sock=listener, ssl=context, ssl_handshake_timeout=handshake,
            backlog=_BACKLOG,
        )  # fmt: skip
        self._servers.append(server)

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections go on."""
        for server in self._servers:
            server.close()
        for acceptor in self._acceptors:
            acceptor.close()

    def retire(self) -> None:
        """Let every connection end after its next response, also one that is just being accepted."""
        self._retires = True
        for connection in list(self._state.connections):
            if isinstance(connection, HttpConnection):  # not a WebSocket
                connection.retire()

    async def stop(self, grace: float, is_forced: Callable[[], bool] = lambda: False) -> None:
        """End: running requests have `grace` seconds, or less if `is_forced` becomes true."""
        self.stop_accepting()
        for acceptor in self._acceptors:
            await acceptor.wait_opened()
        for connection in list(self._state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(grace):
                await self._wait_until_idle(is_forced)
        except TimeoutError:
            for task in list(self._state.tasks):
                task.cancel()
        if self._clock is not None:
            self._clock.cancel()
        if not is_forced():
            await self._dispatcher.stop()

    async def _wait_until_idle(self, is_forced: Callable[[], bool]) -> None:
        step = _SHORTEST_STEP
        while not self.is_idle and not is_forced():
            await asyncio.sleep(step)
            step = min(2 * step, _LONGEST_STEP)
        for server in self._servers:
            await server.wait_closed()

    def _connection(self) -> HttpConnection:
        """Return the protocol of a new connection, with the limits that are set at this time."""
        if (http := self._dispatcher.app.config.http) is not self._http:
            self._http, self._limits = http, fitting(http)
        made = HttpConnection(self._dispatcher, self._limits, self._writes, self._state)
        if self._retires:
            made.retire()
        return made

    def _may_accept(self, opening: int) -> bool:
        connections = len(self._state.connections) + opening
        return self._load is None or self._load.may_accept(connections)

    def _set_date(self) -> None:
        self._state.set_date(_date(time.time()))
        self._clock = asyncio.get_running_loop().call_later(1, self._set_date)


def _date(at: float) -> bytes:
    """Return the date of a response (RFC 9110, section 5.6.7), whatever the locale is."""
    now = time.gmtime(at)
    day, month = _DAYS[now.tm_wday], _MONTHS[now.tm_mon - 1]
    return time.strftime(f"{day}, %d {month} %Y %H:%M:%S GMT", now).encode()


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
