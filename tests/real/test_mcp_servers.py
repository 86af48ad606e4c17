"""Real MCP servers from the npm registry, over stdio and over HTTP: list, call, image, error, restart."""

import asyncio
import os
import subprocess
from contextlib import asynccontextmanager, contextmanager

import pytest
from tests.ports import HeldPort
from tests.real.clients import clean_environment, npm_install

from toolbridge.core.messages import Image, Text
from toolbridge.server_tool_settings import McpServerSettings, ServerToolSettings
from toolbridge.tools.mcp.servers import McpServers

pytestmark = pytest.mark.real

FILESYSTEM = "@modelcontextprotocol/server-filesystem@2026.8.31"
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"


def program(name, package):
    """Return the installed command of a server; skip the test if it cannot be installed."""
    place = npm_install(f"mcp-{name}", package)
    return str(place / "node_modules" / ".bin" / f"mcp-server-{name}")


@asynccontextmanager
async def opened(tmp_path, **settings):
    servers = McpServers(
        ServerToolSettings(mcp={"real": McpServerSettings(**settings)}),
        clean_environment(str(tmp_path)),
    )
    try:
        yield servers
    finally:
        await servers.close()


@contextmanager
def everything_at(tmp_path):
    """Run the server `everything` over HTTP on a free port of loopback; yield its URL."""
    command = program("everything", EVERYTHING)
    held = HeldPort()
    port = held.number
    process = subprocess.Popen(
        [command, "streamableHttp"],
        env=clean_environment(str(tmp_path)) | {"PORT": str(port)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for line in process.stderr:
            if str(port).encode() in line:
                break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(60)
        process.stderr.close()
        held.close()


def text_of(found):
    return "\n".join(part.text for part in found.content if isinstance(part, Text))


def pids_of(name):
    found = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", name], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in found.stdout.split()]


def has_exited(pid):
    """Whether a child and all of its threads have exited.

    A killed process of several threads has no command line any more, and pgrep does not find it,
    while its threads still exit.
    """
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


async def test_files_are_listed_and_read_and_a_path_outside_is_an_error(tmp_path):
    command = program("filesystem", FILESYSTEM)
    (tmp_path / "hello.txt").write_text("hello from a file\n")
    async with opened(tmp_path, command=command, args=(str(tmp_path),)) as servers:
        names = {tool.name: tool for tool in (await servers.tools("real")).tools}
        assert {"read_text_file", "write_file", "list_directory"} <= set(names)
        assert names["list_directory"].read_only
        assert "path" in names["read_text_file"].schema["properties"]
        path = {"path": str(tmp_path / "hello.txt")}
        assert "hello from a file" in text_of(await servers.call("real", "read_text_file", path))
        outside = await servers.call("real", "read_text_file", {"path": "/etc/passwd"})
        assert outside.is_error
        assert "denied" in text_of(outside).lower()
        wrong = await servers.call("real", "read_text_file", {})
        assert getattr(wrong, "is_error", True)


async def test_a_server_that_was_killed_is_started_again(tmp_path):
    command = program("filesystem", FILESYSTEM)
    async with opened(tmp_path, command=command, args=(str(tmp_path),)) as servers:
        await servers.tools("real")
        (pid,) = pids_of("mcp-server-filesystem")
        os.kill(pid, 9)
        async with asyncio.timeout(30):
            while not has_exited(pid):  # noqa: ASYNC110  another process
                await asyncio.sleep(0.05)
        found = await servers.call("real", "list_allowed_directories", {})
        assert str(tmp_path) in text_of(found)
        (other,) = pids_of("mcp-server-filesystem")
        assert other != pid
    assert pids_of("mcp-server-filesystem") == []


async def check_everything(servers):
    names = [tool.name for tool in (await servers.tools("real")).tools]
    assert "echo" in names
    assert "hello" in text_of(await servers.call("real", "echo", {"message": "hello"}))
    image = next(name for name in names if "image" in name.lower())
    found = await servers.call("real", image, {})
    (picture,) = [part for part in found.content if isinstance(part, Image)]
    assert picture.media_type == "image/png"
    assert picture.data.startswith("iVBORw0KGgo")
    unknown = await servers.call("real", "no_such_tool", {})
    assert getattr(unknown, "is_error", True)


async def test_everything_over_stdio(tmp_path):
    command = program("everything", EVERYTHING)
    async with opened(tmp_path, command=command, args=("stdio",)) as servers:
        await check_everything(servers)


async def test_everything_over_http_and_after_a_restart(tmp_path):
    with everything_at(tmp_path) as url:
        async with opened(tmp_path, url=url) as servers:
            await check_everything(servers)
            found = await asyncio.gather(
                *(servers.call("real", "echo", {"message": str(n)}) for n in range(10))
            )
            assert [text_of(one).endswith(str(n)) for n, one in enumerate(found)] == [True] * 10
