"""Request bodies that come compressed."""

import gzip
import json
import zlib

import aiohttp
import pytest
from tests.peers import gateway

from toolbridge.config import Config
from toolbridge.core.errors import MalformedRequest, TooLarge, Unsupported
from toolbridge.server.encodings import unpacked

BODY = json.dumps(
    {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
).encode()


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("", BODY),
        ("identity", BODY),
        ("gzip", gzip.compress(BODY)),
        ("GZIP", gzip.compress(BODY)),
        ("x-gzip", gzip.compress(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", bare(BODY)),
        ("deflate, gzip", gzip.compress(zlib.compress(BODY))),
    ],
)
def test_a_body_is_read_as_it_was_before_it_was_packed(encoding, packed):
    assert unpacked(packed, encoding, 1000) == BODY


@pytest.mark.parametrize(
    ("encoding", "packed", "error"),
    [
        ("br", BODY, Unsupported),
        ("gzip", BODY, MalformedRequest),
        ("gzip", gzip.compress(BODY)[:-12], MalformedRequest),
        ("gzip", gzip.compress(b" " * 10_000_000), TooLarge),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_the_senders_fault(encoding, packed, error):
    with pytest.raises(error):
        unpacked(packed, encoding, 1000)


@pytest.mark.parametrize(
    ("body", "status"),
    [(gzip.compress(BODY), 200), (BODY, 400), (gzip.compress(b" " * 5_000_000), 413)],
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
