"""One MCP server: its session, its list of tools, and its restart after a failure."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from toolbridge.core.json import JsonObject
from toolbridge.core.server_tools import McpListing, McpOutput, McpTool
from toolbridge.server_tool_settings import McpServerSettings
from toolbridge.tools.mcp.failures import McpClosed, McpRejection, McpTimedOut, SessionLost
from toolbridge.tools.mcp.results import output_of, tool_of
from toolbridge.tools.mcp.session import McpSession
from toolbridge.tools.mcp.transport import McpTransport, Receiver
from toolbridge.version import __version__

R = TypeVar("R")
LISTED = 300.0
"""Seconds for which a list of tools is used, unless the server reports a change."""
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0


class McpServer:
    """Connects on first use and stays connected."""

    def __init__(
        self,
        label: str,
        settings: McpServerSettings,
        connect: Callable[["McpServer", Receiver], Awaitable[McpTransport]],
        *,
        from_request: bool = False,
    ) -> None:
        self.label = label
        self.settings = settings
        self.from_request = from_request
        """Whether a request named the server, and not the configuration."""
        self._connect = connect
        self._session: McpSession | None = None
        self._opening = asyncio.Lock()
        self._listing: McpListing | None = None
        self._listed = 0.0
        self._failures = 0
        self._not_before = 0.0

    def permits(self, name: str) -> bool:
        """Whether the settings allow the tool."""
        allow, deny = self.settings.allow_tools, self.settings.deny_tools
        allowed = not allow or any(fnmatchcase(name, pattern) for pattern in allow)
        return allowed and not any(fnmatchcase(name, pattern) for pattern in deny)

    async def tools(self) -> McpListing:
        if (known := self._current_listing()) is not None:
            return known
        async with self._limit(self.settings.start_timeout, "did not start"):
            await self._opened()
        # A server that works on a call may not read anything else until that has ended.
        async with self._limit(self.settings.timeout, "did not list its tools"):
            found = self._current_listing() or self._listed_now(
                await self._with_session(McpSession.list_tools)
            )
        self._failures = 0
        return found

    def _current_listing(self) -> McpListing | None:
        return self._listing if time.monotonic() - self._listed < LISTED else None

    def _listed_now(self, found: list[JsonObject]) -> McpListing:
        tools = (tool for one in found if (tool := tool_of(one)) is not None)
        permitted = (tool for tool in tools if self.permits(tool.name))
        self._listing = McpListing(tuple(map(self._with_approval, permitted)))
        self._listed = time.monotonic()
        return self._listing

    async def call(self, name: str, arguments: JsonObject) -> McpOutput:
        # The start has its own limit: a server may be downloaded when it is started first.
        async with self._limit(self.settings.start_timeout, "did not start"):
            await self._opened()
        async with self._limit(self.settings.timeout, f"did not finish {name!r}"):
            result = await self._with_session(lambda session: session.call(name, arguments))
        return output_of(result, self.settings)

    def _with_approval(self, tool: McpTool) -> McpTool:
        approval = self.settings.approval
        needed = approval == "always" or (approval == "writes" and not tool.read_only)
        return replace(tool, needs_approval=True) if needed else tool

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # ── the session ──────────────────────────────────────────────────────────

    async def _with_session(self, use: Callable[[McpSession], Awaitable[R]]) -> R:
        try:
            found = await use(await self._opened())
        except SessionLost:
            # MCP, session management: the client begins a new session; nothing was called yet.
            await self.close()
            found = await use(await self._opened())
        self._failures = 0
        return found

    @asynccontextmanager
    async def _limit(self, seconds: float, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            text = f"the MCP server {self.label!r} {what} within {seconds:g} s"
            raise McpTimedOut(text) from None

    async def _opened(self) -> McpSession:
        async with self._opening:
            if self._session is not None and not self._session.closed:
                return self._session
            await self.close()
            wait = self._not_before - time.monotonic()
            if wait > 0:
                text = f"has failed {self._failures} times; it is started again in {wait:.0f} s"
                raise McpClosed(f"the MCP server {self.label!r} {text}")
            self._session = await self._open()
            return self._session

    async def _open(self) -> McpSession:
        self._listing = None
        session = McpSession(self.label, __version__, self._forget_listing)
        self._failures += 1
        pause = min(_FIRST_PAUSE * 2.0 ** (self._failures - 2), _LONGEST_PAUSE)
        # The first restart follows at once.
        self._not_before = time.monotonic() + (pause if self._failures > 1 else 0.0)
        try:
            await session.open(partial(self._connect, self))
            # The list is read before any call, which could delay it.
            with suppress(McpRejection):
                self._listed_now(await session.list_tools())
        except BaseException:
            await session.close()
            raise
        return session

    def _forget_listing(self) -> None:
        self._listing = None
