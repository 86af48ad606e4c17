"""Parses the times in tool arguments."""

from datetime import date

import msgspec

from toolbridge.tools.context import InvalidArguments


class ClockTime(msgspec.Struct, frozen=True):
    minute: int
    """Minutes since midnight."""
    day: str = ""
    """YYYY-MM-DD; empty without a date."""

    @property
    def weekday(self) -> int | None:
        """0 on Mondays."""
        return date.fromisoformat(self.day).weekday() if self.day else None

    def __str__(self) -> str:
        clock = f"{self.minute // 60:02d}:{self.minute % 60:02d}"
        return f"{self.day}T{clock}" if self.day else clock


def minutes(clock: str) -> int:
    """Return the minutes since midnight of HH:MM."""
    return int(clock[:2]) * 60 + int(clock[3:5])


def moment_of(text: str, where: str) -> ClockTime:
    """Return the time in `text`: HH:MM with an optional date; seconds are ignored."""
    day, clock = (text[:10], text[11:]) if "-" in text else ("", text)
    moment = ClockTime(minutes(clock), day)
    try:
        _ = moment.weekday
    except ValueError:
        raise InvalidArguments(f"{where}: {day!r} is not a date") from None
    return moment
