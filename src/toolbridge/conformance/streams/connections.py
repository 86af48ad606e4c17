"""A client's connection to a gateway, over SSE or WebSocket, with separate parsing code."""

import asyncio
import io
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import aiohttp

from toolbridge.conformance.json_path import members, text
from toolbridge.core.json import JsonObject, dumps, maybe_object


@dataclass(frozen=True)
class WireEvent:
    """One event as received."""

    name: str
    data: JsonObject
    id: str = ""


class StreamRejected(Exception):
    """The gateway did not open a stream."""

    def __init__(self, status: int, body: JsonObject) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.error = members(body, "error")


class BrokenStream(Exception):
    """The response is not a valid stream of events."""


@dataclass
class GatewayAddress:
    """The gateway's URL, the HTTP session and the headers."""

    url: str
    session: aiohttp.ClientSession
    headers: Mapping[str, str]

    async def ask(
        self, method: str, path: str, body: bytes | None = None
    ) -> tuple[int, JsonObject]:
        """Return the status and the object of a short reply."""
        sent = _sent(body)
        call = self.session.request(method, self.url + path, data=sent, headers=self.headers)
        async with call as reply:
            return reply.status, maybe_object(await reply.read()) or {}


def _sent(body: bytes | None) -> io.BytesIO | None:
    """Return a body as a file: aiohttp warns about large bytes bodies."""
    return None if body is None else io.BytesIO(body)


class StreamConnection(ABC):
    """One connection of a client, from its request to its end."""

    run = ""

    @abstractmethod
    async def next(self) -> WireEvent | None:
        """Return the next event; None at the end."""

    @abstractmethod
    async def close(self) -> None: ...

    async def rest(self) -> list[WireEvent]:
        """Return all remaining events, without pings."""
        found: list[WireEvent] = []
        try:
            while (told := await self.next()) is not None:
                if told.name != "ping":
                    found.append(told)
        finally:
            await self.close()
        return found


class SseConnection(StreamConnection):
    """Server-sent events."""

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self._reply = reply
        self._buffer = bytearray()
        self._looked = 0
        """The part of the buffer that was searched for the end of an event."""
        self.run = reply.headers.get("x-toolbridge-run", "")

    @classmethod
    async def open(
        cls,
        gateway: GatewayAddress,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> "SseConnection":
        """Request a stream; raise `StreamRejected`."""
        reply = await gateway.session.request(
            method,
            gateway.url + path,
            data=_sent(body),
            headers={**gateway.headers, **(headers or {})},
            read_bufsize=16_384,
        )
        if reply.status != 200:
            error = maybe_object(await reply.read()) or {}
            reply.release()
            raise StreamRejected(reply.status, error)
        if not reply.headers.get("content-type", "").startswith("text/event-stream"):
            raise BrokenStream(f"the content type is {reply.headers.get('content-type')}")
        return cls(reply)

    def narrow(self) -> None:
        """Make the receive buffer small, for back-pressure."""
        if self._reply.connection is not None and self._reply.connection.transport is not None:
            sock = self._reply.connection.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    async def next(self) -> WireEvent | None:
        while (end := self._buffer.find(b"\n\n", self._looked)) < 0:
            self._looked = max(0, len(self._buffer) - 1)
            try:
                piece = await self._reply.content.readany()
            except (aiohttp.ClientError, ConnectionError) as error:
                raise BrokenStream(f"the connection broke off: {error!r}") from None
            if not piece:
                if self._buffer:
                    raise BrokenStream(
                        f"the stream ends inside an event: {bytes(self._buffer[:200])!r}"
                    )
                return None
            self._buffer += piece
        written = self._buffer[:end].decode("utf-8")
        del self._buffer[: end + 2]
        self._looked = 0
        return _told(dict(_field(line) for line in written.split("\n")))

    async def close(self) -> None:
        self._reply.close()
        await asyncio.sleep(0)


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value.removeprefix(" ")


def _told(fields: Mapping[str, str]) -> WireEvent:
    data = maybe_object(fields.get("data", ""))
    if data is None or not fields.get("event"):
        raise BrokenStream(f"is no event with an object: {dict(fields)}")
    return WireEvent(fields["event"], data, fields.get("id", ""))


class WebSocketConnection(StreamConnection):
    """A WebSocket."""

    def __init__(self, line: aiohttp.ClientWebSocketResponse) -> None:
        self._line = line

    @classmethod
    async def open(cls, gateway: GatewayAddress, first: JsonObject) -> "WebSocketConnection":
        opened = await gateway.session.ws_connect(
            f"{gateway.url}/v1/stream/ws", headers=gateway.headers, max_msg_size=1 << 24
        )
        line = cls(opened)
        await line.say(first)
        return line

    async def say(self, message: JsonObject) -> None:
        with suppress(ConnectionError):  # it may have ended just now
            await self._line.send_str(dumps(message))

    async def next(self) -> WireEvent | None:
        message = await self._line.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            return self._read(message.data)
        if message.type is aiohttp.WSMsgType.ERROR or self._line.close_code not in {1000, 4400}:
            raise BrokenStream(f"the socket closed with {self._line.close_code}")
        return None

    def _read(self, written: str) -> WireEvent:
        found = maybe_object(written) or {}
        told = WireEvent(text(found, "event"), members(found, "data"), text(found, "id"))
        if not told.name:
            raise BrokenStream(f"is no event: {written[:200]}")
        if told.name == "error" and not told.id:
            raise StreamRejected(0, told.data)
        self.run = self.run or told.id.rpartition(":")[0]
        return told

    async def close(self) -> None:
        await self._line.close()
