"""Work, counted in function calls: a number that no other load on the machine changes.

What happens inside one call into C is not seen; `bench/` measures time.
"""

import cProfile
from collections.abc import Callable
from types import CodeType


def calls_made(work: Callable[[], object]) -> int:
    """Return how many functions `work` calls, in Python and in C."""
    return sum(entry.callcount for entry in _profiled(work))


def python_calls_made(work: Callable[[], object]) -> int:
    """Return how many functions `work` calls that are written in Python."""
    return sum(entry.callcount for entry in _profiled(work) if isinstance(entry.code, CodeType))


def _profiled(work: Callable[[], object]) -> list:
    profile = cProfile.Profile()
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    return profile.getstats()
