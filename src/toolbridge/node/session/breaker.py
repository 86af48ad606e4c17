"""When to leave a node alone for a while. The clock is an argument."""

from toolbridge.core.messages import Problem

_ITS_FAULT = frozenset({"broken_wire", "truncated", "unreachable", "timed_out"})
"""Problems that show a node which is broken, and not a request that it cannot serve."""


class Breaker:
    """Two failures in a row, and a node rests; the first try after the rest decides anew."""

    def __init__(self, limit: int = 2, rest: float = 60.0) -> None:
        self._limit = limit
        self._rest = rest
        self._failures = 0
        self._until = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds for which the node still rests; 0 when it may be asked."""
        return max(0.0, self._until - now)

    def succeed(self) -> None:
        self._failures = 0

    def reset(self) -> None:
        """Forget everything: another node is asked from now on."""
        self._failures = 0
        self._until = 0.0

    def fail(self, problem: Problem, now: float) -> None:
        """Note a failure. A node that names a time itself is left alone for that long."""
        if problem.kind == "rate_limited" and problem.retry_after:
            self._until = max(self._until, now + problem.retry_after)
        if problem.kind not in _ITS_FAULT:
            return
        self._failures += 1
        if self._failures >= self._limit:
            self._until = max(self._until, now + self._rest)
