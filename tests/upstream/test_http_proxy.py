"""Requests through an HTTP proxy, named by the usual variables."""

import asyncio
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


async def test_tls_goes_through_a_tunnel_and_is_checked(monkeypatch, tmp_path):
    authority = Authority(tmp_path)
    chain, key, _ = authority.issue()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    provider = Provider(sized(BODY), close=True)
    async with listening(provider, server) as far:
        proxy = Proxy(port_of(far))
        async with through(proxy, monkeypatch, "https_proxy") as upstream:
            with pytest.raises(Unreachable, match="certificate"):
                await ask(upstream, f"https://{NAMED}/v1")
    assert proxy.seen[0].startswith(b"CONNECT provider.example:443 HTTP/1.1\r\n")
    assert provider.seen == []


async def test_a_proxy_that_refuses_is_named(monkeypatch):
    proxy = Provider(b"HTTP/1.1 407 Login\r\ncontent-length: 0\r\n\r\n", close=True)
    async with through(proxy, monkeypatch, "ALL_PROXY") as upstream:
        with pytest.raises(Unreachable, match="the proxy answered with status 407"):
            await ask(upstream, f"https://{NAMED}/v1")


async def test_a_proxy_that_is_down_is_named(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    async with Upstream() as upstream:
        with pytest.raises(Unreachable, match="refused the connection"):
            await ask(upstream, f"https://{NAMED}/v1")


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
    assert ProxySession({"HTTP_PROXY": "http://p:1"}).proxy_of("https://a.example/") == ""
