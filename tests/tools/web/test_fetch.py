"""Web fetch: which addresses are reached, what the limits are, and what a model gets."""

import asyncio
import functools
import gzip
import socket
import zlib
from contextlib import asynccontextmanager

import pytest
from aiohttp.abc import AbstractResolver
from tests.scripted_http import serving

from toolbridge.core.server_tools import FetchedPage, ServerToolError
from toolbridge.server_tool_settings import WebFetchSettings
from toolbridge.tools.web.fetch import PageFetcher
from toolbridge.upstream import address_guard


class Names(AbstractResolver):
    """Resolves names to the addresses that a test gives; each question takes the next answer."""

    def __init__(self, **answers):
        self.answers = {name.replace("_", "."): list(found) for name, found in answers.items()}
        self.asked = []

    async def resolve(self, host, port=0, family=socket.AF_INET):  # noqa: ARG002
        self.asked.append(host)
        found = self.answers.get(host)
        if not found:
            raise OSError(f"no such name: {host}")
        given = found.pop(0) if len(found) > 1 else found[0]
        return [
            {"hostname": host, "host": one, "port": port, "proto": 0, "flags": 0,
             "family": socket.AF_INET6 if ":" in one else socket.AF_INET}
            for one in given.split()
        ]  # fmt: skip

    async def close(self):
        pass


@asynccontextmanager
async def fetching(resolver=None, **settings):
    fetcher = PageFetcher(WebFetchSettings(**({"timeout": 20.0} | settings)), resolver=resolver)
    try:
        yield fetcher
    finally:
        await fetcher.close()


async def fetched(url, resolver=None, *, allow=(), block=(), limit_tokens=0, **settings):
    async with fetching(resolver, **settings) as fetcher:
        return await fetcher.fetch(url, allow=allow, block=block, limit_tokens=limit_tokens)


def served(body=b"hello", kind="text/plain", status=200, **headers):
    """Return a handler, and the list of requests that it got."""
    seen = []

    async def handle(got):
        seen.append(got)
        await got.answer(body, status, content_type=kind, **headers)

    return handle, seen


def host_of(url):
    return url.removeprefix("http://")


# ── which addresses are reached ──────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.org/", "invalid_tool_input"),
        ("file:///etc/passwd", "invalid_tool_input"),
        ("gopher://example.org/", "invalid_tool_input"),
        ("data:text/plain,x", "invalid_tool_input"),
        ("/relative", "invalid_tool_input"),
        ("", "invalid_tool_input"),
        ("http://", "invalid_tool_input"),
        ("http://[::1", "invalid_tool_input"),
        ("http://example.org:99999/", "invalid_tool_input"),
        ("http://u:p@example.org/", "url_not_allowed"),
        ("http://u@example.org/", "url_not_allowed"),
        ("http://:p@example.org/", "url_not_allowed"),
        ("http://example.org:22/", "url_not_allowed"),
        ("http://example.org:0/", "url_not_allowed"),
        ("http://example.org:6379/", "url_not_allowed"),
        ("https://example.org/" + "x" * 2048, "url_too_long"),
        ("http://localhost/", "url_not_allowed"),
        ("http://LOCALHOST./", "url_not_allowed"),
        ("http://a.localhost/", "url_not_allowed"),
        ("http://printer.local/", "url_not_allowed"),
        ("http://metadata.google.internal/", "url_not_allowed"),
        ("http://nas.home.arpa/", "url_not_allowed"),
        ("http://intranet/", "url_not_allowed"),
        ("http://127.0.0.1/", "url_not_allowed"),
        ("http://127.1/", "url_not_allowed"),
        ("http://2130706433/", "url_not_allowed"),
        ("http://0177.0.0.1/", "url_not_allowed"),
        ("http://0x7f.1/", "url_not_allowed"),
        ("http://0x7f000001/", "url_not_allowed"),
        ("http://0/", "url_not_allowed"),
        ("http://0.0.0.0/", "url_not_allowed"),
        ("http://127.0.0.1./", "url_not_allowed"),
        ("http://①②⑦.0.0.1/", "url_not_allowed"),
        ("http://10.0.0.1/", "url_not_allowed"),
        ("http://172.16.0.1/", "url_not_allowed"),
        ("http://192.168.1.1/", "url_not_allowed"),
        ("http://169.254.169.254/latest/meta-data/", "url_not_allowed"),
        ("http://100.64.0.1/", "url_not_allowed"),
        ("http://198.18.0.1/", "url_not_allowed"),
        ("http://224.0.0.1/", "url_not_allowed"),
        ("http://255.255.255.255/", "url_not_allowed"),
        ("http://[::1]/", "url_not_allowed"),
        ("http://[::]/", "url_not_allowed"),
        ("http://[::ffff:127.0.0.1]/", "url_not_allowed"),
        ("http://[::ffff:7f00:1]/", "url_not_allowed"),
        ("http://[::127.0.0.1]/", "url_not_allowed"),
        ("http://[fe80::1]/", "url_not_allowed"),
        ("http://[fe80::1%25eth0]/", "url_not_allowed"),
        ("http://[fd00::1]/", "url_not_allowed"),
        ("http://[64:ff9b::10.0.0.1]/", "url_not_allowed"),
        ("http://[64:ff9b:1::1]/", "url_not_allowed"),
        ("http://[2002:7f00:1::]/", "url_not_allowed"),
        ("http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/", "url_not_allowed"),
        ("http://[ff02::1]/", "url_not_allowed"),
    ],
)  # fmt: skip
async def test_addresses_that_are_never_contacted(url, code):
    resolver = Names()
    found = await fetched(url, resolver)
    assert isinstance(found, ServerToolError)
    assert found.code == code
    assert resolver.asked == [], "refused by how it is written"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:192.168.0.1", "64:ff9b::7f00:1", "2002:a00:1::1", "0.0.0.0", "100.64.0.1"],
)  # fmt: skip
async def test_a_public_name_that_leads_inside_is_refused(address):
    found = await fetched("http://evil.example.org/", Names(evil_example_org=[address]))
    assert found.code == "url_not_allowed"
    assert "private network" in found.text


async def test_a_name_with_one_private_address_connects_to_the_public_one_only(monkeypatch):
    """The local server plays the public address, so only the other one must be refused."""
    monkeypatch.setattr(address_guard, "is_public", lambda address: address == "127.0.0.1")
    monkeypatch.setattr(address_guard, "is_own", lambda _: False)
    handle, seen = served()
    async with serving(handle) as url:
        port = int(url.rpartition(":")[2])
        names = Names(mixed_example_org=["10.255.255.1 127.0.0.1"])
        found = await fetched(f"http://mixed.example.org:{port}/", names, ports=(port,))
    assert found.text == "hello"
    assert seen[0].headers["host"] == f"mixed.example.org:{port}"


async def test_a_name_that_resolves_differently_the_second_time_is_refused(monkeypatch):
    """DNS rebinding: the first answer is public, the next one private."""
    monkeypatch.setattr(address_guard, "is_public", lambda address: address == "127.0.0.1")
    monkeypatch.setattr(address_guard, "is_own", lambda _: False)
    handle, seen = served(status=302, location="/next")
    async with serving(handle) as url:
        port = int(url.rpartition(":")[2])
        names = Names(rebind_example_org=["127.0.0.1", "10.0.0.1"])
        async with fetching(names, ports=(port,)) as fetcher:
            # Without this, aiohttp would use the checked answer again, for a minute.
            fetcher._session = addresses_session(fetcher)
            found = await fetcher.fetch(f"http://rebind.example.org:{port}/")
    assert found.code == "url_not_allowed"
    assert len(seen) == 1
    assert names.asked == ["rebind.example.org"] * 2


def addresses_session(fetcher):
    import aiohttp

    connector = aiohttp.TCPConnector(resolver=fetcher._guard, use_dns_cache=False)
    return aiohttp.ClientSession(connector=connector)


async def test_the_machines_own_public_address_is_refused(monkeypatch):
    monkeypatch.setattr(address_guard, "is_public", lambda _: True)
    found = await fetched("http://127.0.0.1/")
    assert found.code == "url_not_allowed"
    found = await fetched("http://me.example.org/", Names(me_example_org=["127.0.0.1"]))
    assert found.code == "url_not_allowed"


async def test_a_name_that_does_not_exist_is_not_accessible():
    found = await fetched("http://none.example.org/", Names())
    assert (found.code, found.text) == (
        "url_not_accessible",
        "none.example.org cannot be connected to",
    )


async def test_a_private_host_can_be_allowed_by_name_address_and_network():
    handle, seen = served()
    async with serving(handle) as url:
        port = url.rpartition(":")[2]
        names = Names(docs_corp_example=["127.0.0.1"], other_corp_example=["127.0.0.1"])
        named = f"http://docs.corp.example:{port}/"
        assert (await fetched(url, allow_hosts=(host_of(url),))).text == "hello"
        assert (
            await fetched(url, allow_hosts=("127.0.0.1",), ports=(port_of(url),))
        ).text == "hello"
        assert (
            await fetched(url, allow_hosts=("127.0.0.0/8",), ports=(port_of(url),))
        ).text == "hello"
        assert (
            await fetched(named, names, allow_hosts=(f"docs.corp.example:{port}",))
        ).text == "hello"
        other = f"http://other.corp.example:{port}/"
        refused = await fetched(other, names, allow_hosts=(f"docs.corp.example:{port}",))
        assert refused.code == "url_not_allowed"
        refused = await fetched(url, allow_hosts=("127.0.0.1",))
        assert refused.code == "url_not_allowed", "the port is not allowed"
        usual = await fetched("http://127.0.0.1/", allow_hosts=(host_of(url),))
        assert usual.code == "url_not_allowed", "another port of an allowed host"
        usual = await fetched(
            "http://docs.corp.example/", names, allow_hosts=(f"docs.corp.example:{port}",)
        )
        assert usual.code == "url_not_allowed"
    assert len(seen) == 4


def port_of(url):
    return int(url.rpartition(":")[2])


async def test_domains_of_the_request_and_of_the_settings_hold_together():
    handle, seen = served()
    async with serving(handle) as url:
        given = {"allow_hosts": (host_of(url),)}
        assert (await fetched(url, allow=("127.0.0.1",), **given)).text == "hello"
        for refused in (
            await fetched(url, allow=("example.org",), **given),
            await fetched(url, block=("127.0.0.1",), **given),
        ):
            assert refused.code == "url_not_allowed"
    assert len(seen) == 1


# ── redirects ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:1/", "http://169.254.169.254/", "http://[::1]/", "//10.0.0.1/", "ftp://x.org/",
        "http://localhost/", "http://0x7f.1/", "http://u:p@example.org/", "http://example.org:22/",
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_a_forbidden_address_is_refused(location, status):
    handle, seen = served(status=status, location=location)
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),))
    assert found.code in {"url_not_allowed", "invalid_tool_input"}
    assert len(seen) == 1


async def test_a_redirect_is_followed_and_the_final_address_returned():
    async def handle(got):
        if got.path == "/a/b":
            await got.answer(status=302, location="../c?x=1")
        else:
            await got.answer("there", content_type="text/plain")

    async with serving(handle) as url:
        found = await fetched(f"{url}/a/b#part", allow_hosts=(host_of(url),))
    assert (found.text, found.url) == ("there", f"{url}/c?x=1")


async def test_a_redirect_outside_the_allowed_domains_is_refused():
    handle, _ = served(status=302, location="http://example.org/")
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),), allow=("127.0.0.1",))
    assert (found.code, found.text) == (
        "url_not_allowed",
        "example.org is not in the allowed domains",
    )


async def test_redirects_end():
    handle, seen = served(status=302, location="/again")
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),), redirects=3)
    assert found.code == "url_not_accessible"
    assert len(seen) == 4
    handle, _ = served(status=302)
    async with serving(handle) as url:
        assert (await fetched(url, allow_hosts=(host_of(url),))).code == "url_not_accessible"


def test_a_redirect_from_https_to_http_is_refused():
    from yarl import URL

    class Response:
        def __init__(self):
            self.headers = {"location": "http://example.org/"}

    fetcher = PageFetcher(WebFetchSettings())
    with pytest.raises(Exception, match="leaves https") as caught:
        fetcher._redirected(URL("https://example.org/"), Response(), ((), ()))
    assert caught.value.error.code == "url_not_allowed"


# ── what is sent, and the limits ─────────────────────────────────────────────


async def test_nothing_of_the_gateway_is_sent(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    handle, seen = served(set_cookie="a=b")
    async with serving(handle) as url, fetching(allow_hosts=(host_of(url),)) as fetcher:
        for _ in range(2):
            assert isinstance(await fetcher.fetch(url), FetchedPage)
    assert {name for got in seen for name in got.headers} == {
        "host", "accept", "accept-encoding", "user-agent"
    }  # fmt: skip
    assert seen[0].headers["user-agent"].startswith("toolbridge")
    assert "text/markdown" in seen[0].headers["accept"]


async def test_a_page_beyond_the_size_is_cut_while_it_is_read():
    sent = 0

    async def handle(got):
        nonlocal sent
        await got.send(
            b"HTTP/1.1 200 X\r\ncontent-type: text/plain\r\ncontent-length: 99\r\n\r\n"[:-25]
            + b"\r\n\r\n"
        )
        while sent < 200 << 20:
            await got.send(b"word " * 20_000)
            sent += 100_000

    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),), max_bytes=300_000)
    assert found.truncated
    assert len(found.text) <= 300_000
    assert sent < 50 << 20, "reading stops at the limit"


@pytest.mark.parametrize(("most", "cut"), [(9, True), (10, False), (11, False)])
async def test_a_page_of_exactly_the_size_is_whole(most, cut):
    handle, _ = served(b"0123456789")
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),), max_bytes=most)
    assert found.truncated is cut
    assert found.text.startswith("0123456789"[:most])


@functools.cache
def bomb():
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = b"a" * (1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(200)) + packer.flush()


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
async def test_a_body_that_expands_is_stopped_at_the_limit(encoding):
    handle, _ = served(bomb(), content_encoding=encoding)
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),), max_bytes=100_000)
    assert found.truncated
    assert len(found.text) <= 100_000


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("gzip", gzip.compress(b"hel", mtime=0) + gzip.compress(b"lo", mtime=0)),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello")[2:-4]),
        ("identity", b"hello"),
    ],
)
async def test_compressed_bodies_are_read(encoding, body):
    handle, _ = served(body, content_encoding=encoding)
    async with serving(handle) as url:
        assert (await fetched(url, allow_hosts=(host_of(url),))).text == "hello"


@pytest.mark.parametrize(("encoding", "body"), [("br", b"x"), ("gzip", b"not gzip"), ("zstd", b"")])
async def test_a_compression_that_cannot_be_read_is_an_error(encoding, body):
    handle, _ = served(body, content_encoding=encoding)
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),))
    assert found.code == "unsupported_content_type"


async def test_a_server_that_is_silent_or_slow_ends_in_time():
    async def silent(got):
        await got.reader.read()

    async def slow(got):
        await got.send(b"HTTP/1.1 200 X\r\ncontent-type: text/plain\r\n\r\n")
        while not got.reader.at_eof():
            await got.send(b"x")
            await asyncio.sleep(0.02)

    for handle in (silent, slow):
        async with serving(handle) as url:
            found = await fetched(url, allow_hosts=(host_of(url),), timeout=0.5)
        assert (found.code, found.text) == ("url_not_accessible", "no answer within 0.5 s")


async def test_a_caller_that_leaves_closes_the_connection():
    began, ended = asyncio.Event(), asyncio.Event()

    async def handle(got):
        began.set()
        await got.reader.read()
        ended.set()

    async with serving(handle) as url, asyncio.timeout(30):
        task = asyncio.create_task(fetched(url, allow_hosts=(host_of(url),), timeout=100.0))
        await began.wait()
        task.cancel()
        await ended.wait()
    assert (await asyncio.gather(task, return_exceptions=True))[
        0
    ].__class__ is asyncio.CancelledError


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
async def test_a_status_other_than_200_is_an_error(status):
    handle, _ = served(status=status)
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),))
    assert found.code == "url_not_accessible"
    assert str(status) in found.text


@pytest.mark.parametrize(
    "raw", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nhal", b"HTTP/1.1 200 X\r\nx: " + b"y" * 100_000]
)  # fmt: skip
async def test_a_broken_answer_is_an_error(raw):
    async def handle(got):
        await got.send(raw)

    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),))
    assert found.code == "url_not_accessible"


# ── the text ─────────────────────────────────────────────────────────────────


async def test_a_page_has_title_text_address_and_time():
    page = b"<title>T &amp; U</title><body><h1>Head</h1><p>One <a href='/x'>link</a>."
    handle, _ = served(page, "text/html; charset=utf-8")
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),), reader="builtin")
    assert (found.title, found.text) == ("T & U", f"# Head\n\nOne [link]({url}/x).")
    assert found.url.rstrip("/") == url
    assert found.fetched_at.endswith("+00:00")
    assert not found.truncated


async def test_the_tokens_are_bounded_by_the_request_and_the_settings():
    handle, _ = served(b"word " * 50_000)
    async with serving(handle) as url:
        whole = await fetched(url, allow_hosts=(host_of(url),))
        small = await fetched(url, allow_hosts=(host_of(url),), limit_tokens=100)
        large = await fetched(url, allow_hosts=(host_of(url),), limit_tokens=10**6, max_tokens=200)
    assert 25_000 < len(whole.text) < 200_000
    assert 100 < len(small.text) < 800
    assert 200 < len(large.text) < 1600
    assert all(page.truncated for page in (small, large, whole))


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("application/ld+json", b'{"a": 1}', '{"a": 1}'),
        ("text/markdown", "# T\n\n**b** ü".encode(), "# T\n\n**b** ü"),
        ("text/csv", b"a,b", "a,b"),
        ("text/plain; charset=iso-8859-1", "ü€".encode("cp1252"), "ü€"),
        ("text/plain; charset=utf-16", "ü".encode("utf-16"), "ü"),
        ("text/plain; charset=shift_jis", "日本".encode("shift_jis"), "日本"),
        ("text/plain; charset=nonsense", "ü".encode(), "ü"),
        ("text/plain; charset=punycode", b"abc-", "abc-"),
        ("text/plain; charset=unicode_escape", b"\\u0041", "\\u0041"),
        ("text/plain", b"\xff\xfeA\0", "A"),
        ("text/plain", b"ok \xff", "ok \ufffd"),
        ("", b"plain", "plain"),
        ("text/plain", "a\u200b\u202e\U000e0041b".encode(), "ab"),
        ("text/html", b"<meta charset=koi8-r><p>" + "привет".encode("koi8-r"), "привет"),
        ("text/html; charset=utf-8", "<meta charset=koi8-r><p>привет".encode(), "привет"),
        ("application/xml", b"<a>1</a>", "<a>1</a>"),
    ],
)  # fmt: skip
async def test_text_of_every_kind_is_read(kind, body, text):
    handle, _ = served(body, kind)
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),), reader="builtin")
    assert found.text == text


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("image/png", b"\x89PNG"),
        ("application/octet-stream", b"x"),
        ("application/zip", b"PK"),
        ("text/plain", b"a\0b"),
        ("", b"\0\1\2"),
        ("video/mp4", b""),
    ],
)
async def test_content_without_text_is_refused(kind, body):
    handle, _ = served(body, kind)
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),))
    assert found.code == "unsupported_content_type"


RSS = """<?xml version="1.0"?><rss><channel><title>News &amp; more</title>
<item><title>One</title><link>https://e.org/1</link><description><![CDATA[<b>Bold</b> text]]></description><pubDate>Mon</pubDate></item>
<item><title>Two</title><description>&lt;p&gt;escaped&lt;/p&gt;</description></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>A</title>
<entry><title type="html">E</title><link href="https://e.org/e"/><updated>2026</updated><summary>S</summary></entry></feed>"""


async def test_feeds_are_lists_of_entries():
    for kind, body, title, text in (
        ("application/rss+xml", RSS, "News & more", "## One\nhttps://e.org/1\nMon\nBold text\n\n## Two\nescaped"),
        ("text/xml", ATOM, "A", "## E\nhttps://e.org/e\n2026\nS"),
    ):  # fmt: skip
        handle, _ = served(body.encode(), kind)
        async with serving(handle) as url:
            found = await fetched(url, allow_hosts=(host_of(url),))
        assert (found.title, found.text) == (title, text)


async def test_a_pdf_needs_a_reader(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    handle, _ = served(b"%PDF-1.7", "application/pdf")
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),))
    assert found.code == "unsupported_content_type"
    assert "'.[reader]'" in found.text


async def test_a_pdf_that_is_too_large_is_refused():
    handle, _ = served(b"%PDF-1.7" + b"x" * 5000, "application/pdf")
    async with serving(handle) as url:
        found = await fetched(url, allow_hosts=(host_of(url),), max_bytes=2000)
    assert found.code == "content_too_large"
