"""Hits of a search: read from JSON or text, cleaned, filtered and bounded."""

import re
from collections.abc import Iterable, Sequence

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.server_tools import SearchHit
from toolbridge.tools.web.domains import is_allowed
from toolbridge.tools.web.plain_text import one_line

TITLE = 120
"""The most characters of a title."""
_AGE = 40
_LONGEST_URL = 2048
_LINKS = ("url", "link", "href")
_TITLES = ("title", "name")
_SNIPPETS = ("snippet", "content", "text", "body", "description", "summary")
_AGES = ("age", "page_age", "publishedDate", "published_date", "date")
_DEEPEST = 6
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MARKDOWN_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\((https?://[^\s()]{1,2000})\)")
_FIELD = re.compile(
    r"^\W{0,4}(title|url|link|source|snippet|content|text|description|summary|highlights|published)"
    r"(?: date)?\W{0,4}:[ \t]*(.*)$",
    re.IGNORECASE | re.MULTILINE,
)


def kept(
    hits: Iterable[SearchHit],
    allows: Sequence[tuple[str, ...]],
    block: tuple[str, ...],
    *,
    count: int,
    snippet: int,
    days: tuple[str, str] = ("", ""),
) -> tuple[SearchHit, ...]:
    """Return at most `count` hits, each in every list of `allows`, without repeats, cleaned.

    Hits whose date is known and not in `days`, the first and the last day, are left out.
    """
    found: dict[str, SearchHit] = {}
    for hit in hits:
        url = hit.url.strip()
        same = url.partition("#")[0].rstrip("/")
        if not url or same in found or len(url) > _LONGEST_URL or not _is_address(url):
            continue
        if not _is_within(hit.age, *days):
            continue
        if all(is_allowed(url, allow, block) for allow in (allows or [()])):
            found[same] = _cleaned(hit, url, snippet)
        if len(found) == count:
            break
    return tuple(found.values())


def _is_address(url: str) -> bool:
    return url.startswith(("http://", "https://", "mcp://")) and not re.search(r"[\s<>\"]", url)


def _is_within(age: str, first: str, last: str) -> bool:
    """Whether a page was published in these days; True for an age that is not a date."""
    if not _DATE.match(age):
        return True
    day = age[:10]
    return (not first or day >= first) and (not last or day <= last)


def _cleaned(hit: SearchHit, url: str, snippet: int) -> SearchHit:
    text = one_line(hit.snippet, snippet)
    return SearchHit(url, one_line(hit.title, TITLE) or url, text, one_line(hit.age, _AGE))


def hit_of(
    item: Json, links: Sequence[str], snippets: Sequence[str], ages: Sequence[str]
) -> SearchHit | None:
    """Return the hit that an object of a result list describes; None for any other value."""
    if not isinstance(item, dict):
        return None
    url = _first(item, links)
    if not url:
        return None
    return SearchHit(url, _first(item, _TITLES), _first(item, snippets), _first(item, ages))


def hits_in(value: Json) -> list[SearchHit]:
    """Return the hits in JSON of an unknown shape: the first list of objects with an address."""
    level: list[Json] = [value]
    for _ in range(_DEEPEST):
        below: list[Json] = []
        for one in level:
            inner = list(one.values()) if isinstance(one, dict) else one
            if not isinstance(inner, list):
                continue
            found = [hit for item in inner if (hit := hit_of(item, _LINKS, _SNIPPETS, _AGES))]
            if found:
                return found
            below += inner
        level = below
    return []


def hits_in_text(text: str) -> list[SearchHit]:
    """Return the hits in a text: blocks of `Title:` and `URL:` lines, else its markdown links."""
    found = [hit for block in _blocks(text) if (hit := _from_fields(block))]
    if found:
        return found
    links = _MARKDOWN_LINK.findall(text)
    return [SearchHit(url, title) for title, url in links]


def _blocks(text: str) -> list[JsonObject]:
    """Return the fields of each block; a field that occurs again begins the next block."""
    found: list[JsonObject] = []
    end = 0
    matches = list(_FIELD.finditer(text))
    for at, match in enumerate(matches):
        name = match[1].lower()
        end = matches[at + 1].start() if at + 1 < len(matches) else len(text)
        if not found or name in found[-1]:
            found.append({})
        found[-1][name] = text[match.start(2) : end].strip()
    return found


def _from_fields(block: JsonObject) -> SearchHit | None:
    url = next((str(block[name]) for name in ("url", "link", "source") if name in block), "")
    if not url.startswith(("http://", "https://")):
        return None
    snippet = _first(block, ("snippet", "content", "text", "description", "summary", "highlights"))
    return SearchHit(url.split()[0], _first(block, ("title",)), snippet)


def _first(item: JsonObject, names: Sequence[str]) -> str:
    return next((text for name in names if isinstance(text := item.get(name), str) and text), "")
