"""Charges: what a model request reserves of its key's budget, and what it has used in the end.

The gateway and structured streams open a `Charge` before a request is sent and close it in every
case: at the end of the answer, after an error, and when the client leaves. A key without limits and
the key of the configuration reserve nothing; the usage is computed for them all the same, for the
log, the metrics and the ledger. Before a request is sent, and every two seconds while it runs, it is
noted in the journal of the ledger, for the case that the process is killed.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec

from toolbridge.accounting.limits_of_keys import (
    Amounts,
    KeyLimitReached,
    nanos,
    refuse,
)
from toolbridge.core.errors import Busy
from toolbridge.core.messages import Message
from toolbridge.core.usage import Usage
from toolbridge.routing.charge import (
    BudgetExceeded,
    Charge,
    ChargedRequest,
    PriceUnknown,
    RequestSize,
    RowJournal,
)
from toolbridge.routing.pricing import has_price, priced
from toolbridge.routing.route import Route
from toolbridge.store import StoreUnavailable
from toolbridge.store.budgets import LEASE, Budgets, Reservation
from toolbridge.store.keys import KeyRecord
from toolbridge.store.notices import notice
from toolbridge.upstream.turn_writes import before_writes

Offline: TypeAlias = Literal["refuse", "allow"]
_RENEWALS = 3
"""Renewals of a lease before it would end."""
_NOTING = 2.0
"""Seconds after which the output of running requests is noted again."""
_AT_ONCE = 100
"""Running requests that are noted in one step of the event loop, with one `write`."""


class Charges:
    """Opens charges, and renews the reservations of those that are open."""

    def __init__(
        self,
        open_budgets: Callable[[], Budgets] | None,
        offline: Offline = "refuse",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._open_budgets = open_budgets
        self._budgets: Budgets | None = None
        self._offline = offline
        self.clock = clock
        self.journal: RowJournal | None = None
        self._open: dict[str, Reservation] = {}
        self.waits_for_turns = False
        """Whether requests to providers are sent with `TurnWrites`, so that their rows may wait."""
        self._waiting: dict[Charge, None] = {}
        """The charges whose rows are noted before the bytes of this turn are sent."""
        self._running: set[Charge] = set()
        self._noting: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()
        self._trouble = ""

    def begin(self, key: KeyRecord | None, request: ChargedRequest) -> Charge:
        """Return a charge that reserves when the route of the request is known."""
        return Charge(self, key, request, self.clock())

    def follow(self, charge: Charge) -> None:
        """Note what the charge has used while it runs."""
        self._running.add(charge)
        if self._noting is None and self.journal is not None:
            self._noting = asyncio.create_task(self._note())

    def leave(self, charge: Charge) -> None:
        """Stop noting what the charge has used."""
        self._running.discard(charge)

    def may_wait(self, route: Route) -> bool:
        """Return whether the bytes for `route` are sent with `TurnWrites`."""
        return self.waits_for_turns and not (route.is_node or route.is_demo)

    def wait(self, charge: Charge) -> None:
        """Note the row of the charge before the bytes of this turn are sent.

        One write for all requests of the turn; and the code for the second and the following rows
        is in the caches of the processor, so that they take half the time.
        """
        if not self._waiting:
            before_writes(self._note_waiting)
        self._waiting[charge] = None

    def wait_no_longer(self, charge: Charge) -> None:
        """Leave out the row of the charge that waits, if there is one."""
        self._waiting.pop(charge, None)

    def _note_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if (journal := self.journal) is not None:
            try:
                for charge in waiting:
                    charge.note_waiting(journal)
            finally:
                journal.flush()

    async def _note(self) -> None:
        while self._running:
            await asyncio.sleep(_NOTING)
            running = tuple(self._running)
            for first in range(0, len(running), _AT_ONCE):
                await self._note_some(running[first : first + _AT_ONCE])
                await asyncio.sleep(0)  # other work of the event loop goes on
        self._noting = None

    async def _note_some(self, charges: tuple[Charge, ...]) -> None:
        if (journal := self.journal) is not None:
            try:
                for charge in charges:
                    await charge.note_so_far(journal)
            finally:
                journal.flush()

    async def settle_dead(self, held: list[tuple[Reservation, Amounts]]) -> None:
        """Settle what requests of a killed process have reserved."""
        for reservation, used in held:
            with suppress(StoreUnavailable):  # the lease ends
                await self._opened().settle(reservation, used, self.clock(), only_held=True)

    def _opened(self) -> Budgets:
        if self._budgets is None:
            if self._open_budgets is None:
                raise StoreUnavailable("there is no place for budgets")
            self._budgets = self._open_budgets()
        return self._budgets

    async def reserve(self, charge: Charge, route: Route, asked: RequestSize) -> None:
        """Reserve for `route`, in place of what the charge holds if that is too small.

        Raise `BudgetExceeded` or `PriceUnknown` if the key may not use the route.
        """
        key, held = charge.key, charge.reservation
        if key is None or self._open_budgets is None or not (key.limits or key.concurrency):
            return
        least, most = await self._estimates(key, route, asked)
        if held is not None and _fits(most, held.most):
            return
        if charge.counted:  # for another route or pass: it is not one more, and has its place
            most = msgspec.structs.replace(most, requests=0)
            key = msgspec.structs.replace(key, concurrency=0)
        if held is not None:
            charge.reservation = None
            await self.settle(held, Usage())
        try:
            found = await self._reserve(self._opened(), key, most, least)
        except StoreUnavailable as error:
            self._report(error)
            if self._offline == "allow":
                return
            raise Busy(
                # Addresses of servers and paths of files are in the notice, for the operator only.
                f"the limits of the key {key.name!r} cannot be checked now; the gateway's operator "
                'finds the cause with `toolbridge doctor`, or sets `limits_offline = "allow"`',
                retry_after=5.0,
            ) from None
        if isinstance(found, KeyLimitReached):
            raise _refusal(key, found, self.clock())
        charge.counted = True
        self._open[found.id] = charge.reservation = found
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())

    async def _reserve(
        self, budgets: Budgets, key: KeyRecord, most: Amounts, least: Amounts
    ) -> Reservation | KeyLimitReached:
        work = asyncio.ensure_future(budgets.reserve(key, most, least, self.clock()))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The client left meanwhile. The store may reserve all the same, so it is given back.
            self._track(self._give_back(work))
            raise

    async def _give_back(self, work: asyncio.Future[Reservation | KeyLimitReached]) -> None:
        with suppress(StoreUnavailable):
            if isinstance(found := await work, Reservation):
                await self._settle(found, Amounts())

    def _track(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run `work` as a task that `close` waits for."""
        task = asyncio.create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task

    async def check(self, key: KeyRecord) -> None:
        """Raise `BudgetExceeded` if a limit of the key is used up; reserve nothing."""
        if self._open_budgets is None or not key.limits:
            return
        try:
            states = await self._opened().states(key, self.clock())
        except StoreUnavailable:  # the first call reports it
            return
        if (found := refuse(states, Amounts(1, 1, 1))) is not None:
            raise _refusal(key, found, self.clock())

    async def _estimates(
        self, key: KeyRecord, route: Route, asked: RequestSize
    ) -> tuple[Amounts, Amounts]:
        """Return what the request uses at least and at most."""
        found = []
        for output in (0, asked.output(route)):
            usage = Usage(input=asked.prompt, output=output)
            cost = 0
            if any(limit.what == "dollars" for limit in key.limits) and has_price(route):
                counted = await priced(Message(usage=usage), route, self.clock())
                if counted.usage.cost is None:
                    raise PriceUnknown(
                        f"the key {key.name!r} has a limit of dollars, and the price of "
                        f"{route.address} is not known; the gateway's operator can set it: "
                        f'`rates` in [models."{route.address}"]'
                    )
                cost = nanos(counted.usage.cost.total)
            found.append(Amounts(1, usage.total, cost))
        return found[0], found[1]

    async def _renew(self) -> None:
        while self._open and self._budgets is not None:
            await asyncio.sleep(LEASE / _RENEWALS)
            if not self._open:
                break
            try:
                await self._budgets.renew(list(self._open.values()), self.clock())
            except StoreUnavailable as error:
                self._report(error)
        self._renewing = None

    async def settle(self, reservation: Reservation, usage: Usage) -> None:
        """Replace a reservation by `usage`, also if the caller is cancelled meanwhile."""
        self._open.pop(reservation.id, None)
        cost = nanos(usage.cost.total) if usage.cost is not None else 0
        settled = self._settle(reservation, Amounts(0, usage.total, cost))
        await asyncio.shield(self._track(settled))

    async def _settle(self, reservation: Reservation, used: Amounts) -> None:
        if self._budgets is None:
            return
        try:
            await self._budgets.settle(reservation, used, self.clock())
            self._trouble = ""
        except StoreUnavailable as error:  # its lease ends, and the least is charged
            self._report(error)

    def _report(self, error: StoreUnavailable) -> None:
        if not self._trouble:
            notice(f"budgets cannot be written: {error}")
        self._trouble = str(error)

    async def close(self) -> None:
        for task in (self._renewing, self._noting):
            if task is not None:
                task.cancel()
        if self._settling:
            await asyncio.gather(*self._settling, return_exceptions=True)
        if self._budgets is not None:
            await self._budgets.close()


def _fits(wanted: Amounts, reserved: Amounts) -> bool:
    return wanted.tokens <= reserved.tokens and wanted.dollars <= reserved.dollars


def _refusal(key: KeyRecord, found: KeyLimitReached, now: float) -> BudgetExceeded:
    from toolbridge.routing.key_refusals import refusal

    return refusal(key, found, now)
