"""The upstream that plays the cases: a server on loopback that does as its script says.

One server plays all cases at once. The mark in a request's words says which; what it heard and when
the other side hung up is kept under that mark.
"""

import asyncio
import gzip
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from toolbridge.conformance import upstreams
from toolbridge.conformance.asks import MARK
from toolbridge.conformance.cases import Case
from toolbridge.conformance.looking import text
from toolbridge.core.json import JsonObject, dump_bytes, loads, maybe_object

_MARK = re.compile(rb"conform-[0-9a-f]{8}")
_SHOWN: JsonObject = {
    "capabilities": ["completion", "tools", "thinking", "vision"],
    "details": {"family": "conform"},
    "model_info": {"general.architecture": "conform", "conform.context_length": 131072},
}
_PATIENCE = 20.0
"""How long a server that hangs waits for the other side to leave."""


@dataclass
class Heard:
    """One request that reached the upstream."""

    path: str
    body: bytes

    @property
    def json(self) -> JsonObject:
        return maybe_object(self.body) or {}


@dataclass
class Playing:
    """A case that is being played."""

    case: Case
    heard: list[Heard] = field(default_factory=list)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    speaking: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)


class Script:
    """The cases under way, by their marks."""

    def __init__(self) -> None:
        self._playing: dict[str, Playing] = {}
        self._count = 0
        self.url = ""

    def begin(self, case: Case) -> tuple[str, Playing]:
        """Return the mark that requests for `case` must carry."""
        self._count += 1
        mark = f"{MARK}{self._count:08x}"
        self._playing[mark] = Playing(case)
        return mark, self._playing[mark]

    def end(self, mark: str) -> None:
        del self._playing[mark]

    def find(self, body: bytes) -> Playing | None:
        found = _MARK.search(body)
        return self._playing.get(found[0].decode()) if found else None


@asynccontextmanager
async def serve(port: int = 0) -> AsyncIterator[Script]:
    """Serve a script on loopback; its `url` says where."""
    script = Script()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A cancelled task here means that the script is over; nobody needs to hear of it.
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (heard := await _hear(reader)) and await _answer(script, heard, reader, writer):
                pass
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port, limit=1 << 20)
    script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        server.close()


async def _hear(reader: asyncio.StreamReader) -> Heard | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    path = head.split(" ", 2)[1]
    length = re.search(r"(?im)^content-length: *(\d+)", head)
    if length is None and re.search(r"(?im)^transfer-encoding: *chunked", head):
        return Heard(path, await _read_chunks(reader))
    return Heard(path, await reader.readexactly(int(length[1]) if length else 0))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    pieces: list[bytes] = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readline()
    return b"".join(pieces)


async def _answer(
    script: Script, heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Answer one request; return whether the connection can take another."""
    playing = script.find(heard.body)
    if playing is None:
        _write_whole(writer, *_stock(heard))
        await writer.drain()
        return True
    playing.heard.append(heard)
    playing.asked.set()
    case = playing.case
    watching = asyncio.create_task(_watch(reader, playing))
    try:
        if len(playing.heard) == 1 and case.fail_first:
            return await _fail(writer, case.fail_first)
        await asyncio.sleep(case.before)
        await _speak(writer, playing)
        await _end(writer, playing)
        return False
    finally:
        watching.cancel()


async def _watch(reader: asyncio.StreamReader, playing: Playing) -> None:
    """Note when the other side hangs up."""
    with suppress(ConnectionError):
        await reader.read(1)
    playing.hung_up.set()


async def _fail(writer: asyncio.StreamWriter, status: int) -> bool:
    if status < 0:
        writer.transport.abort()
        return False
    _write_whole(writer, status, {"error": {"type": "server_error", "message": "try again"}})
    await writer.drain()
    return False


async def _speak(writer: asyncio.StreamWriter, playing: Playing) -> None:
    case = playing.case
    headers = {
        "content-type": case.type or _type(case),
        "transfer-encoding": "chunked",
        # The watch for a departure takes the first byte of any later request.
        "connection": "close",
    }
    headers |= {"content-encoding": "gzip"} if case.gzip else {}
    lines = [f"HTTP/1.1 {case.status} Scripted"]
    lines += [f"{name}: {value}" for name, value in (headers | case.headers).items()]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    await writer.drain()
    names = upstreams.load(case.api).tools(playing.heard[-1].json)
    for pause, piece in pieces(case, names):
        await asyncio.sleep(pause)
        if piece:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            playing.speaking.set()


async def _end(writer: asyncio.StreamWriter, playing: Playing) -> None:
    match playing.case.end:
        case "clean":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        case "cut":
            writer.close()
        case "rst":
            linger = struct.pack("ii", 1, 0)
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        case "hang":
            with suppress(TimeoutError):
                await asyncio.wait_for(playing.hung_up.wait(), _PATIENCE)


def _type(case: Case) -> str:
    whole = case.whole or case.status >= 400
    return "application/json" if whole else upstreams.load(case.api).content_type


def pieces(case: Case, tools: Sequence[str] = ()) -> Iterator[tuple[float, bytes]]:
    """Yield what `case` sends: how long to wait, and the bytes that then go out at once.

    `@tool0@` in an answer stands for the first of `tools`, under the name that the upstream was
    given for it.
    """
    pause, held = 0.0, b"\xef\xbb\xbf" if case.framing.bom else b""
    for wait, frame in _frames(case):
        pause += wait
        held += frame
        for at, name in enumerate(tools):
            held = held.replace(b"@tool%d@" % at, name.encode())
        if not held or case.gzip:
            continue
        size = case.split or len(held)
        for start in range(0, len(held), size):
            yield pause, held[start : start + size]
            pause = 0.0
        held = b""
    yield pause, gzip.compress(held) if case.gzip else held


def _frames(case: Case) -> Iterator[tuple[float, bytes]]:
    if case.whole or case.status >= 400:
        yield 0.0, case.answer.strip().encode()
        return
    api = upstreams.load(case.api)
    for line in case.answer.strip("\n").split("\n"):
        if line.startswith("~wait "):
            yield float(line.removeprefix("~wait ")), b""
        elif line.startswith("~raw "):
            yield 0.0, text(loads(line.removeprefix("~raw "))).encode("utf-8", "surrogateescape")
        elif line:
            yield 0.0, api.frame(line, case.framing)


def _write_whole(writer: asyncio.StreamWriter, status: int, body: JsonObject) -> None:
    data = dump_bytes(body)
    head = f"HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)


def _stock(heard: Heard) -> tuple[int, JsonObject]:
    """Return the answer to what gateways ask besides: what models there are and what they can."""
    if heard.path.startswith("/api/show"):
        return 200, _SHOWN
    if heard.path.startswith("/api/tags"):
        return 200, {"models": [{"name": "conform", "model": "conform"}]}
    if heard.path.endswith("/models"):
        return 200, {"object": "list", "data": [{"id": "conform", "object": "model"}]}
    return 404, {"error": {"type": "not_found_error", "message": f"nothing at {heard.path}"}}
