"""A request whose body comes late, or in pieces: the network cuts where it likes."""

import asyncio
import json

import pytest
from tests.peers import gateway
from tests.raw_http import connect, only, read_all

BODY = json.dumps(
    {"model": "demo", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}
).encode()


@pytest.mark.parametrize("cuts", [(0,), (1,), (40,), (10, 20, 30, 40), tuple(range(0, 90, 5))])
async def test_a_body_in_pieces_is_read_whole(cuts):
    async with gateway() as (url, _):
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /v1/messages HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(BODY)}\r\n"
        writer.write(f"{head}connection: close\r\n\r\n".encode())
        for start, end in zip((0, *cuts), (*cuts, len(BODY)), strict=True):
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(BODY[start:end])
        reply = await asyncio.wait_for(reader.read(), 20)
        writer.close()
    assert reply.startswith(b"HTTP/1.1 200"), reply


async def test_a_client_that_leaves_before_its_body_came_is_let_go():
    async with gateway() as (url, app):
        host, port = url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /v1/messages HTTP/1.1\r\nhost: {host}\r\ncontent-length: 100\r\n\r\n"
        writer.write(head.encode() + b'{"model":')
        await writer.drain()
        while not app.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        writer.close()
        async with asyncio.timeout(20):
            while app.in_flight:  # noqa: ASYNC110
                await asyncio.sleep(0.005)


async def test_who_watches_for_a_departure_takes_no_piece_of_the_body():
    chunks = [BODY[start : start + 10] for start in range(0, len(BODY), 10)]
    async with gateway() as (url, _):
        reader, writer = await connect(url)
        head = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
        writer.write(head + b"transfer-encoding: chunked\r\n\r\n")
        for chunk in [*chunks, b""]:
            await asyncio.sleep(0.002)
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        reply = only(await read_all(reader))
        writer.close()
    assert (reply.status, reply.whole) == (200, True)
