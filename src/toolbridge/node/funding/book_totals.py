"""Totals of the books: what was paid, refunded, billed and spent on gas, per currency and per day."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from toolbridge.node.funding.books import BookEntry

_MADE = frozenset({"open", "closed", "done"})
"""States of a payment that the chain has."""


@dataclass(frozen=True)
class CurrencyTotal:
    """The sums of one currency, in its smallest unit."""

    currency: str
    paid: int
    jobs: int
    refunded: int
    claimed: int
    tokens: int
    """Tokens that hosts billed."""
    gas: int
    withdrawn: int

    @property
    def open(self) -> int:
        """Deposits that are neither refunded nor billed yet."""
        return self.paid - self.refunded - self.claimed


def totals(rows: Sequence[BookEntry]) -> list[CurrencyTotal]:
    """Return the sums of each currency."""
    return [
        _total(one, [row for row in rows if row.currency.lower() == one])
        for one in _currencies(rows)
    ]


def _currencies(rows: Sequence[BookEntry]) -> list[str]:
    return sorted({row.currency.lower() for row in rows})


def _total(currency: str, rows: Sequence[BookEntry]) -> CurrencyTotal:
    def sum_of(kind: str) -> int:
        return sum(row.amount for row in rows if row.kind == kind)

    paid = [row for row in rows if row.kind == "payment" and row.state in _MADE and row.job]
    return CurrencyTotal(
        currency,
        sum(row.amount for row in paid),
        len(paid),
        sum_of("refund"),
        sum_of("claim"),
        sum(row.tokens for row in rows if row.kind == "claim"),
        sum_of("gas"),
        sum_of("withdrawal"),
    )


def per_day(rows: Sequence[BookEntry], currency: str) -> list[tuple[str, int]]:
    """Return what hosts billed and gas has cost on each day, oldest first."""
    days: dict[str, int] = {}
    for row in rows:
        if row.currency.lower() == currency and row.kind in {"claim", "gas"}:
            day = time.strftime("%Y-%m-%d", time.localtime(row.at))
            days[day] = days.get(day, 0) + row.amount
    return sorted(days.items())
