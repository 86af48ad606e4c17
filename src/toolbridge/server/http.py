"""One HTTP exchange: a request and its response.

An exchange writes to its connection (`http_protocol.py`) directly. There is no ASGI between them:
its messages, and its task that waits for a disconnect, cost more than the HTTP itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import parse_qs

from toolbridge.core.errors import TooLarge, UnknownEncoding
from toolbridge.server.encodings import KNOWN, unpacked
from toolbridge.server.http_head import Head
from toolbridge.server.http_reply import NO_BODY_YET, encode_head, framing
from toolbridge.store.keys import KeyRecord

LONG = 256 * 1024
"""Bytes of a stream from which on the system takes less of what the client does not read."""


class Channel(Protocol):
    """The part of a connection that an exchange uses."""

    paused: bool
    """Whether the write buffer is full, because the client reads slowly."""

    def keeps_after(self, exchange: "HttpExchange") -> bool:
        """Return whether the connection can serve another request after `exchange`."""

    def defaults(self) -> bytes:
        """Return the header lines of every response."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Sends bytes to the client, without waiting."""

    @property
    def push(self) -> Callable[[bytes], None]:
        """Sends bytes to the client as `write` does: for what a delivery of a provider causes."""

    def bound_unread(self) -> None:
        """Let the system take less of what the client does not read."""

    async def drained(self, *, bounded: bool = False) -> None:
        """Wait until the write buffer has room; if `bounded`, at most for `body_timeout`."""

    @property
    def whole_body(self) -> Callable[[], bytes]:
        """Returns the body if it is exactly what has arrived; empty if `read_body` has to."""

    async def read_body(self, exchange: "HttpExchange", limit: int) -> bytes: ...

    def answered(self, exchange: "HttpExchange") -> None:
        """Serve the next request."""


class ResponseTap(Protocol):
    """Gets the response of an exchange while it is written."""

    beat: Callable[[], Awaitable[None]] | None
    """Sends a keep-alive; set while a stream is written."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None: ...
    def note_beat(self) -> None:
        """Mark the next piece as a keep-alive."""
        ...

    def add(self, piece: bytes) -> None: ...


class IncomingRequest:
    """The head of a request; `auth.Guard` needs no more."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.method = head.method
        self.path = head.path
        self.id = ""
        self.caller = ""
        """The caller's key if one is required; stored values belong to the caller."""
        self.access: KeyRecord | None = None
        """The created key of the caller, with its limits; None for the key of the configuration."""

    def header(self, name: str) -> str:
        found = self.head.headers.get(name.encode())
        return found.decode("latin-1") if found else ""

    def headers_like(self, prefixes: tuple[bytes, ...]) -> dict[str, str]:
        """Return the headers whose names begin with any of `prefixes`."""
        return {
            key.decode("latin-1"): value.decode("latin-1")
            for key, value in self.head.headers.items()
            if key.startswith(prefixes)
        }

    def query(self, name: str) -> str:
        if not self.head.query:
            return ""
        return parse_qs(self.head.query.decode("latin-1")).get(name, [""])[0]


class HttpExchange(IncomingRequest):
    """A request and its response."""

    may_push = True
    """Whether a chunk may be sent with `push`, which does not wait."""
    # The first values are those of the class: most of them stay as they are.
    id = caller = ""
    access: KeyRecord | None = None
    status = 0
    _framing = NO_BODY_YET

    def __init__(self, head: Head, channel: Channel) -> None:
        # The fields of `IncomingRequest`, without a call of its `__init__` for each request.
        self.head = head
        self.method = head.method
        self.path = head.path
        self.channel = channel
        self.extra_headers: dict[str, str] = {}
        self.keeps = head.keep_alive
        self.sent = 0
        self.finished = self.client_left = False
        self.tap: ResponseTap | None = None
        self._pending = b""
        """The head of the response, until there is a chunk to send with it."""

    def whole_body(self, limit: int) -> bytes:
        """Return the body if it has arrived and is not compressed; empty if `body` has to read it."""
        length = self.head.length
        if length is None or length > limit or b"content-encoding" in self.head.headers:
            return b""
        return self.channel.whole_body()

    async def body(self, limit: int) -> bytes:
        """Return the whole body, decompressed; raise `TooLarge` above `limit` bytes."""
        declared = self.head.length
        if declared is not None and declared > limit:
            raise TooLarge(
                f"the request body is {declared} bytes; the limit is {limit} (`max_body`)"
            )
        whole = await self.channel.read_body(self, limit)
        if b"content-encoding" not in self.head.headers:
            return whole
        encoding = self.header("content-encoding")
        try:
            return unpacked(whole, encoding, limit)
        except UnknownEncoding:
            self.extra_headers["accept-encoding"] = KNOWN  # RFC 9110, section 15.5.16
            raise

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin a response; its head is sent with the first chunk, or when the task waits."""
        self._begin(status, headers)
        asyncio.get_running_loop().call_soon(self._flush)

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Keep the head for the first chunk, so that both are one write."""
        self.status = status
        modern, channel = self.head.modern, self.channel
        every = {**headers, **self.extra_headers}
        if self.id:
            every["request-id"] = every["x-request-id"] = self.id
        self._framing = framed = framing(
            self.method,
            status,
            sized="content-length" in every,
            modern=modern,
            keeps=self.keeps and channel.keeps_after(self),
        )
        self.keeps = framed.keeps
        if not framed.keeps:
            every["connection"] = "close"
        elif not modern:
            every["connection"] = "keep-alive"  # HTTP/1.0 closes unless both sides send this
        if self.tap is not None:
            self.tap.begin(status, every)
        self._pending = encode_head(status, every, framed, channel.defaults())

    def _flush(self) -> None:
        head, self._pending = self._pending, b""
        if head and not self.client_left:
            self.channel.write(head)

    async def write(self, piece: bytes) -> None:
        """Send a chunk of the body; wait while the write buffer is full."""
        if not self.push(piece):
            await self.channel.drained()

    async def drained(self) -> None:
        """Wait while the write buffer is full."""
        if self.channel.paused:
            await self.channel.drained()

    def push(self, piece: bytes) -> bool:
        """Send a chunk of the body; return whether the write buffer has room."""
        self.sent += len(piece)
        if self.tap is not None:
            self.tap.add(piece)
        framing, channel = self._framing, self.channel
        if framing.chunked and piece and not self._pending:
            data = b"%x\r\n%b\r\n" % (len(piece), piece)  # `frame`, without a call per chunk
        else:
            head, self._pending = self._pending, b""
            data = head + framing.frame(piece)
        if data and not self.client_left and not self.finished:
            channel.write(data)
        return not channel.paused

    def pusher(self) -> Callable[[bytes], bool]:
        """Return `push` for the chunks after the head, for most streams with fewer checks."""
        if not self._framing.chunked or self._pending or self.tap is not None:
            return self.push
        channel, send, bounded = self.channel, self.channel.push, False

        def push(piece: bytes) -> bool:
            nonlocal bounded
            self.sent += len(piece)
            if self.sent > LONG and not bounded:
                bounded = True
                channel.bound_unread()
            if not self.client_left:
                send(b"%x\r\n%b\r\n" % (len(piece), piece))
            return not channel.paused

        return push

    async def finish(self, last: bytes = b"") -> None:
        if self.channel.paused and not self.finished:
            await self.channel.drained()
        self._finish(last)

    def _finish(self, last: bytes) -> None:
        if self.finished:
            return
        self.finished = True
        self.sent += len(last)
        if self.tap is not None:
            self.tap.add(last)
        head, self._pending = self._pending, b""
        if self.client_left:
            return
        framing, channel = self._framing, self.channel
        if framing.chunked or framing.bodiless:
            last = framing.last(last)
        if data := head + last:
            channel.write(data)
        channel.answered(self)

    async def send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole response as `start`, `write` and `finish` do, in one step."""
        if self.channel.paused:
            await self.channel.drained()
        self._begin(status, headers)
        self._finish(body)

    async def reply(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole response; JSON unless `headers` has another content type."""
        if self.channel.paused:  # the client has not read the responses before it
            await self.channel.drained(bounded=True)
        every = {"content-type": "application/json", "content-length": str(len(body))}
        self._begin(status, {**every, **headers} if headers else every)
        self._finish(body)


def cancelled_by_client(exchange: HttpExchange) -> bool:
    """Return whether the current task was cancelled because the client disconnected."""
    task = asyncio.current_task()
    if not exchange.client_left or task is None:
        return False
    task.uncancel()
    return True
