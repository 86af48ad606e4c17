"""One HTTP exchange over plain ASGI: a request that is read, a reply that is written.

A framework's streaming response doubles the cost of a stream, so the hot routes speak ASGI.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Self, TypeAlias  # noqa: TID251  ASGI's own types are Any
from urllib.parse import parse_qs

from toolbridge.core.errors import Aborted, TooLarge
from toolbridge.server.encodings import unpacked

LONGEST_HEADER = 4000
_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]")
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Exchange:
    """A request and the reply to it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._query: bytes = scope.get("query_string", b"")
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self.id = ""
        self.caller = ""
        """The key that the caller showed, where one is required: whose things are whose."""
        self.status = 0
        self.sent = 0
        self.finished = False
        self.extra_headers: dict[str, str] = {}
        self._heard = asyncio.Event()
        """Set when the body has been read: ASGI tells of it and of a departure in one queue."""
        if self.method in {"GET", "HEAD", "DELETE", "OPTIONS"}:
            self._heard.set()

    def header(self, name: str) -> str:
        found = self._headers.get(name.encode())
        return found.decode("latin-1") if found else ""

    def headers_like(self, prefixes: tuple[bytes, ...]) -> dict[str, str]:
        """Return the headers whose names begin with any of `prefixes`."""
        return {
            key.decode("latin-1"): value.decode("latin-1")
            for key, value in self._headers.items()
            if key.startswith(prefixes)
        }

    def query(self, name: str) -> str:
        return parse_qs(self._query.decode("latin-1")).get(name, [""])[0]

    async def body(self, limit: int) -> bytes:
        """Return the whole body; raise `TooLarge` as soon as it is known to be."""
        declared = self.header("content-length")
        if declared.isdigit() and int(declared) > limit:
            raise TooLarge(f"the request body is {declared} bytes; the limit is {limit}")
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Aborted("the client left before its request was read")
            piece = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise TooLarge(f"the request body is longer than the limit of {limit} bytes")
            pieces.append(piece)
            if not message.get("more_body", False):
                self._heard.set()
                encoding = self.header("content-encoding")
                whole = b"".join(pieces)
                return unpacked(whole, encoding, limit) if encoding else whole

    async def left(self) -> None:
        """Return when the client has gone. Until its request was read, that reading tells."""
        await self._heard.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        every = {**headers, **self.extra_headers}
        if self.id:
            every["request-id"] = every["x-request-id"] = self.id
        await self._send(
            {"type": "http.response.start", "status": status, "headers": _lines(every)}
        )

    async def write(self, piece: bytes) -> None:
        """Send a piece; wait while the client is slow."""
        self.sent += len(piece)
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def finish(self, last: bytes = b"") -> None:
        self.finished = True
        self.sent += len(last)
        await self._send({"type": "http.response.body", "body": last})

    async def reply(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole reply; JSON unless `headers` say otherwise."""
        every = {"content-type": "application/json", "content-length": str(len(body))}
        await self.start(status, {**every, **(headers or {})})
        await self.finish(b"" if self.method == "HEAD" else body)


class Watch:
    """Cancels the task that serves an exchange when its client leaves.

    ASGI tells of a departure only to whoever asks, and `send` never fails: without this, a model
    goes on writing for nobody.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.client_left = False

    async def __aenter__(self) -> Self:
        serving = asyncio.current_task()
        if serving is None:
            raise RuntimeError("an exchange is served by a task")
        self._serving = serving
        self._watching = asyncio.create_task(self._wait())
        return self

    async def _wait(self) -> None:
        await self._exchange.left()
        if not self._exchange.finished:
            self.client_left = True
            self._serving.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._watching.cancel()
        if self.client_left and kind is asyncio.CancelledError:
            self._serving.uncancel()
            raise Aborted("the client left")
        return False


def _lines(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [
        # Letters, digits and signs of ASCII, as in nearly every header, are sent as they are.
        (name.encode("latin-1"), value.encode() if _is_plain(value) else _made_safe(value))
        for name, value in headers.items()
    ]


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable() and len(value) <= LONGEST_HEADER


def _made_safe(value: str) -> bytes:
    """Return a header that is short and ASCII without control characters.

    Many clients refuse the whole answer otherwise, whatever a model's name or an error text holds.
    """
    safe = value[:LONGEST_HEADER].encode("ascii", "backslashreplace")[:LONGEST_HEADER]
    return _CONTROLS.sub(b" ", safe)
