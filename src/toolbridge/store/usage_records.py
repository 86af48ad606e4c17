"""Sums of the ledger as records, for `toolbridge usage` and `GET /v1/usage`."""

import calendar
import re
import time

import msgspec

from toolbridge.accounting.limits_of_keys import NANOS
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject
from toolbridge.store.ledger import Grouping, UsageTotal

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def start_of(text: str, now: float, where: str = "since") -> float:
    """Return the time that `text` means: a duration before `now`, or a day (UTC)."""
    if form := re.fullmatch(r"([0-9]{1,6})([mhdw])", text):
        return now - int(form[1]) * _SECONDS[form[2]]
    try:
        day = time.strptime(text, "%Y-%m-%d")
    except ValueError:
        raise MalformedRequest(
            "must be a duration such as 7d or a date such as 2027-01-31", where=where
        ) from None
    return float(calendar.timegm(day))


def record_of(by: Grouping, total: UsageTotal) -> JsonObject:
    """Return one sum with its group under the name of the grouping."""
    found: JsonObject = msgspec.structs.asdict(total)
    found.pop("group")
    return {by: total.group, **found, "cost": decimal(total.cost), "currency": "USD"}


def decimal(nanos: int) -> str:
    """Return whole billionths as a decimal number, without rounding."""
    return f"{nanos // NANOS}.{nanos % NANOS:09d}"
