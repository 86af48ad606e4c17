"""A cache by text that clients cannot fill: only short texts are kept.

Schemas and names come from requests, which may be megabytes long; a plain `lru_cache` bounds how
many of them it keeps, but not how large they are.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

T = TypeVar("T")
LONGEST = 16 * 1024
"""Characters; a tool's schema has some thousands."""


def cache_short(count: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Return a decorator that keeps the results for the last `count` texts that are short."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        cached = lru_cache(maxsize=count)(function)

        @wraps(function)
        def call(text: str) -> T:
            return cached(text) if len(text) <= LONGEST else function(text)

        return call

    return decorate
