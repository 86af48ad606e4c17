"""The MCP servers of the configuration: connected on first use, shared by all requests.

A server that has ended is started again by the next use; after repeated failures only after a pause
that grows. Servers that a request names by URL are used if `server_tools.mcp_urls` allows their URL.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp

from toolbridge.core.close_names import close_names
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Text
from toolbridge.core.server_tools import McpListing, McpOutput, ServerToolError
from toolbridge.server_tool_settings import McpServerSettings, ServerToolSettings
from toolbridge.tools.mcp.failures import McpFailure, McpRejection, McpTimedOut
from toolbridge.tools.mcp.http_headers import HttpHeaders
from toolbridge.tools.mcp.logins import Logins
from toolbridge.tools.mcp.server import McpServer
from toolbridge.tools.mcp.stdio import StdioTransport
from toolbridge.tools.mcp.streamable_http import StreamableHttp
from toolbridge.tools.mcp.transport import McpTransport, Receiver
from toolbridge.upstream.address_guard import AddressGuard
from toolbridge.upstream.addresses import is_private_host
from toolbridge.upstream.session import open_session

R = TypeVar("R")
_MOST_NAMED = 64
"""The most servers named by requests that stay connected."""
_INVALID_PARAMS = -32602


class McpServers:
    """Lists and calls the tools of MCP servers, by the label of the server."""

    def __init__(self, settings: ServerToolSettings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._env = env
        self._logins = Logins(env)
        self._trusted: aiohttp.ClientSession | None = None
        self._guarded: aiohttp.ClientSession | None = None
        """Connects to public addresses only."""
        self._servers = {
            label: McpServer(label, one, self._connect)
            for label, one in settings.mcp.items()
            if one.enabled
        }
        self._named: OrderedDict[str, McpServer] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the configured servers."""
        return tuple(self._servers)

    async def tools(self, label: str) -> McpListing | ServerToolError:
        """Return the tools of a server that the settings allow."""
        server = self._found(label)
        if server is None:
            return _unknown(label, self.labels)
        try:
            return await _answered(server.tools())
        except McpRejection as error:
            text = f"the MCP server {label!r} does not list its tools: {error}"
            return ServerToolError("unavailable", text)

    async def call(
        self, label: str, name: str, arguments: JsonObject
    ) -> McpOutput | ServerToolError:
        """Return the result of a tool. A cancelled call is also cancelled at the server."""
        server = self._found(label)
        if server is None:
            return _unknown(label, self.labels)
        if not server.permits(name):
            text = f"the tool {name!r} of the MCP server {label!r} is not allowed"
            return ServerToolError("invalid_tool_input", text)
        try:
            return await _answered(server.call(name, arguments))
        except McpRejection as error:
            # Some servers reject a wrong argument with an error of the protocol.
            if error.code == _INVALID_PARAMS:
                return ServerToolError("invalid_tool_input", f"{name}: {error}")
            return McpOutput((Text(f"{name}: {error}"),), is_error=True)

    def named(
        self, url: str, *, authorization: str = "", headers: Mapping[str, str] | None = None
    ) -> str | ServerToolError:
        """Return a label for the server that a request names by URL, or why it is not allowed."""
        for label, server in self._servers.items():
            if server.settings.url == url and not authorization and not headers:
                return label
        if not self._is_allowed(url):
            text = f"the MCP server {url[:200]} is not allowed; add it to `server_tools.mcp_urls`"
            return ServerToolError("unavailable", text)
        given = dict(headers or {})
        label = f"{url}#{hash((authorization, *sorted(given.items()))):x}"
        if label not in self._named:
            settings = McpServerSettings(url=url, authorization=authorization, headers=given)
            self._named[label] = McpServer(label, settings, self._connect, from_request=True)
            self._drop_oldest()
        self._named.move_to_end(label)
        return label

    async def close(self) -> None:
        """End every session and every process."""
        servers = [*self._servers.values(), *self._named.values()]
        await asyncio.gather(*(server.close() for server in servers), *self._closing)
        for session in (self._trusted, self._guarded):
            if session is not None:
                await session.close()
        self._trusted = self._guarded = None

    def _found(self, label: str) -> McpServer | None:
        return self._servers.get(label) or self._named.get(label)

    def _is_allowed(self, url: str) -> bool:
        """Whether a request may name this URL: a private address only if the setting has all of it."""
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            return False
        if url in self._settings.mcp_urls:
            return True
        allowed = any(fnmatchcase(url, pattern) for pattern in self._settings.mcp_urls)
        return allowed and not is_private_host(host)

    def _drop_oldest(self) -> None:
        if len(self._named) > _MOST_NAMED:
            _, oldest = self._named.popitem(last=False)
            task = asyncio.create_task(oldest.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    # ── connections ──────────────────────────────────────────────────────────

    async def _connect(self, server: McpServer, receive: Receiver) -> McpTransport:
        settings, label = server.settings, server.label
        if settings.command:
            return await StdioTransport.open(label, settings, self._env, receive)
        # What a request names is sent as it is: `$NAME` would give it a variable of the gateway.
        env = None if server.from_request else self._env
        session = self._http_session(server)
        headers = HttpHeaders(label, settings, env, self._logins, session)
        return StreamableHttp(label, settings.url, session, headers.now, receive)

    def _http_session(self, server: McpServer) -> aiohttp.ClientSession:
        if server.from_request and server.settings.url not in self._settings.mcp_urls:
            self._guarded = self._guarded or open_session(resolver=AddressGuard(own=False))
            return self._guarded
        self._trusted = self._trusted or open_session()
        return self._trusted


async def _answered(work: Awaitable[R]) -> R | ServerToolError:
    """Return the result of `work`, or its failure as an error of the tool."""
    try:
        return await work
    except McpRejection:
        raise
    except McpTimedOut as error:
        return ServerToolError("execution_time_exceeded", str(error))
    except McpFailure as error:
        return ServerToolError("unavailable", str(error))


def _unknown(label: str, labels: tuple[str, ...]) -> ServerToolError:
    near = close_names(label, labels, 1)
    known = f"did you mean {near[0]!r}?" if near else f"configured: {', '.join(labels) or 'none'}"
    text = f"there is no MCP server {label[:200]!r} in [server_tools.mcp]; {known}"
    return ServerToolError("unavailable", text)
