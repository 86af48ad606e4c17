"""The state of the providers: breakers, rests, and the requests in flight.

`failover.AnswerChain` asks here whether to pass over an address, and sends each request inside
`ProviderHealth.sending`, which waits for a free place and notes the result. The decisions are in
`policy/`; this module has the clock and the waiting.
"""

import asyncio
import math

import msgspec

from toolbridge.config import ProviderConfig
from toolbridge.core.errors import Overloaded, RateLimited, ToolbridgeError
from toolbridge.core.messages import Problem
from toolbridge.environment import CALLER
from toolbridge.policy.failover import rest_after
from toolbridge.policy.failures import FailureClass, classify
from toolbridge.policy.fair_queue import FairQueue
from toolbridge.policy.provider_breaker import BreakerState, ProviderBreaker, shows_outage
from toolbridge.routing.route import Route

MOST_WAITING = 256
"""Requests that wait for a provider; further ones are rejected."""


class Rest(msgspec.Struct, frozen=True):
    """An address, or all addresses of a provider, that chains pass over for some time."""

    until: float
    failure: FailureClass


class PassedOver(Overloaded):
    """No request is sent to the provider, because its breaker has opened meanwhile."""


class HealthReport(msgspec.Struct, frozen=True):
    """The state of one provider for `/metrics` and `/health`."""

    breaker: BreakerState
    failures: int
    resting: str
    """Why chains pass over the provider; empty if they do not."""
    in_flight: int
    waiting: int


class PlacesInFlight:
    """The requests to one provider: at most `limit` at a time, the others wait in a fair queue."""

    def __init__(self, provider: str, limit: int) -> None:
        self._provider = provider
        self._limit = limit
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def enter(self, caller: str) -> None:
        """Wait for a place; raise `RateLimited` if too many requests wait already."""
        if self.running < self._limit:
            self.running += 1
            return
        if len(self._queue) >= MOST_WAITING:
            raise RateLimited(
                f"{self._limit} requests to {self._provider} are running (`max_in_flight`) and "
                f"{MOST_WAITING} wait; try again in a moment",
                provider=self._provider,
                retry_after=1.0,
            )
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.add(caller, place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()  # the place was given in the same moment
            else:
                self._queue.remove(caller, place)
            raise

    def leave(self) -> None:
        """Give the place to the next request that waits."""
        following = self._queue.pop()
        if following is None:
            self.running -= 1
        else:
            following.set_result(None)


class ProviderHealth:
    """The breakers, rests and places of all providers of one gateway or client."""

    def __init__(self) -> None:
        self._breakers: dict[str, ProviderBreaker] = {}
        self._rests: dict[str, Rest] = {}
        """Address or provider → its rest."""
        self._places: dict[str, PlacesInFlight] = {}

    def passed_over(self, address: str) -> str:
        """Return why a chain passes over an address; empty if it is tried."""
        now = _now()
        provider = address.partition("/")[0]
        for key in (provider, address):
            rest = self._rests.get(key)
            if rest is not None and now < rest.until:
                return f"{rest.failure}, for {math.ceil(rest.until - now)} s more"
        breaker = self._breakers.get(provider)
        if breaker is None or breaker.lets_through(now):
            return ""
        return f"{breaker.failures} failures in a row, for {_left(breaker.until, now)} s more"

    def note_failure(self, address: str, provider_config: ProviderConfig, problem: Problem) -> None:
        """Let chains pass over an address for as long as its failure lasts."""
        seconds, whole_provider = rest_after(problem)
        # Another caller may have a login that works.
        if not seconds or provider_config.key == CALLER:
            return
        key = address.partition("/")[0] if whole_provider else address
        self._rests[key] = Rest(_now() + seconds, classify(problem))

    def note_answer(self, address: str) -> None:
        """End the rests of an address that has answered."""
        if self._rests:
            self._rests.pop(address, None)
            self._rests.pop(address.partition("/")[0], None)

    def sending(self, route: Route, *, insists: bool) -> "RequestInFlight":
        """Return one request that is sent to the provider of a route.

        Unless it `insists`, entering raises `PassedOver` while another request is the probe. Where
        it has `places`, enter these before that; its end gives the place back.
        """
        breaker = self._breakers.get(route.provider)
        if breaker is None:
            breaker = self._breakers[route.provider] = ProviderBreaker()
        places = None
        if limit := route.provider_config.max_in_flight:
            places = self._places.get(route.provider)
            if places is None:
                places = self._places[route.provider] = PlacesInFlight(route.provider, limit)
        return RequestInFlight(breaker, places, insists)

    def report(self) -> dict[str, HealthReport]:
        """Return the state of every provider that was used or is passed over."""
        now = _now()
        found: dict[str, HealthReport] = {}
        for provider, breaker in self._breakers.items():
            rest, places = self._rests.get(provider), self._places.get(provider)
            resting = rest is not None and now < rest.until
            found[provider] = HealthReport(
                breaker=breaker.state(now),
                failures=breaker.failures,
                resting=self.passed_over(f"{provider}/")
                if resting or breaker.state(now) != "closed"
                else "",
                in_flight=places.running if places else 0,
                waiting=places.waiting if places else 0,
            )
        return found


class RequestInFlight(msgspec.Struct, eq=False):
    """One request to a provider: its place, and its result for the breaker."""

    _breaker: ProviderBreaker
    places: PlacesInFlight | None
    """The places of a provider with a limit of requests at a time."""
    _insists: bool
    _probe: bool = False

    def enter(self) -> None:
        """Begin; raise `PassedOver` while another is the probe. `ended` or `leave` follows."""
        if self._breaker.until:  # a closed breaker lets every request through, and none is a probe
            self._enter_open(_now())

    def _enter_open(self, now: float) -> None:
        if not self._insists and not self._breaker.lets_through(now):
            if self.places is not None:
                self.places.leave()
            raise PassedOver(f"{self._breaker.failures} failures in a row")
        self._probe = self._breaker.begin(now)

    def answered(self) -> None:
        """Note the first content of the answer."""
        if self._breaker.until:
            self._breaker.answered()

    def ended(self, problem: Problem | None) -> None:
        """Note the end of the answer, complete or broken off by a failure; give the place back."""
        if self.places is not None:
            self.places.leave()
        if problem is None or (problem.status and not shows_outage(problem)):
            if self._breaker.failures or self._breaker.until:
                self._breaker.succeed()
        elif shows_outage(problem):
            self._breaker.fail(_now())
        elif self._probe:
            self._breaker.leave()

    def leave(self, error: BaseException | None) -> None:
        """Note that the answer was not read to its end, because of `error` or of its client."""
        if isinstance(error, ToolbridgeError):
            self.ended(error.problem)
            return
        if self.places is not None:
            self.places.leave()
        if self._probe:
            self._breaker.leave()


def _left(until: float, now: float) -> int:
    return max(1, math.ceil(until - now))


def _now() -> float:
    return asyncio.get_running_loop().time()
