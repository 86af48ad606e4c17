"""`toolbridge mcp`: list, call, login and logout, as a person uses them."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import run_command as run
from tests.mcp_http import mcp_double
from tests.tools.mcp.test_oauth import visit

PROGRAM = Path(__file__).parents[1] / "mcp_program.py"
CONFIG = f"""
[server_tools.mcp.one]
command = "{sys.executable}"
args = ["{PROGRAM}"]
[server_tools.mcp.away]
url = "http://127.0.0.1:1/mcp"
enabled = false
"""


@pytest.fixture
def command(env, configure, tmp_path):
    def started(*args, config=CONFIG):
        configure(config)
        return run(env, "mcp", *args, cwd=tmp_path)

    return started


def test_servers_and_tools_are_listed(command):
    found = command("list")
    assert found.returncode == 0
    assert b"one " in found.stdout
    assert b"http://127.0.0.1:1/mcp (disabled)" in found.stdout
    found = command("list", "one")
    assert found.returncode == 0
    assert re.search(rb"^echo +Return the arguments$", found.stdout, re.MULTILINE)
    rows = [json.loads(line) for line in command("list", "one", "--json").stdout.splitlines()]
    assert rows[0]["name"] == "echo"
    assert rows[0]["read_only"] is True


def test_without_servers_the_table_is_named(command):
    assert b"[server_tools.mcp.NAME]" in command("list", config="").stdout


def test_a_tool_is_called(command):
    found = command("call", "one", "echo", '{"text": "hi"}')
    assert (found.returncode, found.stdout) == (0, b'{"text": "hi"}\n')
    found = command("call", "one", "image")
    assert found.stdout == b"here\n[image/png, 8 bytes]\n"
    found = command("call", "one", "fail")
    assert (found.returncode, found.stdout) == (1, b"it did not work\n")


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        (("list", "two"), 1, "there is no MCP server 'two' (configured: one, away)"),
        (("call", "one", "echo", "[1]"), 1, "JSON: must be a JSON object"),
        (("call", "one", "crash"), 1, "ended with status 3"),
        (("call", "one", "invalid"), 1, "bad arguments"),
        (("login", "one"), 1, "a server with a `command` has no login"),
    ],
)
def test_a_wrong_argument_is_an_error(command, args, status, text):
    found = command(*args)
    assert found.returncode == status
    assert text in found.stderr.decode()


@pytest.mark.parametrize("args", [(), ("nonsense",), ("call", "one"), ("login",)])
def test_a_missing_argument_shows_the_usage(command, args):
    found = command(*args)
    assert found.returncode == 2
    assert b"usage: toolbridge mcp" in found.stderr


def test_a_wrong_setting_names_its_place(command):
    found = command("list", config="[server_tools.mcp.one]\nurl = 'x'\n")
    assert found.returncode == 1
    assert "server_tools.mcp.one" in found.stderr.decode()


def test_output_to_a_closed_pipe_is_no_traceback(env, configure, tmp_path):
    configure(CONFIG)
    process = subprocess.Popen(
        [sys.executable, "-m", "toolbridge", "mcp", "list", "one"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=tmp_path,
    )  # fmt: skip
    process.stdout.close()
    trouble = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) in {141, 0}
    assert b"Traceback" not in trouble


async def test_a_login_is_stored_used_and_removed(env, configure, tmp_path):
    async with mcp_double(token="a1", tokens=["a1"]) as double:
        configure(f'[server_tools.mcp.one]\nurl = "{double.url}/mcp"\n')
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "toolbridge", "mcp", "login", "one", "--no-browser",
            stdout=subprocess.PIPE, env=env, cwd=tmp_path,
        )  # fmt: skip
        async with asyncio.timeout(60):
            assert b"open this address" in await process.stdout.readline()
            await visit((await process.stdout.readline()).decode().strip())
            assert await process.stdout.readline() == b"logged in at one\n"
            assert await process.wait() == 0

        async def shown(*args):
            other = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "toolbridge", "mcp", *args,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, cwd=tmp_path,
            )  # fmt: skip
            return (await other.communicate())[0].decode()

        assert "(logged in)" in await shown("list")
        assert '{"a": 1}' in await shown("call", "one", "echo", '{"a": 1}')
        assert "is removed" in await shown("logout", "one")
        assert "has no login" in await shown("logout", "one")
        assert "toolbridge mcp login one" in await shown("list", "one")
        double.token = ""
        assert "requires no login" in await shown("login", "one")
    assert not list((tmp_path / "state").rglob("one.json"))
