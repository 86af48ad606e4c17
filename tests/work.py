"""Work, counted in function calls: a number that no other load on the machine changes.

What happens inside one call into C is not seen; `bench/` measures time.
"""

import sys
from collections.abc import Callable


def calls_made(work: Callable[[], object]) -> int:
    """Return how many functions `work` calls, in Python and in C."""
    return _counted(work, frozenset({"call", "c_call"}))


def python_calls_made(work: Callable[[], object]) -> int:
    """Return how many functions `work` calls that are written in Python."""
    return _counted(work, frozenset({"call"}))


def _counted(work: Callable[[], object], kinds: frozenset[str]) -> int:
    count = 0

    def tally(_frame, event, _arg):
        nonlocal count
        count += event in kinds

    before = sys.getprofile()
    sys.setprofile(tally)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
