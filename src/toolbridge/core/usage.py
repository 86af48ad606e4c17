"""Token counts of an answer, and their cost."""

from operator import attrgetter
from typing import Annotated, TypeAlias

import msgspec

from toolbridge.core.json import JsonObject


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    """The cost of an answer in US dollars, by kind of token."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts in which no token is counted twice.

    `input` excludes tokens that the cache read or wrote, as in Anthropic's `input_tokens`; OpenAI's
    `prompt_tokens` include them. Codecs convert their API's counts. `output` includes `reasoning`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_long: int = 0
    """The part of `cache_write` that is cached for an hour or more."""
    reasoning: int = 0
    searches: int = 0
    vision: int = 0
    """Tokens spent on describing images, where the provider counts them separately."""
    cost: Cost | None = None
    native: dict[str, JsonObject] = msgspec.field(default_factory=dict)
    """API → the provider's other counts, for clients of that API."""

    @property
    def input_total(self) -> int:
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        return self.input_total + self.output

    def plus(self, other: "Usage") -> "Usage":
        """Return the sums of all counts, with the cost and the other counts of this one."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return msgspec.structs.replace(self, **sums)


_INTEGER = 2**63 - 1
"""The largest integer of JSON readers in most languages, and of databases."""
TokenLimit: TypeAlias = Annotated[int, msgspec.Meta(le=_INTEGER)]
"""A limit in a request. Clients send the largest integer for "no limit"."""
MOST_TOKENS = 10**12
"""A count above this is an error of the provider; sums of counts below it fit into 64 bits."""
_MOST_DOLLARS = 1e6
"""A reported cost of one answer above this is one, too."""


def plausible(usage: Usage) -> Usage:
    """Return `usage` without counts that cannot be right; they are as if they were not reported."""
    counts = _counts_of(usage)
    if (
        min(counts) >= 0
        and max(counts) <= MOST_TOKENS
        and (usage.cost is None or 0 <= usage.cost.total <= _MOST_DOLLARS)
    ):
        return usage
    kept = {name: count for name in _COUNTS if 0 <= (count := getattr(usage, name)) <= MOST_TOKENS}
    cost = usage.cost
    if cost is not None and not 0 <= cost.total <= _MOST_DOLLARS:
        cost = None
    return Usage(**kept, cost=cost, native=usage.native)


_COUNTS = tuple(name for name in Usage.__struct_fields__ if name not in {"cost", "native"})
_counts_of = attrgetter(*_COUNTS)
