"""The status of a rejection counts, also if its body is cut off, broken or does not come."""

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.peers import gateway

from toolbridge.config import Config, ProviderConfig
from toolbridge.upstream import http

ERROR = b'{"error":{"message":"bad thing"}}'
CHUNKED = b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(ERROR), ERROR)
LONGER = b"content-length: %d\r\n\r\n%b" % (len(ERROR) + 50, ERROR)
BODIES = {
    "whole": (b"content-length: %d\r\n\r\n%b" % (len(ERROR), ERROR), False),
    "cut": (LONGER, True),
    "without the last chunk": (CHUNKED, True),
    "not gzip": (b"content-encoding: gzip\r\n" + LONGER, True),
    "not chunked": (b"transfer-encoding: chunked\r\n\r\nxyz\r\n", True),
    "stalled": (LONGER, False),
}
"""The body and the headers about it, and whether the connection is closed after them."""


@asynccontextmanager
async def rejecting(status: int, body: str, *headers: bytes):
    """Serve this rejection; yield the URL and the list of requests."""
    heard, serving = [], set()
    rest, closes = BODIES[body]
    lines = b"".join(b"%b\r\n" % header for header in (b"content-type: application/json", *headers))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next((int(line[15:]) for line in head.lower().split(b"\r\n")
                               if line.startswith(b"content-length:")), 0)  # fmt: skip
                await reader.readexactly(length)
                if not head.startswith(b"POST"):
                    writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 2\r\n\r\n{}")
                    continue
                heard.append(head)
                writer.write(b"HTTP/1.1 %d No\r\n%b%b" % (status, lines, rest))
                if closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        server.close()
        if serving:
            await asyncio.wait(serving, timeout=30)


@pytest.mark.parametrize("passthrough", [True, False])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("status", "headers"), [(400, []), (401, []), (429, [b"retry-after: 100"]), (404, [])]
)
async def test_a_rejection_keeps_its_status_and_is_not_repeated(
    status, headers, body, passthrough, monkeypatch
):
    monkeypatch.setattr(http, "ERROR_WAIT", 0.1)
    async with rejecting(status, body, *headers) as (url, heard):
        provider = ProviderConfig(api="openai_chat", url=url, passthrough=passthrough)
        config = Config(log="off", map={"default": "there/m"}, providers={"there": provider})
        async with gateway(config) as (here, _), aiohttp.ClientSession() as session:
            asked = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
            async with session.post(f"{here}/v1/chat/completions", json=asked) as answer:
                said = await answer.json()
            assert answer.status == status
            assert len(heard) == 1
            if body not in {"not gzip", "not chunked"}:
                assert "bad thing" in said["error"]["message"]
            assert "there" in said["error"]["message"] or passthrough


@pytest.mark.parametrize("body", BODIES)
async def test_a_bad_request_is_not_sent_to_another_provider(body, monkeypatch):
    monkeypatch.setattr(http, "ERROR_WAIT", 0.1)
    async with rejecting(400, body) as (url, heard), rejecting(400, body) as (second, others):
        providers = {
            name: ProviderConfig(api="openai_chat", url=each)
            for name, each in {"a": url, "b": second}.items()
        }
        config = Config(log="off", map={"default": ["a/m", "b/m"]}, providers=providers)
        async with gateway(config) as (here, _), aiohttp.ClientSession() as session:
            asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
            async with session.post(f"{here}/v1/messages", json=asked) as answer:
                assert answer.status == 400
        assert (len(heard), others) == (1, [])
