"""Check the MCP servers of the configuration: list their tools, call one, log in.

The servers are the tables [server_tools.mcp.NAME]. `login` opens the browser for a server that
requires a login (OAuth); the access token is stored in the state directory, for its owner only, and
renewed when it expires.
"""

import argparse
import asyncio
import base64
import os
import sys
import webbrowser
from collections.abc import Callable, Coroutine
from urllib.parse import urlsplit

import msgspec

from toolbridge.cli import options
from toolbridge.core.close_names import did_you_mean
from toolbridge.core.errors import MalformedRequest, ToolbridgeError
from toolbridge.core.json import JsonObject, dumps, maybe_object
from toolbridge.core.messages import Text
from toolbridge.core.printable import printable
from toolbridge.core.server_tools import ServerToolError
from toolbridge.environment import secret
from toolbridge.server_tool_settings import McpServerSettings, ServerToolSettings
from toolbridge.tools.mcp.logins import Logins
from toolbridge.tools.mcp.servers import McpServers

_DESCRIPTION = 70
_HELP = {
    "list": (
        "list the servers, or the tools of one",
        "With the name of a server, it is started or contacted, and its tools are listed.",
    ),
    "call": (
        "call a tool",
        "The result is printed. The exit status is 1 if the tool reports an error.",
    ),
    "login": (
        "log in at a server in the browser",
        "The access token is stored in the state directory and used from then on.",
    ),
    "logout": (
        "remove the login of a server",
        "The access token is deleted here; it is not revoked at the server.",
    ),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    add = options.add_subcommands(parser, _HELP)
    listed = add("list")
    listed.add_argument("name", metavar="NAME", nargs="?", help="the server (all servers)")
    listed.add_argument("--json", action="store_true", help="print one JSON line per tool")
    call = add("call")
    call.add_argument("name", metavar="NAME", help="the server")
    call.add_argument("tool", metavar="TOOL", help="the tool")
    call.add_argument(
        "given",
        metavar="JSON",
        nargs="?",
        default="{}",
        help='the arguments of the tool, such as {"path": "/"} ({})',
    )
    login = add("login")
    login.add_argument("name", metavar="NAME", help="the server")
    login.add_argument(
        "--no-browser", action="store_true", help="print the address instead of opening it"
    )
    logout = add("logout")
    logout.add_argument("name", metavar="NAME", help="the server")


def run(args: argparse.Namespace) -> int:
    settings = options.load(args).server_tools
    if args.what == "list" and args.name is None:
        return _list_servers(settings)
    if args.name not in settings.mcp:
        known = ", ".join(settings.mcp) or "none"
        raise MalformedRequest(
            f"there is no MCP server {args.name!r} (configured: {known}); add a table "
            f"[server_tools.mcp.{args.name}]{did_you_mean(args.name, settings.mcp)}",
            where="NAME",
        )
    return asyncio.run(_COMMANDS[args.what](args, settings))


class McpCommandFailed(ToolbridgeError):
    """A server, or a login, failed."""

    kind = "unreachable"


def _list_servers(settings: ServerToolSettings) -> int:
    if not settings.mcp:
        print("there are no MCP servers; add a table [server_tools.mcp.NAME] with command or url")
        return 0
    logins = Logins(os.environ)
    width = max(map(len, settings.mcp))
    for name, server in settings.mcp.items():
        where = server.url or " ".join([server.command, *server.args])
        notes = [] if server.enabled else ["disabled"]
        notes += ["logged in"] if logins.find(name) else []
        shown = f" ({', '.join(notes)})" if notes else ""
        print(f"{name:<{width}}  {printable(where)}{shown}")
    return 0


async def _list_tools(args: argparse.Namespace, settings: ServerToolSettings) -> int:
    servers = McpServers(settings, os.environ)
    try:
        found = await servers.tools(args.name)
    finally:
        await servers.close()
    if isinstance(found, ServerToolError):
        raise McpCommandFailed(found.text)
    width = max((len(tool.name) for tool in found.tools), default=0)
    for tool in found.tools:
        if args.json:
            row: JsonObject = {
                "name": tool.name, "description": tool.description, "inputSchema": tool.schema,
                "read_only": tool.read_only,
            }  # fmt: skip
            print(dumps(row))
        else:
            first = printable(tool.description.partition("\n")[0])[:_DESCRIPTION]
            print(f"{printable(tool.name):<{width}}  {first}".rstrip())
    if not found.tools and not args.json:
        print(f"{args.name} has no tools, or `allow_tools` and `deny_tools` leave none")
    return 0


async def _call(args: argparse.Namespace, settings: ServerToolSettings) -> int:
    given = maybe_object(args.given)
    if given is None:
        raise MalformedRequest("must be a JSON object", where="JSON")
    servers = McpServers(settings, os.environ)
    try:
        found = await servers.call(args.name, args.tool, given)
    finally:
        await servers.close()
    if isinstance(found, ServerToolError):
        raise McpCommandFailed(found.text)
    for part in found.content:
        if isinstance(part, Text):
            print("\n".join(printable(line) for line in part.text.split("\n")))
        else:
            size = len(base64.b64decode(part.data, validate=False))
            print(f"[{printable(part.media_type)}, {size} bytes]")
    return 1 if found.is_error else 0


async def _login(args: argparse.Namespace, settings: ServerToolSettings) -> int:
    from toolbridge.tools.mcp.oauth import OauthFailure
    from toolbridge.tools.mcp.oauth_login import challenge_of, log_in
    from toolbridge.upstream.address_guard import AddressGuard
    from toolbridge.upstream.addresses import is_private_host
    from toolbridge.upstream.session import open_session

    server = settings.mcp[args.name]
    if not server.url:
        raise MalformedRequest("a server with a `command` has no login", where="NAME")
    private = is_private_host(_host(server))
    async with open_session(resolver=AddressGuard(private=private)) as session:
        try:
            challenge = await challenge_of(server.url, session)
            if challenge is None:
                print(f"{args.name} requires no login")
                return 0
            login = await log_in(
                _with_secret(server), challenge, session, _opener(browser=not args.no_browser)
            )
        except OauthFailure as error:
            raise McpCommandFailed(f"the login at {args.name} failed: {error}") from None
    Logins(os.environ).save(args.name, login)
    print(f"logged in at {args.name}")
    return 0


async def _logout(args: argparse.Namespace, _settings: ServerToolSettings) -> int:
    removed = Logins(os.environ).forget(args.name)
    print(f"the login of {args.name} is removed" if removed else f"{args.name} has no login")
    return 0


_COMMANDS: dict[str, Callable[[argparse.Namespace, ServerToolSettings], Coroutine[None, None, int]]] = {
    "list": _list_tools, "call": _call, "login": _login, "logout": _logout,
}  # fmt: skip


def _opener(*, browser: bool) -> Callable[[str], None]:
    def show(address: str) -> None:
        if browser and webbrowser.open(address):
            print("the browser shows the login; waiting for it")
        else:
            print(f"open this address to log in:\n{printable(address)}")
        sys.stdout.flush()

    return show


def _with_secret(server: McpServerSettings) -> McpServerSettings:
    return msgspec.structs.replace(server, client_secret=secret(server.client_secret))


def _host(server: McpServerSettings) -> str:
    return urlsplit(server.url).hostname or ""
