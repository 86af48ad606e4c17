"""HTTP servers over real sockets whose answers a test writes byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit


@dataclass
class Got:
    """A request that reached the server, and the connection that it came on."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes | str = b"", status: int = 200, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        fields = {"content_length": str(len(data)), "connection": "close", **headers}
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        await self.send(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + data)


@asynccontextmanager
async def serving(handle: Callable[[Got], Awaitable[None]], host: str = "127.0.0.1") -> AsyncIterator[str]:  # fmt: skip
    """Serve with `handle`, one request per connection; yield the URL. No task outlives the context."""
    tasks: set[asyncio.Task] = set()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.split("\r\n")
                headers = {
                    name.lower(): value
                    for name, value in (line.split(": ", 1) for line in lines if ": " in line)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, target, _ = first.split(" ", 2)
                await handle(Got(method, target, headers, body, reader, writer))
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, host, 0)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
