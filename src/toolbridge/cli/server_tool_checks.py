"""What `doctor` and the banner report about the server tools: which can run, and what others lack.

The modules of a tool are loaded only if the settings name it: the banner must not delay the start.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from toolbridge.cli.store_checks import Checked
from toolbridge.core.server_tools import McpListing, ServerToolError
from toolbridge.environment import key_variable, secret
from toolbridge.server_tool_settings import (
    SEARCH_VARIABLES,
    McpServerSettings,
    ServerToolSettings,
    WebSearchSettings,
    chosen_engine,
)

_SEARCH = "server_tools.web_search"
_CODE = "server_tools.code_execution"


def describe_tools(settings: ServerToolSettings, env: Mapping[str, str]) -> list[str]:
    """Return the lines of the banner: the tools that can run, then what others lack."""
    missing = missing_parts(settings, env)
    engine = chosen_engine(settings.web_search, env)
    named = next((name for name in SEARCH_VARIABLES.get(engine, ()) if env.get(name)), "")
    by_variable = named and settings.web_search.backend == "auto"
    found = [f"web search by {engine}{f' ({named} is set)' if by_variable else ''}"]
    found = found if engine and _SEARCH not in missing else []
    found += ["page fetch"] if settings.web_fetch.enabled else []
    found += ["tool search"] if settings.tool_search.enabled else []
    found += ["code execution"] if settings.code_execution.server and _CODE not in missing else []
    servers = [label for label, server in settings.mcp.items() if server.enabled]
    if labels := [label for label in servers if _table(label) not in missing]:
        found.append(f"MCP servers {', '.join(labels)}")
    lines = [f"Server tools:   {', '.join(found) or 'none'}"]
    return lines + [f"PROBLEM:        {where}: {why}" for where, why in missing.items()]


def missing_parts(settings: ServerToolSettings, env: Mapping[str, str]) -> dict[str, str]:
    """Return what tools lack, by their tables; nothing is started or asked."""
    found = {_SEARCH: _search_lacks(settings.web_search, env)}
    found |= {
        _table(label): _server_lacks(server, env)
        for label, server in settings.mcp.items()
        if server.enabled
    }
    if label := settings.code_execution.server:
        cannot = found.get(_table(label), "is not enabled")
        found[_CODE] = f"its server cannot run; check [{_table(label)}]" if cannot else ""
    return {where: why for where, why in found.items() if why}


def _search_lacks(search: WebSearchSettings, env: Mapping[str, str]) -> str:
    name = chosen_engine(search, env)
    if not name:
        return ""
    from toolbridge.tools.web.ddgs_search import NO_PACKAGE
    from toolbridge.tools.web.engines import ENGINES
    from toolbridge.tools.web.http_search import missing_key

    if engine := ENGINES.get(name):
        return missing_key(engine, search, env)
    if name == "duckduckgo":
        return "" if find_spec("ddgs") else NO_PACKAGE
    if name == "command" and not _program(search.command[0], env.get("PATH"), ""):
        return f"there is no program {search.command[0]!r}; install it, or correct `command`"
    return ""


def _server_lacks(server: McpServerSettings, env: Mapping[str, str]) -> str:
    from toolbridge.tools.mcp.stdio import home_path

    path = server.env.get("PATH", env.get("PATH"))
    program, directory = home_path(server.command, env), home_path(server.cwd, env)
    if program and not _program(program, path, directory):
        return f"there is no program {server.command!r}; install it, or correct `command`"
    variable = key_variable(server.authorization)
    if variable and not secret(server.authorization, env):
        return f"${variable} is not set; export it, or correct `authorization`"
    return ""


def _program(name: str, path: str | None, directory: str) -> bool:
    """Whether a program can be started in `directory`."""
    if os.sep in name:
        return os.access(Path(directory or ".") / name, os.X_OK)
    return shutil.which(name, path=path) is not None


def _table(label: str) -> str:
    return f"server_tools.mcp.{label}"


# ── with requests ────────────────────────────────────────────────────────────


async def check_server_tools(settings: ServerToolSettings, env: Mapping[str, str]) -> list[Checked]:
    """Return whether each configured tool works. MCP servers are started, and SearXNG is asked."""
    from toolbridge.tools.mcp.servers import McpServers

    missing = missing_parts(settings, env)
    servers = McpServers(settings, env)
    labels = [label for label in servers.labels if _table(label) not in missing]
    try:
        listings = dict(zip(labels, await asyncio.gather(*map(servers.tools, labels)), strict=True))
    finally:
        await servers.close()
    found = [_bad(where, why) for where, why in missing.items()]
    found += [_server(label, listing) for label, listing in listings.items()]
    if chosen_engine(settings.web_search, env) and _SEARCH not in missing:
        found.append(await _search(settings.web_search, env, listings))
    code = settings.code_execution
    if code.server and _CODE not in missing:
        found.append(_tool(_CODE, code.tool, listings.get(code.server)))
    return found


def _bad(where: str, text: str) -> Checked:
    what, _, to_do = text.partition("; ")
    return False, f"{where}: {what}", to_do


def _server(label: str, listing: McpListing | ServerToolError) -> Checked:
    if isinstance(listing, ServerToolError):
        what, _, to_do = listing.text.partition("; ")
        return False, f"{_table(label)}: {what}", to_do or f"try `toolbridge mcp list {label}`"
    count = len(listing.tools)
    return True, f"{_table(label)} has {count} {'tool' if count == 1 else 'tools'}", ""


async def _search(
    search: WebSearchSettings,
    env: Mapping[str, str],
    listings: Mapping[str, McpListing | ServerToolError],
) -> Checked:
    from toolbridge.tools.web.search import search_backend
    from toolbridge.tools.web.search_query import SearchQuery
    from toolbridge.upstream.session import open_session

    engine = chosen_engine(search, env)
    if engine == "mcp":
        return _tool(_SEARCH, search.tool, listings.get(search.server))
    if engine != "searxng":  # other engines count or charge each request
        return True, f"{_SEARCH}: {engine} (not checked with a request)", ""
    async with open_session() as session:
        answer = await search_backend(search, env, session).search(SearchQuery("toolbridge", 1))
    if isinstance(answer, ServerToolError):
        what, _, to_do = answer.text.partition("; ")
        return False, f"{_SEARCH}: {what}", to_do or "start it, or correct `url`"
    return True, f"{_SEARCH}: {engine} answers", ""


def _tool(where: str, name: str, listing: McpListing | ServerToolError | None) -> Checked:
    """Return whether an MCP server has the tool that another table names."""
    if not isinstance(listing, McpListing):
        return False, f"{where}: its MCP server cannot run", ""
    names = [tool.name for tool in listing.tools]
    if name in names:
        return True, f"{where}: the tool {name!r} of an MCP server", ""
    return False, f"{where}: its MCP server has no tool {name!r}", f"set `tool`: {', '.join(names)}"
