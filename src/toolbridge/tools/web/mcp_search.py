"""A search by a tool of an MCP server, such as Exa's `web_search_exa`."""

from toolbridge.core.json import loads
from toolbridge.core.messages import Text
from toolbridge.core.server_tools import SearchHit, ServerToolError
from toolbridge.server_tool_settings import WebSearchSettings
from toolbridge.tools.mcp.servers import McpServers
from toolbridge.tools.web.hits import hits_in, hits_in_text
from toolbridge.tools.web.search_query import SearchQuery

_SHOWN = 300


class McpSearch:
    def __init__(self, settings: WebSearchSettings, servers: McpServers) -> None:
        self._settings = settings
        self._servers = servers

    async def find(self, query: SearchQuery) -> list[SearchHit] | ServerToolError:
        settings = self._settings
        given = {settings.argument: query.text, **settings.parameters}
        found = await self._servers.call(settings.server, settings.tool, given)
        if isinstance(found, ServerToolError):
            return found
        text = "\n\n".join(part.text for part in found.content if isinstance(part, Text))
        if found.is_error:
            return ServerToolError("unavailable", f"{settings.tool}: {text[:_SHOWN]}")
        return _read(text) or self._whole(text)

    def _whole(self, text: str) -> list[SearchHit]:
        """Return a text without addresses as one hit."""
        url = f"mcp://{self._settings.server}/{self._settings.tool}"
        return [SearchHit(url, self._settings.tool, text)] if text.strip() else []


def _read(text: str) -> list[SearchHit]:
    try:
        return hits_in(loads(text))
    except ValueError:
        return hits_in_text(text)
