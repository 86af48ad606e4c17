"""`doctor` and the banner: server tools that cannot work are named with what they lack."""

import sys
from pathlib import Path

import pytest
from tests.cli.test_commands import run
from tests.search_double import search_double

from toolbridge.cli import server_tool_checks
from toolbridge.cli.server_tool_checks import check_server_tools, describe_tools
from toolbridge.server_tool_settings import (
    CodeExecutionSettings,
    McpServerSettings,
    ServerToolSettings,
    WebSearchSettings,
)

PROGRAM = str(Path(__file__).parents[1] / "mcp_program.py")
MCP = McpServerSettings(command=sys.executable, args=(PROGRAM,), start_timeout=60.0)
ENV = {"PATH": "/usr/bin:/bin"}
ABSENT = McpServerSettings(command="no-such-program", offer=True)
BROKEN = [
    ({"web_search": WebSearchSettings("brave")}, "server_tools.web_search", "set BRAVE_API_KEY"),
    (
        {"web_search": WebSearchSettings("command", command=("/nonexist",))},
        "server_tools.web_search",
        "there is no program '/nonexist'",
    ),
    (
        {"web_search": WebSearchSettings("command", command=("nonexist",))},
        "server_tools.web_search",
        "there is no program 'nonexist'",
    ),
    ({"mcp": {"loc": ABSENT}}, "server_tools.mcp.loc", "there is no program 'no-such-program'"),
    (
        {"mcp": {"loc": McpServerSettings(url="http://h/mcp", authorization="$UNSET")}},
        "server_tools.mcp.loc",
        "$UNSET is not set",
    ),
    (
        {"mcp": {"loc": ABSENT}, "code_execution": CodeExecutionSettings("loc", "run")},
        "server_tools.code_execution",
        "its server cannot run; check [server_tools.mcp.loc]",
    ),
    (
        {
            "mcp": {"loc": McpServerSettings(command="sh", enabled=False)},
            "code_execution": CodeExecutionSettings("loc", "run"),
        },
        "server_tools.code_execution",
        "its server cannot run",
    ),
]


@pytest.mark.parametrize(("tables", "where", "lacks"), BROKEN)
async def test_what_is_missing_is_in_the_banner_and_in_doctor(tables, where, lacks):
    settings = ServerToolSettings(**tables)
    first, *problems = describe_tools(settings, ENV)
    assert first == "Server tools:   page fetch, tool search"
    assert any(where in line and lacks in line for line in problems)
    found = await check_server_tools(settings, ENV)
    shown = [f"{what}; {to_do}" for good, what, to_do in found if good is False]
    assert any(where in line and lacks in line for line in shown)


async def test_the_missing_extra_of_duckduckgo_is_named(monkeypatch):
    monkeypatch.setattr(server_tool_checks, "find_spec", lambda _: None)
    settings = ServerToolSettings(web_search=WebSearchSettings("duckduckgo"))
    [(good, what, to_do)] = await check_server_tools(settings, ENV)
    assert (good, "[duckduckgo]" in to_do) == (False, True), what


@pytest.mark.parametrize("cwd", ["", "inner"])
def test_a_program_is_found_relative_to_the_directory_of_the_server(tmp_path, monkeypatch, cwd):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / cwd / "bin" / "server"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    settings = {
        "one": McpServerSettings(command="bin/server", cwd=str(tmp_path / cwd) if cwd else "")
    }
    program.chmod(0o644)
    assert len(describe_tools(ServerToolSettings(mcp=settings), ENV)) > 1
    program.chmod(0o755)
    assert len(describe_tools(ServerToolSettings(mcp=settings), ENV)) == 1


async def test_tools_that_work_are_listed():
    settings = ServerToolSettings(
        web_search=WebSearchSettings("mcp", server="all", tool="search"),
        code_execution=CodeExecutionSettings("all", "echo"),
        mcp={"all": MCP},
    )
    [line] = describe_tools(settings, ENV)
    assert line.endswith(
        "web search by mcp, page fetch, tool search, code execution, MCP servers all"
    )
    found = await check_server_tools(settings, ENV)
    assert [good for good, *_ in found] == [True] * 3
    assert found[0][1] == "server_tools.mcp.all has 16 tools"
    assert describe_tools(ServerToolSettings(), {"TAVILY_API_KEY": "k"})[0].startswith(
        "Server tools:   web search by tavily (TAVILY_API_KEY is set), page fetch"
    )


async def test_a_server_that_does_not_start_and_a_tool_that_it_lacks_are_problems():
    dead = McpServerSettings(command=sys.executable, args=(PROGRAM, "--dead"))
    search = WebSearchSettings("mcp", server="all", tool="find")
    found = await check_server_tools(
        ServerToolSettings(search, mcp={"all": MCP, "dead": dead}), ENV
    )
    bad = {what: to_do for good, what, to_do in found if not good}
    assert any("server_tools.mcp.dead" in what and "ended with status 7" in what for what in bad)
    assert bad["server_tools.web_search: its MCP server has no tool 'find'"].startswith(
        "set `tool`"
    )


@pytest.mark.parametrize(
    ("fault", "what", "to_do"),
    [
        ("", "searxng answers", ""),
        (403, "refused the format JSON", "add `json` to `search.formats`"),
        ("html", "did not answer with JSON", "check its `url`"),
    ],
)
async def test_searxng_is_asked(fault, what, to_do):
    async with search_double() as double:
        double.faults += [fault] if fault else []
        settings = ServerToolSettings(WebSearchSettings("searxng", url=double.url))
        [(good, shown, next_step)] = await check_server_tools(settings, ENV)
    assert good is not bool(fault)
    assert what in shown
    assert to_do in next_step


def test_doctor_fails_for_a_tool_that_cannot_work(env, tmp_path, configure):
    configure('[server_tools.web_search]\nbackend = "searxng"\nurl = "http://127.0.0.1:1"')
    done = run(env, "doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert b"BAD   server_tools.web_search: SearXNG cannot be reached" in done.stdout
