"""When to ask again.

A request may be repeated only while the client has received nothing: after the first content a
second answer would not match the first. Waits follow the provider's Retry-After when it gives one,
and grow from half a second with jitter when it does not.
"""

from toolbridge.core.messages import Problem

ATTEMPTS = 3
FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
PATIENCE = 30.0
"""A provider that wants more than this is not waited for: the client learns it and decides."""

_TRANSIENT = frozenset(
    {
        "rate_limited",
        "overloaded",
        "broken_wire",
        "truncated",
        "unreachable",
        "timed_out",
        "broken_call",
    }
)
# Too early, a lock and a time limit pass by themselves; so does a server's own fault, unless it
# says that it will never know how.
_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_PERMANENT_STATUSES = frozenset({501, 505})


def is_permanent(problem: Problem) -> bool:
    """Whether asking again would only bring the same answer.

    A rejection without a status came inside a stream that had been accepted: the request is good,
    and what broke is the server.
    """
    if problem.kind in _TRANSIENT:
        return False
    if problem.kind != "rejected" or problem.status in _PERMANENT_STATUSES:
        return True
    return 0 < problem.status < 500 and problem.status not in _TRANSIENT_STATUSES


def may_retry(
    problem: Problem, *, attempt: int, content_sent: bool, attempts: int = ATTEMPTS
) -> bool:
    """Whether to ask again after the `attempt`th try (from 1) has failed."""
    if content_sent or attempt >= attempts or is_permanent(problem):
        return False
    return problem.retry_after is None or problem.retry_after <= PATIENCE


def wait(problem: Problem, attempt: int, dice: float) -> float:
    """Return the seconds to wait after the `attempt`th try (from 1); `dice` is in [0, 1)."""
    if problem.retry_after is not None:
        return max(0.0, problem.retry_after)
    # Doubling stops long before the exponent could overflow.
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempt - 1, 10))
    return longest * (1.0 - dice / 2.0)
