"""MCP servers over stdio: lists, calls, faults, restarts, and that no process is left."""

import asyncio
import json
import logging
import os
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from toolbridge.core.messages import Image, Text
from toolbridge.core.server_tools import McpOutput, SearchHit, ServerToolError
from toolbridge.server_tool_settings import (
    McpServerSettings,
    ServerToolSettings,
    WebSearchSettings,
)
from toolbridge.tools.mcp import server, session, stdio
from toolbridge.tools.mcp.servers import McpServers
from toolbridge.tools.web.search import SearchQuery, search_backend
from toolbridge.upstream.session import open_session

PROGRAM = Path(__file__).parents[2] / "mcp_program.py"
PROC = Path("/proc/self/stat").exists()
SHORT = 2.0
"""Seconds for a call that ends in time; other calls of the same server must be answered in it."""


@asynccontextmanager
async def started(*flags, env=None, **settings):
    given = {"command": sys.executable, "args": (str(PROGRAM), *flags)} | settings
    every = ServerToolSettings(mcp={"one": McpServerSettings(**given)})
    found = McpServers(every, env or {"PATH": os.environ["PATH"], "SECRET": "s3cret"})
    try:
        yield found
    finally:
        await found.close()


def text_of(found):
    assert isinstance(found, McpOutput), found
    return "".join(part.text for part in found.content if isinstance(part, Text))


def runs(pid):
    try:
        os.kill(pid, 0)
        # It may be gone before its state is read; on a system without /proc the number decides.
        return not PROC or " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


async def pid_of(servers):
    return json.loads(text_of(await servers.call("one", "env", {})))["pid"]


async def ended(pid):
    async with asyncio.timeout(30):
        while runs(pid):  # noqa: ASYNC110  another process
            await asyncio.sleep(0.02)


async def test_tools_are_listed_over_all_pages_and_called():
    async with started() as servers:
        found = await servers.tools("one")
        assert [tool.name for tool in found.tools][:3] == ["echo", "crash", "hang"]
        assert len(found.tools) == 16, "without those whose name is missing or too long"
        assert found.tools[0].read_only
        assert found.tools[0].schema["properties"] == {"text": {"type": "string"}}
        assert not found.tools[1].read_only
        assert text_of(await servers.call("one", "echo", {"text": "ü"})) == '{"text": "\\u00fc"}'
        unknown = await servers.call("one", "nothing", {})
        assert unknown.is_error
        assert "Unknown tool" in text_of(unknown)


async def test_many_calls_share_one_process():
    async with started() as servers:
        found = await asyncio.gather(
            *(servers.call("one", "echo", {"n": n}) for n in range(50)),
            pid_of(servers),
            pid_of(servers),
        )
    assert [json.loads(text_of(one))["n"] for one in found[:50]] == list(range(50))
    assert found[50] == found[51]


async def test_results_keep_images_and_bound_everything():
    async with started(max_tokens=100, max_image_bytes=1000) as servers:
        found = await servers.call("one", "image", {})
        assert found.content == (Text("here"), Image(data="iVBORw0KGgo=", media_type="image/png"))
        large = await servers.call("one", "large", {})
        assert len(large.content) == 1
        assert re.search(r"\[cut: \d+ more characters\]$", text_of(large))
        assert len(text_of(large)) < 1000
        every = await servers.call("one", "everything", {})
    texts = [part.text for part in every.content if isinstance(part, Text)]
    assert texts == [
        "[audio/wav, 9 bytes, left out: audio is not supported]",
        "[A](file:///a)",
        "file:///b:\nbb",
        "[application/zip, 9 bytes, left out]",
        "[content of the type 'hologram', left out]",
    ]
    assert sum(isinstance(part, Image) for part in every.content) == 1


async def test_an_image_that_is_too_large_becomes_a_note():
    async with started(max_image_bytes=1000) as servers:
        found = await servers.call("one", "large", {})
    assert not any(isinstance(part, Image) for part in found.content)


async def test_errors_of_a_tool_and_of_the_protocol():
    async with started() as servers:
        failed = await servers.call("one", "fail", {})
        assert failed == McpOutput((Text("it did not work"),), is_error=True)
        rejected = await servers.call("one", "reject", {})
        assert rejected == McpOutput((Text("reject: rejected"),), is_error=True)
        invalid = await servers.call("one", "invalid", {})
        assert invalid == ServerToolError("invalid_tool_input", "invalid: bad arguments")
        unknown = await servers.call("two", "echo", {})
        assert unknown.code == "unavailable"
        assert "configured: one" in unknown.text


async def test_a_crash_is_an_error_with_its_last_line_and_the_next_call_restarts():
    async with started() as servers:
        first = await pid_of(servers)
        found = await servers.call("one", "crash", {})
        assert found.code == "unavailable"
        assert "ended with status 3" in found.text
        assert "the reason of the crash" in found.text
        assert await pid_of(servers) != first


async def test_a_list_that_was_read_ends_a_row_of_failures():
    async with started() as servers:
        await servers.tools("one")
        for _ in range(2):
            assert (await servers.call("one", "crash", {})).code == "unavailable"
        assert text_of(await servers.call("one", "echo", {})) == "{}"


async def test_a_killed_server_is_restarted():
    async with started() as servers:
        first = await pid_of(servers)
        os.kill(first, 9)
        await ended(first)
        second = await pid_of(servers)
        assert second != first
        assert len((await servers.tools("one")).tools) == 16


async def test_a_server_that_cannot_start_is_tried_again_after_a_growing_pause(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(server.time, "monotonic", lambda: now)
    async with started("--dead") as servers:
        for _ in range(2):
            found = await servers.tools("one")
            assert "ended with status 7" in found.text
            assert "cannot start" in found.text
        found = await servers.tools("one")
        assert "has failed 2 times; it is started again in 1 s" in found.text
        now += 1.1
        assert "status 7" in (await servers.tools("one")).text
        assert "3 times; it is started again in 2 s" in (await servers.tools("one")).text


@pytest.mark.parametrize("command", ["no-such-program-4711", "/", ""])
async def test_a_command_that_does_not_exist_names_the_setting(command):
    async with started(command=command or "\0") as servers:
        found = await servers.tools("one")
    assert found.code == "unavailable"
    assert "server_tools.mcp.one.command" in found.text


async def test_a_call_that_hangs_ends_in_time_and_is_cancelled_at_the_server():
    async with started(timeout=SHORT) as servers:
        found = await servers.call("one", "hang", {})
        assert found.code == "execution_time_exceeded"
        assert "did not finish 'hang' within 2 s" in found.text
        await servers.call("one", "echo", {})
        heard = json.loads(text_of(await servers.call("one", "cancelled", {})))
    assert [message["method"] for message in heard] == [
        "notifications/initialized",
        "notifications/cancelled",
    ]


async def test_nothing_waits_longer_than_a_call_for_a_server_that_hangs_after_a_restart(
    monkeypatch,
):
    async with started(timeout=SHORT, start_timeout=600.0) as servers:
        await servers.tools("one")
        await servers.call("one", "crash", {})
        blocked = await servers.call("one", "block", {})
        assert blocked.code == "execution_time_exceeded"
        async with asyncio.timeout(60):  # less than `start_timeout`
            listed = await servers.tools("one")
            found = await servers.call("one", "echo", {})
        monkeypatch.setattr(stdio, "GRACE", 0.1)  # a server that hangs does not end by itself
    assert [tool.name for tool in listed.tools][:3] == ["echo", "crash", "hang"]
    assert "did not finish 'echo' within 2 s" in found.text


async def test_a_list_that_is_read_again_has_the_limit_of_a_call(monkeypatch):
    async with started(timeout=SHORT, start_timeout=600.0) as servers:
        await servers.tools("one")
        await servers.call("one", "block", {})
        monkeypatch.setattr(server, "LISTED", 0.0)
        async with asyncio.timeout(60):
            found = await servers.tools("one")
        monkeypatch.setattr(stdio, "GRACE", 0.1)  # a server that hangs does not end by itself
    assert found.code == "execution_time_exceeded"
    assert "did not list its tools within 2 s" in found.text


async def test_a_caller_that_leaves_cancels_the_call_at_the_server():
    async with started() as servers:
        await servers.tools("one")
        task = asyncio.create_task(servers.call("one", "hang", {}))
        # The call is sent before the answer to a later one can arrive.
        await asyncio.sleep(0)
        await servers.call("one", "echo", {})
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(20):
            while True:
                heard = json.loads(text_of(await servers.call("one", "cancelled", {})))
                if heard[-1]["method"] == "notifications/cancelled":
                    break
    assert task.cancelled()


async def test_a_server_that_is_silent_at_the_start_ends_in_time(monkeypatch):
    monkeypatch.setattr(stdio, "GRACE", 0.1)  # a server that hangs does not end by itself
    async with started("--silent", start_timeout=0.5) as servers:
        found = await servers.tools("one")
    assert found.code == "execution_time_exceeded"


async def test_lines_that_are_not_json_are_left_out(caplog):
    with caplog.at_level(logging.INFO):
        async with started("--garbage") as servers:
            assert text_of(await servers.call("one", "echo", {})) == "{}"
    assert "printed a line that is not JSON: Welcome!" in caplog.text


async def test_a_message_that_is_too_long_ends_the_process():
    async with started() as servers:
        first = await pid_of(servers)
        found = await servers.call("one", "huge_line", {})
        assert "more than 16777216 bytes" in found.text
        await ended(first)
        assert text_of(await servers.call("one", "echo", {})) == "{}"


async def test_requests_of_the_server_are_answered():
    async with started() as servers:
        first, second = json.loads(text_of(await servers.call("one", "ask", {})))
    assert first == {"jsonrpc": "2.0", "id": "s1", "result": {}}
    assert (second["id"], second["error"]["code"]) == ("s2", -32601)


async def test_a_changed_list_is_read_again():
    async with started() as servers:
        assert len((await servers.tools("one")).tools) == 16
        await servers.call("one", "change", {})
        assert len((await servers.tools("one")).tools) == 17


async def test_a_list_is_asked_for_once(monkeypatch):
    count = 0
    original = session.McpSession.list_tools

    async def counted(self):
        nonlocal count
        count += 1
        return await original(self)

    monkeypatch.setattr(session.McpSession, "list_tools", counted)
    async with started() as servers:
        await servers.tools("one")
        await servers.tools("one")
    assert count == 1


async def test_settings_choose_the_tools():
    async with started(allow_tools=("e*", "image"), deny_tools=("env",)) as servers:
        found = await servers.tools("one")
        assert [tool.name for tool in found.tools] == ["echo", "image", "everything"]
        for name in ("env", "fail"):
            refused = await servers.call("one", name, {})
            assert refused.code == "invalid_tool_input"


async def test_the_environment_is_small_and_the_directory_is_set(tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SECRET": "s", "KEY_OF_MINE": "k"}
    async with started(env=env, cwd="~") as servers:
        plain = json.loads(text_of(await servers.call("one", "env", {})))
    assert set(plain["names"]) <= {"HOME", "LC_CTYPE", "PATH"}
    assert plain["cwd"] == str(tmp_path)
    given = {"command": sys.executable, "args": (str(PROGRAM),), "env": {"MINE": "$KEY_OF_MINE"}}
    every = McpServers(ServerToolSettings(mcp={"one": McpServerSettings(**given)}), env)
    try:
        assert json.loads(text_of(await every.call("one", "env", {})))["mine"] == "k"
    finally:
        await every.close()


async def test_no_process_is_left_after_the_end(caplog):
    with caplog.at_level(logging.INFO):
        async with started("--child") as servers:
            pid = await pid_of(servers)
    await ended(pid)
    child = int(re.search(r"child (\d+)", caplog.text)[1])
    await ended(child)


async def test_a_server_that_ignores_its_end_is_killed(monkeypatch):
    monkeypatch.setattr(stdio, "GRACE", 0.1)
    async with started("--stubborn") as servers:
        pid = await pid_of(servers)
    await ended(pid)


async def test_older_versions_are_used_and_unknown_ones_refused():
    async with started("--old") as servers:
        assert text_of(await servers.call("one", "echo", {})) == "{}"
    async with started("--future") as servers:
        found = await servers.tools("one")
        assert "2099-01-01" in found.text


async def test_a_server_without_a_handshake_is_used():
    async with started("--stateless") as servers:
        assert len((await servers.tools("one")).tools) == 16


async def test_a_tool_of_a_server_can_be_the_web_search():
    settings = WebSearchSettings(backend="mcp", server="one", tool="search")
    async with started() as servers, open_session() as http:
        backend = search_backend(settings, {}, http, servers=servers)
        found = await backend.search(SearchQuery("hello"))
        assert found.hits == (SearchHit("https://e.org/1", "hello", "t"),)
        whole = search_backend(
            WebSearchSettings(backend="mcp", server="one", tool="echo"), {}, http, servers=servers
        )
        found = await whole.search(SearchQuery("hello"))
        assert found.hits == (SearchHit("mcp://one/echo", "echo", '{"query": "hello"}'),)
        failing = search_backend(
            WebSearchSettings(backend="mcp", server="one", tool="fail"), {}, http, servers=servers
        )
        assert (await failing.search(SearchQuery("hello"))).code == "unavailable"
