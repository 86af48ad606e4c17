"""Runs the server tools of the settings: web search, page fetch, MCP servers, code execution.

Nothing is opened before the first call that needs it. Every failure is a `ServerToolError`, which
the model reads.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import aiohttp

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Text
from toolbridge.core.server_tools import (
    CodeOutput,
    McpConnection,
    McpListing,
    McpOutput,
    ServerCall,
    ServerTool,
    ServerToolError,
    ServerToolKind,
    ServerToolOutcome,
)
from toolbridge.server_tool_settings import ServerToolSettings, chosen_engine
from toolbridge.upstream.session import open_session

if TYPE_CHECKING:
    from toolbridge.tools.mcp.servers import McpServers
    from toolbridge.tools.web.fetch import PageFetcher
    from toolbridge.tools.web.search import ModelSearch, SearchBackend

_LONGEST_QUERY = 2000
_DATE = len("2026-01-31")


class ServerToolRunner:
    """The server tools of one gateway."""

    def __init__(self, settings: ServerToolSettings, env: Mapping[str, str]) -> None:
        self.settings = settings
        self._env = env
        self._session: aiohttp.ClientSession | None = None
        self._search: SearchBackend | None = None
        self._fetcher: PageFetcher | None = None
        self._servers: McpServers | None = None

    @property
    def engine(self) -> str:
        """The search engine in use; empty for none."""
        return chosen_engine(self.settings.web_search, self._env)

    @property
    def kinds(self) -> frozenset[ServerToolKind]:
        """The kinds of tools that can run with these settings."""
        settings = self.settings
        found: dict[ServerToolKind, bool] = {
            "web_search": bool(self.engine),
            "web_fetch": settings.web_fetch.enabled,
            "tool_search": settings.tool_search.enabled,
            "code_execution": bool(settings.code_execution.server),
            "mcp": True,  # without servers, the listing names the missing one
        }
        return frozenset(kind for kind, configured in found.items() if configured)

    async def run(
        self, call: ServerCall, tool: ServerTool, model_search: "ModelSearch | None" = None
    ) -> ServerToolOutcome:
        """Run a call and return its outcome; cancelling this stops the tool.

        `model_search` is for the engine `model`: it asks on behalf of one caller.
        """
        match call.kind:
            case "web_search":
                return await self._searched(_argument(call, "query"), tool, model_search)
            case "web_fetch":
                return await self._fetched(_argument(call, "url"), tool)
            case "code_execution":
                return await self._executed(_argument(call, "code"))
            case "mcp":
                label = self._label(tool.server, tool.mcp)
                if isinstance(label, ServerToolError):
                    return label
                return await self._mcp().call(label, call.name, call.arguments)
            case _:
                return ServerToolError("unavailable", f"the gateway cannot run {call.name}")

    async def listing(
        self, label: str, named: McpConnection | None
    ) -> McpListing | ServerToolError:
        """Return the tools of an MCP server; `named` is how a request describes it."""
        found = self._label(label, named)
        return found if isinstance(found, ServerToolError) else await self._mcp().tools(found)

    async def close(self) -> None:
        """Close connections and processes."""
        for opened in (self._session, self._fetcher, self._servers):
            if opened is not None:
                await opened.close()
        self._session = self._search = self._fetcher = self._servers = None

    # ── tools ────────────────────────────────────────────────────────────────

    async def _searched(
        self, query: str, tool: ServerTool, model_search: "ModelSearch | None"
    ) -> ServerToolOutcome:
        from toolbridge.tools.web.search import SearchQuery

        if len(query) > _LONGEST_QUERY:
            text = f"a query has at most {_LONGEST_QUERY} characters"
            return ServerToolError("query_too_long", text)
        settings = self.settings.web_search
        if not tool.live and not settings.cached:
            text = "the request allows no live access, and `web_search.cached` is off"
            return ServerToolError("unavailable", text)
        try:
            backend = self._search or self._open_search(model_search)
        except ConfigError as error:
            return ServerToolError("unavailable", str(error))
        after, before = tool.after[:_DATE], tool.before[:_DATE]
        return await backend.search(
            SearchQuery(
                query,
                settings.count,
                tool.allow,
                tool.block,
                tool.country,
                after=after,
                before=before,
            )
        )

    def _open_search(self, model_search: "ModelSearch | None") -> "SearchBackend":
        from toolbridge.tools.web.search import search_backend

        self._session = self._session or open_session()
        settings = self.settings.web_search
        servers = self._mcp() if self.engine == "mcp" else None
        found = search_backend(
            settings, self._env, self._session, servers=servers, model=model_search
        )
        if self.engine != "model":
            self._search = found
        return found

    async def _fetched(self, url: str, tool: ServerTool) -> ServerToolOutcome:
        from toolbridge.tools.web.fetch import PageFetcher

        fetcher = self._fetcher = self._fetcher or PageFetcher(self.settings.web_fetch)
        return await fetcher.fetch(
            url, allow=tool.allow, block=tool.block, limit_tokens=tool.content_tokens
        )

    async def _executed(self, code: str) -> ServerToolOutcome:
        settings = self.settings.code_execution
        arguments: JsonObject = {settings.argument: code}
        found = await self._mcp().call(settings.server, settings.tool, arguments)
        if not isinstance(found, McpOutput):
            return found
        text = "\n".join(part.text for part in found.content if isinstance(part, Text))
        return CodeOutput("", text, 1) if found.is_error else CodeOutput(text)

    def _mcp(self) -> "McpServers":
        from toolbridge.tools.mcp.servers import McpServers

        self._servers = self._servers or McpServers(self.settings, self._env)
        return self._servers

    def _label(self, label: str, named: McpConnection | None) -> str | ServerToolError:
        if named is None or not named.url:
            return label
        headers = dict(named.headers)
        token = headers.pop("authorization", "")
        return self._mcp().named(named.url, authorization=token, headers=headers)


def _argument(call: ServerCall, name: str) -> str:
    value = call.arguments.get(name)
    return value.strip() if isinstance(value, str) else ""
