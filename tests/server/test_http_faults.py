"""HTTP that is not valid: each fault is a JSON error and a close, and the server goes on.

What proxies and servers read differently is how requests are smuggled (RFC 9112, section 11.2), so
nothing ambiguous is guessed at.
"""

import asyncio
import json

import pytest
from tests.peers import gateway
from tests.raw_http import answers, connect, error_text, exchange, only

MESSAGE = json.dumps(
    {"model": "demo", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}
).encode()
HOST = b"host: 127.0.0.1\r\n"
GOOD = (
    b"POST /v1/messages HTTP/1.1\r\n" + HOST + b"content-length: %d\r\n\r\n" % len(MESSAGE)
) + MESSAGE


def get(*lines: bytes, target: bytes = b"/v1/messages", version: bytes = b"HTTP/1.1") -> bytes:
    return b"\r\n".join([b"GET %b %b" % (target, version), *lines, b"", b""])


def post(*lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"POST /v1/messages HTTP/1.1", b"host: 127.0.0.1", *lines, b"", body])


CHUNKED = b"transfer-encoding: chunked"
FAULTS: dict[str, tuple[bytes, int, str]] = {
    "no version": (b"GET /\r\n", 505, "HTTP/1.1"),
    "HTTP/0.9": (b"GET /v1/messages HTTP/0.9\r\n\r\n", 505, "HTTP/1.1"),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1"),
    "HTTP/3": (get(b"host: x", version=b"HTTP/3.0"), 505, "HTTP/1.1"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x9c" * 40, 400, "TLS"),
    "noise": (b"\x00\xff\x00\xff\x80", 400, "request line"),
    "words": (b"hello there, how are you?\r\n\r\n", 400, "request line"),
    "a bare line feed": (b"GET / HTTP/1.1\nhost: x\n\n", 400, "line feed"),
    "a bare line feed in a field": (b"GET / HTTP/1.1\r\nhost: x\na: b\r\n\r\n", 400, "line feed"),
    "a bare carriage return": (get(b"host: 127.0.0.1", b"a: b\rc: d"), 400, "a"),
    "a folded field": (get(b"host: 127.0.0.1", b"a: b", b"  c"), 400, "folded"),
    "a NUL in a field": (get(b"host: 127.0.0.1", b"a: b\x00c"), 400, "a"),
    "a control in a field": (get(b"host: 127.0.0.1", b"a: b\x0bc"), 400, "a"),
    "a space before the colon": (get(b"host: 127.0.0.1", b"a : b"), 400, "a"),
    "a field without a colon": (get(b"host: 127.0.0.1", b"abc"), 400, "abc"),
    "a field without a name": (get(b"host: 127.0.0.1", b": b"), 400, ":"),
    "no host": (get(), 400, "Host"),
    "two hosts": (get(b"host: 127.0.0.1", b"host: 127.0.0.1"), 400, "Host"),
    "a host with a path": (get(b"host: 127.0.0.1/x"), 400, "Host"),
    "a host that is too long": (get(b"host: " + b"a" * 300), 431, "Host"),
    "an origin that is too long": (
        get(b"host: 127.0.0.1", b"origin: http://" + b"a" * 2000), 431, "Origin",
    ),
    "another host in the target": (
        get(b"host: 127.0.0.1", target=b"http://example.org/v1/messages"), 400, "Host",
    ),
    "a target that is no path": (get(b"host: 127.0.0.1", target=b"v1/messages"), 400, "target"),
    "a target in another scheme": (
        get(b"host: 127.0.0.1", target=b"ftp://127.0.0.1/v1/messages"), 400, "target",
    ),
    "a tunnel": (b"CONNECT 127.0.0.1:443 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 501, "CONNECT"),
    "a target with a fragment": (get(b"host: 127.0.0.1", target=b"/v1/messages#x"), 400, "target"),
    "a target beyond ASCII": (get(b"host: 127.0.0.1", target=b"/\xc3\xbc"), 400, "request line"),
    "a target that is too long": (get(b"host: 127.0.0.1", target=b"/" + b"a" * 9000), 414, "8192"),
    "a target without an end": (b"GET /" + b"a" * 9000, 414, "8192"),
    "too many fields": (get(b"host: 127.0.0.1", *[b"a: b"] * 100), 431, "100"),
    "a head that is too long": (get(b"host: 127.0.0.1", b"a: " + b"b" * 33000), 431, "32768"),
    "a head without an end": (b"GET / HTTP/1.1\r\na: " + b"b" * 40000, 431, "32768"),
    "a name without an end": (b"GET / HTTP/1.1\r\n" + b"b" * 40000, 431, "32768"),
    "length and chunks": (post(CHUNKED, b"content-length: 5", body=b"0\r\n\r\n"), 400, "both"),
    "two lengths": (post(b"content-length: 5", b"content-length: 6"), 400, "Content-Length"),
    "the same length twice": (post(b"content-length: 5", b"content-length: 5"), 400, "Content-Length"),
    "a list of lengths": (post(b"content-length: 5, 5"), 400, "Content-Length"),
    "a length with a sign": (post(b"content-length: +5"), 400, "Content-Length"),
    "a length in words": (post(b"content-length: five"), 400, "Content-Length"),
    "a length below zero": (post(b"content-length: -5"), 400, "Content-Length"),
    "an empty length": (post(b"content-length:"), 400, "Content-Length"),
    "a length beyond all limits": (post(b"content-length: " + b"9" * 9000), 413, "limit"),
    "a length beyond our limit": (post(b"content-length: 99999999999"), 413, "limit"),
    "another coding": (post(b"transfer-encoding: gzip, chunked"), 501, "chunked"),
    "chunks twice": (post(CHUNKED, CHUNKED), 501, "chunked"),
    "chunks under another name": (post(b"transfer-encoding: xchunked"), 501, "chunked"),
    "chunks in HTTP/1.0": (
        b"POST /v1/messages HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400, "HTTP/1.0",
    ),
    "a chunk without a size": (post(CHUNKED, body=b"\r\nabc\r\n0\r\n\r\n"), 400, "chunk"),
    "a chunk of a wrong size": (post(CHUNKED, body=b"zz\r\nabc\r\n0\r\n\r\n"), 400, "chunk"),
    "a chunk size with a prefix": (post(CHUNKED, body=b"0x3\r\nabc\r\n0\r\n\r\n"), 400, "chunk"),
    "a chunk size with a sign": (post(CHUNKED, body=b"-3\r\nabc\r\n0\r\n\r\n"), 400, "chunk"),
    "a chunk size without an end": (post(CHUNKED, body=b"3;" + b"x" * 5000), 400, "chunk"),
    "a chunk that is too long": (post(CHUNKED, body=b"3\r\nabcdef\r\n0\r\n\r\n"), 400, "chunk"),
    "a chunk with a bare line feed": (post(CHUNKED, body=b"3\nabc\n0\n\n"), 400, "chunk"),
    "trailers without an end": (post(CHUNKED, body=b"0\r\n" + b"a: b\r\n" * 9000), 431, "trailer"),
    "trailers that are none": (post(CHUNKED, body=b"0\r\nabc\r\n\r\n"), 400, "trailer"),
    "an expectation": (post(b"expect: the-best", b"content-length: 2", body=b"{}"), 417, "expect"),
    "a method that is no word": (b"G@T / HTTP/1.1\r\nhost: x\r\n\r\n", 400, "request line"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
async def test_a_fault_of_framing_is_a_json_error_and_the_server_goes_on(case):
    data, status, words = FAULTS[case]
    async with gateway() as (url, app):
        reply = only(await exchange(url, data, wait=20))
        assert (reply.status, reply.whole) == (status, True), reply
        assert words.lower() in error_text(reply).lower(), reply
        assert reply.headers["connection"] == "close"
        again = answers(await exchange(url, GOOD.replace(HOST, HOST + b"connection: close\r\n")))
        assert [answer.status for answer in again] == [200]
        assert not app.in_flight


async def test_a_fault_after_a_good_request_does_not_touch_its_answer():
    async with gateway() as (url, _):
        good, bad = answers(await exchange(url, GOOD + b"nonsense\r\n\r\n" + GOOD))
    assert (good.status, bad.status) == (200, 400)
    assert bad.headers["connection"] == "close"  # what follows is not served


ENVELOPES = {
    "/v1/messages": lambda e: e["type"] == "error" and e["error"]["type"] == "invalid_request_error",
    "/v1/chat/completions": lambda e: e["error"]["type"] == "invalid_request_error" and "param" in e["error"],
    "/v1/responses": lambda e: e["error"]["type"] == "invalid_request_error" and "code" in e["error"],
    "/v1beta/models/m:generateContent": lambda e: e["error"]["status"] == "INVALID_ARGUMENT",
    "/api/chat": lambda e: isinstance(e["error"], str),
    "/v1/stream": lambda e: e["error"]["code"] == "bad_http",
    "/nowhere": lambda e: e["type"] == "error",
}  # fmt: skip


@pytest.mark.parametrize("path", ENVELOPES)
@pytest.mark.parametrize("size", [8150, 9000, 60_000])
@pytest.mark.parametrize("ends", [True, False])
async def test_a_target_that_is_too_long_has_the_envelope_of_its_api(path, size, ends):
    async with gateway() as (url, _):
        target = path.encode() + b"?" + b"a" * (size + 100)
        data = b"POST %b" % target + (b" HTTP/1.1\r\n%b\r\n" % HOST if ends else b"")
        reply = only(await exchange(url, data, wait=20))
    assert reply.status == 414
    assert ENVELOPES[path](reply.json), reply.json


@pytest.mark.parametrize("path", ENVELOPES)
@pytest.mark.parametrize(
    "rest", [b"a : b\r\n\r\n", b"content-length: x\r\n\r\n", b"a: " + b"b" * 40000]
)
async def test_a_fault_has_the_envelope_of_the_api_at_its_path(path, rest):
    async with gateway() as (url, _):
        data = b"POST %b HTTP/1.1\r\n%b%b" % (path.encode(), HOST, rest)
        reply = only(await exchange(url, data, wait=20))
    assert ENVELOPES[path](reply.json), reply.json


async def test_bytes_that_come_one_by_one_are_refused_as_soon_as_they_are_wrong():
    async with gateway() as (url, _):
        reader, writer = await connect(url)
        for byte in b"GET / HTTP/9.9\r\n":
            writer.write(bytes([byte]))
            await writer.drain()
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 505")
        writer.close()
