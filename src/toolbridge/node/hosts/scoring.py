"""Scores of hosts and a weighted random pick, with the weights of the vendor's client."""

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, TypeAlias

import msgspec

Mode: TypeAlias = Literal["auto", "cheapest", "reliable", "fastest"]

_FULL_STAKE = 10_000 * 10**18
_CHEAP, _EXPENSIVE = 100, 100_000
"""Stable prices with the best and the worst factor."""

SHORT_LIST = 10
"""Hosts that take part in the pick."""


class Weights(msgspec.Struct, frozen=True):
    """How much each factor counts in a mode; the weights add up to 1."""

    stake: float
    price: float
    uptime: float
    latency: float


WEIGHTS: dict[Mode, Weights] = {
    "auto": Weights(stake=0.35, price=0.30, uptime=0.20, latency=0.15),
    "cheapest": Weights(stake=0.15, price=0.70, uptime=0.10, latency=0.05),
    "reliable": Weights(stake=0.50, price=0.05, uptime=0.40, latency=0.05),
    "fastest": Weights(stake=0.10, price=0.20, uptime=0.10, latency=0.60),
}


class Factors(msgspec.Struct, frozen=True):
    """Factors of a host, each from 0 to 1; uptime is not measured, so its default is fixed."""

    stake: float
    price: float
    uptime: float = 0.95
    latency: float = 0.90


def factors(stake: int, price: int) -> Factors:
    """Return the factors of a stake (18 decimals) and a price in stablecoin."""
    return Factors(min(max(stake, 0), _FULL_STAKE) / _FULL_STAKE, _price(price))


def _price(price: int) -> float:
    if price <= 0 or price >= _EXPENSIVE:
        return 0.0
    return 1.0 if price <= _CHEAP else (_EXPENSIVE - price) / (_EXPENSIVE - _CHEAP)


def score(found: Factors, mode: Mode = "auto") -> float:
    """Return the weighted sum of the factors."""
    weights = WEIGHTS[mode]
    return (
        weights.stake * found.stake
        + weights.price * found.price
        + weights.uptime * found.uptime
        + weights.latency * found.latency
    )


def pick(scores: Sequence[float], chance: float) -> int:
    """Return the index that `chance` (0 to 1) selects, each in proportion to its score."""
    bounds = list(accumulate(scores))
    if not bounds or bounds[-1] <= 0:
        return min(int(chance * len(scores)), len(scores) - 1)
    return min(bisect(bounds, chance * bounds[-1]), len(scores) - 1)
