"""Errors for requests that a key has too little left for: which limit, when it resets, who can raise it."""

import math
import time

from toolbridge.accounting.limits_of_keys import KeyLimitReached, LimitState, shown
from toolbridge.routing.charge import BudgetExceeded
from toolbridge.store.keys import KeyRecord

_RETRY = 2.0
"""Seconds after which a client may try again while running requests hold the rest of a limit."""


def refusal(key: KeyRecord, found: KeyLimitReached, now: float) -> BudgetExceeded:
    """Return the error for a limit: which one, when it resets, and who can raise it."""
    raised = f"The gateway's operator can raise it: `toolbridge key set {key.name}"
    if (state := found.state) is None:
        return BudgetExceeded(
            f"the key {key.name!r} has {found.running} requests running, which is its limit; try "
            f"again when one has ended. {raised} --concurrency N`",
            retry_after=1.0,
        )
    limit, what = state.limit, state.limit.what
    if found.never_fits:
        to_do = "Ask for fewer output tokens, or send less" if limit.amount else "Use a free model"
        return BudgetExceeded(
            f"this request may use {shown(what, found.wanted)}, more than the whole limit of {limit} "
            f"that the key {key.name!r} has, so that no retry helps. {to_do}. "
            f"{raised} --{what} N/{limit.per}`",
            permanent=True,
        )
    if state.held and state.used + found.wanted <= limit.amount:
        return BudgetExceeded(
            f"running requests of the key {key.name!r} have reserved what is left of its limit of "
            f"{limit}: {shown(what, state.used)} used{_held(state)}{_wanted(found, state)}. Try "
            f"again when one of them has ended. {raised} --{what} N/{limit.per}`",
            retry_after=_RETRY,
        )
    text = (
        f"the key {key.name!r} has reached its limit of {limit}: {shown(what, state.used)} used"
        f"{_held(state)}{_wanted(found, state)}. It resets at {_stamp(state.resets)}. "
        f"{raised} --{what} N/{limit.per}`"
    )
    return BudgetExceeded(text, retry_after=float(max(1, math.ceil(state.resets - now))))


def _held(state: LimitState) -> str:
    held = shown(state.limit.what, state.held)
    return f", {held} reserved by running requests" if state.held else ""


def _wanted(found: KeyLimitReached, state: LimitState) -> str:
    if state.limit.what == "requests":
        return ""
    return f", and this request may use {shown(state.limit.what, found.wanted)}"


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
