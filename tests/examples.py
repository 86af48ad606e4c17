"""How many examples Hypothesis tries: the profiles of the test suite.

`quick` is the profile of `make test`; `thorough` (`make test-thorough`) tries thirty times as many and new
ones in each run. `examples(n)` scales a count that one test sets for itself. With `CI` set, `quick`
tries the same examples in every run.
"""

import os

from hypothesis import settings

QUICK, THOROUGH = 30, 1000
PROFILE = os.environ.get("TOOLBRIDGE_PROFILE", "quick")


def load_profile() -> None:
    settings.register_profile("thorough", deadline=None, max_examples=THOROUGH)
    settings.register_profile("quick", deadline=None, max_examples=QUICK)
    settings.register_profile("ci", settings.get_profile("quick"), derandomize=True, database=None)
    settings.load_profile("ci" if PROFILE == "quick" and os.environ.get("CI") else PROFILE)


def examples(number: int) -> int:
    """Return the number of examples for a test that needs `number` where others need 100."""
    most = THOROUGH if PROFILE == "thorough" else QUICK
    return max(1, number * most // 100)
