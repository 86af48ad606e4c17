"""The search engines with an HTTP API: the request of each, and where its results are.

A row has the address, the place of the key, the names of the fields of a result, and a function
that makes the parameters of a request. The facts are from the vendors' documentation.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.tools.web.search_query import SearchQuery

_LONGEST = 2000
_BRAVE = 400
"""Brave Search, web search: the most characters of `q`."""
_FIRST_DAY = date(1990, 1, 1)
"""Before the first page of the web."""
_OPERATORS = 300
"""The most characters of `site:` operators that are added to a query."""


class SearchEngine(msgspec.Struct, frozen=True):
    """The API of one search engine."""

    name: str
    title: str
    base: str
    """The address that the setting `url` replaces; empty if the setting is required."""
    path: str
    parameters: Callable[[SearchQuery], JsonObject]
    """The parameters for a query: a query string for `GET`, else a JSON body."""
    hits: tuple[str, ...] = ("results",)
    """The fields that lead to the list of results."""
    snippets: tuple[str, ...] = ("content",)
    """The fields of a result with its text; the first that is not empty is used."""
    link: str = "url"
    ages: tuple[str, ...] = ()
    method: str = "POST"
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    needs_key: bool = True
    longest: int = _LONGEST
    """The most characters of a query that the API accepts."""


def _searxng(query: SearchQuery) -> JsonObject:
    # SearXNG, search API: there is no parameter for dates, for the count and for domains.
    return {
        "q": with_sites(query, "{q} ({sites})"),
        "format": "json",
        "pageno": 1,
        "language": _locale(query) or "all",
    }


def _brave(query: SearchQuery) -> JsonObject:
    found: JsonObject = {
        "q": with_sites(query, "({q}) AND ({sites})", most=_BRAVE),
        "count": min(query.count, 20),
        "result_filter": "web",
        "text_decorations": "false",
    }
    found |= _some("country", query.country.upper()) | _some("search_lang", query.language)
    return found | _some("freshness", _days(query, "{after}to{before}"))


def _tavily(query: SearchQuery) -> JsonObject:
    found: JsonObject = {"query": query.text, "max_results": min(query.count, 20)}
    # Tavily, search: domains without paths, at most 300 included and 150 excluded.
    found |= _some("include_domains", [*_hosts(query.allow)][:300])
    found |= _some("exclude_domains", [*_hosts(query.block)][:150])
    return found | _some("start_date", query.after) | _some("end_date", query.before)


def _exa(query: SearchQuery) -> JsonObject:
    found: JsonObject = {
        "query": query.text,
        "type": "auto",
        "numResults": min(query.count, 100),
        # Exa, search: a result has no text unless `contents` asks for it.
        "contents": {"text": {"maxCharacters": 2000}},
    }
    found |= _some("includeDomains", [*query.allow])
    found |= _some("excludeDomains", [*query.block])
    found |= _some("userLocation", query.country.upper())
    found |= _some("startPublishedDate", query.after)
    return found | _some("endPublishedDate", query.before)


def _serper(query: SearchQuery) -> JsonObject:
    found: JsonObject = {"q": with_sites(query, "{q} ({sites})"), "num": query.count}
    found |= _some("gl", query.country.lower()) | _some("hl", query.language)
    # Google, search by date: `cd_min` and `cd_max` are written month first.
    return found | _some(
        "tbs", _days(query, "cdr:1,cd_min:{after:%m/%d/%Y},cd_max:{before:%m/%d/%Y}")
    )


def _jina(query: SearchQuery) -> JsonObject:
    found: JsonObject = {"q": with_sites(query, "{q} ({sites})"), "num": query.count}
    return found | _some("gl", query.country.lower()) | _some("hl", query.language)


def _ollama(query: SearchQuery) -> JsonObject:
    # Ollama, web search: at most 10 results, no domains, no country.
    return {"query": query.text, "max_results": min(query.count, 10)}


ENGINES = {
    engine.name: engine
    for engine in (
        SearchEngine(
            "searxng", "SearXNG", "", "/search", _searxng,
            ages=("publishedDate",), method="GET", needs_key=False,
        ),
        SearchEngine(
            "brave", "Brave Search", "https://api.search.brave.com/res/v1", "/web/search", _brave,
            hits=("web", "results"), snippets=("description",), ages=("page_age", "age"),
            method="GET", key_header="x-subscription-token", key_prefix="", longest=_BRAVE,
        ),
        SearchEngine(
            "tavily", "Tavily", "https://api.tavily.com", "/search", _tavily,
            ages=("published_date",), longest=400,
        ),
        SearchEngine(
            "exa", "Exa", "https://api.exa.ai", "/search", _exa,
            snippets=("text", "summary"), ages=("publishedDate",),
            key_header="x-api-key", key_prefix="",
        ),
        SearchEngine(
            "serper", "Serper", "https://google.serper.dev", "/search", _serper,
            hits=("organic",), snippets=("snippet",), link="link", ages=("date",),
            key_header="x-api-key", key_prefix="",
        ),
        SearchEngine(
            "jina", "Jina", "https://s.jina.ai", "/", _jina,
            hits=("data",), snippets=("description", "content"), ages=("date",), method="GET",
        ),
        SearchEngine("ollama", "Ollama", "https://ollama.com/api", "/web_search", _ollama),
    )
}  # fmt: skip
"""Name of the setting `backend` → the engine."""


def with_sites(query: SearchQuery, form: str, *, most: int = _LONGEST) -> str:
    """Return the text of a query with its domains as operators, for engines without a parameter.

    Operators that would make the text too long are left out; results are filtered in any case.
    """
    allowed = " OR ".join(_fitting(f"site:{_place(one)}" for one in query.allow))
    text = form.format(q=query.text, sites=allowed) if allowed else query.text
    blocked = " ".join(_fitting(f"-site:{_place(one)}" for one in query.block))
    whole = f"{text} {blocked}" if blocked else text
    return whole if len(whole) <= most else query.text


def _place(domain: str) -> str:
    """Return a domain for a `site:` operator, which takes no wildcard."""
    return domain.removeprefix("*.").partition("*")[0].rstrip("/")


def _fitting(operators: Iterable[str]) -> list[str]:
    found: list[str] = []
    size = 0
    for operator in operators:
        size += len(operator) + 4
        if size > _OPERATORS:
            break
        found.append(operator)
    return found


def _hosts(domains: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(domain.partition("/")[0] for domain in domains))


def _some(name: str, value: str | list[str]) -> JsonObject:
    """Return the parameter, or nothing for an empty value."""
    return {name: list(value) if isinstance(value, list) else value} if value else {}


def _locale(query: SearchQuery) -> str:
    if query.language and query.country:
        return f"{query.language.lower()}-{query.country.upper()}"
    return query.language.lower()


def _days(query: SearchQuery, form: str) -> str:
    """Return the range of days in `form`, for engines that take no open range; empty for none."""
    if not query.after and not query.before:
        return ""
    first = date.fromisoformat(query.after) if query.after else _FIRST_DAY
    last = date.fromisoformat(query.before) if query.before else datetime.now(UTC).date()
    return form.format(after=first, before=last)
