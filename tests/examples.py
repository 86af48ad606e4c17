"""How many examples Hypothesis tries: the profiles of the test suite.

`quick` is the profile of `make test`: the same examples in every run and on every machine, so that a
test that fails fails again, and no change is refused for an example that has nothing to do with it.
`thorough` (`make test-thorough`) looks for new ones: thirty times as many, others in each run.
`examples(n)` scales a count that one test sets for itself.

No profile measures time: a slow machine is no fault of a test.
"""

import os

from hypothesis import HealthCheck, settings

QUICK, THOROUGH = 30, 1000
PROFILE = os.environ.get("TOOLBRIDGE_PROFILE", "quick")


def load_profile() -> None:
    timeless = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("thorough", timeless, max_examples=THOROUGH)
    settings.register_profile(
        "quick", timeless, max_examples=QUICK, derandomize=True, database=None
    )
    settings.load_profile(PROFILE)


def examples(number: int) -> int:
    """Return the number of examples for a test that needs `number` where others need 100."""
    most = THOROUGH if PROFILE == "thorough" else QUICK
    return max(1, number * most // 100)
