"""Failover decisions: which address of a chain is tried after a failure, and what is reported.

An address is left for the next one while the client has received no content. A bad request is not
sent to another provider, because that would reject it as well and hide the mistake. A request that
is too large is sent only to a model with a larger context window.
"""

import re
from collections.abc import Sequence

import msgspec

from toolbridge.core.messages import Loss, Problem
from toolbridge.core.retry_after import DEFAULT_WAIT
from toolbridge.policy.failures import FailureClass, classify

QUOTA_REST = 300.0
"""Seconds for which a provider without credit is passed over, if its error has no time."""
LONGEST_REST = 86_400.0
"""Seconds; credit may be bought before the time in the error."""
ERROR_REST = 60.0
"""Seconds for which an address is passed over after its key or its model was rejected."""
_ORDER: tuple[FailureClass, ...] = (
    "rate_limit", "overload", "connection", "broken_answer", "overflow", "too_large", "quota", "auth",
    "no_model", "bad_request",
)  # fmt: skip
"""Of several failures the client gets the first of this order: one after which it can do something."""
_LIMIT = re.compile(r"> (\d{1,12})(?: maximum)?")
_SHOWN = 300
"""Characters of an error that are shown for each address."""


class TriedAddress(msgspec.Struct, frozen=True):
    """An address of a chain that did not answer, and why."""

    address: str
    problem: Problem
    passed_over: str = ""
    """Why no request was sent to it; empty if one was sent."""

    @property
    def failure(self) -> FailureClass:
        return classify(self.problem)

    @property
    def reason(self) -> str:
        """The reason in a few words, without text of the provider."""
        if self.passed_over:
            return f"passed over: {self.passed_over}"
        detail = self.problem.status or self.problem.kind
        return f"{self.failure} ({detail})"

    def __str__(self) -> str:
        return f"{self.address} {self.reason}"


def may_try_next(problem: Problem) -> bool:
    """Return whether another provider may answer what this one did not."""
    return classify(problem) != "bad_request"


def overflowed_window(problem: Problem, window: int) -> int:
    """Return the window that a request exceeds; 0 if it is unknown or nothing was exceeded."""
    if classify(problem) != "overflow":
        return 0
    found = _LIMIT.search(problem.text)
    return max(window, int(found[1])) if found else window


def has_larger_window(window: int, exceeded: int) -> bool:
    """Return whether a model may accept a request that exceeded a window; 0 is unknown."""
    return not exceeded or not window or window > exceeded


def rest_after(problem: Problem) -> tuple[float, bool]:
    """Return the seconds for which a chain passes over an address, and whether its whole provider."""
    wait = problem.retry_after
    match classify(problem):
        case "quota":
            # Without credit nothing works; the limit of a day is mostly that of one model.
            no_credit = problem.kind == "rejected" and wait is None
            return min(QUOTA_REST if wait is None else wait, LONGEST_REST), no_credit
        case "rate_limit":
            return DEFAULT_WAIT if wait is None else wait, False
        case "auth" | "no_model":
            return ERROR_REST, False
        case _:
            return 0.0, False


def chain_problem(tried: Sequence[TriedAddress]) -> Problem:
    """Return the problem for the client if no address of a chain answered.

    It is the failure after which the client can do something, with a text that names every address.
    The text of an overflow stays as it is, because clients search it for the numbers.
    """
    asked = [one for one in tried if not one.passed_over] or list(tried)
    chosen = min(asked, key=lambda one: _ORDER.index(one.failure))
    if len(tried) == 1 or chosen.failure == "overflow":
        return chosen.problem
    waits = [one.problem.retry_after for one in asked if one.problem.retry_after is not None]
    words = "; ".join(f"{one} {one.problem.text[:_SHOWN]}".rstrip() for one in tried)
    return msgspec.structs.replace(
        chosen.problem,
        text=f"none of {len(tried)} models answered: {words}",
        retry_after=min(waits) if waits else None,
        permanent=all(one.problem.permanent for one in asked),
        provider="",
        where="",
        generated="",
    )


def chain_loss(tried: Sequence[TriedAddress], address: str) -> Loss:
    """Return the loss that reports which model answered instead of the first one."""
    return Loss("model", f"{address} answered instead of {', '.join(map(str, tried))}")
