"""Bytes that nobody meant: every connection ends, every answer is HTTP, and the server goes on."""

import asyncio
import json
import random

import pytest
from tests.peers import gateway
from tests.raw_http import answers, exchange, only

from toolbridge.config import Config, HttpConfig

BODY = json.dumps(
    {"model": "demo", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}
).encode()
SEEDS = [
    b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n%b"
    % (len(BODY), BODY),
    b"POST /api/chat HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
    b"GET /health HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    b"HEAD /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    (
        b"GET /v1/stream/ws HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x85abcdxyzzy"
    ),
]
SPICE = [b"\r\n", b"\n", b"\r", b"\x00", b" ", b":", b"\r\n\r\n", b"0", b"f" * 20, b"chunked", b"\xff",
         b"content-length: 7\r\n", b"\x16\x03\x01", b"HTTP/1.1", b"%", b"//", b"*", b";"]  # fmt: skip


def mutated(dice: random.Random) -> list[bytes]:
    if dice.random() < 0.2:
        return [dice.randbytes(dice.randrange(1, 400)) for _ in range(dice.randrange(1, 4))]
    data = bytearray(b"".join(dice.choice(SEEDS) for _ in range(dice.randrange(1, 4))))
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(data) or 1)
        match dice.randrange(4):
            case 0 if data:
                data[at] = dice.randrange(256)
            case 1:
                data[at:at] = dice.choice(SPICE)
            case 2:
                del data[at : at + dice.randrange(1, 30)]
            case _:
                data = data[: max(1, at)]
    cut = dice.randrange(len(data) + 1)
    return [piece for piece in (bytes(data[:cut]), bytes(data[cut:])) if piece]


@pytest.mark.parametrize("round", range(4))
async def test_no_bytes_crash_or_hang_the_server(round, caplog):
    dice = random.Random(round)
    http = HttpConfig(head_timeout=0.3, body_timeout=0.3, idle_timeout=0.3)
    async with gateway(Config(log="off", http=http)) as (url, app):
        for _ in range(4):
            sent = [mutated(dice) for _ in range(40)]
            async with asyncio.timeout(30):
                ended = await asyncio.gather(*(exchange(url, *pieces, wait=20) for pieces in sent))
            for pieces, data in zip(sent, ended, strict=True):
                assert data == b"" or data.startswith(b"HTTP/1.1 "), (pieces, data)
                if b"HEAD" not in b"".join(pieces) and b"websocket" not in b"".join(pieces):
                    assert all(a.status < 500 or a.status in {501, 505} for a in answers(data)), (
                        pieces
                    )
        health = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
        assert only(await exchange(url, health)).status == 200
        async with asyncio.timeout(20):
            while app.in_flight:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert not [record for record in caplog.records if record.name == "asyncio"], caplog.text
