"""Prices per token, from the price list of the package `genai_prices`.

The package takes 0.2 s to import and most of a millisecond per calculation, and calls the clock.
So each model is looked up once, on first use, and kept as plain rates.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from decimal import Decimal

    from genai_prices.types import ConditionalPrice, ModelPrice, TieredPrices

_DAY = 86_400
_EPOCH = 719_163  # the ordinal of 1970-01-01

_LONGEST_NAME = 256


class Rates(msgspec.Struct, frozen=True, omit_defaults=True):
    """US dollars per million tokens. A cache rate of None is the rate of plain input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_long: float | None = None
    """For cache entries with a lifetime of an hour (Anthropic `ttl: "1h"`); None is `cache_write`."""


class Period(msgspec.Struct, frozen=True):
    """The rates from a certain day on, or between two times of the day (UTC)."""

    steps: tuple[tuple[int, Rates], ...]
    """Pairs of (input tokens above which the rates apply to all tokens, rates), the highest first."""
    since: int = 0
    """The first day, in days since the epoch."""
    opens: float = 0.0
    closes: float = _DAY
    """Seconds of the day. A period that closes before it opens includes midnight."""

    def holds(self, at: float) -> bool:
        """Return whether the period includes the time `at`, in seconds since the epoch."""
        day, second = divmod(at, _DAY)
        if self.closes < self.opens:
            open_now = second >= self.opens or second < self.closes
        else:
            open_now = self.opens <= second < self.closes
        return day >= self.since and open_now


class Tariff(msgspec.Struct, frozen=True):
    """The prices of one model."""

    periods: tuple[Period, ...]
    """The last period that includes a time applies; if no period does, the first."""

    def rates(self, at: float, input_total: int) -> Rates:
        """Return the rates at the time `at` for a prompt of `input_total` tokens."""
        period = next((p for p in reversed(self.periods) if p.holds(at)), self.periods[0])
        return next(rates for above, rates in period.steps if input_total > above or not above)


def tariff(model: str, provider: str = "") -> Tariff | None:
    """Return the prices of a model, or None if the price list does not have it."""
    # Model names come from clients: names of any length must not fill the cache.
    return _tariff(model, provider) if len(model) <= _LONGEST_NAME else None


@lru_cache(maxsize=512)
def _tariff(model: str, provider: str) -> Tariff | None:
    from genai_prices.data_snapshot import get_snapshot
    from genai_prices.types import ModelPrice

    try:
        name = model.removesuffix("[1m]")
        _, found = get_snapshot().find_provider_model(name, None, provider or None, None)
    except LookupError:
        return None
    if isinstance(found.prices, ModelPrice):
        periods = [Period(_steps(found.prices))]
    else:
        periods = [_period(dated) for dated in found.prices]
    # Models that are priced per hour or per page have no price per token.
    return Tariff(tuple(periods)) if all(period.steps for period in periods) else None


def _period(dated: "ConditionalPrice") -> Period:
    from genai_prices.types import StartDateConstraint

    steps = _steps(dated.prices)
    limit = dated.constraint
    if limit is None:
        return Period(steps)
    if isinstance(limit, StartDateConstraint):
        return Period(steps, since=limit.start_date.toordinal() - _EPOCH)
    seconds: list[float] = []
    for time in (limit.start_time, limit.end_time):
        offset = time.utcoffset()  # None is UTC
        east = offset.total_seconds() if offset else 0.0
        seconds.append((time.hour * 3600 + time.minute * 60 + time.second - east) % _DAY)
    return Period(steps, opens=seconds[0], closes=seconds[1])


def _steps(prices: "ModelPrice") -> tuple[tuple[int, Rates], ...]:
    from genai_prices.types import TieredPrices

    named = [
        prices.input_mtok,
        prices.output_mtok,
        prices.cache_read_mtok,
        prices.cache_write_mtok,
        prices.cache_write_1h_mtok,
    ]
    if named[0] is None and named[1] is None:
        return ()
    tiered = [price for price in named if isinstance(price, TieredPrices)]
    starts = {0} | {tier.start for price in tiered for tier in price.tiers}
    return tuple((start, _rates(named, start)) for start in sorted(starts, reverse=True))


def _rates(prices: "list[Decimal | TieredPrices | None]", above: int) -> Rates:
    input, output, *cache = (_level(price, above) for price in prices)
    return Rates(input or 0.0, output or 0.0, *cache)


def _level(price: "Decimal | TieredPrices | None", above: int) -> float | None:
    """Return the price per million for prompts of more than `above` tokens."""
    from genai_prices.types import TieredPrices

    if not isinstance(price, TieredPrices):
        return None if price is None else float(price)
    reached = [tier.price for tier in price.tiers if tier.start <= above]
    return float(reached[-1] if reached else price.base)
