"""DuckDuckGo and other engines without a key, by the package `ddgs` (extra `duckduckgo`).

The package reads the pages of search engines, which may change or refuse it without notice. It is
never chosen automatically. Its functions block, so they run in a thread.
"""

from typing import TYPE_CHECKING

from toolbridge.core.errors import ConfigError
from toolbridge.core.server_tools import SearchHit, ServerToolError
from toolbridge.server_tool_settings import WebSearchSettings
from toolbridge.tools.threads import Threads
from toolbridge.tools.web.engines import with_sites
from toolbridge.tools.web.hits import hits_in
from toolbridge.tools.web.search_query import SearchQuery

if TYPE_CHECKING:
    from toolbridge.core.json import Json

NO_PACKAGE = "duckduckgo needs the package ddgs; run `pip install '.[duckduckgo]'` in the clone"
_MOST = 2
"""The most searches at a time; the engines limit the rate."""


class DdgsSearch:
    def __init__(self, settings: WebSearchSettings) -> None:
        try:
            import ddgs
        except ImportError:
            raise ConfigError(NO_PACKAGE, where="server_tools.web_search.backend") from None
        self._package = ddgs
        self._settings = settings
        self._threads = Threads(_MOST)

    async def find(self, query: SearchQuery) -> list[SearchHit] | ServerToolError:
        trouble = self._package.exceptions
        try:
            return hits_in(await self._threads.run(lambda: self._search(query)))
        except trouble.RatelimitException:
            return ServerToolError("too_many_requests", "the search engine limits the rate")
        except trouble.DDGSException as error:
            return ServerToolError("unavailable", f"ddgs: {str(error)[:200]}")

    def _search(self, query: SearchQuery) -> "Json":
        settings = self._settings
        with self._package.DDGS(timeout=max(1, int(settings.timeout))) as ddgs:
            found: Json = ddgs.text(
                with_sites(query, "{q} ({sites})"),
                region=f"{query.country.lower() or 'us'}-{query.language.lower() or 'en'}",
                max_results=query.count,
                **settings.parameters,
            )
        return found
