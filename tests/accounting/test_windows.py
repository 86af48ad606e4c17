"""Windows of limits: calendar windows in UTC, and clocks that jump."""

import calendar
import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbridge.accounting.windows import Counter, current, resets

LENGTHS = {"minute": 60, "day": 86_400, "month": 31 * 86_400}
periods = st.sampled_from(["minute", "day", "month"])
times = st.floats(0, 4e9, allow_nan=False)


@given(times)
def test_a_window_is_the_calendars(at):
    day = dt.datetime.fromtimestamp(at, dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    month = day.replace(day=1)
    days = calendar.monthrange(day.year, day.month)[1]
    assert current(None, "day", at).start == day.timestamp()
    assert resets(current(None, "day", at), "day") == day.timestamp() + 86_400
    assert current(None, "month", at).start == month.timestamp()
    assert resets(current(None, "month", at), "month") == month.timestamp() + days * 86_400
    assert current(None, "minute", at).start == at // 60 * 60


@given(periods, times, st.integers(1, 9), st.floats(0, 1e8))
def test_a_clock_that_jumps_back_gives_no_second_budget_and_no_long_wait(per, at, used, back):
    counter = Counter(current(None, per, at).start, used)
    now = at - back
    after = current(counter, per, now)
    assert after.used == used
    assert 0 < resets(after, per) - now <= LENGTHS[per]


@given(periods, times, st.lists(st.floats(-1e6, 1e6), max_size=20))
def test_a_clock_that_swings_gives_one_budget_per_window_of_elapsed_time(per, at, jumps):
    """Swing around a start: no more fresh counters than jumps forward over the end of a window."""
    counter = Counter(current(None, per, at).start, 1)
    for jump in jumps:
        new = current(counter, per, at + jump)
        assert new.used == 1 or at + jump >= resets(counter, per)
        counter = Counter(new.start, 1)


def test_the_last_seconds_of_a_day_that_came_twice_are_not_a_day_of_their_own():
    midnight = 1_794_787_200.0
    late = current(Counter(midnight, 4), "day", midnight - 2)  # NTP steps back over midnight
    assert late == Counter(midnight - 2, 4)
    next_day = current(late, "day", midnight + 86_400 - 2)
    assert next_day == Counter(midnight + 86_400 - 2)
    assert current(Counter(next_day.start, 4), "day", midnight + 86_400 + 1).used == 4


@pytest.mark.parametrize("days", [2, 400])
def test_an_idle_key_returns_to_the_calendar(days):
    counter = Counter(1000.5, 3)
    at = 1000.5 + days * 86_400
    assert current(counter, "day", at).start % 86_400 == 0
