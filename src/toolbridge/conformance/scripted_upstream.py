"""The scripted upstream: a server on loopback that plays the cases.

One server plays all cases at once. The mark in a request's text selects the case; the received
requests and the time of a disconnect are recorded under that mark.
"""

import asyncio
import gzip
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from toolbridge.conformance import upstreams
from toolbridge.conformance.cases import Case, expand
from toolbridge.conformance.client_requests import MARK
from toolbridge.conformance.json_path import text
from toolbridge.core.json import JsonObject, dump_bytes, loads, maybe_object

_MARK = re.compile(rb"conform-[0-9a-f]{8}")
_SHOWN: JsonObject = {
    "capabilities": ["completion", "tools", "thinking", "vision"],
    "details": {"family": "conform"},
    "model_info": {"general.architecture": "conform", "conform.context_length": 131072},
}
_FOUND: JsonObject = {"url": "https://example.org/bern", "title": "Bern", "content": "A market."}
"""The result of every search, for cases in which the gateway runs the tools."""
_PATIENCE = 20.0
"""Seconds that a hanging server waits for the other side to disconnect."""


@dataclass
class ReceivedRequest:
    """One request that reached the upstream."""

    path: str
    body: bytes

    @property
    def json(self) -> JsonObject:
        return maybe_object(self.body) or {}


@dataclass
class PlayedCase:
    """A case that is being played."""

    case: Case
    heard: list[ReceivedRequest] = field(default_factory=list)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    speaking: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)


class ScriptedUpstream:
    """The active cases, by their marks."""

    def __init__(self) -> None:
        self._playing: dict[str, PlayedCase] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[object]] = set()
        self.url = ""

    def note(self, task: asyncio.Task[object] | None) -> None:
        """Keep a reference to a connection's task until it is done."""
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel every connection that is still open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def begin(self, case: Case) -> tuple[str, PlayedCase]:
        """Return the mark that requests for `case` must carry."""
        self._count += 1
        mark = f"{MARK}{self._count:08x}"
        self._playing[mark] = PlayedCase(case)
        return mark, self._playing[mark]

    def end(self, mark: str) -> None:
        del self._playing[mark]

    def find(self, body: bytes) -> PlayedCase | None:
        found = _MARK.search(body)
        return self._playing.get(found[0].decode()) if found else None


@asynccontextmanager
async def serve(port: int = 0) -> AsyncIterator[ScriptedUpstream]:
    """Serve a script on loopback; `url` is its address."""
    script = ScriptedUpstream()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script.note(asyncio.current_task())
        # A task is cancelled only when the script is over, so the cancellation is not an error.
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            if heard := await _hear(reader):
                await _answer(script, heard, reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port, limit=1 << 20)
    script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        server.close()
        await script.close()


async def _hear(reader: asyncio.StreamReader) -> ReceivedRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    path = head.split(" ", 2)[1]
    length = re.search(r"(?im)^content-length: *(\d+)", head)
    if length is None and re.search(r"(?im)^transfer-encoding: *chunked", head):
        return ReceivedRequest(path, await _read_chunks(reader))
    return ReceivedRequest(path, await reader.readexactly(int(length[1]) if length else 0))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    pieces: list[bytes] = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readline()
    return b"".join(pieces)


async def _answer(
    script: ScriptedUpstream,
    heard: ReceivedRequest,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Answer one request per connection: the watch for a disconnect would consume the next one."""
    playing = script.find(heard.body)
    if playing is None:
        _write_whole(writer, *_stock(heard))
        await writer.drain()
        return
    playing.heard.append(heard)
    playing.asked.set()
    case = playing.case
    watching = asyncio.create_task(_watch(reader, playing))
    try:
        if len(playing.heard) == 1 and case.fail_first:
            await _fail(writer, case.fail_first)
            return
        await asyncio.sleep(case.before)
        await _speak(writer, playing)
        await _end(writer, playing)
    finally:
        watching.cancel()


async def _watch(reader: asyncio.StreamReader, playing: PlayedCase) -> None:
    """Record when the other side disconnects."""
    with suppress(ConnectionError):
        await reader.read(1)
    playing.hung_up.set()


async def _fail(writer: asyncio.StreamWriter, status: int) -> None:
    if status < 0:
        writer.transport.abort()
        return
    _write_whole(writer, status, {"error": {"type": "server_error", "message": "try again"}})
    await writer.drain()


async def _speak(writer: asyncio.StreamWriter, playing: PlayedCase) -> None:
    case = playing.case
    headers = {
        "content-type": case.type or _type(case),
        "transfer-encoding": "chunked",
        "connection": "close",
    }
    headers |= {"content-encoding": "gzip"} if case.gzip else {}
    lines = [f"HTTP/1.1 {case.status} Scripted"]
    lines += [f"{name}: {value}" for name, value in (headers | case.headers).items()]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    await writer.drain()
    api = upstreams.load(case.api)
    names = api.tools(api.normal(playing.heard[-1].json))
    if case.then and len(playing.heard) > 1:
        case = msgspec.structs.replace(case, answer=case.then)
    for piece in pieces(case, names):
        await asyncio.sleep(piece.pause)
        if piece.data:
            writer.write(b"%x\r\n%b\r\n" % (len(piece.data), piece.data))
            await writer.drain()
            playing.speaking.set()


async def _end(writer: asyncio.StreamWriter, playing: PlayedCase) -> None:
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


class TimedBytes(NamedTuple):
    """Bytes that are sent after a pause; `size` cuts them into smaller chunks."""

    data: bytes
    pause: float = 0.0
    size: int = 0


def pieces(case: Case, tools: Sequence[str] = ()) -> Iterator[TimedBytes]:
    """Yield the bytes that `case` sends, with their pauses.

    `@tool0@` in an answer is replaced by the first of `tools`, named as in the upstream's request.
    """
    frames = [_named(frame, tools) for frame in _frames(case)]
    if case.framing.bom and frames:
        frames[0] = frames[0]._replace(data=b"\xef\xbb\xbf" + frames[0].data)
    if case.gzip:
        yield TimedBytes(gzip.compress(b"".join(frame.data for frame in frames)))
        return
    for frame in frames:
        size = frame.size or len(frame.data) or 1
        for start in range(0, len(frame.data) or 1, size):
            yield TimedBytes(frame.data[start : start + size], 0.0 if start else frame.pause)


def _named(frame: TimedBytes, tools: Sequence[str]) -> TimedBytes:
    data = frame.data
    for at, name in enumerate(tools):
        data = data.replace(b"@tool%d@" % at, name.encode())
    return frame._replace(data=data)


def _frames(case: Case) -> Iterator[TimedBytes]:
    if case.whole or case.status >= 400:
        yield TimedBytes(case.answer.strip().encode())
        return
    api = upstreams.load(case.api)
    size = 0
    for line in expand(case.answer).strip("\n").split("\n"):
        word, _, rest = line.partition(" ")
        if word == "~split":
            size = int(rest)
        elif word == "~wait":
            yield TimedBytes(b"", float(rest))
        elif word == "~raw":
            yield TimedBytes(text(loads(rest)).encode("utf-8", "surrogatepass"), size=size)
        elif line:
            yield TimedBytes(api.frame(line, case.framing), size=size)


def _write_whole(writer: asyncio.StreamWriter, status: int, body: JsonObject) -> None:
    data = dump_bytes(body)
    head = f"HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\nconnection: close\r\n"
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)


def _stock(heard: ReceivedRequest) -> tuple[int, JsonObject]:
    """Return the answer to a gateway's other requests, such as the list of models."""
    if heard.path.startswith("/search?"):  # SearXNG, search API
        return (500, {}) if "broken" in heard.path else (200, {"results": [_FOUND]})
    if heard.path.startswith("/api/show"):
        return 200, _SHOWN
    if heard.path.startswith("/api/tags"):
        return 200, {"models": [{"name": "conform", "model": "conform"}]}
    if heard.path.endswith("/models"):
        return 200, {"object": "list", "data": [{"id": "conform", "object": "model"}]}
    return 404, {"error": {"type": "not_found_error", "message": f"nothing at {heard.path}"}}
