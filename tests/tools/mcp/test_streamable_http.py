"""MCP servers over streamable HTTP: sessions, streams, faults, and servers that requests name."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.mcp_http import mcp_double
from tests.scripted_http import serving

from toolbridge.core.messages import Text
from toolbridge.core.server_tools import McpOutput, ServerToolError
from toolbridge.server_tool_settings import McpServerSettings, ServerToolSettings
from toolbridge.tools.mcp import streamable_http
from toolbridge.tools.mcp.servers import McpServers


@asynccontextmanager
async def connected(double, env=None, **settings):
    one = McpServerSettings(url=f"{double.url}/mcp", **settings)
    servers = McpServers(ServerToolSettings(mcp={"one": one}), env or {})
    try:
        yield servers
    finally:
        await servers.close()


def echoed(**arguments):
    return McpOutput((Text(json.dumps(arguments)),))


@pytest.mark.parametrize("mode", ["json", "sse", "batch"])
async def test_a_server_is_listed_called_and_its_session_deleted(mode):
    async with mcp_double(mode=mode) as double:
        async with connected(double) as servers:
            found = await servers.tools("one")
            assert [tool.name for tool in found.tools] == ["echo", "hang"]
            assert len(found.tools[0].description) == 1024
            assert "\u200b" not in found.tools[0].description
            assert await servers.call("one", "echo", {"a": 1}) == echoed(a=1)
        first, *others = [r for r in double.requests if r[1] is None or "method" in r[1]]
        assert "mcp-session-id" not in first[2]
        assert first[2]["accept"] == "application/json, text/event-stream"
        assert first[1]["params"]["clientInfo"]["name"] == "toolbridge"
        assert all(headers["mcp-session-id"] == "s1" for _, _, headers in others)
        assert all(headers["mcp-protocol-version"] == "2025-11-25" for _, _, headers in others)
        assert double.requests[-1][0] == "DELETE"
        assert double.methods() == [
            "initialize", "notifications/initialized", "tools/list", "tools/call",
        ]  # fmt: skip


async def test_a_request_of_the_server_in_a_stream_is_answered():
    async with mcp_double(mode="sse") as double, connected(double) as servers:
        await servers.tools("one")
        async with asyncio.timeout(20):
            while not any(m and m.get("id") == "srv" for _, m, _ in double.requests):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    answers = [
        message for _, message, _ in double.requests if message and message.get("id") == "srv"
    ]
    assert answers[0] == {"jsonrpc": "2.0", "id": "srv", "result": {}}


async def test_a_forgotten_session_is_begun_again_once():
    async with mcp_double() as double, connected(double) as servers:
        await servers.call("one", "echo", {})
        double.forget = True
        assert await servers.call("one", "echo", {"b": 2}) == echoed(b=2)
    assert double.methods().count("initialize") == 2
    assert double.methods().count("tools/call") == 3


async def test_a_server_without_a_handshake_gets_its_own_headers():
    async with mcp_double(version="2026-07-28") as double, connected(double) as servers:
        assert await servers.call("one", "echo", {"a": 1}) == echoed(a=1)
    _, message, headers = double.requests[-1]
    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "echo")
    assert message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("500", "status 500 (the reason)"),
        ("404", "status 404"),
        ("406", "status 406"),
        ("large", "more than 16777216 bytes"),
        ("large event", "broken answer"),
        ("html", "without a result"),
        ("cut", "broke off"),
        ("ended", "without a result"),
    ],
)
async def test_a_fault_is_an_error_of_the_tool(fault, text):
    async with mcp_double(fault=fault) as double, connected(double) as servers:
        found = await servers.call("one", "echo", {})
        assert isinstance(found, ServerToolError)
        assert found.code == "unavailable"
        assert text in found.text


async def test_a_server_that_is_not_there_is_an_error():
    settings = ServerToolSettings(mcp={"one": McpServerSettings(url="http://127.0.0.1:1/mcp")})
    servers = McpServers(settings, {})
    found = await servers.tools("one")
    await servers.close()
    assert "cannot be reached" in found.text


async def test_a_call_that_hangs_is_cancelled_at_the_server():
    async with mcp_double() as double, connected(double, timeout=0.5) as servers:
        found = await servers.call("one", "hang", {})
        assert found.code == "execution_time_exceeded"
        async with asyncio.timeout(20):
            await double.cancelled.wait()


async def test_a_caller_that_leaves_cancels_the_call_at_the_server():
    async with mcp_double() as double, connected(double) as servers:
        task = asyncio.create_task(servers.call("one", "hang", {}))
        async with asyncio.timeout(20):
            await double.heard.wait()
            task.cancel()
            await double.cancelled.wait()
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    _, message, _ = next(
        r for r in double.requests if r[1] and r[1]["method"].endswith("cancelled")
    )
    call = next(r for r in double.requests if r[1] and r[1]["method"] == "tools/call")
    assert message["params"]["requestId"] == call[1]["id"]


async def test_headers_and_tokens_come_from_the_settings_and_the_environment():
    async with mcp_double(token="t-1") as double:
        given = {"headers": {"X-Team": "$TEAM", "x-plain": "p"}, "authorization": "$TOKEN"}
        async with connected(double, {"TEAM": "blue", "TOKEN": "t-1"}, **given) as servers:
            assert await servers.call("one", "echo", {}) == echoed()
    _, _, headers = double.requests[0]
    assert (headers["x-team"], headers["x-plain"]) == ("blue", "p")


async def test_a_server_that_requires_a_login_names_the_command():
    async with mcp_double(token="t-1") as double, connected(double) as servers:
        found = await servers.tools("one")
    assert found.text == ("the MCP server 'one' requires a login; run `toolbridge mcp login one`")


async def test_a_redirect_is_followed_on_the_same_host_only():
    async with mcp_double() as double, connected(double) as servers:
        double.move_to = "/mcp?moved"
        assert await servers.call("one", "echo", {}) == echoed()
    async with mcp_double() as other, mcp_double(move_to=f"{other.url}/mcp") as double:
        async with connected(double, authorization="secret") as servers:
            found = await servers.call("one", "echo", {})
        assert "status 308" in found.text
        assert other.requests == []


# ── servers that a request names ─────────────────────────────────────────────


async def test_a_url_of_a_request_must_be_allowed():
    async with mcp_double(token="caller") as double:
        url = f"{double.url}/mcp"
        strict = McpServers(ServerToolSettings(), {})
        assert isinstance(strict.named(url), ServerToolError)
        anything = McpServers(ServerToolSettings(mcp_urls=("*",)), {})
        assert isinstance(anything.named(url), ServerToolError), "a private address"
        assert isinstance(anything.named("http://[::1/"), ServerToolError)
        assert isinstance(anything.named("https://mcp.example.org/mcp"), str)
        listed = McpServers(ServerToolSettings(mcp_urls=(url,)), {"HOME": "secret"})
        label = listed.named(url, authorization="caller")
        assert await listed.call(label, "echo", {"a": 1}) == echoed(a=1)
        assert listed.named(url, authorization="caller") == label
        assert listed.named(url, authorization="other") != label
        literal = listed.named(url, authorization="$HOME", headers={"x-a": "$HOME"})
        await listed.tools(literal)
        assert double.requests[-1][2]["authorization"] == "Bearer $HOME"
        assert double.requests[-1][2]["x-a"] == "$HOME", "no variable of the gateway is sent"
        for servers in (strict, anything, listed):
            await servers.close()


async def test_a_configured_server_is_found_by_its_url():
    async with mcp_double() as double, connected(double) as servers:
        assert servers.named(f"{double.url}/mcp") == "one"
        assert isinstance(servers.named(f"{double.url}/mcp", authorization="x"), ServerToolError)


async def test_servers_of_requests_are_bounded():
    servers = McpServers(ServerToolSettings(mcp_urls=("https://*",)), {})
    first = servers.named("https://a.example.org/0")
    for n in range(1, 70):
        servers.named(f"https://a.example.org/{n}")
    found = await servers.tools(first)
    await servers.close()
    assert "there is no MCP server" in found.text


async def test_a_silent_server_does_not_fail_a_cleanup_that_a_timeout_began(monkeypatch):
    monkeypatch.setattr(streamable_http, "_END", 0.05)
    cleaned = []

    async def limited(transport):
        async with asyncio.timeout(0.01):
            try:
                await asyncio.Event().wait()
            finally:
                await transport.close()
                cleaned.append(transport)

    async def silent(got):
        await got.reader.read()

    async def headers(*_):
        return {}

    async with serving(silent) as url, aiohttp.ClientSession() as session:
        transport = streamable_http.StreamableHttp("one", url, session, headers, lambda _: None)
        transport._session_id = "s1"
        with pytest.raises(TimeoutError):
            await limited(transport)
    assert cleaned == [transport]
