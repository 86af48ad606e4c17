"""The cost of an answer in US dollars, by its token usage.

Prices come from the configuration, else from the list of the package `genai_prices`, which
`accounting.tariff` reads. Prices can depend on the date and the time of day, so callers pass the
time in seconds since the epoch.
"""

import msgspec

from toolbridge.accounting.tariff import Rates, tariff
from toolbridge.core import events as ev
from toolbridge.core.usage import Cost, Usage

__all__ = ["Pricing", "Rates", "price"]

_MILLION = 1_000_000


def price(
    usage: Usage, model: str, provider: str = "", rates: Rates | None = None, *, at: float
) -> Cost | None:
    """Return the cost of `usage` at the time `at`, or None if the model has no known price.

    `rates` from the configuration override the price list.
    """
    if rates is None:
        found = tariff(model, provider)
        rates = found.rates(at, usage.input_total) if found else None
    return None if rates is None else cost_of(usage, rates)


def cost_of(usage: Usage, rates: Rates) -> Cost:
    """Return tokens times rates. A missing cache rate is that of plain input."""
    short = usage.cache_write - usage.cache_write_long
    write = rates.input if rates.cache_write is None else rates.cache_write
    long = write if rates.cache_write_long is None else rates.cache_write_long
    read = rates.input if rates.cache_read is None else rates.cache_read
    spent_in = usage.input * rates.input / _MILLION
    spent_out = usage.output * rates.output / _MILLION
    spent_read = usage.cache_read * read / _MILLION
    spent_write = (short * write + usage.cache_write_long * long) / _MILLION
    return Cost(
        input=spent_in,
        output=spent_out,
        cache_read=spent_read,
        cache_write=spent_write,
        total=spent_in + spent_out + spent_read + spent_write,
    )


class Pricing:
    """A stage that adds the cost to every usage count.

    A cost that the provider itself reports stands, unless the configuration has rates.
    """

    def __init__(
        self, model: str, provider: str = "", rates: Rates | None = None, *, at: float
    ) -> None:
        self._model = model
        self._provider = provider
        self._rates = rates
        self._at = at

    def feed(self, piece: ev.Event, /) -> list[ev.Event]:
        if isinstance(piece, ev.UsageReported):
            return [ev.UsageReported(self._priced(piece.usage))]
        return [piece]

    def close(self) -> list[ev.Event]:
        return []

    def _priced(self, usage: Usage) -> Usage:
        if usage.cost is not None and self._rates is None:
            return usage
        cost = price(usage, self._model, self._provider, self._rates, at=self._at)
        return msgspec.structs.replace(usage, cost=cost)
