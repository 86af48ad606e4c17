"""Requests through an HTTP proxy, named by the usual variables."""

import asyncio
import re
import ssl
from contextlib import asynccontextmanager

import pytest
from tests.certificates import Authority
from tests.tables import every_row
from tests.upstream.test_http_connection import BODY, Provider, ask, listening, sized

from toolbridge.core.errors import Unreachable
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.http_proxy import ProxySession

NAMED = "provider.example"


class Proxy(Provider):
    """Forwards to a port of this machine, whatever host is asked for."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    async def __call__(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        self.seen.append(head)
        far_reader, far = await asyncio.open_connection("127.0.0.1", self.port)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            far.write(head)
        await asyncio.gather(copy(reader, far), copy(far_reader, writer))
        self.closed.set()


async def copy(source, target) -> None:
    try:
        while piece := await source.read(65536):
            target.write(piece)
            await target.drain()
    except ConnectionError:
        pass
    target.close()


@asynccontextmanager
async def through(proxy, monkeypatch, variable):
    async with listening(proxy) as url:
        monkeypatch.setenv(variable, f"http://127.0.0.1:{port_of(url)}")
        async with Upstream() as upstream:
            yield upstream
        await asyncio.wait_for(proxy.closed.wait(), 30)


def port_of(url: str) -> int:
    return int(url.split(":")[2].partition("/")[0])


async def test_a_plain_request_goes_through_the_proxy(monkeypatch):
    provider = Provider(sized(BODY), close=True)
    async with listening(provider) as far:
        proxy = Proxy(port_of(far))
        async with through(proxy, monkeypatch, "HTTP_PROXY") as upstream:
            assert (await ask(upstream, f"http://{NAMED}/v1", body=b"{}"))[1] == BODY
    assert proxy.seen[0].startswith(b"POST http://provider.example/v1 HTTP/1.1\r\n")


async def test_bytes_that_nobody_asked_for_are_not_the_next_answer(monkeypatch):
    """RFC 9112, 9.2: what arrives on an idle connection is no response to a later request."""
    stray = sized(b"nobody has asked")
    provider = Provider(sized(BODY), hold=True, later=stray)
    async with listening(provider) as far:
        proxy = Proxy(port_of(far))
        async with through(proxy, monkeypatch, "HTTP_PROXY") as upstream:
            for _ in range(2):
                assert (await ask(upstream, f"http://{NAMED}/v1"))[1] == BODY
                provider.release.set()
                await asyncio.sleep(0.05)
    assert len(provider.seen) == 2


async def test_tls_goes_through_a_tunnel_and_is_checked(monkeypatch, tmp_path):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    authority = Authority(tmp_path)
    chain, key, _ = authority.issue()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    provider = Provider(sized(BODY), close=True)
    async with listening(provider, server) as far:
        proxy = Proxy(port_of(far))
        async with through(proxy, monkeypatch, "https_proxy") as upstream:
            with pytest.raises(Unreachable, match="certificate is not accepted") as caught:
                await ask(upstream, f"https://{NAMED}/v1")
    assert "(through the proxy http://127.0.0.1:" in str(caught.value)
    assert "or that of a proxy which opens TLS, set `SSL_CERT_FILE`" in str(caught.value)
    assert proxy.seen[0].startswith(b"CONNECT provider.example:443 HTTP/1.1\r\n")
    assert provider.seen == []


def rejecting(status: str, *headers: str) -> Provider:
    return Provider(sized(b"", *headers, status=status), close=True)


async def failure(proxy, monkeypatch, url, variable="ALL_PROXY") -> Unreachable:
    async with through(proxy, monkeypatch, variable) as upstream:
        with pytest.raises(Unreachable) as caught:
            await ask(upstream, url)
    return caught.value


SECURE, PLAIN = f"https://{NAMED}/v1", f"http://{NAMED}/v1"


@pytest.mark.parametrize(
    ("status", "url", "permanent", "text"),
    [
        (
            "407 Login",
            SECURE,
            True,
            "in `ALL_PROXY` requires other credentials (status 407). Write ",
        ),
        (
            "407 Login",
            PLAIN,
            True,
            "in `ALL_PROXY` requires other credentials (status 407). Write ",
        ),
        ("403 No", SECURE, True, "in `ALL_PROXY` answered with status 403. Check the proxy"),
        ("502 Bad", SECURE, False, "in `ALL_PROXY` answered with status 502. Check the proxy"),
    ],
)
async def test_a_proxy_that_rejects_is_named(monkeypatch, status, url, permanent, text):
    error = await failure(rejecting(status), monkeypatch, url)
    assert f"{NAMED} cannot be reached: the proxy http://127.0.0.1:" in str(error)
    assert text in str(error)
    assert error.problem.permanent is permanent


@pytest.mark.parametrize(
    "header",
    [
        "X-Squid-Error: ERR_ACCESS_DENIED 0",
        "Proxy-Status: squid; error=http_request_denied",
    ],
)
async def test_a_response_that_the_proxy_has_marked_is_its_own(monkeypatch, header):
    error = await failure(rejecting("403 No", header), monkeypatch, PLAIN)
    assert "in `ALL_PROXY` answered with status 403" in str(error)


async def test_a_response_without_a_mark_is_the_provider_s_and_names_the_proxy(monkeypatch):
    proxy = rejecting("403 No", "Proxy-Status: squid; received-status=403")
    async with through(proxy, monkeypatch, "HTTP_PROXY") as upstream:
        incoming = await upstream.ask("POST", PLAIN, provider="there", body=b"{}")
        await incoming.release()
    assert incoming.status == 403
    assert re.fullmatch(r"the proxy http://127.0.0.1:\d+ in `HTTP_PROXY`", incoming.proxy)


@pytest.mark.parametrize("url", [SECURE, PLAIN])
async def test_a_proxy_that_closes_the_connection_is_named(monkeypatch, url):
    error = await failure(Provider(close=True), monkeypatch, url)
    assert "(through the proxy http://127.0.0.1:" in str(error)
    assert "cannot be reached (the connection was closed). Check the proxy" in str(error)
    assert not error.problem.permanent


async def test_a_tunnel_that_is_closed_before_tls_may_be_opened_again(monkeypatch):
    error = await failure(Provider(b"HTTP/1.1 200 OK\r\n\r\n", close=True), monkeypatch, SECURE)
    assert "in `ALL_PROXY`) closed the connection during the TLS handshake" in str(error)
    assert not error.problem.permanent


async def test_a_proxy_that_does_not_answer_is_named(monkeypatch):
    proxy = Provider(hold=True, close=True)
    async with through(proxy, monkeypatch, "HTTPS_PROXY") as upstream:
        with pytest.raises(Unreachable, match=r"in `HTTPS_PROXY` opened no .* within 0.2 s"):
            await ask(upstream, SECURE, waits=(0.2, 5.0))
        proxy.release.set()


@pytest.mark.parametrize("url", [SECURE, PLAIN])
async def test_a_proxy_that_is_down_is_named_without_its_password(monkeypatch, url):
    monkeypatch.setenv("ALL_PROXY", "http://me:pass%2Fword@127.0.0.1:1/")
    async with Upstream() as upstream:
        with pytest.raises(Unreachable) as caught:
            await ask(upstream, url)
    assert "the proxy http://127.0.0.1:1 in `ALL_PROXY` refused the connection. " in str(
        caught.value
    )
    assert "me:" not in str(caught.value)
    assert caught.value.problem.permanent


async def test_the_name_of_a_proxy_that_nobody_knows_is_shown(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "http://proxy.invalid:1")
    async with Upstream() as upstream:
        with pytest.raises(Unreachable, match=r"http://proxy.invalid:1 in `ALL_PROXY` cannot be"):
            await ask(upstream, SECURE)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("socks5://me:secret@127.0.0.1:1", "names a socks5 proxy, and only HTTP proxies are"),
        ("http://me:sec/ret@127.0.0.1:1", "is not the address of a proxy"),
        ("http://", "is not the address of a proxy"),
        ("http://127.0.0.1:port", "is not the address of a proxy"),
    ],
)
async def test_an_address_that_is_not_an_http_proxy_s_is_refused(monkeypatch, value, text):
    monkeypatch.setenv("https_proxy", value)
    async with Upstream() as upstream:
        with pytest.raises(Unreachable) as caught:
            await ask(upstream, SECURE)
    assert f"cannot be reached: `https_proxy` {text}" in str(caught.value)
    assert "sec" not in str(caught.value)
    assert caught.value.problem.permanent


async def test_an_address_without_a_scheme_is_that_of_an_http_proxy(monkeypatch):
    provider = Provider(sized(BODY), close=True)
    async with listening(provider) as far:
        proxy = Proxy(port_of(far))
        async with listening(proxy) as near:
            monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{port_of(near)}")
            async with Upstream() as upstream:
                assert (await ask(upstream, PLAIN))[1] == BODY
            await asyncio.wait_for(proxy.closed.wait(), 30)
    assert proxy.seen[0].startswith(b"POST http://provider.example/v1 HTTP/1.1\r\n")


def test_an_unescaped_password_is_not_shown():
    proxy = ProxySession({"ALL_PROXY": "me:pa/ss@wo#rd@host:1/x"}).proxy_of(SECURE)
    assert proxy.shown == "the proxy http://host:1 in `ALL_PROXY`"


def test_the_variable_in_lower_case_is_used_if_there_are_both():
    env = {"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:1"}
    assert ProxySession(env).proxy_of(SECURE).shown == "the proxy http://low:1 in `https_proxy`"


@every_row(
    ("direct", "url", "used"),
    [
        ("", "https://provider.example/v1", True),
        ("", "http://localhost:11434/api", False),
        ("", "http://127.0.0.1:11434/api", False),
        ("", "http://[::1]:11434/api", False),
        ("*", "https://provider.example/v1", False),
        ("example", "https://provider.example/v1", False),
        (".example", "https://provider.example/v1", False),
        ("*.example", "https://provider.example/v1", False),
        ("ample", "https://provider.example/v1", True),
        ("a, provider.example:8443", "https://provider.example:8443/v1", False),
        ("provider.example:8443", "https://provider.example/v1", True),
        (",,", "https://provider.example/v1", True),
    ],
)
def test_no_proxy_names_the_hosts_that_are_reached_directly(direct, url, used):
    env = {"HTTPS_PROXY": "http://p:1", "HTTP_PROXY": "http://p:1", "NO_PROXY": direct}
    assert bool(ProxySession(env).proxy_of(url)) is used


def test_a_scheme_without_a_proxy_is_direct():
    assert ProxySession({"HTTP_PROXY": "http://p:1"}).proxy_of("https://a.example/") is None
