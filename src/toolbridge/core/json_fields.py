"""Reads values of JSON objects that others wrote, where a value of another type counts as absent."""

from toolbridge.core.json import Json, JsonObject


def text_of(value: Json) -> str:
    return value if isinstance(value, str) else ""


def texts_of(value: Json) -> tuple[str, ...]:
    """Return the texts in a list; other values of it are left out."""
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def object_of(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def objects_of(value: Json) -> list[JsonObject]:
    """Return the objects in a list; other values of it are left out."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def text_in(fields: JsonObject, name: str) -> str:
    return text_of(fields.get(name))


def object_in(fields: JsonObject, name: str) -> JsonObject:
    return object_of(fields.get(name))


def list_in(fields: JsonObject, name: str) -> list[Json]:
    value = fields.get(name)
    return value if isinstance(value, list) else []
