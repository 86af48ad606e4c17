"""`time.now`: the current date and time in a time zone."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from toolbridge.core.json import JsonObject
from toolbridge.tools.context import InvalidArguments, ToolContext
from toolbridge.tools.functions import schema_of
from toolbridge.tools.registry import RegisteredTool
from toolbridge.tools.structs import read_arguments


class TimeNow(msgspec.Struct, frozen=True):
    """Return the current date and time."""

    tz: Annotated[
        str, Meta(min_length=1, max_length=64, description="a time zone such as Europe/Rome")
    ] = "UTC"


def time_now(clock: Callable[[], float] = time.time) -> RegisteredTool:
    """Return the tool; `clock` gives the seconds since the epoch."""

    async def run(arguments: JsonObject, _context: ToolContext) -> JsonObject:
        return now_in(clock(), read_arguments(arguments, TimeNow).tz)

    return RegisteredTool(
        "time.now", "Tell the date and time in a time zone.", schema_of(TimeNow), run,
        idempotent=True,
    )  # fmt: skip


def now_in(at: float, tz: str) -> JsonObject:
    moment = datetime.fromtimestamp(at, UTC).astimezone(_zone(tz))
    return {
        "time": moment.isoformat(timespec="seconds"),
        "tz": tz,
        "weekday": moment.strftime("%A"),
        "unix": int(at),
    }


def _zone(tz: str) -> ZoneInfo:
    try:
        return ZoneInfo(tz)
    # A name with `..` raises ValueError, the name of a directory OSError.
    except (ZoneInfoNotFoundError, ValueError, OSError):
        text = f"tz: there is no time zone {tz!r}; use a name such as Europe/Rome or UTC"
        raise InvalidArguments(text) from None
