"""A raw HTTP client that records every byte, its time, and how the connection ended."""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from toolbridge.core.errors import Unreachable

_CUT = (ConnectionError, asyncio.IncompleteReadError)


@dataclass
class GatewayReply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    status_after: float = 0.0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    """Seconds since the request, and the bytes that arrived then."""
    ended: Literal["clean", "cut", "timeout", "left"] = "cut"
    """`left`: the client disconnected, as the case demands."""
    after: float = 0.0

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)


class HttpClient:
    """Sends one request to the gateway and records the response."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._secure = place.scheme == "https"
        self._host = place.hostname or "127.0.0.1"
        self._port = place.port or (443 if self._secure else 80)
        self._prefix = place.path.rstrip("/")
        self.reply = GatewayReply()

    async def ask(
        self,
        path: str,
        headers: dict[str, str],
        body: bytes,
        *,
        limit: float,
        leave: asyncio.Event | None = None,
    ) -> GatewayReply:
        """Send a request and read to the end, for `limit` seconds, or until `leave` is set."""
        try:
            self._reader, self._writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._secure or None, limit=1 << 22
            )
        except OSError as error:
            raise Unreachable(f"no gateway answers at {self._host}:{self._port}: {error}") from None
        self._start = asyncio.get_running_loop().time()
        reading = asyncio.create_task(self._exchange(path, headers, body))
        try:
            await self._wait(reading, limit, leave)
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError, *_CUT):
                await reading
            self._writer.transport.abort()
        self.reply.after = self._now()
        return self.reply

    async def _wait(
        self, reading: asyncio.Task[None], limit: float, leave: asyncio.Event | None
    ) -> None:
        tasks: set[asyncio.Task[object]] = {asyncio.ensure_future(reading)}
        if leave is not None:
            tasks.add(asyncio.create_task(leave.wait()))
        done, rest = await asyncio.wait(tasks, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if reading not in done:
            self.reply.ended = "left" if done else "timeout"
        for task in rest:
            if task is not reading:
                task.cancel()

    async def _exchange(self, path: str, headers: dict[str, str], body: bytes) -> None:
        lines = [
            f"POST {self._prefix}{path} HTTP/1.1",
            f"host: {self._host}:{self._port}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        try:
            await self._writer.drain()
            await self._read_head()
            await self._read_body()
        except _CUT:
            self.reply.ended = "cut"
        else:
            self.reply.ended = "clean"

    async def _read_head(self) -> None:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        self.reply.status = int(first.split(" ")[1])
        self.reply.status_after = self._now()
        for line in lines:
            name, _, value = line.partition(":")
            self.reply.headers[name.strip().lower()] = value.strip()

    async def _read_body(self) -> None:
        headers = self.reply.headers
        if "chunked" in headers.get("transfer-encoding", ""):
            await self._read_chunks()
        elif re.fullmatch(r"\d+", headers.get("content-length", "")):
            self._keep(await self._reader.readexactly(int(headers["content-length"])))
        else:  # the end of the connection is the end of the body
            while piece := await self._reader.read(1 << 16):
                self._keep(piece)

    async def _read_chunks(self) -> None:
        while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
            self._keep(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readuntil(b"\r\n")

    def _keep(self, piece: bytes) -> None:
        self.reply.pieces.append((self._now(), piece))

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self._start
