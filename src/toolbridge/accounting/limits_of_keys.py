"""Limits of a key: requests, tokens and dollars per window, and whether a request fits into them.

A request reserves what it may use at most before it is sent, and is settled with what it used. The
engines of the store keep the counters; the decisions are here. Dollars are counted in billionths,
as whole numbers, so that sums are exact.
"""

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from toolbridge.accounting.windows import PERIODS, Counter, Period, current, resets
from toolbridge.core.errors import MalformedRequest

NANOS = 1_000_000_000
"""Units of money in one US dollar."""
Measure: TypeAlias = Literal["requests", "tokens", "dollars"]
MEASURES: tuple[Measure, ...] = ("requests", "tokens", "dollars")


class Amounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Requests, tokens, and dollars in billionths."""

    requests: int = 0
    tokens: int = 0
    dollars: int = 0

    def of(self, what: Measure) -> int:
        return {"requests": self.requests, "tokens": self.tokens, "dollars": self.dollars}[what]

    def less(self, other: "Amounts") -> "Amounts":
        """Return the difference; a part may be negative."""
        return Amounts(
            self.requests - other.requests,
            self.tokens - other.tokens,
            self.dollars - other.dollars,
        )


class KeyLimit(msgspec.Struct, frozen=True):
    """The most that a key may use in one window; dollars in billionths."""

    what: Measure
    amount: int
    per: Period

    def __str__(self) -> str:
        return f"{shown(self.what, self.amount)} per {self.per}"


class LimitState(msgspec.Struct, frozen=True):
    """A limit, what was used of it, and when it resets."""

    limit: KeyLimit
    used: int
    held: int
    """What requests that are running have reserved."""
    resets: float


class KeyLimitReached(msgspec.Struct, frozen=True):
    """A limit without room for a request; without `state` it is the limit of running requests."""

    wanted: int
    state: LimitState | None = None
    running: int = 0

    @property
    def never_fits(self) -> bool:
        """Whether the request exceeds the limit by itself, so that waiting does not help."""
        return self.state is not None and self.wanted > self.state.limit.amount


def refuse(states: Iterable[LimitState], wanted: Amounts) -> KeyLimitReached | None:
    """Return the limit that `wanted` never fits into, else the one that resets last; None if all have room.

    What costs nothing exceeds no limit: a key without dollars may use the models that are free.
    """
    full = [
        KeyLimitReached(asked, state)
        for state in states
        if (asked := wanted.of(state.limit.what))
        and asked + state.used + state.held > state.limit.amount
    ]
    return max(full, key=_wait, default=None)


def _wait(found: KeyLimitReached) -> tuple[bool, float]:
    return found.never_fits, 0.0 if found.state is None else found.state.resets


def state_of(limit: KeyLimit, counter: Counter | None, held: Amounts, now: float) -> LimitState:
    """Return the state of a limit at `now`."""
    counted = current(counter, limit.per, now)
    # A request counts when it begins, so that running ones are in `used` already.
    reserved = 0 if limit.what == "requests" else held.of(limit.what)
    return LimitState(limit, counted.used, reserved, resets(counted, limit.per))


def parse_limit(what: Measure, text: str) -> KeyLimit:
    """Return the limit in `text`, such as `500/day` or `2.5M/month`; raise `MalformedRequest`."""
    form = re.fullmatch(r"([0-9]+(?:\.[0-9]{1,9})?)([kKmM]?)/(minute|day|month)", text.strip())
    if form is None:
        raise MalformedRequest(
            f"must be a number and a window, such as 100/day; the windows are {', '.join(PERIODS)}",
            where=f"--{what}",
        )
    number, scale, window = form.groups()
    amount = _units(number, what) * {"": 1, "k": 1_000, "m": 1_000_000}[scale.lower()]
    if amount % NANOS and what != "dollars":
        raise MalformedRequest("must be a whole number", where=f"--{what}")
    if not amount and what != "dollars":  # no dollars still allow models that cost nothing
        raise MalformedRequest(
            "must be more than 0; `toolbridge key revoke` ends all use of a key",
            where=f"--{what}",
        )
    per = next(period for period in PERIODS if period == window)
    return KeyLimit(what, amount if what == "dollars" else amount // NANOS, per)


def _units(number: str, what: Measure) -> int:
    whole, _, rest = number.partition(".")
    if len(whole) > 12:
        raise MalformedRequest("is too large", where=f"--{what}")
    return int(whole) * NANOS + int(rest.ljust(9, "0") or 0)


def shown(what: Measure, amount: int) -> str:
    """Return an amount with its unit, such as `1,000 tokens` or `$2.50`."""
    return dollars(amount) if what == "dollars" else f"{amount:,} {what}"


def dollars(nanos: int) -> str:
    """Return an amount of money, exact: at least two digits after the point."""
    sign, nanos = ("-" if nanos < 0 else ""), abs(nanos)
    rest = f"{nanos % NANOS:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}${nanos // NANOS:,}.{rest}"


def nanos(cost: float) -> int:
    """Return dollars in billionths."""
    return round(cost * NANOS)
