"""One HTTP/1.1 connection to a provider, and the response that it carries, parsed by httptools.

The parser calls the connection, the reader awaits the response, and nothing else runs per piece. A reader that is
slow pauses the socket. Errors are those of `wire_faults`, `TimeoutError` and `OSError`;
`upstream.http` turns them into errors that name the provider.
"""

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import TypeAlias

import httptools
import msgspec
from multidict import CIMultiDict, CIMultiDictProxy

from toolbridge.upstream.body_inflater import BodyInflater, inflater_of
from toolbridge.upstream.turn_writes import TurnWrites
from toolbridge.upstream.wire_faults import CLOSED, ConnectionClosed, InvalidResponse

HIGH_WATER = 128 * 1024
"""Bytes that wait for the reader, above which the socket is not read."""
MAX_HEAD = 64 * 1024
KEPT = 55.0
"""Seconds for which a free connection is kept. An agent runs a tool between two requests, and a new
connection costs it a handshake. Load balancers close theirs after 60 s, without a header about it."""
_TLS_SLICE = 128 * 1024
"""Bytes of a body for one write to a TLS transport. What that has encrypted does not count as unsent,
and it encrypts nothing more while the system does not take the last slice."""
_NO_LINGER = struct.pack("ii", 1, 0)
Failure: TypeAlias = ConnectionClosed | InvalidResponse | TimeoutError | OSError
PushSink: TypeAlias = Callable[[bytes], bool]
"""Takes the bytes of a delivery; returns whether it takes the next one, too."""


class WireResponse(msgspec.Struct, eq=False):
    """A response: first its head, then its body in the pieces that the network delivers."""

    _connection: "ProviderConnection"
    idle: float
    bodiless: bool
    pieces: list[bytes]
    """What has arrived of the body and waits for the reader."""
    status: int = 0
    headers: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
    end_of_body: int = 0
    """How many pieces there were when the whole response had arrived."""
    paused: bool = False
    _waiter: asyncio.Future[None] | None = None
    sink: PushSink | None = None
    """Takes each delivery as it arrives."""
    _push_failure: Exception | None = None
    waits_since: float = 0.0
    _failure: Failure | None = None
    inflating: BodyInflater | None = None
    done: bool = False
    """Whether the whole response has arrived, or it has failed."""
    reusable: bool = False
    """Whether the connection can carry another request."""

    # ── called by the connection ─────────────────────────────────────────────

    def delivered(self) -> None:
        """Wake the reader after one delivery of the network has been parsed."""
        pieces = self.pieces
        if self.done:
            del pieces[self.end_of_body :]  # bytes after the response
            self._wake()
        elif self._waiter is not None and self.status:
            self._wake()
        elif sum(map(len, pieces)) > HIGH_WATER:
            self.hold()

    def hold(self) -> None:
        """Do not read from the network until the reader waits again."""
        if not self.paused:
            self.paused = True
            self._connection.transport.pause_reading()

    def end_push(self, error: Exception | None = None) -> None:
        """Use the sink no longer, and raise its error in the task that waits in `push`."""
        # A loop may deliver again before the task runs; those bytes are for the reader.
        self.sink = None
        self._push_failure = error
        self.hold()  # the client may read too slowly
        self._wake()

    def closed(self, error: Exception | None) -> None:
        """Take note that the connection is gone."""
        if self.done:
            return
        # RFC 9112, 6.3: without a length the body ends with the connection.
        if self.status and error is None and not self._has_length():
            self.done = True
            self._wake()
        elif error is not None and isinstance(error, OSError):
            self.fail(error)
        else:
            self.fail(ConnectionClosed(CLOSED))

    def _has_length(self) -> bool:
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    def fail(self, failure: Failure) -> None:
        """End the response; one that has arrived stays whole."""
        if self.done:
            del self.pieces[self.end_of_body :]
        else:
            self.done, self._failure = True, failure
        self._wake()

    @property
    def is_awaited(self) -> bool:
        return self._waiter is not None

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # ── called by the reader ─────────────────────────────────────────────────

    def progress(self) -> asyncio.Future[None]:
        """Return what the next delivery sets; raise a failure."""
        if self._failure is not None:
            raise self._failure
        if self.paused:
            self._resume()
        loop = self._connection.loop
        self._waiter = waiter = loop.create_future()
        self.waits_since = loop.time()
        return waiter

    def read_now(self) -> bytes | None:
        """Return the bytes of the body that wait, empty at its end; None if `read` has to wait."""
        if self.inflating is not None or self._failure is not None:
            return None
        if not self.pieces:
            return b"" if self.done else None
        piece = self.taken()
        if self.paused:
            self._resume()
        return piece

    async def read(self) -> bytes:
        """Return the next bytes of the body, empty at its end."""
        # One function: a delivery of the network resumes every function that waits for it.
        inflating, pieces = self.inflating, self.pieces
        while inflating is None or not (piece := inflating.take()):
            while not pieces:
                if self.done:
                    return self._end()
                await self.progress()
            piece = self.taken()
            if self.paused:
                self._resume()
            if inflating is None:
                return piece
            inflating.put(piece)
        # A few bytes may become gigabytes; other requests go on meanwhile.
        await asyncio.sleep(0)
        return piece

    async def push(self, sink: "PushSink") -> None:
        """Pass each delivery to `sink` as it arrives, without waking the reader.

        Return when `sink` has returned False and when the body has ended; at once if bytes wait.
        Raise what `sink` raises.
        """
        if self.pieces or self.done:
            return
        self.sink = sink
        try:
            await self.progress()
        finally:
            self.sink = None
        if self._push_failure is not None:
            raise self._push_failure

    def taken(self) -> bytes:
        """Return the bytes that wait for the reader, and forget them."""
        pieces = self.pieces
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return piece

    def _end(self) -> bytes:
        """Return the end of the body; raise if the body was cut off."""
        if self._failure is not None:
            raise self._failure
        if self.inflating is not None:
            self.inflating.end()
        return b""

    def _resume(self) -> None:
        self.paused = False
        if not self._connection.lost:
            self._connection.transport.resume_reading()

    def at_eof(self) -> bool:
        """Return whether the whole body has arrived; what the reader did not take is dropped."""
        return self.done

    def close(self) -> None:
        """Close the connection."""
        self._connection.drop(self)

    def abandon(self) -> None:
        """Close the connection; called by the garbage collector, in any thread."""
        if not self._connection.loop.is_closed():
            self._connection.loop.call_soon_threadsafe(self.close)

    def release(self) -> None:
        """Return the connection to its pool, or close it if it cannot carry another request."""
        arrived = self.reusable and self.done and self._failure is None
        if arrived and not self._connection.is_sending:
            if self.paused:
                self._resume()
            self.pieces = []  # those of the connection are for its next response
            self._connection.free(self)
        else:
            self._connection.drop(self)


def _kept_of(keep_alive: str) -> float:
    """Return the seconds for which to keep a connection whose server sent `Keep-Alive: timeout=N`.

    A request that is sent while the server closes is lost, so it is kept for a second less.
    """
    # RFC 2068, 19.7.1.1: parameters with commas between them
    for parameter in keep_alive.split(","):
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "timeout" and value.isdecimal():
            return min(KEPT, float(value) - 1)
    return KEPT


_NO_PARSER = httptools.HttpResponseParser(object())


class ProviderConnection(asyncio.Protocol):
    """One connection. It carries one request at a time."""

    transport: asyncio.Transport

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        writes: TurnWrites,
        on_free: Callable[["ProviderConnection"], None],
        on_lost: Callable[["ProviderConnection"], None],
    ) -> None:
        self.loop = loop
        self._writes = writes
        self.lost = False
        self.kept_until = 0.0
        """The time at which a free connection is not used any more."""
        self._kept = KEPT
        self._slice = sys.maxsize
        self._on_free = on_free
        self._on_lost = on_lost
        self._current: WireResponse | None = None
        self._heard = 0.0
        self._unused = 0
        """Bytes since the last piece of a body."""
        self._timer: asyncio.TimerHandle | None = None
        self._received: list[tuple[bytes, bytes]] = []
        self._known: tuple[list[tuple[bytes, bytes]], CIMultiDictProxy[str]] | None = None
        """The head of the last response without compression: the next one may have the same."""
        self.pieces: list[bytes] = []
        """What has arrived of the body of the current response."""
        self.on_body = self.pieces.append
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self.transport = transport  # type: ignore[assignment]
        if transport.get_extra_info("sslcontext") is not None:
            self._slice = _TLS_SLICE

    def send(self, head: bytes, body: bytes, response: WireResponse) -> None:
        """Send a request whose response is `response`."""
        self._current = response
        self.pieces.clear()
        self._heard, self._unused = self.loop.time(), 0
        if self._timer is None:
            self._timer = self.loop.call_later(response.idle, self._check_silence)
        # Copying a long body costs more than a second write.
        if len(body) < 16384:
            self._writes.add(self.transport, head + body)
        else:
            self._writes.add(self.transport, head)
            for at in range(0, len(body), self._slice):
                self._writes.add(self.transport, body[at : at + self._slice])

    def data_received(self, data: bytes) -> None:
        current = self._current
        if current is None or current.done:
            self.transport.abort()  # bytes without a request
            return
        self._heard = self.loop.time()
        self._unused += len(data)
        pieces = self.pieces
        before = len(pieces)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            # httptools wraps an error of a callback.
            cause = error.__context__
            text = str(cause if isinstance(cause, InvalidResponse) else error)
            self._reject(current, text)
            return
        # httptools collects the name of a header or trailer for as long as it comes.
        if len(pieces) > before or current.done:
            self._unused = 0
        elif self._unused > MAX_HEAD:
            self._reject(current, f"its head or trailer has more than {MAX_HEAD} bytes")
            return
        sink = current.sink
        if sink is None or current.done:
            current.delivered()
        elif pieces:
            try:
                goes_on = sink(pieces.pop() if len(pieces) == 1 else current.taken())
            except Exception as error:  # noqa: BLE001  raised in the task that waits in `push`
                current.end_push(error)
            else:
                if not goes_on:
                    current.end_push()

    # ── called by the parser ─────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        current = self._current
        if current is not None and current.done:  # bytes without a request: do not trust it
            current.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        current = self._current
        if current is not None and not current.status:  # else a trailer
            self._received.append((name, value))

    def on_headers_complete(self) -> None:
        current = self._current
        received, self._received = self._received, []
        if current is None or current.done:
            return
        status = self._parser.get_status_code()
        if status == 101:
            raise InvalidResponse("it changed the protocol (status 101), which was not asked for")
        # RFC 9110, 15.2: any number of informational responses may come first.
        if 100 <= status < 200:
            return
        if self._unused > MAX_HEAD and sum(map(len, chain.from_iterable(received))) > MAX_HEAD:
            raise InvalidResponse(f"its head has more than {MAX_HEAD} bytes")
        if self._known is not None and self._known[0] == received:
            headers, inflating = self._known[1], None
        else:
            headers, inflating = self._read_head(received)
        current.headers = headers
        current.inflating = inflating
        current.status = status
        current.done = current.bodiless

    def _read_head(
        self, received: list[tuple[bytes, bytes]]
    ) -> tuple[CIMultiDictProxy[str], BodyInflater | None]:
        decoded = [(k.decode("latin-1"), v.decode("utf-8", "surrogateescape")) for k, v in received]
        headers = CIMultiDictProxy(CIMultiDict(decoded))
        inflating = inflater_of(headers)
        self._kept = _kept_of(headers.get("keep-alive", ""))
        if inflating is None:
            self._known = received, headers
        return headers, inflating

    def on_message_complete(self) -> None:
        current = self._current
        if current is not None and current.status and not current.done:
            current.done = True
            current.end_of_body = len(self.pieces)
            current.reusable = self._parser.should_keep_alive()

    def _reject(self, current: WireResponse, why: str) -> None:
        current.fail(InvalidResponse(why))
        self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._on_lost(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._current is not None:
            self._current.closed(error)
        self._parser = _NO_PARSER  # it refers to this connection

    def _check_silence(self) -> None:
        """End a response whose reader has waited too long. A busy connection keeps one timer."""
        self._timer = None
        current = self._current
        if current is None or self.lost or current.done:
            return
        now = self.loop.time()
        since = max(self._heard, current.waits_since) if current.is_awaited else now
        due = since + current.idle
        if now + 0.001 >= due:
            current.fail(TimeoutError())
            self.transport.abort()
            return
        self._timer = self.loop.call_at(due, self._check_silence)

    @property
    def is_sending(self) -> bool:
        """Whether a part of the request waits in this process: the answer came before it was read."""
        return self.transport.get_write_buffer_size() > 0

    def free(self, response: WireResponse) -> None:
        if self._current is not response:
            return
        self._current = None
        if not self.lost:
            self.kept_until = self.loop.time() + self._kept
            self._on_free(self)

    def drop(self, response: WireResponse | None = None) -> None:
        if response is not None and self._current is not response:
            return  # it carries another request by now
        self._current = None
        if self.lost:
            return
        if response is not None and (not response.done or self.is_sending):
            self._reset()
        self.transport.abort()

    def _reset(self) -> None:
        """Let the system forget what it has not sent: the provider must not read the rest of it."""
        found: socket.socket | None = self.transport.get_extra_info("socket")
        if found is not None:
            with suppress(OSError):  # the provider has closed the connection
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
