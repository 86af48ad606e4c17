"""Checks of the fields with which a request limits a server tool.

A limit that cannot be read would otherwise be no limit, so it is an error, as it is in the APIs of
the vendors. Codecs call these functions with their own names of the fields; null is an unset field.
"""

import re
from collections.abc import Collection

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject, dumps

_DOMAIN = re.compile(r"(?:\*\.)?[^\s/:@?#*]+(?:/[^\s?#*]*(?:\*[^\s?#*]*)?)?")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_COUNTRY = re.compile(r"[A-Za-z]{2}")


def is_domain(text: str) -> bool:
    """Whether `text` is a domain, with a path or without.

    Anthropic, web search tool: no scheme, and at most one wildcard, in the path. A wildcard for the
    subdomains (`*.example.com`) is accepted besides: a domain includes them.
    """
    return _DOMAIN.fullmatch(text) is not None


def check_domains(fields: JsonObject, allow: str, block: str, where: str) -> None:
    """Raise unless both fields are lists of domains, and at most one of them has an entry."""
    check_domain_list(fields, allow, where)
    check_domain_list(fields, block, where)
    # Anthropic, web search tool: both lists in one request are a 400.
    if fields.get(allow) and fields.get(block):
        text = f"`{allow}` and `{block}` exclude each other; send one of them"
        raise MalformedRequest(text, where=f"{where}.{block}")


def check_domain_list(fields: JsonObject, name: str, where: str) -> None:
    """Raise unless a field is a list of domains."""
    value, place = fields.get(name), f"{where}.{name}"
    check_texts(value, place)
    for number, domain in enumerate(value if isinstance(value, list) else ()):
        if not is_domain(str(domain)):
            text = "must be a domain without scheme and port, such as example.com"
            raise MalformedRequest(f"{_shown(domain)} {text}", where=f"{place}.{number}")


def check_count(fields: JsonObject, name: str, where: str = "") -> None:
    """Raise unless a field is a positive integer."""
    value = fields.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        text = f"must be an integer of at least 1, not {_shown(value)}"
        raise MalformedRequest(text, where=f"{where}.{name}".lstrip("."))


def check_place(place: Json, where: str, *, nested: bool = False) -> None:
    """Raise unless `place` is an approximate location; `nested` if its fields are one level lower."""
    check_object(place, where)
    if not isinstance(place, dict):
        return
    check_choice(place, "type", ("approximate",), where)
    if nested:
        check_place(place.get("approximate"), f"{where}.approximate")
        return
    for name in ("city", "region", "country", "timezone"):
        value = place.get(name)
        if value is not None and not isinstance(value, str):
            raise MalformedRequest(f"must be a text, not {_shown(value)}", where=f"{where}.{name}")
    # Anthropic and OpenAI: the two-letter code of ISO 3166-1. An empty one is taken as unset.
    country = place.get("country")
    if country and not _COUNTRY.fullmatch(str(country)):
        text = f"must be a country code of two letters, such as DE, not {_shown(country)}"
        raise MalformedRequest(text, where=f"{where}.country")


def check_choice(fields: JsonObject, name: str, values: Collection[str], where: str) -> None:
    """Raise unless a field has one of `values`."""
    value = fields.get(name)
    if value is not None and value not in values:
        text = f"must be one of {', '.join(values)}, not {_shown(value)}"
        raise MalformedRequest(text, where=f"{where}.{name}")


def check_flag(fields: JsonObject, name: str, where: str) -> None:
    """Raise unless a field is true or false."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise MalformedRequest(
            f"must be true or false, not {_shown(value)}", where=f"{where}.{name}"
        )


def check_object(value: Json, where: str) -> None:
    """Raise unless `value` is an object."""
    if value is not None and not isinstance(value, dict):
        raise MalformedRequest(f"must be an object, not {_shown(value)}", where=where)


def check_time(value: Json, where: str) -> None:
    """Raise unless `value` is a time that begins with a date, such as `2026-01-31T00:00:00Z`."""
    if value is not None and not (isinstance(value, str) and _begins_with_date(value)):
        text = f"must be a time such as 2026-01-31T00:00:00Z, not {_shown(value)}"
        raise MalformedRequest(text, where=where)


def _begins_with_date(text: str) -> bool:
    if (found := _DATE.match(text)) is None:
        return False
    year, month, day = (int(number) for number in found.groups())
    leaps = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    last = _DAYS[month - 1] if 1 <= month <= len(_DAYS) else 0
    return year > 0 and 1 <= day <= (28 if month == 2 and not leaps else last)


def check_texts(value: Json, where: str) -> None:
    """Raise unless `value` is a list of texts."""
    if value is None:
        return
    if not isinstance(value, list):
        raise MalformedRequest(f"must be a list of texts, not {_shown(value)}", where=where)
    for number, one in enumerate(value):
        if not isinstance(one, str):
            text = f"must be a text, not {_shown(one)}"
            raise MalformedRequest(text, where=f"{where}.{number}")


def _shown(value: Json) -> str:
    """Return a value for an error text, cut to a readable length."""
    return dumps(value)[:80]
