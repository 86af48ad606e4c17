"""HTTP/1.1 and HTTP/1.0 over a socket: framing of requests and replies, byte by byte."""

import asyncio
import json

import pytest
from tests.peers import bridged, gateway
from tests.raw_http import Answer, answers, connect, exchange, only, read_all

BODY = json.dumps(
    {"model": "demo", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}
).encode()
STREAMED = BODY.replace(b'"max_tokens"', b'"stream": true, "max_tokens"')


def post(body: bytes = BODY, *lines: bytes, version: bytes = b"1.1", path: bytes = b"/v1/messages"):
    head = [b"POST %b HTTP/%b" % (path, version), b"Host: 127.0.0.1", *lines]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", body])


def get(path: bytes, *lines: bytes, version: bytes = b"1.1", method: bytes = b"GET") -> bytes:
    head = [b"%b %b HTTP/%b" % (method, path, version), b"Host: 127.0.0.1", *lines]
    return b"\r\n".join([*head, b"", b""])


def chunked(body: bytes, size: int, *, trailers: bytes = b"", extension: bytes = b"") -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    framed = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces]
    head = b"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: Chunked\r\n\r\n"
    return head + b"".join(framed) + b"0\r\n" + trailers + b"\r\n"


CLOSE = b"Connection: close"


# ── requests ─────────────────────────────────────────────────────────────────


async def test_pipelined_requests_are_answered_in_order():
    data = (
        get(b"/health") + post() + get(b"/nowhere") + chunked(BODY, 7) + get(b"/v1/models", CLOSE)
    )
    async with gateway() as (url, _):
        found = answers(await exchange(url, data))
    assert [answer.status for answer in found] == [200, 200, 404, 200, 200]
    assert all(answer.whole for answer in found)
    assert found[0].json["status"] == "ok"
    assert found[1].json["type"] == found[3].json["type"] == "message"
    assert "data" in found[4].json


async def test_a_long_answer_comes_whole_before_the_next_one():
    async with gateway() as (url, _):
        streamed, after = answers(await exchange(url, post(STREAMED) + get(b"/health", CLOSE)))
    assert b"message_stop" in streamed.body
    assert after.json["status"] == "ok"


def shown(answer: Answer) -> tuple:
    body = answer.json
    return answer.status, answer.whole, body.get("type"), body.get("content"), body.get("status")


@pytest.mark.parametrize("step", [1, 2, 3, 5, 16, 61])
async def test_every_cut_of_pipelined_requests_gives_the_same_answers(step):
    data = (
        chunked(BODY, 11, trailers=b"a: b\r\n", extension=b";x=y") + post() + get(b"/health", CLOSE)
    )
    async with gateway() as (url, _):
        whole = [shown(answer) for answer in answers(await exchange(url, data))]
        assert [status for status, *_ in whole] == [200, 200, 200]
        reader, writer = await connect(url)
        for at in range(0, len(data), step):
            writer.write(data[at : at + step])
            await asyncio.sleep(0)
        cut = [shown(answer) for answer in answers(await read_all(reader))]
        writer.close()
    assert cut == whole


async def test_every_single_cut_of_a_request_gives_the_same_answer():
    data = chunked(b'{"x": 1}', 3, trailers=b"a: b\r\n") + get(b"/health", CLOSE)
    async with gateway() as (url, _):
        whole = [shown(answer) for answer in answers(await exchange(url, data))]
        assert [status for status, *_ in whole] == [400, 200]
        for at in range(1, len(data)):
            found = answers(await exchange(url, data[:at], data[at:]))
            assert [shown(answer) for answer in found] == whole, data[:at]


async def test_a_client_that_expects_a_continue_gets_one_before_its_body():
    async with gateway() as (url, _):
        reader, writer = await connect(url)
        data = post(BODY, b"Expect: 100-continue", CLOSE)
        writer.write(data.removesuffix(BODY))
        assert await reader.readexactly(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(BODY)
        assert only(await read_all(reader)).status == 200
        writer.close()


async def test_a_client_that_expects_a_continue_is_refused_before_it_sends_its_body():
    async with gateway() as (url, _):
        reader, writer = await connect(url)
        writer.write(post(BODY, b"Expect: 100-continue", path=b"/nowhere").removesuffix(BODY))
        reply = only(await read_all(reader))
        writer.close()
    assert reply.status == 404
    # Whether the body follows is the client's choice, so the next request cannot be found.
    assert reply.headers["connection"] == "close"


async def test_a_short_body_that_nobody_asked_for_is_skipped():
    async with gateway() as (url, _):
        data = post(BODY, path=b"/nowhere") + get(b"/health", CLOSE)
        found = answers(await exchange(url, data, pause=0.01))
    assert [answer.status for answer in found] == [404, 200]


async def test_a_long_body_that_nobody_asked_for_does_not_hide_the_answer():
    async with gateway() as (url, _):
        reader, writer = await connect(url)
        writer.write(post(b"x" * 3_000_000, path=b"/nowhere"))
        await writer.drain()  # a client that writes all before it reads anything
        reply = only(await read_all(reader))
        writer.close()
    assert (reply.status, reply.headers["connection"]) == (404, "close")


async def test_empty_lines_before_a_request_are_ignored():
    async with gateway() as (url, _):
        data = b"\r\n" * 5000 + get(b"/health") + b"\r\n\r\n" + get(b"/health", CLOSE)
        found = answers(await exchange(url, data))
    assert [answer.status for answer in found] == [200, 200]


async def test_a_target_may_be_a_whole_url():
    async with gateway() as (url, _):
        assert only(await exchange(url, get(b"http://127.0.0.1/health", CLOSE))).status == 200
        assert only(await exchange(url, get(b"http://127.0.0.1", CLOSE))).status == 200
        rebound = b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: evil.example\r\n"
        reply = only(await exchange(url, rebound + b"Connection: close\r\n\r\n"))
        assert reply.status == 403


async def test_a_server_may_be_asked_for_its_options():
    async with gateway() as (url, _):
        assert only(await exchange(url, get(b"*", CLOSE, method=b"OPTIONS"))).status == 200


async def test_an_upgrade_to_what_is_not_a_websocket_is_ignored_and_the_body_is_read():
    """Java's HTTP client offers h2c with every request to a plain port."""
    upgrade = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAA")
    async with gateway() as (url, _):
        found = answers(await exchange(url, post(BODY, *upgrade) + get(b"/health", CLOSE)))
    assert [answer.status for answer in found] == [200, 200]


async def test_a_websocket_at_another_path_is_an_error_in_json():
    upgrade = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13")
    async with gateway() as (url, _):
        data = get(b"/v1/elsewhere", *upgrade) + get(b"/health", CLOSE)
        refused, after = answers(await exchange(url, data))
    assert (refused.status, refused.json["type"], after.status) == (404, "error", 200)


async def test_the_values_of_a_field_that_comes_twice_are_joined():
    data = post(BODY, b"Content-Encoding: gzip", b"content-encoding: gzip", CLOSE)
    async with gateway() as (url, _):
        assert only(await exchange(url, data)).status == 415


# ── replies ──────────────────────────────────────────────────────────────────


async def test_a_reply_to_head_has_no_body_and_the_connection_goes_on():
    async with gateway() as (url, _):
        data = get(b"/health", method=b"HEAD") + get(b"/nowhere", CLOSE, method=b"HEAD")
        found = answers(await exchange(url, data), head=True)
    assert [answer.status for answer in found] == [200, 404]
    assert int(found[0].headers["content-length"]) > 0


async def test_http_1_0_gets_no_chunks_and_the_close_ends_the_stream():
    async with gateway() as (url, _):
        data = post(STREAMED, b"Connection: keep-alive", version=b"1.0")
        reply = only(await exchange(url, data))
    assert reply.status == 200
    assert "transfer-encoding" not in reply.headers
    assert reply.headers["connection"] == "close"
    assert reply.body.startswith(b"event: message_start\n")
    assert reply.body.endswith(b'data: {"type":"message_stop"}\n\n')


async def test_http_1_0_closes_unless_it_asks_to_be_kept_alive():
    async with gateway() as (url, _):
        closed = only(await exchange(url, post(version=b"1.0") + get(b"/health")))
        assert (closed.status, closed.headers["connection"]) == (200, "close")
        kept = post(BODY, b"Connection: Keep-Alive", version=b"1.0") + get(
            b"/health", version=b"1.0"
        )
        first, second = answers(await exchange(url, kept))
        assert (first.headers["connection"], second.headers["connection"]) == (
            "keep-alive",
            "close",
        )
        assert b"transfer-encoding" not in kept
        no_host = only(await exchange(url, b"GET /health HTTP/1.0\r\n\r\n"))
        assert no_host.status == 200


async def test_a_connection_stays_open_unless_the_client_wants_it_closed():
    async with gateway() as (url, _):
        first, second = answers(await exchange(url, post() + post(STREAMED, CLOSE) + post()))
    assert "connection" not in first.headers
    assert second.headers["connection"] == "close"


async def test_the_head_of_a_stream_leaves_with_its_first_piece():
    asked = asyncio.Event()

    async def chat(_, line):
        await line.head()
        await line.send('{"model":"tiny","message":{"role":"assistant","content":"Hi"}}\n')
        await asked.wait()

    async with bridged(chat) as (url, *_):
        reader, writer = await connect(url)
        writer.write(post(STREAMED.replace(b'"demo"', b'"tiny"')))
        first = await reader.read(65536)
        asked.set()
        writer.close()
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"event: message_start" in first


async def test_a_stream_that_fails_has_no_last_chunk():
    async def chat(_, line):
        await line.head()
        await line.send('{"model":"tiny","message":{"role":"assistant","content":"Hi"}}\n')
        line.cut()

    async with bridged(chat) as (url, *_):
        reply = only(await exchange(url, post(STREAMED.replace(b'"demo"', b'"tiny"'))))
    assert reply.status == 200
    assert b"event: error" in reply.body
    assert not reply.whole
