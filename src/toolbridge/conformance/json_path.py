"""Reads untrusted JSON by path; a missing or wrong member gives a default instead of an error."""

from toolbridge.core.json import Json, JsonObject


def pick(value: Json, path: str) -> Json:
    """Return the value at `path` (`messages.-1.content.0.text`), or None."""
    for step in path.split(".") if path else []:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.lstrip("-").isdigit():
            at = int(step)
            value = value[at] if -len(value) <= at < len(value) else None
        else:
            return None
    return value


def text(value: Json, path: str = "") -> str:
    found = pick(value, path)
    return found if isinstance(found, str) else ""


def number(value: Json, path: str = "") -> int:
    found = pick(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def items(value: Json, path: str = "") -> list[Json]:
    found = pick(value, path)
    return found if isinstance(found, list) else []


def members(value: Json, path: str = "") -> JsonObject:
    found = pick(value, path)
    return found if isinstance(found, dict) else {}


def has(value: Json, path: str) -> bool:
    """Whether there is a member at `path`, even if it is null."""
    parent, _, last = path.rpartition(".")
    return last in members(value, parent)
