"""Charges: what a model request reserves of its key's budget, and what it has used in the end.

The gateway and structured streams open a `Charge` before a request is sent and close it in every
case: at the end of the answer, after an error, and when the client leaves. A key without limits and
the key of the configuration reserve nothing; the usage is computed for them all the same, for the
log, the metrics and the ledger.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolbridge.accounting.limits_of_keys import (
    Amounts,
    KeyLimitReached,
    nanos,
    refuse,
)
from toolbridge.accounting.spent import spent
from toolbridge.core.errors import Aborted, Busy, ToolbridgeError
from toolbridge.core.fold import Fold
from toolbridge.core.messages import Message
from toolbridge.core.usage import Usage
from toolbridge.policy.limits import DEFAULT_OUTPUT
from toolbridge.routing.key_refusals import PriceUnknown, refusal
from toolbridge.routing.models import Route
from toolbridge.routing.pricing import has_price, priced
from toolbridge.store import StoreUnavailable
from toolbridge.store.budgets import LEASE, Budgets, Reservation
from toolbridge.store.keys import KeyRecord
from toolbridge.store.notices import notice

Offline: TypeAlias = Literal["refuse", "allow"]
OnSpent: TypeAlias = Callable[[Message, bool], None]
_RENEWALS = 3
"""Renewals of a lease before it would end."""


class Asked(msgspec.Struct, frozen=True):
    """The size of a request: its prompt, and the most that its answer may have."""

    prompt: int
    max_tokens: int | None = None
    answers: int = 1

    def output(self, route: Route) -> int:
        """Return the most output tokens; a bounded default where the request has no limit."""
        known = route.target.max_output
        most = self.max_tokens or min(known or DEFAULT_OUTPUT, DEFAULT_OUTPUT)
        return (min(most, known) if known else most) * self.answers


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
        self._open: dict[str, Reservation] = {}
        self._renewing: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()
        self._trouble = ""

    async def open(self, key: KeyRecord | None, route: Route, asked: Asked) -> "Charge":
        """Reserve what the request may use; raise `BudgetExceeded` if the key has too little left."""
        charge = self.begin(key)
        await charge.fit(route, asked)
        return charge

    def begin(self, key: KeyRecord | None) -> "Charge":
        """Return a charge that reserves when the route of the request is known."""
        return Charge(self, key, self.clock())

    async def reserve(self, charge: "Charge", route: Route, asked: Asked) -> None:
        """Reserve for `route`, in place of what the charge holds if that is too small.

        Raise `BudgetExceeded` or `PriceUnknown` if the key may not use the route.
        """
        key, held = charge.key, charge.reservation
        if key is None or self._open_budgets is None or not (key.limits or key.concurrency):
            return
        least, most = await self._estimates(key, route, asked)
        if held is not None and _fits(most, held.most):
            return
        if (
            charge.counted
        ):  # for another route or pass: it is not one more request, and has its place
            most = msgspec.structs.replace(most, requests=0)
            key = msgspec.structs.replace(key, concurrency=0)
        if held is not None:
            charge.reservation = None
            await self.settle(held, Usage())
        if self._budgets is None:
            self._budgets = self._open_budgets()
        try:
            found = await self._reserve(self._budgets, key, most, least)
        except StoreUnavailable as error:
            self._report(error)
            if self._offline == "allow":
                return
            raise Busy(
                f"the limits of the key {key.name!r} cannot be checked: {error}; the gateway's "
                'operator can fix it, or set `limits_offline = "allow"`',
                retry_after=5.0,
            ) from None
        if isinstance(found, KeyLimitReached):
            raise refusal(key, found, self.clock())
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
        if self._budgets is None:
            self._budgets = self._open_budgets()
        try:
            states = await self._budgets.states(key, self.clock())
        except StoreUnavailable:  # the first call reports it
            return
        if (found := refuse(states, Amounts(1, 1, 1))) is not None:
            raise refusal(key, found, self.clock())

    async def _estimates(
        self, key: KeyRecord, route: Route, asked: Asked
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
        if self._renewing is not None:
            self._renewing.cancel()
        if self._settling:
            await asyncio.gather(*self._settling, return_exceptions=True)
        if self._budgets is not None:
            await self._budgets.close()


class Charge:
    """One model request: its reservation, and the answer as far as it was read."""

    def __init__(self, charges: Charges, key: KeyRecord | None, at: float) -> None:
        self._charges = charges
        self.key = key
        self._at = at
        self._route: Route | None = None
        """The route that answers; a chain may change it."""
        self._asked: Asked | None = None
        self.reservation: Reservation | None = None
        self.counted = False
        """Whether the request is counted, by a reservation for this route or another one."""
        self.reading: Fold | None = None
        """The answer as far as it was read; the reader sets it."""
        self.message: Message | None = None
        """The answer in the end."""
        self._earlier = Usage()
        """What earlier requests to the model for the same answer have used; it is settled."""
        self._refused = False
        """Whether the key had too little left for a further request to the model."""

    async def fit(self, route: Route, asked: Asked) -> None:
        """Reserve for `route`, which is tried now; raise if the key has too little left for it."""
        await self._charges.reserve(self, route, asked)
        self._route, self._asked = route, asked

    def leave(self) -> None:
        """Charge nothing for the route: its answer needs no model."""
        self._route = self._asked = None

    async def settle(self, message: Message) -> None:
        """Settle the reservation. Call it before the client gets the end of the answer.

        The client's next request may come at once, and must find the budget settled.
        """
        if (reservation := self.reservation) is not None:
            self.reservation = None
            usage, _ = self._last(message)
            await self._charges.settle(reservation, (await self._priced(message, usage)).usage)

    @asynccontextmanager
    async def settling(self, report: OnSpent) -> AsyncIterator[None]:
        """Settle at the end, whatever happens; call `report` with the answer and its usage."""
        try:
            yield
        except (asyncio.CancelledError, Aborted):
            await self._close(report, self._partial(left=True))
            raise
        except ToolbridgeError:
            await self._close(report, self._partial(left=False))
            raise
        except BaseException:
            await self._close(report, None)
            raise
        await self._close(report, self.message)

    def _partial(self, *, left: bool) -> Message | None:
        """Return the answer as far as it was read; None if nothing was used."""
        if self.message is not None:
            return self.message
        read = Message() if self.reading is None else self.reading.message
        if not left and not spent(read, 0)[0].total and not self._earlier.total:
            return None
        if left and not read.usage.input_total:  # the provider has read the prompt
            usage = msgspec.structs.replace(read.usage, input=self._prompt)
            read = msgspec.structs.replace(read, usage=usage)
        return msgspec.structs.replace(read, stop="aborted" if left else "error")

    async def _close(self, report: OnSpent, message: Message | None) -> None:
        await self.settle(message or Message())
        if message is None:
            return
        if self._asked is None:
            report(message, False)
            return
        usage, estimated = self._spent(message)
        report(await self._priced(message, usage), estimated)

    @property
    def _prompt(self) -> int:
        return 0 if self._asked is None else self._asked.prompt

    async def next_pass(self, usage: Usage, asked: Asked) -> None:
        """Settle a request to the model that was not the last for the answer; reserve the next one.

        Raise if the key has too little left for that.
        """
        if self._route is None:
            return
        if not usage.input_total:
            usage = msgspec.structs.replace(usage, input=self._prompt)
        self._earlier = self._earlier.plus(usage)
        if (reservation := self.reservation) is not None:
            self.reservation = None
            ended = await self._priced(Message(), usage)
            await self._charges.settle(reservation, ended.usage)
        await self.refit(asked)

    async def refit(self, asked: Asked) -> None:
        """Reserve for a request to the model that has another size; raise as `fit` does."""
        if self._route is None:
            return
        try:
            await self.fit(self._route, asked)
        except ToolbridgeError:
            self._refused = True
            raise

    def _last(self, message: Message) -> tuple[Usage, bool]:
        """Return the usage of the last request to the model, and whether it is estimated."""
        usage, estimated = spent(message, self._prompt)
        early = self._earlier
        if not early.total:
            return usage, estimated
        # The counts of an answer have the output of all requests and the prompt of the last one.
        output = max(usage.output - early.output, 0)
        if self._refused or (estimated and not output and message.stop != "aborted"):
            return Usage(), estimated  # it failed before it began
        last = msgspec.structs.replace(
            usage, output=output, reasoning=max(usage.reasoning - early.reasoning, 0)
        )
        if not estimated:
            return last, False
        prompt = {"input": self._prompt, "cache_read": 0, "cache_write": 0, "cache_write_long": 0}
        return msgspec.structs.replace(last, **prompt), True

    def _spent(self, message: Message) -> tuple[Usage, bool]:
        """Return the usage of all requests to the model, and whether it is estimated."""
        usage, estimated = self._last(message)
        return usage.plus(self._earlier), estimated

    async def _priced(self, message: Message, usage: Usage) -> Message:
        used = msgspec.structs.replace(message, usage=usage)
        return used if self._route is None else await priced(used, self._route, self._at)


class InnerCharges(Protocol):
    """Charges the caller for requests to other models that its own request causes."""

    def permit(self, address: str) -> None:
        """Raise `NotAllowed` if the caller may not use the model."""

    def call(self, route: Route, asked: Asked) -> AbstractAsyncContextManager[Charge]:
        """Reserve for one request, and settle it at the end of the context."""


def _fits(wanted: Amounts, reserved: Amounts) -> bool:
    return wanted.tokens <= reserved.tokens and wanted.dollars <= reserved.dollars
