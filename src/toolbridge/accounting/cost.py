"""What an answer costs.

The price list is `genai_prices`, loaded when somebody first asks. Its own calculation takes the
current time unless it is given a `datetime`; this room has no clock, so it reads the list itself:
a price has a first day or hours of the day, and both compare with seconds since the epoch.
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
    """Return what `usage` costs at `at` (seconds since the epoch), or None where nobody knows.

    `rates` come from the configuration and go before the price list.
    """
    if rates is None:
        found = tariff(model, provider)
        rates = found.rates(at, usage.input_total) if found else None
    return None if rates is None else cost_of(usage, rates)


def cost_of(usage: Usage, rates: Rates) -> Cost:
    """Return tokens times rate, by what they were spent on. A rate that is missing is the input's."""
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
