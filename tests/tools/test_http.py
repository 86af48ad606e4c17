"""Tools at a URL: who is reached, what is sent, and what is made of the answer."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.tables import every_row

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import loads
from toolbridge.store.sqlite import SqliteStore
from toolbridge.tools.context import ToolContext
from toolbridge.tools.http import HttpTools
from toolbridge.tools.registry import Registry


class Place:
    """A server that answers as it is told, and remembers what it was asked."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.asked = []

    async def serve(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(
                line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line
            )
            body = await reader.readexactly(int(fields.get("content-length", 0)))
            self.asked.append((head.split("\r\n")[0], fields, loads(body)))
            answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
            if answer is not None:
                writer.write(answer)
                await writer.drain()
            else:
                await asyncio.sleep(30)
        finally:
            writer.close()


def answer(body, status=200, **headers):
    fields = {"content_type": "application/json", "content_length": len(body), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} X\r\n{lines}connection: close\r\n\r\n".encode() + body


@asynccontextmanager
async def placed(*answers, hosts=("127.0.0.1:{}",), **options):
    place = Place(answers)
    server = await asyncio.start_server(place.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with HttpTools([host.format(port) for host in hosts], **options) as tools:
        yield place, tools, port
    server.close()


async def call(tools, port, host="127.0.0.1", context=None, **options):
    tool = tools.tool("light.set", f"http://{host}:{port}/hook", timeout=2.0)
    registry = Registry([tool])
    return await registry.call("light.set", {"on": True}, context or ToolContext(), **options)


async def test_the_arguments_are_posted_with_the_key_of_the_call():
    store = SqliteStore()
    async with placed(answer(b'{"state":"on"}')) as (place, tools, port):
        mine = ToolContext(run="run_1", idempotency_key="k", store=store)
        outcome = await call(tools, port, context=mine)
        again = await call(tools, port, context=mine)
    await store.close()
    assert (outcome.result, again.result, again.cached) == ({"state": "on"}, {"state": "on"}, True)
    [(line, fields, body)] = place.asked
    assert line == "POST /hook HTTP/1.1"
    assert body == {"name": "light.set", "arguments": {"on": True}}
    assert len(fields["idempotency-key"]) == 32
    assert fields["x-toolbridge-run"] == "run_1"


@pytest.mark.req("TF-27")
@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_place_in_trouble_is_asked_again_with_the_same_key(status):
    async with placed(answer(b"busy", status), answer(b"7")) as (place, tools, port):
        outcome = await call(tools, port)
    assert outcome.result == 7
    first, second = (fields["idempotency-key"] for _, fields, _ in place.asked)
    assert first == second


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (answer(b"no such light", 404), "rejected"),
        (answer(b"", 302, location="http://127.0.0.1:1/other"), "redirected"),
        (answer(b"", 307, location="http://169.254.169.254/"), "redirected"),
        (answer(b"{broken"), "broken_wire"),
        (answer(b"[" * 100_000), "broken_wire"),
        (answer(b'"' + b"x" * 2_000_000 + b'"'), "too_large"),
    ],
)
async def test_an_answer_that_says_no_is_not_asked_for_again(said, reason):
    async with placed(said) as (place, tools, port):
        outcome = await call(tools, port)
    assert (outcome.code, outcome.result["error"]["reason"]) == ("tool_failed", reason)
    assert len(place.asked) == 1


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (answer(b"null"), None),
        (answer(b"", 204), None),
        (answer(b"caf\xc3\xa9", content_type="text/plain; charset=utf-8"), "café"),
        (answer(b'[{"id":1}]'), [{"id": 1}]),
    ],
)
async def test_what_a_place_answers_is_the_result(said, value):
    async with placed(said) as (_, tools, port):
        outcome = await call(tools, port)
    assert (outcome.code, outcome.result) == ("", value)


@pytest.mark.req("TF-26")
async def test_a_silent_place_is_left():
    async with placed(None) as (place, tools, port):
        outcome = await call(tools, port, timeout=0.2)
    assert (outcome.code, len(place.asked)) == ("tool_timeout", 2)


async def test_a_place_that_hangs_up_has_failed():
    async with placed(b"") as (place, tools, port):
        outcome = await call(tools, port)
    assert (outcome.code, len(place.asked)) == ("tool_failed", 2)


@every_row(
    ("hosts", "url", "allowed"),
    [
        (["example.com"], "https://example.com/x", True),
        (["example.com"], "http://EXAMPLE.com/x", True),
        (["example.com"], "https://example.com:8443/x", False),
        (["example.com:8443"], "https://example.com:8443/x", True),
        (["example.com:8443"], "https://example.com/x", False),
        (["*.example.com"], "https://api.example.com", True),
        (["*.example.com"], "https://example.com", False),
        (["*.example.com"], "https://evilexample.com", False),
        (["example.com"], "https://example.com.evil.org", False),
        (["example.com"], "https://evil.org/example.com", False),
        (["example.com"], "https://example.com@evil.org/", False),
        (["example.com"], "https://user:pw@example.com/", False),
        (["example.com"], "https://evil.org\\@example.com/", False),
        (["example.com"], "ftp://example.com/", False),
        (["example.com"], "file:///etc/passwd", False),
        (["example.com"], "//example.com/", False),
        (["example.com"], "https://example.com:port/", False),
        (["example.com"], "https://[::1/", False),
        (["[::1]:80"], "http://[::1]/", True),
        (["[::1]"], "http://[::1]/", True),
        (["127.0.0.1"], "http://2130706433/", False),
        ([], "https://example.com/", False),
    ],
)
def test_only_hosts_that_are_allowed_are_reached(hosts, url, allowed):
    tools = HttpTools(hosts)
    if allowed:
        assert tools.tool("t", url).name == "t"
    else:
        with pytest.raises(MalformedRequest) as caught:
            tools.tool("t", url)
        assert caught.value.problem.where == "url"
        assert "pw" not in str(caught.value)


async def test_localhost_is_reached_when_it_is_named():
    async with placed(answer(b"1"), hosts=("localhost:{}",)) as (_, tools, port):
        assert (await call(tools, port, host="localhost")).result == 1


@pytest.mark.parametrize("private", [False, True])
async def test_a_name_that_leads_inside_needs_permission(monkeypatch, private):
    async def resolve(self, host, port=0, family=0):
        return [
            {
                "hostname": host,
                "host": "127.0.0.1",
                "port": port,
                "family": 2,
                "proto": 0,
                "flags": 0,
            }
        ]

    monkeypatch.setattr("toolbridge.upstream.address_guard.DefaultResolver.resolve", resolve)
    hosts = ("inner.example:{}",)
    async with placed(answer(b"1"), hosts=hosts, private=private) as (place, tools, port):
        outcome = await call(tools, port, host="inner.example")
    assert (outcome.code == "", len(place.asked)) == (private, int(private))
    assert private or "private address" in outcome.message
