"""Request bodies that come compressed."""

import gzip
import json
import tracemalloc
import zlib

import aiohttp
import pytest
from tests.peers import gateway
from tests.tables import every_row

from toolbridge.config import Config
from toolbridge.core.errors import MalformedRequest, TooLarge, UnknownEncoding
from toolbridge.server.encodings import unpacked


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)  # the names of tests hold it, and must not hold the time


BODY = json.dumps(
    {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
).encode()


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@every_row(
    ("encoding", "packed"),
    [
        ("", BODY),
        ("identity", BODY),
        ("gzip", gzipped(BODY)),
        ("GZIP", gzipped(BODY)),
        ("x-gzip", gzipped(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", bare(BODY)),
        ("identity, gzip, ", gzipped(BODY)),
        ("gzip", gzipped(BODY[:5]) + gzipped(BODY[5:])),
        ("gzip", gzipped(b"") * 62 + gzipped(BODY[:5]) + gzipped(BODY[5:])),
    ],
)
def test_a_body_is_read_as_it_was_before_it_was_packed(encoding, packed):
    assert unpacked(packed, encoding, 1000) == BODY


@every_row(
    ("encoding", "packed", "error"),
    [
        ("br", BODY, UnknownEncoding),
        ("zstd", BODY, UnknownEncoding),
        ("gzip, gzip", gzipped(gzipped(BODY)), UnknownEncoding),
        ("deflate, gzip", gzipped(zlib.compress(BODY)), UnknownEncoding),
        ("gzip" + ", gzip" * 5000, BODY, UnknownEncoding),
        ("gzip", gzipped(BODY) + b"more", MalformedRequest),
        ("gzip", gzipped(BODY) * 2 + b"more", MalformedRequest),
        ("gzip", gzipped(BODY) + gzipped(BODY)[:-5], MalformedRequest),
        ("gzip", gzipped(BODY) + b"\x1f\x8b\xff", MalformedRequest),
        ("gzip", gzipped(b"") * 65, MalformedRequest),
        ("gzip", gzipped(BODY) + gzipped(b" " * 1000), TooLarge),
        ("deflate", zlib.compress(BODY) * 2, MalformedRequest),
        ("gzip", BODY, MalformedRequest),
        ("gzip", gzipped(BODY)[:-12], MalformedRequest),
        ("gzip", gzipped(b" " * 10_000_000), TooLarge),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_the_senders_fault(encoding, packed, error):
    with pytest.raises(error):
        unpacked(packed, encoding, 1000)


@pytest.mark.parametrize(
    ("body", "status"),
    [(gzipped(BODY), 200), (BODY, 400), (gzipped(b" " * 5_000_000), 413)],
)
async def test_a_client_may_compress_its_request(body, status):
    headers = {"content-encoding": "gzip"}
    async with (
        gateway(Config(log="off", max_body=1_000_000)) as (url, _),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/messages", data=body, headers=headers) as answer,
    ):
        assert answer.status == status
        assert answer.content_type == "application/json"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "gzip, identity, deflate"])
@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/chat/completions", "/api/chat", "/v1/stream"]
)
async def test_an_encoding_that_is_not_read_is_415_and_says_which_are(path, encoding):
    headers = {"content-encoding": encoding}
    async with (
        gateway() as (url, _),
        aiohttp.ClientSession() as session,
        session.post(f"{url}{path}", data=gzipped(BODY), headers=headers) as answer,
    ):
        assert answer.status == 415
        assert answer.headers["accept-encoding"] == "gzip, deflate"
        assert "gzip" in json.dumps(await answer.json())


async def test_a_bomb_is_not_unpacked():
    """A gigabyte of zeros in a megabyte: the limit holds while unpacking, not after it."""
    packer = zlib.compressobj(9, wbits=31)
    first, other = (
        packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    bomb = first + other * 1023  # a full flush makes the blocks independent of one another
    assert len(bomb) < 1_100_000
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            unpacked(bomb, "gzip", 4_000_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
