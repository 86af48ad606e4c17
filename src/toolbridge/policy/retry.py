"""Retry decisions.

A request may be retried only while the client has received no content: a second answer would not
match the first. The wait is the provider's Retry-After (RFC 9110, section 10.2.3) when it sends
one; otherwise it grows exponentially from half a second, with jitter.
"""

from toolbridge.core.messages import Problem

ATTEMPTS = 3
FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
PATIENCE = 30.0
"""Seconds. With a longer Retry-After the error goes to the client, which can decide to wait."""

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
# 408 Request Timeout, 409 Conflict (a lock) and 425 Too Early (RFC 8470) are temporary, and so are
# 5xx, except 501 Not Implemented and 505 HTTP Version Not Supported. A 429 is `rate_limited`; one that
# is `rejected` means that no credit is left (OpenAI, error codes: `insufficient_quota`).
_TRANSIENT_STATUSES = frozenset({408, 409, 425})
_PERMANENT_STATUSES = frozenset({501, 505})


def is_permanent(problem: Problem) -> bool:
    """Return whether a retry would fail in the same way.

    A rejection without a status came inside a stream: the provider had accepted the request, so
    that the error is the server's and temporary.
    """
    if problem.kind in _TRANSIENT:
        return False
    if problem.kind != "rejected" or problem.status in _PERMANENT_STATUSES:
        return True
    return 0 < problem.status < 500 and problem.status not in _TRANSIENT_STATUSES


def may_retry(
    problem: Problem, *, attempt: int, content_sent: bool, attempts: int = ATTEMPTS
) -> bool:
    """Return whether to retry after attempt number `attempt` (from 1) has failed."""
    if content_sent or attempt >= attempts or is_permanent(problem):
        return False
    return problem.retry_after is None or problem.retry_after <= PATIENCE


def wait(problem: Problem, attempt: int, dice: float) -> float:
    """Return the seconds to wait after attempt number `attempt`; `dice` is random in [0, 1)."""
    if problem.retry_after is not None:
        return max(0.0, problem.retry_after)
    # The exponent is limited so that it cannot overflow.
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempt - 1, 10))
    return longest * (1.0 - dice / 2.0)
