"""Retry decisions.

A request may be retried only while the client has received no content: a second answer would not
match the first. The wait is the provider's Retry-After (RFC 9110, section 10.2.3) when it sends
one; otherwise it grows exponentially from half a second, with jitter.
"""

from toolbridge.core.messages import Problem
from toolbridge.policy.failures import classify

ATTEMPTS = 3
FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
PATIENCE = 30.0
"""Seconds. With a longer Retry-After the error goes to the client, which can decide to wait."""

SHORT_PATIENCE = 5.0
"""The same where another provider can answer instead."""

_TRANSIENT = frozenset({"rate_limit", "overload", "connection", "broken_answer"})


def is_permanent(problem: Problem) -> bool:
    """Return whether a retry with the same provider would fail in the same way."""
    return problem.lasting or classify(problem) not in _TRANSIENT


def may_retry(
    problem: Problem,
    *,
    attempt: int,
    content_sent: bool,
    attempts: int = ATTEMPTS,
    has_next: bool = False,
) -> bool:
    """Return whether to retry after attempt number `attempt` (from 1) has failed.

    Where another provider is next, the same one is not asked again after a timeout, nor while
    nothing listens at its address.
    """
    if content_sent or attempt >= attempts or is_permanent(problem):
        return False
    if has_next and (problem.permanent or problem.kind == "timed_out"):
        return False
    patience = SHORT_PATIENCE if has_next else PATIENCE
    return problem.retry_after is None or problem.retry_after <= patience


def hides_status(problem: Problem, delay: float, left: float) -> bool:
    """Return whether a wait of `delay` seconds would cost the client the provider's Retry-After.

    `left` are the seconds until the client gets a 200 and its headers in any case; 0 or less where
    it has them, or where no time is set. With the error in place of the wait, it gets the status.
    """
    return problem.retry_after is not None and 0 < left <= delay


def wait(problem: Problem, attempt: int, dice: float) -> float:
    """Return the seconds to wait after attempt number `attempt`; `dice` is random in [0, 1)."""
    if problem.retry_after is not None:
        return max(0.0, problem.retry_after)
    # The exponent is limited so that it cannot overflow.
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempt - 1, 10))
    return longest * (1.0 - dice / 2.0)
