"""The model server behind the gateway: keeps connections alive, and fails as each play says."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.soak.plays import Play

_MARK = re.compile(rb"soak-[0-9a-f]{8}")
_SHOW = {
    "capabilities": ["completion", "tools"],
    "model_info": {"general.architecture": "soak", "soak.context_length": 131072},
}
_TYPES = {"ollama": "application/x-ndjson"}
_PAGE = b"<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>"


class Upstream:
    def __init__(self, plays: dict[str, Play]) -> None:
        self._plays = plays
        self.connections = 0
        self.port = 0
        self.speaking: dict[str, asyncio.Event] = {}

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (heard := await _hear(reader)) is not None:
                if not await self._answer(*heard, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.connections -= 1
            writer.close()

    async def _answer(self, path: str, body: bytes, reader, writer) -> bool:
        """Answer one request; return whether the connection stays open."""
        found = _MARK.search(body)
        play = self._plays.get(found[0].decode()) if found else None
        if play is None:
            shown = _SHOW if path.startswith("/api/show") else {"models": [{"name": "soak"}]}
            _whole(writer, 200, json.dumps(shown).encode())
            await writer.drain()
            return True
        play.attempts += 1
        play.under_way += 1
        try:
            return await self._act(play, reader, writer)
        finally:
            play.under_way -= 1

    async def _act(self, play: Play, reader, writer) -> bool:
        first = play.attempts == 1
        match play.fault:
            case "busy" if first:
                _whole(writer, 503, b'{"error": {"message": "busy"}}', "retry-after: 0\r\n")
                await writer.drain()
                return True
            case "hangs_up" if first:
                writer.transport.abort()
                return False
            case "page":
                _whole(writer, 200, _PAGE, kind="text/html")
                await writer.drain()
                return True
            case "half_json":
                body = play.body()
                _whole(writer, 200, body[: max(2, int(len(body) * play.cut))])
                await writer.drain()
                return True
        if not play.stream:
            _whole(writer, 200, play.body())
            await writer.drain()
            return play.fault != "stale"
        return await self._speak(play, reader, writer)

    async def _speak(self, play: Play, reader, writer) -> bool:
        kind = _TYPES.get(play.upstream, "text/event-stream")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        frames = play.frames()
        broken = play.fault in {"cut", "reset", "unfinished", "error"}
        # At least one piece of text must have gone out, or the gateway would rightly ask again.
        upto = max(6, int(len(frames) * play.cut)) if broken else len(frames)
        upto = min(upto, _last_text(frames)) if broken else upto
        for number, frame in enumerate(frames[:upto]):
            _chunk(writer, frame)
            if number == 3:
                self.speaking.setdefault(play.mark, asyncio.Event()).set()
            if play.pause or play.fault in {"slow", "leaves"}:
                await writer.drain()
                await asyncio.sleep(0.01 if play.fault == "leaves" else play.pause or 0.005)
        if play.fault == "leaves":  # goes on writing until the other side is gone
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), 20)
            return False
        if play.fault in {"cut", "reset"}:
            _chunk(writer, frames[upto][: len(frames[upto]) // 2])
            await writer.drain()
            if play.fault == "reset":
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger
                )
            writer.transport.abort() if play.fault == "reset" else writer.close()
            return False
        if play.fault == "error":
            _chunk(writer, _error(play.upstream))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        if play.fault == "stale":  # the next request on this connection finds it closed
            await asyncio.sleep(0.001)
            return False
        return True


def _last_text(frames: list[bytes]) -> int:
    """Return the index of the frame before the finish begins."""
    finish = re.compile(
        rb'"finish_reason": ?"|finishReason|message_delta|response\.completed|"done": ?true'
        rb"|content_block_stop|output_text\.done|tool_calls|function_call|functionCall|tool_use"
    )
    found = next((n for n, frame in enumerate(frames) if finish.search(frame)), len(frames) - 1)
    return max(1, found)


def _error(api: str) -> bytes:
    if api == "ollama":
        return b'{"error": "the runner died"}\n'
    if api == "anthropic":
        problem = {"type": "error", "error": {"type": "api_error", "message": "the runner died"}}
        return f"event: error\ndata: {json.dumps(problem)}\n\n".encode()
    if api == "openai_responses":
        problem = {"type": "error", "code": "server_error", "message": "the runner died"}
        return f"event: error\ndata: {json.dumps(problem)}\n\n".encode()
    problem = {"error": {"code": 500, "status": "INTERNAL", "message": "the runner died"}}
    return f"data: {json.dumps(problem)}\n\n".encode()


def _chunk(writer, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def _whole(
    writer, status: int, body: bytes, more: str = "", kind: str = "application/json"
) -> None:
    head = (
        f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{more}content-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)


async def _hear(reader: asyncio.StreamReader) -> tuple[str, bytes] | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    length = re.search(r"(?im)^content-length: *(\d+)", head)
    return head.split(" ", 2)[1], await reader.readexactly(int(length[1]) if length else 0)


@asynccontextmanager
async def serve(plays: dict[str, Play]) -> AsyncIterator[Upstream]:
    upstream = Upstream(plays)
    server = await asyncio.start_server(upstream.connected, "127.0.0.1", 0, limit=1 << 22)
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()
