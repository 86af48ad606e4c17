"""What a stranger can take from the server before showing a key: time, connections, requests."""

import asyncio
import functools
import gc
import json
import socket
import sys
import time
from contextlib import AsyncExitStack

import pytest
from tests.peers import bridged, gateway
from tests.raw_http import answers, connect, error_text, exchange, only, read_all
from tests.waiting import HANG

from toolbridge.config import Config, HttpConfig
from toolbridge.server import http_protocol
from toolbridge.server.http import LONG
from toolbridge.server.http_protocol import SPARE, HttpConnection
from toolbridge.server.http_server import connections_for

BODY = json.dumps(
    {"model": "demo", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}
).encode()
HEAD = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


def limited(**limits) -> Config:
    return Config(log="off", http=HttpConfig(**limits))


# ── time ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dribbles", [False, True])
async def test_a_head_that_does_not_end_is_refused_in_time(dribbles):
    async with gateway(limited(head_timeout=0.2)) as (url, _):
        reader, writer = await connect(url)
        writer.write(HEAD)
        reading = asyncio.create_task(read_all(reader))
        while dribbles and not reading.done():
            writer.write(b"a: b\r\n")  # a byte now and then does not buy more time
            await asyncio.sleep(0.02)
        reply = only(await reading)
        writer.close()
        assert reply.status == 408
        assert "head" in error_text(reply)
        assert only(await exchange(url, HEALTH)).status == 200


async def test_a_connection_that_sends_nothing_is_closed_without_a_word():
    async with gateway(limited(head_timeout=0.1)) as (url, _):
        assert await exchange(url, wait=30) == b""


async def test_a_connection_that_was_used_may_idle_for_longer():
    async with gateway(limited(head_timeout=0.8, idle_timeout=60)) as (url, _):
        reader, writer = await connect(url)
        writer.write(HEALTH.replace(b"connection: close\r\n", b""))
        await asyncio.sleep(1)
        writer.write(HEALTH)
        found = answers(await read_all(reader))
        writer.close()
    assert [answer.status for answer in found] == [200, 200]


async def test_a_connection_that_was_used_may_not_idle_for_ever():
    async with gateway(limited(idle_timeout=0.2)) as (url, _):
        started = time.monotonic()
        found = answers(await exchange(url, HEALTH.replace(b"connection: close\r\n", b"")))
    assert [answer.status for answer in found] == [200]
    assert time.monotonic() - started >= 0.2


@pytest.mark.parametrize("framing", [b"content-length: 100", b"transfer-encoding: chunked"])
async def test_a_body_that_stops_coming_is_refused_in_time(framing):
    async with gateway(limited(body_timeout=0.2)) as (url, app):
        data = HEAD + framing + b"\r\n\r\n" + b"5\r\n{"
        reply = only(await exchange(url, data, wait=30))
        assert reply.status == 408
        assert reply.json["error"]["type"] == "invalid_request_error"
        assert "body" in error_text(reply)
        assert reply.headers["connection"] == "close"
        assert not app.in_flight
        assert only(await exchange(url, HEALTH)).status == 200


async def test_a_body_that_goes_on_coming_is_waited_for():
    async with gateway(limited(body_timeout=2)) as (url, _):
        reader, writer = await connect(url)
        writer.write(HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(BODY))
        for at in range(0, len(BODY), 8):
            writer.write(BODY[at : at + 8])
            await asyncio.sleep(0.2)  # less than the limit; all together, more
        assert only(await read_all(reader)).status == 200
        writer.close()


async def test_a_body_that_comes_byte_by_byte_does_not_go_on_for_ever():
    async with gateway(limited(body_timeout=0.1)) as (url, _):
        reader, writer = await connect(url)
        writer.write(HEAD + b"content-length: 100000\r\n\r\n")
        reading = asyncio.create_task(read_all(reader))
        while not reading.done():
            writer.write(b" ")
            await asyncio.sleep(0.03)
        assert only(await reading).status == 408
        writer.close()


# ── connections ──────────────────────────────────────────────────────────────


async def test_a_connection_beyond_the_limit_is_told_so_and_closed():
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(gateway(limited(max_connections=20)))
        idle = [await connect(url) for _ in range(20)]
        for path in (b"/health", *BUSY):
            reply = only(await exchange(url, HEALTH.replace(b"/health", path)))
            assert (reply.status, reply.headers["connection"]) == (503, "close")
            assert reply.headers["retry-after"] == "1"
            assert "20" in error_text(reply)
        idle.pop()[1].close()
        async with asyncio.timeout(20):
            while only(await exchange(url, HEALTH)).status != 200:
                pass
        for _, writer in idle:
            writer.close()


async def test_two_hundred_connections_against_a_small_limit_leave_the_server_well():
    async with gateway(limited(max_connections=20, head_timeout=3.0)) as (url, _):
        lines = [await connect(url) for _ in range(200)]
        ended = await asyncio.gather(*(read_all(reader, 20) for reader, _ in lines))
        for _, writer in lines:
            writer.close()
        refused = [only(data) for data in ended if data]
        assert len(refused) >= SPARE
        assert {reply.status for reply in refused} == {503}
        # The server sees the closed connections one after the other; until then it refuses.
        async with asyncio.timeout(HANG):
            while [reply.status for reply in answers(await exchange(url, HEALTH))] != [200]:
                pass


def test_connections_fit_the_file_descriptors_that_there_are():
    http = HttpConfig()
    assert connections_for(65536, http) == http.max_connections
    assert connections_for(1024, http) == (1024 - 128) // 2
    assert connections_for(4096, http) == 4096 - 128 - http.max_requests
    assert connections_for(10, http) > 0


# ── requests ─────────────────────────────────────────────────────────────────


BUSY = {
    b"/v1/messages": lambda error: error["type"] == "rate_limit_error",
    b"/v1/chat/completions": lambda error: error["code"] == "rate_limit_exceeded",
    b"/v1/responses": lambda error: error["code"] == "rate_limit_exceeded",
    b"/v1beta/models/m:generateContent": lambda error: error["status"] == "RESOURCE_EXHAUSTED",
    b"/api/chat": lambda error: isinstance(error, str),
    b"/v1/stream": lambda error: error["code"] == "too_many_runs",
}


async def test_requests_beyond_the_limit_are_refused_in_the_clients_own_envelope():
    release = asyncio.Event()

    async def chat(_, line):
        await release.wait()
        await line.head()
        await line.send(
            '{"model":"tiny","message":{"role":"assistant","content":"Hi"},"done":true}\n'
        )
        await line.end()

    body = BODY.replace(b"demo", b"tiny")
    data = HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    async with bridged(chat, http=HttpConfig(max_requests=3)) as (url, _, app):
        held = [asyncio.create_task(exchange(url, data)) for _ in range(3)]
        while len(app.in_flight) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        for path, kind in BUSY.items():
            refused = only(await exchange(url, data.replace(b"/v1/messages", path)))
            assert (refused.status, refused.headers["retry-after"]) == (429, "1"), path
            assert "http.max_requests" in error_text(refused)
            assert kind(refused.json["error"]), refused.json
        for path in (b"/health", b"/metrics"):
            assert only(await exchange(url, HEALTH.replace(b"/health", path))).status == 200
        release.set()
        assert [only(await task).status for task in held] == [200] * 3
        assert only(await exchange(url, data)).status == 200


async def test_a_stranger_takes_no_room():
    config = Config(log="off", key="s3cret", http=HttpConfig(max_requests=1))
    async with gateway(config) as (url, app):
        lines = [await connect(url) for _ in range(5)]
        for _, writer in lines:
            writer.write(HEAD + b"content-length: 100\r\n\r\n{")  # and no body
        await asyncio.sleep(0.05)
        assert not app.in_flight
        keyed = HEALTH.replace(b"/health", b"/v1/models").replace(
            b"host:", b"x-api-key: s3cret\r\nhost:"
        )
        assert only(await exchange(url, keyed)).status == 200
        for _, writer in lines:
            writer.close()


async def test_a_stranger_that_does_not_read_its_answers_is_let_go_and_takes_no_room():
    config = Config(log="off", key="s3cret", http=HttpConfig(max_requests=1, body_timeout=0.3))
    async with gateway(config) as (url, app):
        _, writer = await connect(url)
        writer.transport.pause_reading()
        request = b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
        lost = False
        async with asyncio.timeout(90):
            while not lost:
                writer.write(request * 500)
                try:
                    await writer.drain()
                except ConnectionError:
                    lost = True
                assert not app.in_flight
        keyed = HEALTH.replace(b"/health", b"/v1/models").replace(
            b"host:", b"x-api-key: s3cret\r\nhost:"
        )
        assert only(await exchange(url, keyed)).status == 200
        writer.close()


async def test_a_client_that_writes_all_its_requests_before_it_reads_gets_all_answers():
    request = b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    async with gateway() as (url, _):
        reader, writer = await connect(url)
        writer.transport.pause_reading()
        writer.write(request * 3000 + HEALTH)
        await asyncio.sleep(0.5)
        writer.transport.resume_reading()
        found = answers(await read_all(reader, 30))
        writer.close()
    assert len(found) == 3001
    assert {(answer.status, answer.whole) for answer in found} == {(200, True)}


async def test_no_cache_grows_with_what_strangers_send():
    """Host, Origin, path and key are a caller's own words."""

    def sizes() -> dict[int, int]:
        kind = functools._lru_cache_wrapper
        return {id(o): o.cache_info().currsize for o in gc.get_objects() if type(o) is kind}

    async def ask(url: str, n: int) -> int:
        lines = [b"host: h%d.example" % n, b"origin: http://o%d.example" % n, b"x-api-key: k%d" % n]
        head = b"\r\n".join([b"GET /v1/models?p=%d HTTP/1.1" % n, *lines, b"connection: close"])
        return only(await exchange(url, head + b"\r\n\r\n")).status

    for config, status in ((Config(log="off"), 403), (Config(log="off", key="s3cret"), 403)):
        async with gateway(config) as (url, _):
            assert await ask(url, 0) == status
            before = sizes()
            for n in range(1, 30):
                assert await ask(url, n) == status
            grown = {key: size for key, size in sizes().items() if size > before.get(key, 0) + 5}
            assert not grown


# ── departures and slow readers ──────────────────────────────────────────────


async def test_a_client_that_leaves_a_silent_stream_is_noticed():
    left = asyncio.Event()

    async def chat(_, line):
        await line.head()
        await line.send('{"model":"tiny","message":{"role":"assistant","content":"Hi"}}\n')
        await line.gone()
        left.set()

    body = BODY.replace(b"demo", b"tiny").replace(b'"max_tokens"', b'"stream": true, "max_tokens"')
    async with bridged(chat) as (url, _, app):
        reader, writer = await connect(url)
        writer.write(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        await reader.readuntil(b"Hi")
        writer.close()
        async with asyncio.timeout(20):
            await left.wait()
            while app.in_flight:  # noqa: ASYNC110
                await asyncio.sleep(0.005)


async def test_a_client_that_does_not_read_holds_up_the_model_and_not_the_memory():
    written = 0
    line_text = json.dumps(
        {"model": "tiny", "message": {"role": "assistant", "content": "x" * 4000}}
    )

    async def chat(_, line):
        nonlocal written
        await line.head()
        while True:
            await line.send(line_text + "\n")
            written += len(line_text)

    body = BODY.replace(b"demo", b"tiny").replace(b'"max_tokens"', b'"stream": true, "max_tokens"')
    async with bridged(chat) as (url, _, app):
        _, writer = await connect(url)
        writer.transport.pause_reading()
        writer.write(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        before = -1
        while written != before or not written:
            before = written
            await asyncio.sleep(0.2)
        assert written < 40_000_000
        writer.transport.abort()
        async with asyncio.timeout(20):
            while app.in_flight:  # noqa: ASYNC110
                await asyncio.sleep(0.005)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other sizes")
async def test_the_system_takes_little_of_a_long_stream_before_it_is_read():
    said = {"model": "tiny", "message": {"role": "assistant", "content": "x" * 10_000}}
    longer = asyncio.Event()

    async def chat(_, line):
        await line.head()
        await line.send(json.dumps(said) + "\n")
        await longer.wait()
        for _ in range(LONG // 10_000 + 1):
            await line.send(json.dumps(said) + "\n")
        await line.gone()

    body = BODY.replace(b"demo", b"tiny").replace(b'"max_tokens"', b'"stream": true, "max_tokens"')
    async with bridged(chat) as (url, _, _):
        reader, writer = await connect(url)
        writer.write(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        await reader.readuntil(b"xxx")
        # `isinstance` would ask the object behind a weak proxy, which may be gone.
        known = [one for one in gc.get_objects() if type(one) is HttpConnection]
        # Those of other tests may not have been collected yet.
        open_ones = [one._transport for one in known if not one._closing]
        own = writer.get_extra_info("sockname")
        (transport,) = [one for one in open_ones if one.get_extra_info("peername") == own]
        found = transport.get_extra_info("socket")
        # Linux doubles what is asked for, for its own structures: socket(7).
        bound = 2 * http_protocol.UNREAD
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) != bound
        longer.set()
        async with asyncio.timeout(HANG):
            while found.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) != bound:
                await reader.read(65536)
        writer.close()


@pytest.mark.parametrize("reads", [True, False])
async def test_a_long_answer_is_given_time_for_as_long_as_the_client_reads_it(reads):
    """The last bytes of a closing connection wait in the server until the client takes them."""
    text = "x" * 8_000_000

    async def chat(_, line):
        await line.head()
        said = {"model": "tiny", "message": {"role": "assistant", "content": text}, "done": True}
        await line.send(json.dumps(said) + "\n")
        await line.end()

    body = BODY.replace(b"demo", b"tiny")
    data = HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    async with bridged(chat, http=HttpConfig(body_timeout=4 if reads else 1.5)) as (url, _, app):
        reader, writer = await connect(url)
        writer.write(data)
        found = await reader.readuntil(b"\r\n\r\n")
        while reads and (piece := await reader.read(200_000)):
            found += piece
            await asyncio.sleep(0.12)  # all together, longer than the limit
        if not reads:
            await asyncio.sleep(4)
        found += await read_all(reader)
        writer.close()
        assert only(found).whole is reads
        assert not app.in_flight
