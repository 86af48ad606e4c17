"""Clients that end their side of the connection after a request, and clients that leave."""

import asyncio
import json

import pytest
from tests.raw_http import answers, connect, read_all
from tests.resuming import paced
from tests.waiting import until

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def request(*, stream: bool = False, version: str = "1.1", close: bool = False) -> bytes:
    body = json.dumps(ASKED | {"stream": stream}).encode()
    head = f"POST /v1/chat/completions HTTP/{version}\r\nhost: 127.0.0.1\r\n"
    head += "connection: close\r\n" if close else ""
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_client_of_http_1_0_may_half_close(stream):
    async with paced() as (url, model):
        reader, writer = await connect(url)
        writer.write(request(stream=stream, version="1.0"))
        writer.write_eof()
        await until(lambda: model.requests == 1)
        await model.allow()
        found = await read_all(reader)
        writer.close()
    assert found.startswith(b"HTTP/1.1 200 ")
    assert b"word19" in found
    assert model.left == 0


async def test_a_request_that_asks_no_model_is_answered_after_a_half_close():
    async with paced() as (url, _):
        for _ in range(20):
            reader, writer = await connect(url)
            writer.write(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            writer.write_eof()
            (answer,) = answers(await read_all(reader))
            writer.close()
            assert (answer.status, answer.whole) == (200, True)


@pytest.mark.parametrize("close", [False, True])
async def test_a_model_stops_for_any_other_client_that_ends(close):
    async with paced() as (url, model):
        _, writer = await connect(url)
        writer.write(request(close=close))
        await until(lambda: model.requests == 1)
        writer.write_eof()
        await until(lambda: model.left == 1)
        writer.close()


async def test_a_model_stops_for_a_client_of_http_1_0_that_has_left():
    async with paced() as (url, model):
        reader, writer = await connect(url)
        writer.write(request(stream=True, version="1.0"))
        await model.allow(1)
        await reader.readuntil(b"answer 1")
        writer.close()
        for step in range(2, 20):
            await model.allow(step)
            await asyncio.sleep(0.02)
            if model.left:
                break
        await until(lambda: model.left == 1)
        assert model.sent < 19


async def test_a_body_that_a_half_close_cuts_is_not_sent():
    async with paced() as (url, model):
        reader, writer = await connect(url)
        writer.write(request(version="1.0")[:-5])
        writer.write_eof()
        assert b" 200 " not in await read_all(reader)
        writer.close()
        assert model.requests == 0
