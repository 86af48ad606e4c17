"""A cache keyed by text that ignores long texts.

Schemas and names come from requests, which may be megabytes long. `lru_cache` limits the number of
its entries but not their size.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

T = TypeVar("T")
LONGEST = 16 * 1024
"""The longest key, in characters; the schema of a tool has a few thousand."""


def cache_short(count: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Return a decorator that caches the results for the last `count` short texts."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        cached = lru_cache(maxsize=count)(function)

        @wraps(function)
        def call(text: str) -> T:
            return cached(text) if len(text) <= LONGEST else function(text)

        return call

    return decorate
