"""A circuit breaker per provider, as a state machine without a clock.

A breaker counts the failures in a row that show a provider to be down: no connection, a broken one,
or an overloaded server. After `FAILURES` of them it is open, and a chain passes over the provider.
After a rest one request is let through as a probe; its success closes the breaker, its failure
doubles the rest. The caller passes the time in.
"""

from typing import Literal, TypeAlias

from toolbridge.core.messages import Problem
from toolbridge.policy.failures import classify

FAILURES = 5
FIRST_REST = 5.0
LONGEST_REST = 300.0

BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


def shows_outage(problem: Problem) -> bool:
    """Return whether a failure counts: it shows that the provider is down or too busy."""
    return classify(problem) in {"connection", "overload"}


class ProviderBreaker:
    """The breaker of one provider."""

    def __init__(self) -> None:
        self.failures = 0
        """Failures in a row."""
        self.until = 0.0
        """When the rest ends; 0 while the breaker is closed."""
        self._rest = 0.0
        self._probing = False

    def state(self, now: float) -> BreakerState:
        if not self.until:
            return "closed"
        return "half_open" if now >= self.until else "open"

    def lets_through(self, now: float) -> bool:
        """Return whether a request may be sent: always if closed, one at a time if half open."""
        state = self.state(now)
        return state == "closed" or (state == "half_open" and not self._probing)

    def begin(self, now: float) -> bool:
        """Note a request that is sent; return whether it is the probe."""
        probe = self.state(now) == "half_open" and not self._probing
        self._probing = self._probing or probe
        return probe

    def answered(self) -> None:
        """Note the first content of an answer: a probe has shown that the provider is back."""
        if self.until:
            self.succeed()

    def succeed(self) -> None:
        """Note a complete answer, or a rejection that only a running server sends."""
        self.failures = 0
        self.until = self._rest = 0.0
        self._probing = False

    def fail(self, now: float) -> None:
        """Note a failure that shows an outage."""
        self.failures += 1
        self._probing = False
        was_open = bool(self.until)
        if was_open and now < self.until:
            return  # it was sent before the breaker opened, or no other provider was left
        if was_open or self.failures >= FAILURES:
            self._rest = min(LONGEST_REST, self._rest * 2 or FIRST_REST)
            self.until = now + self._rest

    def leave(self) -> None:
        """Note that a probe ended without a result: its client has left."""
        self._probing = False
