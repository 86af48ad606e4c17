"""Failover: the answer to a request from the first model of a chain that gives one.

While the client has received no content, a failure that another provider may not have leads to the
next address of the chain; after the first content the failure ends the answer. A name that means one
address is a chain of one. `policy/failover.py` decides, `provider_health.py` keeps the state of the
providers.
"""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeAlias

from toolbridge.config import ProviderConfig
from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError, error_of
from toolbridge.core.messages import Message, Problem
from toolbridge.policy.failover import (
    TriedAddress,
    chain_problem,
    has_larger_window,
    may_try_next,
    overflowed_window,
)
from toolbridge.routing.attempts import AnswerAttempts, Batch, BatchSink
from toolbridge.routing.charge import BudgetExceeded, PriceUnknown
from toolbridge.routing.models import ModelRoutes
from toolbridge.routing.opened_answer import OpenedAnswer, batches_of
from toolbridge.routing.provider_health import PassedOver, ProviderHealth, RequestInFlight
from toolbridge.routing.route import Route

FindAddresses: TypeAlias = Callable[[], Awaitable[Sequence[str]]]
"""Returns the addresses of a chain, in the order in which they are tried."""
ReserveFor: TypeAlias = Callable[[Route], Awaitable[None] | None]
"""Reserves for a route what the request may use there; raises if the key of the caller may not.

It returns None if that is done at once."""
OpenAttempts: TypeAlias = Callable[[Route, Sequence[TriedAddress]], Awaitable[OpenedAnswer]]
"""Prepares a request for a route, with the addresses that were tried before; nothing is sent yet."""


class AnswerChain:
    """The answer to one request, over as many addresses as are needed."""

    route: Route
    """The route that answers; set by `prepare`, as `attempts`."""
    attempts: OpenedAnswer
    _left: deque[str] | None = None
    """The addresses that were not tried yet; None before `prepare`."""
    _is_chain = False
    _insists = False
    """Whether the next address is tried whatever is known about its provider."""
    _exceeded = 0
    """The largest context window that the request has exceeded."""
    opens_at = 0.0
    """When the client gets status and headers in any case, by the event loop; 0 for no time."""
    _reopened = False
    _sending: RequestInFlight | None = None
    """The request whose answer is read, from its first batch to its end."""
    _last: ev.Event | None = None
    """The last event that was read."""
    last_error: ToolbridgeError | None = None
    """The failure of the address that was tried last."""
    reserve: ReserveFor | None = None
    """Called for each address before it is tried."""
    _beyond: BudgetExceeded | PriceUnknown | None = None
    """Why the caller's key may not use the first of the addresses that it may not use."""

    def __init__(
        self,
        model_routes: ModelRoutes,
        health: ProviderHealth,
        find_addresses: FindAddresses,
        open_attempts: OpenAttempts,
        caller: str = "",
    ) -> None:
        self._model_routes = model_routes
        self._health = health
        self._find_addresses = find_addresses
        self._open = open_attempts
        self._caller = caller
        self._passed_over: list[str] = []
        """Addresses that are tried only if no other one answers."""
        self.tried: list[TriedAddress] = []
        """The addresses that did not answer, in order."""

    @property
    def maker(self) -> str:
        """The provider, API and model that sign the answer's opaque tokens."""
        return self.attempts.maker

    @property
    def aborts(self) -> bool:
        """Whether a failure in mid-stream closes the connection instead of sending an error."""
        return self.attempts.aborts

    def push_to(self, sink: BatchSink) -> None:
        """Pass the answer to `sink` after its first content, as far as it can be pushed."""
        if isinstance(self.attempts, AnswerAttempts):
            self.attempts.push_to(sink)

    async def prepare(self) -> None:
        """Prepare the request for the first address that can be used; raise without one."""
        if self._left is None:
            self._left = deque(await self._find_addresses())
            self._is_chain = len(self._left) > 1
            self._insists = not self._is_chain
            await self._advance()

    def events(self) -> AsyncGenerator[Batch, None]:
        """Yield the events of the answer.

        A failure before the first batch is raised; a later one is the last event.
        """
        return batches_of(self)

    @property
    def ended(self) -> bool:
        """Whether nothing follows the batch that was read last. Of most answers that is known later."""
        return self._sending is None

    async def begin(self) -> Batch | None:
        """Return the first batch of `events`, None without one; `read` returns the following ones."""
        if self._left is None:
            await self.prepare()
        while True:
            sending = self._health.sending(self.route, insists=self._insists)
            attempts = self.attempts
            attempts.opens_at = self.opens_at
            try:
                if sending.places is not None:
                    await sending.places.enter(self._caller)
                sending.enter()
                try:
                    batch = await attempts.begin()
                except BaseException as error:
                    sending.leave(error)
                    raise
            except ToolbridgeError as error:
                await self._go_on(error)
                continue
            if batch is not None:
                sending.answered()
                self._health.note_answer(self.route.address)
            self._sending = sending
            self._note(batch)
            return batch

    async def read(self) -> Batch | None:
        """Return the next batch of `events`, None at the end."""
        if self._sending is None:
            return None
        try:
            batch = await self.attempts.read()
        except BaseException as error:
            await self.close(error)
            raise
        self._note(batch)
        return batch

    def _note(self, batch: Batch | None) -> None:
        """Note the events that were read, and the end of the answer."""
        if batch:
            self._last = batch[-1]
        sending = self._sending
        if sending is not None and (batch is None or self.attempts.ended):
            self._sending = None
            last = self._last
            sending.ended(last.problem if isinstance(last, ev.Failed) else None)

    async def close(self, error: BaseException | None = None) -> None:
        """Close the connection of an answer that was not read to its end."""
        sending, self._sending = self._sending, None
        if sending is not None:
            try:
                await self.attempts.close()
            finally:
                sending.leave(error)

    async def message(self) -> Message:
        """Return the whole answer; after every failure another address may be tried."""
        if self._left is None:
            await self.prepare()
        while True:
            sending = self._health.sending(self.route, insists=self._insists)
            try:
                if sending.places is not None:
                    await sending.places.enter(self._caller)
                sending.enter()
                try:
                    message = await self.attempts.message()
                except BaseException as error:
                    sending.leave(error)
                    raise
            except ToolbridgeError as error:
                await self._go_on(error)
                continue
            sending.ended(None)
            self._health.note_answer(self.route.address)
            return message

    async def _go_on(self, error: ToolbridgeError) -> None:
        """Prepare the request for the next address after a failure; raise without one."""
        route = self.route
        if isinstance(
            error, BudgetExceeded
        ):  # the key's limit, while tools ran: nothing has failed
            raise error
        if isinstance(error, PassedOver):
            self._pass_over(route.address, error.problem.text)
            self._passed_over.append(route.address)
            await self._advance()
            return
        if self.attempts.needs_other_api and not self._reopened:
            self._reopened = True
            try:
                await self._use(route)
            except ToolbridgeError as other:
                error = other
            else:
                return
        self._fail(route.address, route.provider_config, error, route.target.window)
        await self._advance()

    async def _advance(self) -> None:
        while (address := self._next()) is not None:
            try:
                route = await self._model_routes.route_at(address)
            except ToolbridgeError as error:
                self._fail(address, ProviderConfig(), error)
                continue
            if self._exceeded and not has_larger_window(route.target.window, self._exceeded):
                self._pass_over(address, "its context window is not larger")
                continue
            try:
                await self._use(route)
            except (BudgetExceeded, PriceUnknown) as error:
                # No failure of the provider: a cheaper model may fit.
                self._pass_over(address, error.problem.text)
                self._beyond = self._beyond or error
                continue
            except ToolbridgeError as error:
                self._fail(address, route.provider_config, error, route.target.window)
                continue
            return
        raise self._failure()

    def _next(self) -> str | None:
        """Return the next address; one that is passed over only if no other one is left."""
        left = self._left if self._left is not None else deque[str]()
        while left:
            address = left.popleft()
            why = "" if self._insists else self._health.passed_over(address)
            if not why:
                return address
            self._pass_over(address, why)
            self._passed_over.append(address)
        if not self._passed_over:
            return None
        again = self._passed_over
        self._passed_over = []
        self._insists = True
        self.tried = [one for one in self.tried if one.address not in again]
        left.extend(again)
        return left.popleft()

    async def _use(self, route: Route) -> None:
        """Prepare the request for `route`."""
        attempts = await self._open(route, tuple(self.tried))
        if self.reserve is not None and (reserving := self.reserve(route)) is not None:
            await reserving
        attempts.has_next = bool(self._left or self._passed_over)
        self.route, self.attempts = route, attempts

    def _pass_over(self, address: str, why: str) -> None:
        self.tried.append(TriedAddress(address, Problem("overloaded", ""), why))

    def _fail(
        self, address: str, config: ProviderConfig, error: ToolbridgeError, window: int = 0
    ) -> None:
        """Note a failure; raise it if no other provider may be asked."""
        problem = error.problem
        if self._is_chain:
            self._health.note_failure(address, config, problem)
        self._exceeded = max(self._exceeded, overflowed_window(problem, window))
        self.tried.append(TriedAddress(address, problem))
        self.last_error = error
        if not may_try_next(problem):
            raise error

    def _failure(self) -> ToolbridgeError:
        """Return the error of the whole chain."""
        if self._beyond is not None and all(one.passed_over for one in self.tried):
            return self._beyond
        if len(self.tried) == 1 and self.last_error is not None:
            return self.last_error
        return error_of(chain_problem(self.tried))
