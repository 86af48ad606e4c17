"""A search engine with an HTTP API.

One retry after a server error or a timeout. A redirect is not followed, so that the key stays with
the configured host. What a client gets contains no key and no address with one.
"""

import asyncio
import logging
from collections.abc import Mapping

import aiohttp

from toolbridge.core.json import Json, JsonObject, dump_bytes, loads
from toolbridge.core.server_tools import SearchHit, ServerToolError
from toolbridge.environment import key_variable, secret
from toolbridge.server_tool_settings import SEARCH_VARIABLES, WebSearchSettings
from toolbridge.tools.web.bodies import BrokenCompression, UnknownCompression, read_body
from toolbridge.tools.web.engines import SearchEngine
from toolbridge.tools.web.hits import hit_of
from toolbridge.tools.web.search_query import SearchQuery

MOST = 2 * 1024 * 1024
"""The most bytes of an answer."""
_FIRST_SHARE = 0.6
"""The part of the time that the first attempt may take, so that a second one is possible."""
_log = logging.getLogger("toolbridge.tools")


class HttpSearch:
    """Searches with one engine."""

    def __init__(
        self,
        engine: SearchEngine,
        settings: WebSearchSettings,
        env: Mapping[str, str],
        session: aiohttp.ClientSession,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._session = session
        self._url = address_of(engine, settings, env)
        self._key, self._key_name = key_of(engine, settings, env)

    async def find(self, query: SearchQuery) -> list[SearchHit] | ServerToolError:
        engine = self._engine
        if len(query.text) > engine.longest:
            text = f"{engine.title} accepts queries of at most {engine.longest} characters"
            return ServerToolError("query_too_long", text)
        seconds = self._settings.timeout
        try:
            async with asyncio.timeout(seconds):
                answer = await self._ask(query, seconds * _FIRST_SHARE)
                if isinstance(answer, _Passing):
                    answer = await self._ask(query, seconds)
        except TimeoutError:
            answer = _Passing(f"did not answer within {seconds:g} s")
        if isinstance(answer, _Passing):
            return self._unavailable(str(answer))
        return answer if isinstance(answer, ServerToolError) else self._hits(answer)

    async def _ask(self, query: SearchQuery, seconds: float) -> "Json | ServerToolError | _Passing":
        try:
            async with asyncio.timeout(seconds), self._request(query) as response:
                if response.status != 200:
                    return self._rejected(response.status)
                body, more = await read_body(response, MOST)
        except TimeoutError:
            return _Passing(f"did not answer within {seconds:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return _Passing(f"cannot be reached ({type(error).__name__})")
        except (UnknownCompression, BrokenCompression) as error:
            return self._unavailable(f"answered with an unknown compression ({error})")
        if more:
            return self._unavailable(f"answered with more than {MOST} bytes")
        try:
            return loads(body)
        except ValueError:
            return self._unavailable("did not answer with JSON; check its `url`")

    def _request(self, query: SearchQuery) -> "aiohttp.client._RequestContextManager":
        engine = self._engine
        given = {**engine.parameters(query), **self._settings.parameters}
        headers = {"accept": "application/json"}
        if self._key:
            headers[engine.key_header] = f"{engine.key_prefix}{self._key}"
        body = None
        if engine.method == "POST":
            headers["content-type"] = "application/json"
            body = dump_bytes(given)
        return self._session.request(
            engine.method,
            self._url,
            data=body,
            params=_written(given) if body is None else None,
            headers=headers,
            allow_redirects=False,
            auto_decompress=False,
        )

    def _rejected(self, status: int) -> "ServerToolError | _Passing":
        engine = self._engine
        if status >= 500:
            return _Passing(f"answered with status {status}")
        if status == 429:
            text = f"{engine.title} has reached its rate limit or quota; try again later"
            return ServerToolError("too_many_requests", text)
        if engine.name == "searxng" and status == 403:
            return self._unavailable(
                "refused the format JSON (403); add `json` to `search.formats` in its settings.yml"
            )
        if status in {401, 403}:
            return self._unavailable(f"refused the key (status {status}); check {self._key_name}")
        if 300 <= status < 400:
            return self._unavailable(f"answered with a redirect ({status}); correct its `url`")
        if status in {413, 414}:
            return ServerToolError("request_too_large", f"{engine.title} refused the long query")
        return self._unavailable(f"answered with status {status}")

    def _unavailable(self, what: str) -> ServerToolError:
        _log.warning("toolbridge: web search: %s %s", self._engine.title, what)
        return ServerToolError("unavailable", f"{self._engine.title} {what}")

    def _hits(self, answer: Json) -> list[SearchHit]:
        engine = self._engine
        found: Json = answer
        for name in engine.hits:
            found = found.get(name) if isinstance(found, dict) else None
        items = found if isinstance(found, list) else []
        hits = (hit_of(item, (engine.link,), engine.snippets, engine.ages) for item in items)
        return [hit for hit in hits if hit is not None]


class _Passing(Exception):
    """A failure after which a second attempt may succeed."""


def address_of(engine: SearchEngine, settings: WebSearchSettings, env: Mapping[str, str]) -> str:
    """Return the URL of the engine's search."""
    base = settings.url
    if not base and engine.name == "searxng":
        base = next((env[v] for v in SEARCH_VARIABLES["searxng"] if env.get(v)), "")
    base = (base or engine.base).rstrip("/")
    # People copy the address of SearXNG with its path.
    return base if base.endswith(engine.path.rstrip("/") or "//") else f"{base}{engine.path}"


def key_of(
    engine: SearchEngine, settings: WebSearchSettings, env: Mapping[str, str]
) -> tuple[str, str]:
    """Return the key, and the setting or the variable that it comes from."""
    if settings.key:
        variable = key_variable(settings.key)
        return secret(settings.key, env), variable or "`server_tools.web_search.key`"
    if engine.name == "searxng":
        return "", "`server_tools.web_search.key`"
    names = SEARCH_VARIABLES[engine.name]
    variable = next((name for name in names if env.get(name)), names[0])
    return env.get(variable, ""), variable


def missing_key(engine: SearchEngine, settings: WebSearchSettings, env: Mapping[str, str]) -> str:
    """Return that the engine needs a key, with the next step; empty if it has what it needs."""
    key, name = key_of(engine, settings, env)
    if key or settings.url or not engine.needs_key:
        return ""
    return f"{engine.title} needs a key; set {name} in the environment, or `key`"


def _written(given: JsonObject) -> dict[str, str]:
    """Return parameters as texts for a query string."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }
