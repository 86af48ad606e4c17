"""Responses of providers as bytes on a real socket: any cut, any framing, and every way to fail."""

import asyncio
import gc
import gzip
import socket
import ssl
import struct
import zlib
from contextlib import asynccontextmanager, suppress

import pytest
from tests.certificates import Authority
from tests.tables import every_row
from tests.waiting import until

from toolbridge.core.errors import BrokenWire, TimedOut, Truncated, Unreachable
from toolbridge.upstream import body_inflater, http_connection, http_pool
from toolbridge.upstream.http import Upstream

BODY = "häppy ".encode() * 50
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\nx-a: 2\r\n\r\n"


def sized(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunks(body: bytes, size: int = 7, trailer: bytes = b"") -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n" + trailer + b"\r\n"


class Provider:
    """Sends the same bytes for every request, in the given pieces; `later` when released."""

    def __init__(
        self, *pieces: bytes, close: bool = False, hold: bool = False, later: bytes = b""
    ) -> None:
        self.later = later
        self.pieces = pieces
        self.close = close
        self.hold = hold
        self.opened = 0
        self.seen: list[bytes] = []
        self.release = asyncio.Event()
        self.closed = asyncio.Event()
        self.asked = asyncio.Event()

    async def __call__(self, reader, writer) -> None:
        self.opened += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (int(line.split(b":")[1]) for line in head.split(b"\r\n")
                     if line.startswith(b"content-length")), 0)  # fmt: skip
                self.seen.append(head + await reader.readexactly(length))
                self.asked.set()
                for piece in self.pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.hold:
                    await self.release.wait()
                    writer.write(self.later)
                if self.close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.closed.set()
            writer.close()


@asynccontextmanager
async def listening(provider, tls=None, host="127.0.0.1"):
    serving = set()

    async def serve(reader, writer):
        serving.add(asyncio.current_task())
        await provider(reader, writer)
        await asyncio.wait_for(asyncio.gather(writer.wait_closed(), return_exceptions=True), 20)

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    try:
        scheme = "https" if tls else "http"
        yield f"{scheme}://localhost:{server.sockets[0].getsockname()[1]}/v1/x?a=%2F b"
    finally:
        if isinstance(provider, Provider):
            provider.release.set()
        server.close()
        if serving:
            await asyncio.wait(serving, timeout=30)


async def ask(upstream, url, method="POST", body=b"{}", **options):
    incoming = await upstream.ask(method, url, provider="there", body=body, **options)
    try:
        return incoming.status, await incoming.read_whole(), incoming.headers
    finally:
        await incoming.release()


async def answered(*pieces: bytes, times: int = 1, **options):
    provider = Provider(*pieces, **options)
    async with listening(provider) as url, Upstream() as upstream:
        return [await ask(upstream, url) for _ in range(times)], provider


PACKED = zlib.compressobj(wbits=-15)
RAW_DEFLATE = PACKED.compress(BODY) + PACKED.flush()
WHOLE = {
    "length": sized(BODY),
    "chunked": CHUNKED + chunks(BODY),
    "chunked with a trailer": CHUNKED + chunks(BODY, trailer=b"x-sum: 1\r\nx-a: 3\r\n"),
    "one informational response first": b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + sized(BODY),
    "two informational responses first": b"HTTP/1.1 100 Continue\r\n\r\n" * 2 + sized(BODY),
    "gzip": sized(gzip.compress(BODY, mtime=0), "Content-Encoding: gzip"),
    "gzip in two members": sized(
        gzip.compress(BODY[:9], mtime=0) + gzip.compress(BODY[9:], mtime=0),
        "content-encoding: x-gzip",
    ),
    "deflate": sized(zlib.compress(BODY), "content-encoding: deflate"),
    "deflate without its header": sized(RAW_DEFLATE, "content-encoding: deflate"),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_every_cut_of_the_bytes_gives_the_same_body(name):
    wire = WHOLE[name]
    for at in range(1, len(wire), max(1, len(wire) // 40)):
        found, _ = await answered(wire[:at], wire[at:])
        assert found[0][:2] == (200, BODY), at


async def test_a_connection_is_used_again_and_headers_may_repeat():
    found, provider = await answered(CHUNKED + chunks(BODY), times=5)
    assert [one[1] for one in found] == [BODY] * 5
    assert provider.opened == 1
    assert found[0][2].getall("X-a") == ["1", "2"]


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200 OK\r\n\r\n" + BODY,
        b"HTTP/1.0 200 OK\r\n\r\n" + BODY,
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + BODY,
    ],
)
async def test_a_body_without_a_length_ends_with_the_connection(wire):
    found, provider = await answered(wire, times=2, close=True)
    assert [one[1] for one in found] == [BODY] * 2
    assert provider.opened == 2


async def test_the_end_of_the_connection_wakes_the_reader_of_a_body_without_a_length():
    provider = Provider(b"HTTP/1.1 200 OK\r\n\r\nabc", close=True, hold=True)
    async with listening(provider) as url, Upstream() as upstream:
        incoming = await upstream.ask("POST", url, provider="there")
        assert await incoming.read() == b"abc"
        reading = asyncio.create_task(incoming.read())
        await asyncio.sleep(0)  # the reader waits before the provider closes
        provider.release.set()
        assert await asyncio.wait_for(reading, 30) == b""
        await incoming.release()


@pytest.mark.parametrize("wire", [CHUNKED + b"3\r\nabc\r\n", b"HTTP/1.1 200 OK\r\n\r\nabc"])
async def test_a_connection_that_is_reset_wakes_the_reader_with_an_error(wire):
    class Reset(Provider):
        async def __call__(self, reader, writer) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(wire)
            await self.release.wait()
            linger = struct.pack("ii", 1, 0)  # the close is a reset
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    provider = Reset()
    async with listening(provider) as url, Upstream() as upstream:
        incoming = await upstream.ask("POST", url, provider="there")
        assert await incoming.read() == b"abc"
        reading = asyncio.create_task(incoming.read())
        await asyncio.sleep(0)  # the reader waits before the reset
        provider.release.set()
        with pytest.raises(Truncated, match="there"):
            await asyncio.wait_for(reading, 30)
        await incoming.release()


async def test_the_request_is_what_was_asked_for():
    provider = Provider(sized(b""))
    async with listening(provider) as url, Upstream() as upstream:
        await ask(upstream, url, body=b"[1]", headers={"X-Api-Key": "k", "accept": "text/x"})
        await ask(upstream, url, method="GET", body=None)
        await ask(upstream, url.replace("//", "//us%40er:pä@"), method="GET", body=None)
    head, _, body = provider.seen[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == "POST /v1/x?a=%2F%20b HTTP/1.1"
    assert body == b"[1]"
    sent = dict(line.split(": ", 1) for line in lines)
    assert sent.pop("host").startswith("localhost:")
    assert sent == {
        "user-agent": "toolbridge", "accept": "text/x", "accept-encoding": "gzip, deflate",
        "x-api-key": "k", "content-length": "3",
    }  # fmt: skip
    assert b"content-length" not in provider.seen[1]
    assert b"authorization: Basic dXNAZXI6cMOk\r\n" in provider.seen[2]


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\0b"])
async def test_a_header_with_a_line_break_is_not_sent(value):
    provider = Provider(sized(b""))
    async with listening(provider) as url, Upstream() as upstream:
        with pytest.raises(Unreachable, match="a header contains a line break"):
            await ask(upstream, url, headers={"x": value})
    assert provider.seen == []


@pytest.mark.parametrize(
    ("wire", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", "more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\n" + b"y" * 300_000, "more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "valid HTTP"),
        (sized(b"abc", "content-encoding: br"), "encoded as 'br'"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            "changed the protocol",
        ),
        (sized(b"abc", "transfer-encoding: chunked"), "valid HTTP"),
    ],
)
async def test_bytes_that_are_not_a_response_are_named(wire, why):
    with pytest.raises(BrokenWire, match=why):
        await answered(wire)


@pytest.mark.parametrize(
    "wire",
    [
        sized(BODY)[:-1],
        CHUNKED + chunks(BODY)[:-2],
        CHUNKED + b"5\r\nabc",
        CHUNKED + b"zz\r\nabc",
        CHUNKED + b"3\r\nabc\r\n0\r\n" + b"y" * 300_000,
        sized(gzip.compress(BODY, mtime=0)[:-9], "content-encoding: gzip"),
        sized(b"this is not gzip", "content-encoding: gzip"),
    ],
)
async def test_a_body_that_is_cut_or_broken_is_never_complete(wire):
    with pytest.raises(
        Truncated, match=r"there (closed the connection in|did not continue its answer)"
    ):
        await answered(wire, close=True)


async def test_no_answer_at_all_may_be_repeated_and_a_refusal_may_not():
    with pytest.raises(Unreachable, match="it closed the connection") as found:
        await answered(close=True)
    assert not found.value.problem.permanent
    async with Upstream() as upstream:
        with pytest.raises(Unreachable, match="refused the connection") as found:
            await ask(upstream, "http://127.0.0.1:1/")
        assert found.value.problem.permanent
        with pytest.raises(Unreachable, match=r"cannot be reached \(.*(known|resolution|address)"):
            await ask(upstream, "http://nowhere.invalid/")
        with pytest.raises(Unreachable, match="must begin with http"):
            await ask(upstream, "ftp://127.0.0.1/")


async def test_silence_before_and_in_the_answer_is_a_timeout():
    for wire, why in ((b"", "did not answer within 0.05 s"), (CHUNKED, "sent nothing for 0.05 s")):
        provider = Provider(wire, hold=True)
        async with listening(provider) as url, Upstream() as upstream:
            with pytest.raises(TimedOut, match=why):
                await ask(upstream, url, waits=(5.0, 0.05))


async def test_a_slow_reader_is_not_the_silence_of_the_provider():
    provider = Provider(sized(BODY))
    async with listening(provider) as url, Upstream() as upstream:
        incoming = await upstream.ask("POST", url, provider="there", waits=(5.0, 0.02))
        await asyncio.sleep(0.1)
        assert await incoming.read_whole() == BODY
        await incoming.release()


async def test_a_server_that_accepts_no_connection_is_a_timeout_of_its_own(monkeypatch):
    async def never(_addresses):
        await asyncio.sleep(60)

    monkeypatch.setattr(http_pool, "open_first", never)
    async with Upstream() as upstream:
        with pytest.raises(Unreachable, match=r"accepted no connection within 0\.02 s"):
            await ask(upstream, "http://127.0.0.1:1/", waits=(0.02, 5.0))


class Flood(Provider):
    """Sends a body of zeros for as long as the reader takes them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.sent = 0

    async def __call__(self, reader, writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % self.size)
        try:
            while self.sent < self.size:
                writer.write(bytes(65536))
                await writer.drain()
                self.sent += 65536
        except ConnectionError:
            self.closed.set()
        writer.close()

    async def stopped(self) -> int:
        """Wait until nothing more can be sent; return what was sent."""
        still, last = 0, -1
        while still < 20:
            await asyncio.sleep(0.005)
            still, last = (still + 1 if self.sent == last else 0), self.sent
        return last


async def test_a_slow_reader_stops_the_provider():
    provider = Flood(64 * 1024 * 1024)
    async with listening(provider) as url, Upstream() as upstream:
        incoming = await upstream.ask("POST", url, provider="there")
        assert await provider.stopped() < 16 * 1024 * 1024
        assert not provider.closed.is_set()  # it waits; it was not sent away
        incoming.abort()
        await asyncio.wait_for(provider.closed.wait(), 30)


async def test_a_provider_that_was_stopped_goes_on_when_the_reader_does():
    provider = Flood(24 * 1024 * 1024)
    async with listening(provider) as url, Upstream() as upstream:
        incoming = await upstream.ask("POST", url, provider="there")
        await provider.stopped()
        size = 0
        while piece := await asyncio.wait_for(incoming.read(), 30):
            size += len(piece)
        await incoming.release()
    assert size == provider.size


async def test_a_compressed_flood_is_read_in_bounded_pieces():
    zeros = gzip.compress(bytes(32 * 1024 * 1024))
    provider = Provider(sized(zeros, "content-encoding: gzip"))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with listening(provider) as url, Upstream() as upstream:
        incoming = await upstream.ask("POST", url, provider="there")
        await until(incoming._response.at_eof)
        size = longest = 0
        ticking = asyncio.create_task(others())
        while piece := await incoming.read():
            size, longest = size + len(piece), max(longest, len(piece))
        ticking.cancel()
        await incoming.release()
        assert size == 32 * 1024 * 1024
        assert longest <= body_inflater.INFLATED
        assert turns > 50, "other requests wait for the whole of it"
        assert (await upstream.ask("POST", url, provider="there")).status == 200
    assert provider.opened == 1


@pytest.mark.parametrize("name", WHOLE)
async def test_a_whole_answer_that_is_not_read_to_its_end_does_not_cost_its_connection(name):
    provider = Provider(WHOLE[name])
    async with listening(provider) as url, Upstream() as upstream:
        for _ in range(3):
            incoming = await upstream.ask("POST", url, provider="there")
            await until(incoming._response.at_eof)
            await incoming.release()
        assert await ask(upstream, url) == (200, BODY, incoming.headers)
    assert provider.opened == 1


async def test_bytes_that_nobody_asked_for_close_the_connection():
    found, provider = await answered(sized(BODY) + sized(b"evil"), times=3)
    assert [one[1] for one in found] == [BODY] * 3
    assert provider.opened == 3


async def test_an_aborted_answer_closes_its_connection():
    provider = Provider(CHUNKED + b"3\r\nabc\r\n", hold=True)
    async with listening(provider) as url, Upstream() as upstream:
        incoming = await upstream.ask("POST", url, provider="there")
        assert await incoming.read() == b"abc"
        await incoming.release()
        provider.release.set()
        await asyncio.wait_for(provider.closed.wait(), 30)


async def test_what_the_provider_has_not_read_of_a_request_is_not_sent_after_its_end():
    body = b"x" * 1_000_000
    received, accepted = asyncio.Event(), []
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"

        async def accept() -> None:
            connection, _ = await asyncio.get_running_loop().sock_accept(server)
            accepted.append(connection)
            accepted.append(await asyncio.get_running_loop().sock_recv(connection, 100))
            received.set()

        async with Upstream() as upstream:
            accepting = asyncio.create_task(accept())
            asking = asyncio.create_task(upstream.ask("POST", url, provider="there", body=body))
            await asyncio.wait_for(received.wait(), 20)
            asking.cancel()
            await asyncio.gather(asking, accepting, return_exceptions=True)
        connection, size = accepted[0], 100
        with connection, suppress(ConnectionResetError):
            connection.settimeout(20)
            while piece := await asyncio.to_thread(connection.recv, 65536):
                size += len(piece)
    assert size < len(body)


@pytest.mark.parametrize("tls", [False, True])
async def test_a_connection_whose_request_was_not_read_is_not_used_again(
    tls, tmp_path, monkeypatch
):
    """A server may answer before it has read the body, and close later."""
    context = None
    if tls:
        authority = Authority(tmp_path)
        cert, key, _ = authority.issue()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    heads, reset = [], asyncio.Event()

    async def answer_early(reader, writer) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        if len(heads) == 2:
            writer.write(sized(b"ok"))
        else:
            writer.write(sized(b"too large", status="413 No"))
            with suppress(ConnectionError):
                while await reader.read(65536):  # noqa: ASYNC110  slower than it arrives
                    await asyncio.sleep(0.05)
            reset.set()
        writer.close()

    async with listening(answer_early, context) as url, Upstream() as upstream:
        first = await ask(upstream, url, body=b"x" * 20_000_000)
        assert first[:2] == (413, b"too large")
        second = await asyncio.wait_for(ask(upstream, url, body=b"{}"), 20)
        assert second[:2] == (200, b"ok")
        await asyncio.wait_for(reset.wait(), 20)
    assert len(heads) == 2


async def test_an_answer_that_nobody_holds_closes_its_connection():
    provider = Provider(CHUNKED + b"3\r\nabc\r\n", hold=True)
    async with listening(provider) as url, Upstream() as upstream:
        incoming = await upstream.ask("POST", url, provider="there")
        assert await incoming.read() == b"abc"
        del incoming
        gc.collect()
        provider.release.set()
        await asyncio.wait_for(provider.closed.wait(), 30)


@every_row(
    ("path", "sent"),
    [("/v1/../tokenize", "/tokenize"), ("/a/./b/", "/a/b/"), ("/../..", "/"), ("/.a/b.", "/.a/b.")],
)
def test_dots_in_a_path_are_resolved(path, sent):
    head = http_pool.request_head("GET", f"http://a{path}", {})
    assert head.lines.startswith(f"GET {sent} HTTP/1.1\r\n".encode())


async def test_a_reader_that_is_cancelled_leaves_no_connection():
    provider = Provider(hold=True)
    async with listening(provider) as url, Upstream() as upstream:
        task = asyncio.create_task(ask(upstream, url))
        await asyncio.wait_for(provider.asked.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        provider.release.set()
        await asyncio.wait_for(provider.closed.wait(), 30)


async def test_an_idle_connection_is_closed_after_a_while(monkeypatch):
    for module in (http_connection, http_pool):
        monkeypatch.setattr(module, "KEPT", 0.02)
    provider = Provider(sized(BODY))
    async with listening(provider) as url, Upstream() as upstream:
        await ask(upstream, url)
        await asyncio.wait_for(provider.closed.wait(), 30)
        assert (await ask(upstream, url))[1] == BODY
    assert provider.opened == 2


@pytest.mark.parametrize(
    ("header", "opened"),
    [
        ("keep-alive: timeout=1", 2),
        ("Keep-Alive: max=100, Timeout=1", 2),
        ("keep-alive: timeout=0", 2),
        ("keep-alive: timeout=60", 1),
        ("keep-alive: timeout=" + "9" * 400, 1),
        ("keep-alive: timeout=\u00b2, max", 1),
        ("keep-alive: timeout=-5", 1),
        ("x-a: timeout=0", 1),
    ],
)
async def test_a_connection_is_not_used_when_its_server_is_about_to_close_it(header, opened):
    found, provider = await answered(sized(BODY, header), times=2)
    assert [one[1] for one in found] == [BODY] * 2
    assert provider.opened == opened


async def test_a_head_request_has_no_body():
    found = Provider(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
    async with listening(found) as url, Upstream() as upstream:
        assert (await ask(upstream, url, method="HEAD", body=None))[:2] == (200, b"")


async def test_tls_checks_the_chain_and_the_name(tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    chain, key, _ = authority.issue()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    provider = Provider(sized(BODY))
    async with listening(provider, server) as url:
        async with Upstream() as upstream:
            with pytest.raises(Unreachable, match="certificate"):
                await ask(upstream, url)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        async with Upstream() as upstream:
            assert [(await ask(upstream, url))[1] for _ in range(3)] == [BODY] * 3
    assert provider.opened == 1
    async with listening(provider, server, "127.0.0.2") as url, Upstream() as upstream:
        with pytest.raises(Unreachable, match=r"(?i)ip address mismatch|not valid for"):
            await ask(upstream, url.replace("localhost", "127.0.0.2"))


async def test_a_handshake_that_nobody_waits_for_serves_the_next_request(tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    chain, key, _ = authority.issue()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    faults, connected, release = [], asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    provider = Provider(sized(BODY))

    async def pipe(reader, writer) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def hold(reader, writer) -> None:
        connected.set()
        await release.wait()
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pipe(reader, there[1]), pipe(there[0], writer), return_exceptions=True)

    async with listening(provider, server) as url:
        port = int(url.split(":")[2].split("/")[0])
        relay = await asyncio.start_server(hold, "127.0.0.1", 0)
        held = url.replace(f":{port}/", f":{relay.sockets[0].getsockname()[1]}/")
        async with Upstream() as upstream:
            asking = asyncio.create_task(ask(upstream, held))
            await asyncio.wait_for(connected.wait(), 20)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            release.set()
            await until(lambda: upstream._pool._free)
            assert (await ask(upstream, held))[1] == BODY
        relay.close()
    assert provider.opened == 1
    assert faults == []


# ── RFC 8305 ─────────────────────────────────────────────────────────────────


async def test_the_addresses_of_a_name_are_tried_until_one_accepts():
    provider = Provider(sized(BODY))
    async with listening(provider) as url:
        port = int(url.split(":")[2].split("/")[0])
        dead = (2, ("127.0.0.1", 1))
        good = (2, ("127.0.0.1", port))
        for addresses in ([dead, good], [good, dead], [dead, dead, dead, good]):
            found = await http_pool.open_first(addresses)
            assert found.getpeername() == good[1]
            found.close()
        with pytest.raises(ConnectionRefusedError):
            await http_pool.open_first([dead, dead])
        with pytest.raises(OSError, match="no address"):
            await http_pool.open_first([])


async def test_an_address_that_does_not_answer_costs_a_quarter_of_a_second(monkeypatch):
    provider = Provider(sized(BODY))
    opened = http_pool._open

    async def slow(address):
        if address[1][0] == "127.0.0.9":
            await asyncio.sleep(60)
        return await opened(address)

    monkeypatch.setattr(http_pool, "_open", slow)
    monkeypatch.setattr(http_pool, "STAGGER", 0.01)
    async with listening(provider) as url:
        port = int(url.split(":")[2].split("/")[0])
        found = await http_pool.open_first([(2, ("127.0.0.9", 1)), (2, ("127.0.0.1", port))])
        found.close()


@pytest.mark.parametrize(
    "after",
    [
        b"not HTTP\r\n\r\n",
        sized(b"another"),
        CHUNKED + chunks(BODY),
        sized(b"another") + b"not HTTP\r\n\r\n",
    ],
)
async def test_what_follows_a_response_is_not_a_part_of_it(after):
    found, provider = await asyncio.wait_for(answered(sized(BODY) + after, times=2), 10)
    assert [(status, body) for status, body, _ in found] == [(200, BODY)] * 2
    assert provider.opened == 2  # the connection is not used again


# ── pushed deliveries ────────────────────────────────────────────────────────

PUSHED = [b"6\r\nsecond\r\n", b"5\r\nthird\r\n", b"6\r\nfourth\r\n0\r\n\r\n"]


@asynccontextmanager
async def pushed(monkeypatch):
    """Yield an answer after its first bytes; the rest arrives in deliveries without a pause."""
    deliver = http_connection.ProviderConnection.data_received

    def in_parts(self, data):  # uvloop does so when more has arrived than its buffer holds
        pieces = PUSHED if data == b"".join(PUSHED) else [data]
        for piece in pieces:
            deliver(self, piece)

    monkeypatch.setattr(http_connection.ProviderConnection, "data_received", in_parts)
    provider = Provider(CHUNKED + b"5\r\nfirst\r\n", hold=True, later=b"".join(PUSHED))
    async with listening(provider) as url, Upstream() as upstream:
        incoming = await upstream.ask("POST", url, provider="there", body=b"{}")
        assert await incoming.read() == b"first"
        asyncio.get_running_loop().call_later(0.01, provider.release.set)
        yield incoming
        await incoming.release()


async def test_what_comes_after_a_sink_has_had_enough_is_for_the_reader(monkeypatch):
    taken = []
    async with pushed(monkeypatch) as incoming:
        assert await incoming.push(lambda piece: taken.append(piece) or False)
        rest = await incoming.read_whole()
    assert (taken, rest) == ([b"second"], b"thirdfourth")


async def test_nothing_is_read_while_a_sink_has_had_enough():
    """A client that reads slowly would have the next deliveries in memory as well."""
    provider = Provider(CHUNKED + b"5\r\nfirst\r\n", hold=True, later=b"6\r\nsecond\r\n")
    delivered = []

    def enough(piece):
        delivered.append(piece)
        return False

    async with listening(provider) as url, Upstream() as upstream:
        incoming = await upstream.ask("POST", url, provider="there", body=b"{}")
        assert await incoming.read() == b"first"
        asyncio.get_running_loop().call_later(0.01, provider.release.set)
        assert await incoming.push(enough)
        response = incoming._response
        assert (delivered, response.paused) == ([b"second"], True)
        assert response._connection.transport.is_reading() is False
        ending = asyncio.create_task(incoming.read())
        await asyncio.sleep(0.01)
        assert response._connection.transport.is_reading(), "the reader waits for more"
        ending.cancel()
        incoming.abort()


async def test_a_failing_sink_fails_in_the_task_that_pushes_and_not_in_the_event_loop(monkeypatch):
    def fail(_):
        raise ZeroDivisionError

    lost = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    async with pushed(monkeypatch) as incoming:
        with pytest.raises(ZeroDivisionError):
            await incoming.push(fail)
        assert await incoming.read_whole() == b"thirdfourth"
    assert lost == []
