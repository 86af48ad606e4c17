"""The charge of one model request: its reservation, and what its answer has used so far.

`Charges` makes it. The caller calls `fit` for each route that it tries, inside the charge as a
context, which settles at the end, whatever happens; the request gets the answer and its usage.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from toolbridge.accounting.limits_of_keys import nanos
from toolbridge.accounting.spent import spent, spent_so_far
from toolbridge.core.errors import Aborted, NotAllowed, RateLimited, ToolbridgeError
from toolbridge.core.fold import Fold
from toolbridge.core.messages import Message
from toolbridge.core.usage import MOST_TOKENS, Usage
from toolbridge.policy.limits import DEFAULT_OUTPUT
from toolbridge.routing.pricing import has_price, priced
from toolbridge.routing.route import Route
from toolbridge.store.budgets import Reservation
from toolbridge.store.keys import KeyRecord
from toolbridge.store.ledger import LedgerRow

_NOTHING = Usage()
_NOTHING_READ = (_NOTHING, 0)


class ChargedRequest(Protocol):
    """What a charge is for: the log entry of a request."""

    def finish(self, message: Message, estimated: bool) -> None:  # noqa: FBT001  as `Entry` has it
        """Take the answer with its usage."""

    def running_row(self, usage: Usage, estimated: bool) -> LedgerRow:  # noqa: FBT001
        """Return the row of the ledger if the process were killed now."""

    def end_in(self, journal: "RowJournal") -> bool:
        """Put the row of a request that has ended into the ledger, once; return whether it has."""


class RequestSize(msgspec.Struct, frozen=True):
    """The size of a request: its prompt, and the most that its answer may have."""

    prompt: int
    max_tokens: int | None = None
    answers: int = 1

    def output(self, route: Route) -> int:
        """Return the most output tokens; a bounded default where the request has no limit."""
        known = route.target.max_output
        most = self.max_tokens or min(known or DEFAULT_OUTPUT, DEFAULT_OUTPUT)
        return min((min(most, known) if known else most) * self.answers, MOST_TOKENS)


class BudgetExceeded(RateLimited):
    """A key has too little left for a request to one address."""


class PriceUnknown(NotAllowed):
    """A key has a limit of dollars, and the address has no known price."""


class RowJournal(Protocol):
    """Keeps the rows of running requests for the case that the process is killed."""

    def note(
        self, row: LedgerRow, held: Reservation | None, *, safe: bool, later: bool
    ) -> LedgerRow:
        """Keep a row, `later` with the next `flush`; return it as it is kept.

        The texts of a `safe` one are as they are kept.
        """

    def add(self, row: LedgerRow, *, later: bool) -> None:
        """Keep the row of a request that has ended."""

    def flush(self) -> None:
        """Write the rows that were kept for later."""


class ChargeAccount(Protocol):
    """What a charge needs of `Charges`."""

    @property
    def journal(self) -> RowJournal | None: ...

    @property
    def clock(self) -> Callable[[], float]: ...

    async def reserve(self, charge: "Charge", route: Route, asked: RequestSize) -> None: ...

    async def settle(self, reservation: Reservation, usage: Usage) -> None: ...

    def follow(self, charge: "Charge") -> None: ...

    def leave(self, charge: "Charge") -> None: ...

    def may_wait(self, route: Route) -> bool: ...

    def wait(self, charge: "Charge") -> None: ...

    def wait_no_longer(self, charge: "Charge") -> None: ...


class Charge(msgspec.Struct, eq=False):
    """One model request: its reservation, and the answer as far as it was read."""

    _charges: ChargeAccount
    key: KeyRecord | None
    _request: ChargedRequest
    _at: float
    _route: Route | None = None
    """The route that answers; a chain may change it."""
    _asked: RequestSize | None = None
    reservation: Reservation | None = None
    counted: bool = False
    """Whether the request is counted, by a reservation for this route or another one."""
    reading: Fold | None = None
    """The answer as far as it was read; the reader sets it."""
    message: Message | None = None
    """The answer in the end."""
    _earlier: Usage = _NOTHING
    """What earlier requests to the model for the same answer have used; it is settled."""
    _refused: bool = False
    """Whether the key had too little left for a further request to the model."""
    _row: LedgerRow | None = None
    """The row that the journal has."""
    _noted: Usage | None = None
    """The usage of it while the answer runs."""
    _waits: bool = False
    """Whether rows are written with those of other requests, before the bytes of a turn are sent."""
    _settled: bool = False
    _known: tuple[Usage, Usage] | None = None
    """The last usage without its cost and with it."""
    _ended: tuple[Message, Message, bool] | None = None
    """The answer that was settled, the same with all its usage, and whether that is estimated."""

    async def fit(self, route: Route, asked: RequestSize, *, waits: bool = False) -> None:
        """Reserve for `route`, which is tried now; raise if the key has too little left for it.

        With `waits`, the client gets its bytes at the end of a turn of the event loop.
        """
        if self.key is not None:
            await self._charges.reserve(self, route, asked)
        self.use(route, asked, waits=waits)

    def use(self, route: Route, asked: RequestSize, *, waits: bool) -> None:
        """Note that `route` is tried now, for which nothing has to be reserved any more."""
        tried, self._route, self._asked = self._route, route, asked
        if route is not tried:
            self._known = None
            self._noted = _first_usage(asked)
            self._waits = waits and self.reservation is None and self._charges.may_wait(route)
            if self._waits:
                self._charges.wait(self)
            else:
                self._note(self._request.running_row(self._noted, True))

    def leave(self) -> None:
        """Charge nothing for the route: its answer needs no model."""
        self._route = self._asked = None

    def settled_at_once(self, message: Message) -> bool:
        """Settle an answer that costs nothing and has no reservation; return whether it is one."""
        waits = self._waits and self.reservation is None and not self._settled
        if not waits or (found := self._used_free(message)) is None:
            return False
        self._ended = message, *found
        self._settled = True
        self._charges.wait(self)
        return True

    async def settle(self, message: Message) -> None:
        """Settle the reservation. Call it before the client gets the end of the answer.

        The client's next request may come at once, and must find the budget settled.
        """
        if not self._settled and (self._waits or self._row is not None):
            used, estimated = await self._used(message)
            self._ended = message, used, estimated
            if self._waits and self.reservation is None:
                self._charges.wait(self)
            elif self._row is not None:
                self._note(_with_usage(self._row, used.usage, estimated=estimated), safe=True)
        self._settled = True
        if self.reservation is not None:
            await self._settle_reservation(self._last(message)[0])

    async def _settle_reservation(self, usage: Usage) -> None:
        reservation, self.reservation = self.reservation, None
        if reservation is not None:
            await self._charges.settle(reservation, await self._with_cost(usage))

    def note_waiting(self, journal: RowJournal) -> None:
        """Let the journal have, with its next `flush`, the row that waits."""
        if self._request.end_in(journal):
            return
        if self._ended is None:
            row = self._request.running_row(_first_usage(self._asked), True)
        else:
            _, used, estimated = self._ended
            row = self._request.running_row(used.usage, estimated)
        self._row = journal.note(row, None, safe=False, later=True)

    def _note(self, row: LedgerRow, *, safe: bool = False) -> None:
        """Let the journal have what was used so far."""
        if (journal := self._charges.journal) is not None:
            self._note_in(journal, row, safe=safe, later=False)

    def _note_in(self, journal: RowJournal, row: LedgerRow, *, safe: bool, later: bool) -> None:
        # The row has the usage of all passes, and a reservation is for the last one: after
        # others, the reservation of a killed process ends with its lease.
        held = None if self.reservation is None or self._earlier.total else self.reservation
        if self._waits:
            self._charges.wait_no_longer(self)  # for an older row
        self._row = journal.note(row, held, safe=safe, later=later)

    async def note_so_far(self, journal: RowJournal) -> None:
        """Let the journal have, with its next `flush`, what was read of the answer since the last row."""
        if self._asked is None:
            return
        usage = await self._with_cost(self._so_far())
        if self._settled or usage == self._noted:
            return
        self._noted = usage
        self._note_in(journal, self._request.running_row(usage, True), safe=False, later=True)

    def _so_far(self) -> Usage:
        """Return what all requests to the model have used, if the answer breaks off now."""
        if self.message is not None:
            usage, estimated = spent(self.message, self._prompt)
        else:
            read, written = _NOTHING_READ if self.reading is None else self.reading.so_far()
            usage, estimated = spent_so_far(read, written, self._prompt), True
        if self._earlier is _NOTHING:
            return usage
        return self._of_last_pass(usage, estimated=estimated, left=True).plus(self._earlier)

    async def __aenter__(self) -> None:
        self._charges.follow(self)

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: object
    ) -> None:
        await self.end(error)

    def ended_at_once(self) -> bool:
        """End the charge of an answer that was settled; return False if `end` has to do it."""
        if self.reservation is not None or self._ended is None or self._asked is None:
            return False
        message, used, estimated = self._ended
        if message is not self.message:
            return False
        self._settled = True
        self._charges.leave(self)
        self._request.finish(used, estimated)
        return True

    async def end(self, error: BaseException | None) -> None:
        """Settle what is left, after `error` if there was one."""
        try:
            if error is None:
                await self._close(self.message)
            elif isinstance(error, asyncio.CancelledError | Aborted):
                await self._close(self._partial(left=True))
            elif isinstance(error, ToolbridgeError):
                await self._close(self._partial(left=False))
            else:
                await self._close(None)
        finally:
            self._charges.leave(self)

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

    async def _close(self, message: Message | None) -> None:
        self._settled = True
        if self.reservation is not None:
            await self._settle_reservation(self._last(message or Message())[0])
        if message is None:
            return
        if self._asked is None:
            self._request.finish(message, False)
            return
        if self._ended is not None and self._ended[0] is message:
            _, used, estimated = self._ended
        else:
            used, estimated = await self._used(message)
        self._request.finish(used, estimated)

    @property
    def _prompt(self) -> int:
        return 0 if self._asked is None else self._asked.prompt

    async def next_pass(self, usage: Usage, asked: RequestSize) -> None:
        """Settle a request to the model that was not the last for the answer; reserve the next one.

        Raise if the key has too little left for that.
        """
        if self._route is None:
            return
        if not usage.input_total:
            usage = msgspec.structs.replace(usage, input=self._prompt)
        self._earlier = self._earlier.plus(usage)
        await self._settle_reservation(usage)
        await self.refit(asked)

    async def refit(self, asked: RequestSize) -> None:
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
        left = message.stop == "aborted"
        return self._of_last_pass(usage, estimated=estimated, left=left), estimated

    def _of_last_pass(self, usage: Usage, *, estimated: bool, left: bool) -> Usage:
        """Return the part of `usage` that is that of the last request to the model."""
        early = self._earlier
        if not early.total:
            return usage
        # The counts of an answer have the output of all requests and the prompt of the last one.
        output = max(usage.output - early.output, 0)
        if self._refused or (estimated and not output and not left):
            return Usage()  # it failed before it began
        last = msgspec.structs.replace(
            usage, output=output, reasoning=max(usage.reasoning - early.reasoning, 0)
        )
        if not estimated:
            return last
        prompt = {"input": self._prompt, "cache_read": 0, "cache_write": 0, "cache_write_long": 0}
        return msgspec.structs.replace(last, **prompt)

    async def _used(self, message: Message) -> tuple[Message, bool]:
        """Return `message` with the usage of all requests to the model, and whether it is estimated."""
        if (found := self._used_free(message)) is not None:
            return found
        usage, estimated = self._last(message)
        if self._earlier is not _NOTHING:
            usage = usage.plus(self._earlier)
        return await self._priced(message, usage), estimated

    def _used_free(self, message: Message) -> tuple[Message, bool] | None:
        """Like `_used`, for the only request to a model without a price; None otherwise."""
        if self._earlier is not _NOTHING or self._route is None or has_price(self._route):
            return None
        usage, estimated = spent(message, self._prompt)
        if usage is not message.usage:
            message = msgspec.structs.replace(message, usage=usage)
        return message, estimated

    async def _priced(self, message: Message, usage: Usage) -> Message:
        usage = await self._with_cost(usage)
        if message.usage is usage:
            return message
        return msgspec.structs.replace(message, usage=usage)

    async def _with_cost(self, usage: Usage) -> Usage:
        """Return `usage` with its cost, if the price of the model is known."""
        if self._route is None or not has_price(self._route):
            return usage
        if self._known is None or self._known[0] != usage:
            used = await priced(Message(usage=usage), self._route, self._at)
            self._known = (usage, used.usage)
        return self._known[1]


class InnerCharges(Protocol):
    """Charges the caller for requests to other models that its own request causes."""

    def permit(self, address: str) -> None:
        """Raise `NotAllowed` if the caller may not use the model."""

    def call(self, route: Route, asked: RequestSize) -> AbstractAsyncContextManager[Charge]:
        """Reserve for one request, and settle it at the end of the context."""


def _first_usage(asked: RequestSize | None) -> Usage:
    """Return the usage of a request that is sent now.

    The cost is left out: the price list may have to be loaded, and the request would wait.
    """
    return Usage(0 if asked is None else asked.prompt)


def _with_usage(row: LedgerRow, usage: Usage, *, estimated: bool) -> LedgerRow:
    """Return `row` with the usage of the whole answer."""
    return msgspec.structs.replace(
        row,
        input=usage.input,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        output=usage.output,
        thinking=usage.reasoning,
        estimated=estimated,
        cost=row.cost if usage.cost is None else nanos(usage.cost.total),
    )
