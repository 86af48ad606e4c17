"""Windows of limits: a minute, a day or a month in UTC, and what was used in the current one.

A window begins at a full minute, at midnight or on the first of a month. Clocks are corrected and
jump, so a counter follows two rules. After a jump back, the window in which the counter stands goes
on from the new time, with its use: no second budget, and no wait of more than one window. The next
window begins where this one ends, so that the part of a calendar window that was used twice by the
clock does not get a fresh budget either.
"""

from typing import Literal, TypeAlias

import msgspec

Period: TypeAlias = Literal["minute", "day", "month"]
PERIODS: tuple[Period, ...] = ("minute", "day", "month")
_MINUTE = 60
_DAY = 86_400


class Counter(msgspec.Struct, frozen=True):
    """What was used since `start`, in seconds since the epoch."""

    start: float = 0.0
    used: int = 0


def current(counter: Counter | None, per: Period, now: float) -> Counter:
    """Return the counter of the window that includes `now`; a new window begins at zero."""
    begins = begin(per, now)
    if counter is None:
        return Counter(begins)
    if now < counter.start:
        return Counter(now, counter.used)
    if now < resets(counter, per):
        return counter
    return Counter(max(begins, resets(counter, per)))


def resets(counter: Counter, per: Period) -> float:
    """Return the time at which the window of `counter` ends."""
    return counter.start + length(per, counter.start)


def begin(per: Period, at: float) -> float:
    """Return the time at which the calendar window that includes `at` begins."""
    if per == "minute":
        return at // _MINUTE * _MINUTE
    day = int(at // _DAY)
    return float((day if per == "day" else day - _date(day)[2] + 1) * _DAY)


def length(per: Period, start: float) -> float:
    """Return the seconds of a window that begins at `start`."""
    if per == "minute":
        return _MINUTE
    if per == "day":
        return _DAY
    year, month, _ = _date(int(start // _DAY))
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1] * _DAY


def _date(day: int) -> tuple[int, int, int]:
    """Return year, month and day of the Gregorian calendar for a number of days since 1970."""
    # Years begin in March here, so that the leap day is the last day of its year; an era has 400.
    era, of_era = divmod(day + 719_468, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1
