"""Budgets: what keys have used and reserved, in one place for all processes.

A request reserves before it is sent and settles when it has ended. A reservation has a lease that
its process renews. When the process is killed, another one settles it with what the journal of the
ledger has; if none does so in time, the lease ends, and only `least` is charged: what the request has
used for certain. A request that settles after its lease is charged the rest.
"""

from typing import Protocol

import msgspec

from toolbridge.accounting.limits_of_keys import Amounts, KeyLimit, KeyLimitReached, LimitState
from toolbridge.store.keys import KeyRecord

LEASE = 60.0
"""Seconds for which a reservation lives without renewal."""


class Reservation(msgspec.Struct, frozen=True):
    """What a running request may use at most."""

    id: str
    key: str
    limits: tuple[KeyLimit, ...]
    most: Amounts
    least: Amounts


class Budgets(Protocol):
    """Counts the use of keys; every method raises `StoreUnavailable` if it cannot.

    `now` is the time in seconds since the epoch. All methods are atomic over all processes.
    """

    async def reserve(
        self, key: KeyRecord, most: Amounts, least: Amounts, now: float
    ) -> Reservation | KeyLimitReached:
        """Reserve `most` and count the request; or return the limit without room for it."""

    async def settle(
        self, reservation: Reservation, used: Amounts, now: float, *, only_held: bool = False
    ) -> None:
        """Replace a reservation by what was used.

        With `only_held` charge nothing if it is not held any more: after its lease, or settled.
        """

    async def renew(self, reservations: list[Reservation], now: float) -> None:
        """Extend the leases of running requests."""

    async def states(self, key: KeyRecord, now: float) -> list[LimitState]:
        """Return what is used of each limit of a key."""

    async def close(self) -> None: ...
