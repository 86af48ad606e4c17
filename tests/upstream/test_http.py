"""Connections to providers, and what is left of them when a provider closes them."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from toolbridge.core.errors import Unreachable
from toolbridge.upstream.http import Upstream

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@asynccontextmanager
async def server(serve):
    serving = set()

    async def tracked(reader, writer):
        serving.add(asyncio.current_task())
        await serve(reader, writer)

    listening = await asyncio.start_server(tracked, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        if serving:
            await asyncio.wait(serving, timeout=30)


async def ask(upstream: Upstream, url: str) -> bytes:
    incoming = await upstream.ask("POST", url, provider="there", body=b"{}")
    try:
        return await incoming.read_whole()
    finally:
        await incoming.release()


async def test_after_a_dead_connection_no_other_kept_one_is_tried():
    """A pool of connections that the server has left is met at most once."""
    die = asyncio.Event()
    opened = 0

    async def serve(reader, writer):
        nonlocal opened
        opened += 1
        old = not die.is_set()
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(2)
                if old and die.is_set():
                    break  # a restart: whoever kept this connection finds it dead
                writer.write(HEAD)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async with server(serve) as url, Upstream() as upstream:
        assert await asyncio.gather(*(ask(upstream, url) for _ in range(6))) == [b"ok"] * 6
        die.set()
        with pytest.raises(Unreachable, match="it closed the connection"):
            await ask(upstream, url)
        before = opened
        assert [await ask(upstream, url) for _ in range(6)] == [b"ok"] * 6
    assert opened == before + 6
