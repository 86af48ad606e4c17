"""Charges: what a model request reserves of its key's budget, and what it has used in the end.

The gateway and structured streams open a `Charge` before a request is sent and close it in every
case: at the end of the answer, after an error, and when the client leaves. A key without limits and
the key of the configuration reserve nothing; the usage is computed for them all the same, for the
log, the metrics and the ledger.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Literal, TypeAlias

import msgspec

from toolbridge.accounting.limits_of_keys import (
    Amounts,
    KeyLimitReached,
    LimitState,
    nanos,
    refuse,
    shown,
)
from toolbridge.accounting.spent import spent
from toolbridge.core.errors import Aborted, Busy, NotAllowed, RateLimited, ToolbridgeError
from toolbridge.core.fold import Fold
from toolbridge.core.messages import Message
from toolbridge.core.usage import Usage
from toolbridge.policy.limits import DEFAULT_OUTPUT
from toolbridge.routing.models import Route
from toolbridge.routing.pricing import has_price, priced
from toolbridge.store import StoreUnavailable
from toolbridge.store.budgets import LEASE, Budgets, Reservation
from toolbridge.store.keys import KeyRecord
from toolbridge.store.notices import notice

Offline: TypeAlias = Literal["refuse", "allow"]
OnSpent: TypeAlias = Callable[[Message, bool], None]
_RETRY = 2.0
"""Seconds after which a client may try again while running requests hold the rest of a limit."""
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


class BudgetExceeded(RateLimited):
    """A key has too little left for a request to one address."""


class PriceUnknown(NotAllowed):
    """A key has a limit of dollars, and the address has no known price."""


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
        if charge.counted:  # for another route: it is not one more request
            most = msgspec.structs.replace(most, requests=0)
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
        if self._budgets is None:
            self._budgets = self._open_budgets()
        try:
            states = await self._budgets.states(key, self.clock())
        except StoreUnavailable:  # the first call reports it
            return
        if (found := refuse(states, Amounts(1, 1, 1))) is not None:
            raise _refusal(key, found, self.clock())

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
        self.earlier = Usage()
        """The prompts of earlier requests to the model for the same answer, while tools ran."""

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
            usage, _ = self._spent(message)
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
        if not left and not spent(read, 0)[0].total:
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

    def add_pass(self, usage: Usage) -> None:
        """Charge for a request to the model whose answer was not the last; its output is in that."""
        self.earlier = msgspec.structs.replace(
            self.earlier,
            input=self.earlier.input + usage.input,
            cache_read=self.earlier.cache_read + usage.cache_read,
            cache_write=self.earlier.cache_write + usage.cache_write,
            cache_write_long=self.earlier.cache_write_long + usage.cache_write_long,
        )

    def _spent(self, message: Message) -> tuple[Usage, bool]:
        usage, estimated = spent(message, self._prompt)
        early = self.earlier
        if not early.input_total:
            return usage, estimated
        total = msgspec.structs.replace(
            usage,
            input=usage.input + early.input,
            cache_read=usage.cache_read + early.cache_read,
            cache_write=usage.cache_write + early.cache_write,
            cache_write_long=usage.cache_write_long + early.cache_write_long,
        )
        return total, estimated

    async def _priced(self, message: Message, usage: Usage) -> Message:
        used = msgspec.structs.replace(message, usage=usage)
        return used if self._route is None else await priced(used, self._route, self._at)


def _fits(wanted: Amounts, reserved: Amounts) -> bool:
    return wanted.tokens <= reserved.tokens and wanted.dollars <= reserved.dollars


def _refusal(key: KeyRecord, found: KeyLimitReached, now: float) -> BudgetExceeded:
    """Return the error for a limit: which one, when it resets, and who can raise it."""
    raised = f"The gateway's operator can raise it: `toolbridge key set {key.name}"
    if (state := found.state) is None:
        return BudgetExceeded(
            f"the key {key.name!r} has {found.running} requests running, which is its limit; try "
            f"again when one has ended. {raised} --concurrency N`",
            retry_after=1.0,
        )
    limit, what = state.limit, state.limit.what
    if state.held and state.used + found.wanted <= limit.amount:
        return BudgetExceeded(
            f"running requests of the key {key.name!r} have reserved what is left of its limit of "
            f"{limit}: {shown(what, state.used)} used{_held(state)}{_wanted(found, state)}. Try "
            f"again when one of them has ended. {raised} --{what} N/{limit.per}`",
            retry_after=_RETRY,
        )
    text = (
        f"the key {key.name!r} has reached its limit of {limit}: {shown(what, state.used)} used"
        f"{_held(state)}{_wanted(found, state)}. It resets at {_stamp(state.resets)}. "
        f"{raised} --{what} N/{limit.per}`"
    )
    return BudgetExceeded(text, retry_after=float(max(1, math.ceil(state.resets - now))))


def _held(state: LimitState) -> str:
    held = shown(state.limit.what, state.held)
    return f", {held} reserved by running requests" if state.held else ""


def _wanted(found: KeyLimitReached, state: LimitState) -> str:
    if state.limit.what == "requests":
        return ""
    wanted = shown(state.limit.what, found.wanted)
    never = found.wanted > state.limit.amount
    hint = ", more than the whole limit: ask for fewer output tokens" if never else ""
    return f", and this request may use {wanted}{hint}"


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
