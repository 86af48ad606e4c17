"""A web search, and the interface of everything that can run one."""

from typing import Protocol

import msgspec

from toolbridge.core.server_tools import SearchHit, SearchHits, ServerToolError


class SearchQuery(msgspec.Struct, frozen=True):
    """What to search for, and where."""

    text: str
    count: int = 5
    allow: tuple[str, ...] = ()
    """Domains that the results must be in; empty for all."""
    block: tuple[str, ...] = ()
    country: str = ""
    """Two letters (ISO 3166)."""
    language: str = ""
    """Two letters (ISO 639)."""
    after: str = ""
    """The first day of publication, as `YYYY-MM-DD`; empty for any."""
    before: str = ""
    """The last day of publication, as `YYYY-MM-DD`; empty for any."""


class SearchBackend(Protocol):
    """Runs web searches."""

    async def search(self, query: SearchQuery) -> SearchHits | ServerToolError: ...


class HitSource(Protocol):
    """Finds hits; they are not filtered, bounded or cleaned yet."""

    async def find(self, query: SearchQuery) -> list[SearchHit] | ServerToolError: ...
