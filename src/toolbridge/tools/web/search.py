"""Web search with the configured engine.

Every engine gets its results filtered by domain again, cleaned and bounded here, whatever it does
itself. Nothing is sent anywhere unless the settings or a variable of the environment name an engine.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import aiohttp
from msgspec.structs import replace

from toolbridge.core.errors import ConfigError
from toolbridge.core.server_tools import SearchHit, SearchHits, ServerToolError
from toolbridge.server_tool_settings import SEARCH_VARIABLES, WebSearchSettings, chosen_engine
from toolbridge.tools.mcp.servers import McpServers
from toolbridge.tools.web.engines import ENGINES
from toolbridge.tools.web.hits import kept
from toolbridge.tools.web.http_search import HttpSearch, missing_key
from toolbridge.tools.web.search_query import HitSource, SearchBackend, SearchQuery

__all__ = ["ModelSearch", "SearchBackend", "SearchQuery", "search_backend"]

ModelSearch: TypeAlias = Callable[[str, SearchQuery], Awaitable[SearchHits | ServerToolError]]
"""Asks a model that searches by itself; the first argument is the setting `model`."""
_WHERE = "server_tools.web_search"
_log = logging.getLogger("toolbridge.tools")


def search_backend(
    settings: WebSearchSettings,
    env: Mapping[str, str],
    session: aiohttp.ClientSession,
    *,
    servers: McpServers | None = None,
    model: ModelSearch | None = None,
) -> SearchBackend:
    """Return the configured search; raise `ConfigError` without one, or if it lacks something.

    `servers` is for the engine `mcp`, `model` for the engine `model`.
    """
    name = chosen_engine(settings, env)
    if not name:
        variables = ", ".join(names[0] for names in SEARCH_VARIABLES.values())
        text = f"no search engine is configured; set `backend`, or one of {variables}"
        raise ConfigError(text, where=_WHERE)
    if settings.backend == "auto":
        _log.info("toolbridge: web search uses %s, which a variable of the environment names", name)
    return FilteredSearch(_source(name, settings, env, session, servers, model), settings)


def _source(
    name: str,
    settings: WebSearchSettings,
    env: Mapping[str, str],
    session: aiohttp.ClientSession,
    servers: McpServers | None,
    model: ModelSearch | None,
) -> HitSource:
    if engine := ENGINES.get(name):
        if text := missing_key(engine, settings, env):
            raise ConfigError(text, where=_WHERE)
        return HttpSearch(engine, settings, env, session)
    if name == "duckduckgo":
        from toolbridge.tools.web.ddgs_search import DdgsSearch

        return DdgsSearch(settings)
    if name == "command":
        from toolbridge.tools.web.command_search import CommandSearch

        return CommandSearch(settings, env)
    if name == "mcp" and servers is not None:
        from toolbridge.tools.web.mcp_search import McpSearch

        return McpSearch(settings, servers)
    if name == "model" and model is not None:
        return _ModelSource(settings.model, model)
    raise ConfigError(f"the engine {name!r} is not available here", where=_WHERE)


class _ModelSource:
    def __init__(self, name: str, ask: ModelSearch) -> None:
        self._name = name
        self._ask = ask

    async def find(self, query: SearchQuery) -> list[SearchHit] | ServerToolError:
        found = await self._ask(self._name, query)
        return found if isinstance(found, ServerToolError) else list(found.hits)


class FilteredSearch:
    """A search whose hits are in the allowed domains, without tags, bounded and without repeats."""

    def __init__(self, source: HitSource, settings: WebSearchSettings) -> None:
        self._source = source
        self._settings = settings

    async def search(self, query: SearchQuery) -> SearchHits | ServerToolError:
        settings = self._settings
        if not query.text.strip():
            return ServerToolError("invalid_tool_input", "the query is empty")
        block = (*query.block, *settings.block)
        filtered = bool(query.allow or settings.allow or block or query.after or query.before)
        asked = replace(
            query,
            text=" ".join(query.text.split()),
            count=query.count * 2 if filtered else query.count,
            allow=query.allow or settings.allow,
            block=block,
            country=query.country or settings.country,
            language=query.language or settings.language,
        )
        found = await self._source.find(asked)
        if isinstance(found, ServerToolError):
            return found
        allows = (query.allow, settings.allow)
        limits = {"count": query.count, "snippet": settings.snippet}
        days = (query.after, query.before)
        return SearchHits(kept(found, allows, block, **limits, days=days))
