"""A circuit breaker: after failures in a row, a host gets no requests for a while.

`NodeSession` asks it before each request. The time is an argument, so it needs no clock.
"""

from toolbridge.core.messages import Problem

_COUNTED = frozenset({"broken_wire", "truncated", "unreachable", "timed_out"})
"""Kinds of problems that show a broken host, not a request that the host cannot serve."""


class Breaker:
    """Opens after `limit` failures in a row, for `rest` seconds; the next request is a trial."""

    def __init__(self, limit: int = 2, rest: float = 60.0) -> None:
        self._limit = limit
        self._rest = rest
        self._failures = 0
        self._until = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the host may be asked again; 0 if it may be asked now."""
        return max(0.0, self._until - now)

    def succeed(self) -> None:
        self._failures = 0

    def reset(self) -> None:
        """Forget all failures, because requests go to another host from now on."""
        self._failures = 0
        self._until = 0.0

    def trip(self, now: float) -> None:
        """Open at once."""
        self._until = max(self._until, now + self._rest)

    def fail(self, problem: Problem, now: float) -> None:
        """Count a failure. A rate limit with a `retry_after` opens the breaker for that long."""
        if problem.kind == "rate_limited" and problem.retry_after:
            self._until = max(self._until, now + problem.retry_after)
        if problem.kind not in _COUNTED:
            return
        self._failures += 1
        if self._failures >= self._limit:
            self.trip(now)
