"""The scripted model: a Chat Completions server that plays the answers of a case.

The model's name in a request identifies the play: a gateway sends it in every request of a stream,
repairs included.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from toolbridge.conformance.json_path import items, text
from toolbridge.conformance.streams.cases import ScriptedAnswer, ScriptedCall, StreamCase
from toolbridge.conformance.streams.cutting import pieces
from toolbridge.core.json import JsonObject, dump_bytes, maybe_object

PREFIX = "play-"
_PATIENCE = 20.0
_BLOCK = 8192
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
)


@dataclass
class StreamPlay:
    """A case that is being played in one way of cutting."""

    case: StreamCase
    cutting: str
    heard: list[JsonObject] = field(default_factory=list)
    open: int = 0
    """Lines to the model that are open."""


class ScriptedModel:
    """The plays under way, by the names of their models."""

    def __init__(self) -> None:
        self.url = ""
        self._playing: dict[str, StreamPlay] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[object]] = set()

    def begin(self, case: StreamCase, cutting: str) -> tuple[str, StreamPlay]:
        """Return the name of the model to ask for, and what will be known of the play."""
        self._count += 1
        name = f"{PREFIX}{self._count:06d}"
        self._playing[name] = StreamPlay(case, cutting)
        return name, self._playing[name]

    def end(self, name: str) -> None:
        del self._playing[name]

    def find(self, name: str) -> StreamPlay | None:
        return self._playing.get(name)

    def note(self, task: asyncio.Task[object] | None) -> None:
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def serve(port: int = 0) -> AsyncIterator[ScriptedModel]:
    """Serve on loopback; `url` is the address."""
    model = ScriptedModel()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        model.note(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await _answer(model, reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port, limit=1 << 20)
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield model
    finally:
        server.close()
        await model.close()


async def _answer(
    model: ScriptedModel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = re.search(r"(?im)^content-length: *(\d+)", head)
    body = maybe_object(await reader.readexactly(int(length[1]) if length else 0)) or {}
    playing = model.find(text(body, "model"))
    if playing is None:
        await _whole(writer, 404, {"error": {"message": "nobody plays this model"}})
        return
    playing.heard.append(body)
    at = len(playing.heard)
    if at > len(playing.case.says):
        await _whole(writer, 400, {"error": {"message": "the model was asked too often"}})
        return
    playing.open += 1
    try:
        await _say(playing, playing.case.says[at - 1], reader, writer)
    finally:
        playing.open -= 1


async def _whole(writer: asyncio.StreamWriter, status: int, body: JsonObject) -> None:
    data = dump_bytes(body)
    head = f"HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\nconnection: close\r\n"
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()


async def _say(
    playing: StreamPlay,
    say: ScriptedAnswer,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    if say.status != 200:
        await _whole(writer, say.status, {"error": {"message": "scripted failure"}})
        return
    writer.write(_HEAD)
    leaving = asyncio.create_task(reader.read(1))
    try:
        for part in _blocks(playing, say):
            if isinstance(part, float):
                await _wait(part, leaving)
                continue
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
        await _end(say, writer, leaving)
    finally:
        leaving.cancel()


async def _wait(seconds: float, leaving: "asyncio.Task[bytes]") -> None:
    """Wait for `seconds`; raise `ConnectionError` if the other side disconnects meanwhile."""
    await asyncio.wait({leaving}, timeout=seconds)
    if leaving.done():
        raise ConnectionError


async def _end(
    say: ScriptedAnswer, writer: asyncio.StreamWriter, leaving: "asyncio.Task[bytes]"
) -> None:
    if say.end == "hang":
        await _wait(_PATIENCE, leaving)
    elif say.end == "cut":
        await asyncio.sleep(0.02)  # what was sent is read before the line is known to be dead
        writer.transport.abort()
    else:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _blocks(playing: StreamPlay, say: ScriptedAnswer) -> Iterator[bytes | float]:
    """Yield what goes out at once, and waits."""
    block: list[bytes] = []
    size = 0
    for part in _chunks(playing, say):
        if isinstance(part, float) or size > _BLOCK:
            yield b"".join(block)
            block, size = [], 0
        if isinstance(part, float):
            yield part
        else:
            block.append(part)
            size += len(part)
    yield b"".join(block)


def _chunks(playing: StreamPlay, say: ScriptedAnswer) -> Iterator[bytes | float]:
    for part in pieces(say, playing.cutting, playing.case.id):
        yield part if isinstance(part, float) else _chunk({"content": part})
    offered = [text(tool, "function.name") for tool in items(playing.heard[-1], "tools")]
    for at, call in enumerate(say.calls):
        yield from _call(at, call, offered, playing)
    if say.end in {"stop", "length"}:
        reason = "tool_calls" if say.calls and say.end == "stop" else say.end
        yield _chunk({}, reason) + b"data: [DONE]\n\n"


def _call(
    at: int, call: ScriptedCall, offered: list[str], playing: StreamPlay
) -> Iterator[bytes | float]:
    name = call.tool if isinstance(call.tool, str) else offered[call.tool]
    begin: JsonObject = {
        "index": at,
        "id": call.id or f"call_{len(playing.heard)}_{at}",
        "type": "function",
        "function": {"name": name, "arguments": ""},
    }
    yield _chunk({"tool_calls": [begin]})
    for part in pieces(ScriptedAnswer(call.arguments), playing.cutting, playing.case.id):
        if isinstance(part, str):
            yield _chunk({"tool_calls": [{"index": at, "function": {"arguments": part}}]})


def _chunk(delta: JsonObject, finish: str | None = None) -> bytes:
    choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk: JsonObject = {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: %b\n\n" % dump_bytes(chunk)
