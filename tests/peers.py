"""Peers over real sockets: a gateway to talk to, and model servers behind it that do as told."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from toolbridge.config import Config, ProviderConfig
from toolbridge.server.app import App
from toolbridge.server.dispatch import Dispatcher
from toolbridge.server.http_server import HttpServer

RECORDED = Path(__file__).parent / "recorded"


@dataclass
class Heard:
    """A request that reached a model server."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Line:
    """The connection of one request: what a model server writes to, as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def head(self, status: int = 200, kind: str = "application/x-ndjson", **headers: str):
        lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", "transfer-encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.raw("\r\n".join([*lines, "", ""]).encode())

    async def send(self, piece: bytes | str) -> None:
        data = piece.encode() if isinstance(piece, str) else piece
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")

    def cut(self) -> None:
        """Die: close without a last chunk."""
        self._writer.transport.abort()

    async def raw(self, data: bytes) -> None:
        # uvloop raises RuntimeError for a write to a closed transport, asyncio only logs it.
        if self._writer.is_closing():
            raise ConnectionResetError("the gateway closed the connection")
        self._writer.write(data)
        await self._writer.drain()

    async def gone(self) -> None:
        """Return when the other side hung up."""
        with suppress(ConnectionError):
            await self._reader.read()


Answer = Callable[[Heard, Line], Awaitable[None]]


@dataclass
class Server:
    url: str
    heard: list[Heard] = field(default_factory=list)

    def chats(self) -> list[Heard]:
        return [h for h in self.heard if h.path.startswith("/api/chat") or "messages" in h.path]


PROBES = (
    "/models", "/props", "/info", "/api/v1/models", "/api/v0/models", "/model_info", "/server_info",
)  # fmt: skip
"""Where a gateway asks an engine about itself (upstream/engines.py)."""


@asynccontextmanager
async def model_server(
    answer: Answer, port: int = 0, *, probes: bool = False
) -> AsyncIterator[Server]:
    """Serve `answer` on a free port, or on `port`.

    Unless the test wants to see the `probes`, questions about the engine get a 404, as most servers
    answer them, and are not recorded.
    """
    server = Server("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while heard := await _hear(reader):
                line = Line(reader, writer)
                if not probes and heard.method == "GET" and heard.path.endswith(PROBES):
                    await whole(line, {"error": "not found"}, 404)
                    continue
                server.heard.append(heard)
                await answer(heard, line)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", port)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()


async def _hear(reader: asyncio.StreamReader) -> Heard | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines) if k}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Heard(method, path, headers, body)


SHOW = {
    "capabilities": ["completion", "tools", "thinking", "vision"],
    "model_info": {"llama.context_length": 131072},
}


def ollama(chat: Answer, *, show: dict | None = None, models: tuple[str, ...] = ("tiny:latest",)):
    """Return a server's answer that speaks Ollama: its catalogue, and `chat` for conversations."""

    async def answer(heard: Heard, line: Line) -> None:
        if heard.path == "/api/tags":
            await whole(line, {"models": [{"name": name} for name in models]})
        elif heard.path == "/api/show":
            name = heard.json["model"]
            if not any(name in {m, m.removesuffix(":latest")} for m in models):
                await whole(line, {"error": f"model '{name}' not found"}, 404)
            else:
                await whole(line, SHOW if show is None else show)
        else:
            await chat(heard, line)

    return answer


async def whole(line: Line, body: object, status: int = 200) -> None:
    await line.head(status, "application/json")
    await line.send(json.dumps(body))
    await line.end()


def replay(*pieces: dict | bytes | str) -> Answer:
    """Return an answer that sends `pieces` one after the other, dicts as NDJSON lines."""

    async def chat(_: Heard, line: Line) -> None:
        await line.head()
        for piece in pieces:
            await line.send(json.dumps(piece) + "\n" if isinstance(piece, dict) else piece)
        await line.end()

    return chat


def line_of(text: str, *, done: bool = False) -> dict:
    """Return a line of Ollama's stream that says `text`."""
    line = {"model": "m", "message": {"role": "assistant", "content": text}, "done": done}
    return line | ({"done_reason": "stop"} if done else {})


def recorded(name: str) -> Answer:
    """Return the answer of a real server that was written down, status, headers and body."""
    head, _, body = (RECORDED / name).read_bytes().partition(b"\r\n\r\n")
    if not body:
        head, _, body = (RECORDED / name).read_bytes().partition(b"\n\n")
    status = int(head.split()[1])
    kind = next(
        line.partition(b":")[2].strip().decode()
        for line in head.split(b"\n")
        if line.lower().startswith(b"content-type")
    )

    async def chat(_: Heard, line: Line) -> None:
        await line.head(status, kind)
        for piece in body.split(b"\n"):
            if piece:
                await line.send(piece + b"\n")
        await line.end()

    return chat


@asynccontextmanager
async def gateway(
    config: Config | None = None, env: dict[str, str] | None = None, *, demo: bool = True
):
    """Serve a gateway on a free port; yield its URL and its application.

    With `demo`, a configuration that names no model lets the demo model answer to every name.
    """
    config = config or Config(log="off")
    if demo and not config.map and not config.providers:
        config = msgspec.structs.replace(config, map={"default": "demo"})
    app = App(config, {"OLLAMA_HOST": "127.0.0.1:1", **(env or {})})
    server = HttpServer(Dispatcher(app))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await server.start(listener)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", app
        finally:
            await server.stop(1)


@asynccontextmanager
async def bridged(chat: Answer, *, show: dict | None = None, models=("tiny:latest",), **settings):
    """Serve a gateway in front of an Ollama that answers with `chat`."""
    place = settings.pop("place", {})
    async with model_server(ollama(chat, show=show, models=models)) as server:
        config = Config(
            log="off",
            map={"default": f"ollama/{models[0]}", **settings.pop("map", {})},
            providers={"ollama": ProviderConfig(api="ollama", url=server.url, **place)},
            **settings,
        )
        async with gateway(config) as (url, app):
            yield url, server, app
