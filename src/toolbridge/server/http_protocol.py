"""One client connection.

It parses requests with `http_reader`, runs a task of the dispatcher for each, one after the other, and
enforces the limits that apply before authentication: time for a head and a body, connections, buffered
bytes. `http_server` accepts connections and ends them; WebSockets are handed over to uvicorn's protocol.
"""

import asyncio
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from toolbridge.config import HttpConfig
from toolbridge.core.codec import Rejection
from toolbridge.core.errors import Aborted, BadHttp, Busy, TooLarge, ToolbridgeError
from toolbridge.server.deadline import Deadline
from toolbridge.server.http import HttpExchange
from toolbridge.server.http_head import Head
from toolbridge.server.http_reader import RequestReader
from toolbridge.server.http_reply import CONTINUE, encode_head, framing
from toolbridge.upstream.turn_writes import TurnWrites

HIGH_WATER = 64 * 1024
"""Bytes in the read buffer above which the socket is not read."""
UNREAD = 256 * 1024
"""Bytes of a long stream that the system takes before the client has read them."""
SPARE = 64
"""Connections above the limit that are accepted to send them an error response."""
SPARE_WAIT = 2.0
LINGER = 2.0
"""Seconds for which a connection is still read after an error. Closing a socket with unread bytes
resets it, and the client may never get the response (RFC 9112, section 9.6)."""
_LONGEST_FIELD = 8000
"""Bytes; the `websockets` library rejects lines of more than 8192."""
_WEBSOCKET_VERSION = b"13"
_WEBSOCKET_KEY = re.compile(rb"[A-Za-z0-9+/]{21}[AQgw]==")
"""16 bytes in Base64 (RFC 6455, section 4.1)."""
SLOWEST_BODY = 1024
"""The least bytes per second of a body that takes longer than ten times `body_timeout`."""


class Connection(Protocol):
    """A connection, until it is lost."""

    def shutdown(self) -> None:
        """Close after the current response."""


class ServerState:
    """What all connections of a server share; uvicorn's WebSocket protocol reads the same attributes."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        """The running requests."""
        self.default_headers: list[tuple[bytes, bytes]] = []
        """The header fields of every response."""
        self.default_lines = b""
        """The same as they are sent."""

    def set_date(self, date: bytes) -> None:
        """Send `date` with every response from now on."""
        self.default_headers = [(b"date", date)]
        self.default_lines = b"date: %b\r\n" % date


class Application(Protocol):
    """The methods of `dispatch.Dispatcher` that a connection calls."""

    async def serve(self, exchange: HttpExchange) -> None: ...

    def refuse(self, method: str, path: str, error: ToolbridgeError) -> Rejection:
        """Record a request that is not valid HTTP; return the response."""

    def is_websocket(self, path: str) -> bool: ...

    def websocket(self, state: ServerState, head: Head) -> asyncio.Protocol: ...


class HttpConnection(asyncio.Protocol):
    """One client connection: parses requests and runs them one after the other."""

    write: Callable[[bytes], None]
    """Sends bytes to the client at the end of the turn of the event loop."""
    push: Callable[[bytes], None]
    """Sends bytes that a delivery of a provider causes, after those of `write`."""

    def __init__(
        self,
        app: Application,
        limits: HttpConfig,
        writes: TurnWrites,
        state: ServerState,
    ) -> None:
        self._app = app
        self._limits = limits
        self._writes = writes
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._reader = RequestReader(limits.max_head, limits.max_headers)
        self.whole_body = self._reader.whole_body
        self._exchange: HttpExchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._deadline = Deadline(self._loop, self._expire)
        self._in_head = False
        """Whether the deadline is that for a request head."""
        self._closing = False
        self._unsent: int | None = None
        """Bytes that the client had not read when the transport was closed."""
        self._keeps = True
        """Whether the next response allows another request."""
        self._ends = False
        """Whether the connection ends with the current response, also if that allows another request."""
        self._spare = False
        self._unread = False
        """Whether reading from the socket is paused."""
        self._half_closed = False
        """Whether the client sends no more, and reads the response."""
        self._more: asyncio.Future[None] | None = None
        """Resolved when more of the body has arrived."""
        self.paused = False
        self._drains: list[asyncio.Future[None]] = []

    # ── the transport ────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # TCP: it reads and writes
        self.write = partial(self._writes.add, self._transport)
        self.push = partial(self._writes.push, self._transport)
        count = len(self._state.connections)
        self._state.connections.add(self)
        if count >= self._limits.max_connections + SPARE:
            self._transport.abort()
            return
        self._spare = count >= self._limits.max_connections
        self._deadline.set(SPARE_WAIT if self._spare else self._limits.head_timeout)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._state.connections.discard(self)
        self._deadline.end()
        self._closing = True
        self.resume_writing()
        self._leave()

    def eof_received(self) -> bool:
        """Answer a client of HTTP/1.0, and a GET that waits; any other client has disconnected.

        TCP shows the end of input of both in the same way until a write fails, so a model would go on
        for a client that has left. With TLS there is no end of input alone.
        """
        exchange = self._exchange
        if exchange is not None:
            if self._more is None and self._transport.can_write_eof() and _sends_no_more(exchange):
                exchange.keeps, self._half_closed = False, True
                return True
            self._leave()
            self._close()
        elif not self._closing and self._reader.waiting:
            self._refuse(BadHttp("the connection ended within the head of a request"))
        elif not self._closing:
            self._close()  # the response may wait for the end of this turn
        return False

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        reader = self._reader
        if reader.rest:
            reader.feed(data)
        else:  # nearly always
            reader.rest = data
        if self._more is not None:
            self._wake()
        elif self._exchange is None:
            self._go_on()
        elif reader.waiting > HIGH_WATER:
            self._hold()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        drains, self._drains = self._drains, []
        for drain in drains:
            if not drain.done():
                drain.set_result(None)

    def shutdown(self) -> None:
        """Close after the current response, because the server ends."""
        self._keeps, self._ends = False, True
        if self._exchange is None:
            self._close()

    def retire(self) -> None:
        """Close after the next response, with `Connection: close` in its head.

        An idle connection stays open until its own time limit, and so does one whose response has
        begun without that header: a client may be sending a request on it, and would lose that if
        the connection were closed now.
        """
        self._keeps = False

    def _hold(self) -> None:
        self._unread = True
        self._transport.pause_reading()

    def _unhold(self) -> None:
        if self._unread and not self._transport.is_closing():
            self._unread = False
            self._transport.resume_reading()

    def _leave(self) -> None:
        """Cancel the current exchange, because its client has disconnected."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None and not exchange.finished:
            exchange.client_left = True
            if self._task is not None:
                self._task.cancel()

    # ── requests ─────────────────────────────────────────────────────────────

    def _go_on(self) -> None:
        """Serve the next request if its head has arrived."""
        try:
            if not self._reader.complete and not self._skip_body():
                return
            head = self._reader.head()
        except BadHttp as error:
            self._refuse(error)
            return
        if head is None:
            if self._reader.waiting and not self._in_head and not self._spare:
                self._in_head = True
                self._deadline.set(self._limits.head_timeout)
            self._unhold()
            return
        if self._spare and len(self._state.connections) > self._limits.max_connections:
            self._refuse(self._busy())
        elif head.websocket and self._app.is_websocket(head.path):
            self._upgrade(head)
        else:
            self._serve(head)

    def _skip_body(self) -> bool:
        """Drop the unread body of an answered request; return whether it has ended."""
        self._reader.body()
        if not self._reader.complete:
            self._unhold()
        return self._reader.complete

    def _serve(self, head: Head) -> None:
        self._deadline.due = None  # `clear`, without a call per request
        self._in_head = self._spare = False
        exchange = self._exchange = HttpExchange(head, self)
        # With a name, as `create_task` would format a number for each request.
        task = self._task = asyncio.Task(self._app.serve(exchange), loop=self._loop, name="request")
        self._state.tasks.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._state.tasks.discard(task)
        if self._task is task:
            self._task = None
            if self._exchange is not None:
                # The response was not finished; the missing last chunk shows that to the client.
                self._exchange = None
                self._close()
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def _upgrade(self, head: Head) -> None:
        """Hand the connection over to uvicorn's WebSocket protocol."""
        if fault := _upgrade_fault(head, self._reader.waiting):
            # RFC 6455, section 4.4: the server names the versions that it has.
            self._refuse(BadHttp(fault), {"sec-websocket-version": _WEBSOCKET_VERSION.decode()})
            return
        self._state.connections.discard(self)
        self._deadline.stop()
        protocol = self._app.websocket(self._state, head)
        self._writes.flush()
        protocol.connection_made(self._transport)
        protocol.data_received(head.raw)
        self._transport.set_protocol(protocol)

    def _refuse(self, error: ToolbridgeError, more: dict[str, str] | None = None) -> None:
        """Answer invalid input and close, as the beginning of the next request is unknown."""
        line = self._reader.line
        method, path = (line.method, line.path) if line else ("", "")
        rejection = self._app.refuse(method, path, error)
        body = rejection.body
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        headers |= {**rejection.headers, **(more or {}), "connection": "close"}
        framed = framing(method, rejection.status, sized=True, modern=True, keeps=False)
        head = encode_head(rejection.status, headers, framed, self.defaults())
        self.write(head + framed.last(body))
        self._close_slowly(LINGER)

    def _busy(self) -> Busy:
        most = self._limits.max_connections
        text = (
            f"the gateway has {most} connections, which is the limit (`http.max_connections`); "
            "try again in a moment"
        )
        return Busy(text, retry_after=1.0)

    def _close(self) -> None:
        """Close after the client has read the response, or has stopped reading it."""
        self._closing = True
        self._writes.flush()
        self._unsent = self._transport.get_write_buffer_size()
        self._deadline.set(self._limits.body_timeout)
        self._transport.close()

    def _flush(self) -> None:
        """Extend the deadline while a slow client makes progress; abort otherwise."""
        unsent = self._transport.get_write_buffer_size()
        if self._unsent is not None and 0 < unsent < self._unsent:
            self._unsent = unsent
            self._deadline.set(self._limits.body_timeout)
        else:
            self._transport.abort()

    def _close_slowly(self, seconds: float) -> None:
        """End the response, then read and drop what the client still sends."""
        self._closing = True
        self._writes.flush()
        self._deadline.set(seconds)
        self._reader.take_rest()
        if not self._transport.is_closing():
            if not self._transport.can_write_eof():  # TLS
                self._close()
                return
            with suppress(OSError):  # the client has reset the connection
                self._transport.write_eof()
            self._unhold()

    def _expire(self) -> None:
        if self._more is not None:
            self._wake(_slow_body(self._limits.body_timeout))
        elif self._unsent is not None:
            self._flush()
        elif self._drains:
            self._transport.abort()  # the client sends requests and does not read the responses
        elif self._spare and not self._closing:
            self._refuse(self._busy())
        elif self._in_head and self._reader.waiting and not self._closing:
            seconds = self._limits.head_timeout
            text = (
                f"the head of the request did not arrive within {seconds:g} s (`http.head_timeout`)"
            )
            self._refuse(BadHttp(text, status=408))
        else:
            self._close()

    # ── for an exchange ──────────────────────────────────────────────────────

    def defaults(self) -> bytes:
        return self._state.default_lines

    def bound_unread(self) -> None:
        """Let the system take at most `UNREAD` bytes, not megabytes, for a client that reads slowly.

        The gateway keeps the text of as much of the answer. Short streams go without it, because it
        costs 4 % of the CPU of a chunk.
        """
        found: socket.socket | None = self._transport.get_extra_info("socket")
        if found is not None:
            with suppress(OSError):  # the client has left
                found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD)

    async def drained(self, *, bounded: bool = False) -> None:
        if not self.paused:
            return
        drain = self._loop.create_future()
        self._drains.append(drain)
        if bounded:
            self._deadline.set(self._limits.body_timeout)
        await drain
        if bounded:
            self._deadline.clear()

    def keeps_after(self, exchange: HttpExchange) -> bool:
        """Return whether the rest of the request body has a known length and is short enough."""
        if not self._keeps:
            return False
        if self._reader.complete:
            return True
        left = self._reader.left
        return left is not None and left <= HIGH_WATER and not exchange.head.expects

    async def read_body(self, exchange: HttpExchange, limit: int) -> bytes:
        reader = self._reader
        if exchange.head.expects and not reader.waiting and not reader.complete:
            self.write(CONTINUE)
        since = self._loop.time()
        try:
            first = reader.body()
            if reader.complete and len(first) <= limit:  # nearly every request
                return first
            kept = bytearray(first)
            while True:
                kept += reader.body()
                if len(kept) > limit:
                    text = f"the request body is longer than the limit of {limit} (`max_body`)"
                    raise TooLarge(text)
                if reader.complete:
                    return bytes(kept)
                await self._wait_for_more(exchange, since, len(kept))
        except BadHttp:
            exchange.keeps = False  # the beginning of the next request is unknown
            raise

    async def _wait_for_more(self, exchange: HttpExchange, since: float, size: int) -> None:
        if self._half_closed:
            self._leave()
            self._close()
        if exchange.client_left:
            raise Aborted("the client disconnected before its request was read")
        idle = self._limits.body_timeout
        slowest = since + 10 * idle + size / SLOWEST_BODY - self._loop.time()
        self._more = self._loop.create_future()
        self._unhold()
        self._deadline.set(max(0.0, min(idle, slowest)))
        try:
            await self._more
        finally:
            self._more = None
            self._deadline.clear()

    def _wake(self, error: BadHttp | None = None) -> None:
        more = self._more
        if more is not None and not more.done():
            more.set_exception(error) if error else more.set_result(None)

    def answered(self, exchange: HttpExchange) -> None:
        if self._exchange is not exchange:
            return
        self._exchange = None
        read_all = self._reader.complete and not self._reader.rest
        if not exchange.keeps or self._ends:
            if read_all:
                self._close()
            else:
                self._close_slowly(self._limits.body_timeout)
        elif read_all:  # nearly every request: the next one has not come yet
            self._deadline.set(self._limits.idle_timeout)
            if self._unread:
                self._unhold()
        else:
            whole = self._reader.complete
            self._deadline.set(self._limits.idle_timeout if whole else self._limits.body_timeout)
            self._go_on()


def _sends_no_more(exchange: HttpExchange) -> bool:
    """Return whether the client is one of HTTP/1.0, or waits for an answer that no model makes.

    `Connection: close` is not enough: clients that send it with every request also leave.
    """
    head = exchange.head
    if not head.modern:
        return not head.keep_alive
    return head.method in {"GET", "HEAD"} and not exchange.status


def _upgrade_fault(head: Head, waiting: int) -> str:
    """Return why `head` cannot open a WebSocket (RFC 6455, section 4.1); empty if it can.

    uvicorn's protocol fails on these with an assertion error and without a response, or with one that
    is not JSON and not in the request log.
    """
    if head.method != "GET" or not head.modern or head.length != 0:
        return "open a WebSocket with GET and HTTP/1.1, without a body"
    if waiting:
        return "a WebSocket client must not send data before the server has answered"
    if max(map(len, head.raw.split(b"\r\n"))) > _LONGEST_FIELD:
        return f"a header field of a WebSocket request is longer than {_LONGEST_FIELD} bytes"
    if head.headers.get(b"sec-websocket-version") != _WEBSOCKET_VERSION:
        return "open a WebSocket with version 13 (`sec-websocket-version: 13`)"
    if not _WEBSOCKET_KEY.fullmatch(head.headers.get(b"sec-websocket-key", b"")):
        return "`sec-websocket-key` must be 16 bytes in Base64"
    return ""


def _slow_body(seconds: float) -> BadHttp:
    text = f"the body of the request arrived too slowly (`http.body_timeout` is {seconds:g} s)"
    return BadHttp(text, status=408)
