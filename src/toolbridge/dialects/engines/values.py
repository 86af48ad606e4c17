"""Converts raw text to the type that a parameter's schema declares.

Formats with tags write every value as text. A declared string is never converted; a value that fits
no declared type stays a string (mlx-lm#1236).
"""

import math
import re
from collections.abc import Iterator
from contextlib import suppress

from toolbridge.core.json import Json, JsonObject, loads
from toolbridge.dialects.engines.literals import Unreadable, literal

_ALIASES = {
    "str": "string", "text": "string", "varchar": "string", "char": "string", "enum": "string",
    "int": "integer", "int32": "integer", "int64": "integer", "uint": "integer", "long": "integer",
    "short": "integer", "bigint": "integer",
    "float": "number", "float32": "number", "float64": "number", "double": "number",
    "decimal": "number", "numeric": "number",
    "bool": "boolean", "dict": "object", "map": "object", "list": "array", "arr": "array",
    "tuple": "array", "set": "array", "none": "null", "nonetype": "null", "nil": "null",
}  # fmt: skip
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS: dict[str, Json] = {
    "true": True, "false": False, "null": None, "True": True, "False": False, "None": None,
}  # fmt: skip
_MISSING = object()
_DEPTH = 16


def types_of(schema: Json, root: Json, depth: int = 0) -> frozenset[str]:
    """Return the JSON types that `schema` allows; empty if it declares none."""
    if not isinstance(schema, dict) or depth > _DEPTH:
        return frozenset()
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return types_of(_resolve(reference, root), root, depth + 1)
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset({_plain(named)})
    if isinstance(named, list):
        return frozenset(_plain(name) for name in named if isinstance(name, str))
    found: set[str] = set()
    for key in ("anyOf", "oneOf", "allOf"):
        members = schema.get(key)
        for member in members if isinstance(members, list) else ():
            found |= types_of(member, root, depth + 1)
    if not found:
        found |= set(_types_of_values(schema))
    return frozenset(found)


def _plain(name: str) -> str:
    lower = name.strip().lower()
    for prefix, plain in (("list[", "array"), ("dict[", "object"), ("array<", "array")):
        if lower.startswith(prefix):
            return plain
    return _ALIASES.get(lower, lower)


def _resolve(reference: str, root: Json) -> Json:
    node = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if not isinstance(node, dict):
            return None
        node = node.get(step.replace("~1", "/").replace("~0", "~"))
    return node


def _types_of_values(schema: JsonObject) -> Iterator[str]:
    values = schema.get("enum")
    if "const" in schema:
        values = [schema["const"]]
    for value in values if isinstance(values, list) else ():
        yield type_of(value)
    if not isinstance(values, list) and "properties" in schema:
        yield "object"
    if not isinstance(values, list) and "items" in schema:
        yield "array"


def type_of(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def typed(raw: str, types: frozenset[str], *, quotes: bool = False) -> Json:
    """Return `raw` as a value of one of `types`; a text that fits none of them stays a string.

    With `quotes`, quotes around a string are not part of it; around another type they never are.
    """
    if not types:
        return _guessed(raw, quotes=quotes)
    word = raw.strip()
    bare = unquoted(word)
    if types != {"string"}:
        value = _fitting(word, types)
        if value is _MISSING and bare != word and "string" not in types:
            value = _fitting(bare.strip(), types)
        if value is not _MISSING:
            return _json(value)
    return bare if quotes and bare != word else raw


def unquoted(text: str) -> str:
    """Return `text` without the quotes around the whole of it; a JSON string is decoded."""
    quote = text[:1]
    if len(text) < len("''") or quote not in {'"', "'"} or not text.endswith(quote):
        return text
    if quote == '"':
        with suppress(ValueError):
            return str(loads(text))
    return text if quote in text[1:-1] else text[1:-1]


def _json(value: object) -> Json:
    if value is None or isinstance(value, bool | int | float | str | list | dict):
        return value
    raise TypeError(type(value).__name__)


def _fitting(word: str, types: frozenset[str]) -> object:
    if "null" in types and word in {"null", *([] if "string" in types else ["None"])}:
        return None
    if "integer" in types and _INTEGER.fullmatch(word):
        return int(word)
    if types & {"integer", "number"} and _NUMBER.fullmatch(word):
        number = _number(word)
        if "number" in types or isinstance(number, int):
            return number
    if "boolean" in types and word.lower() in {"true", "false"}:
        return word.lower() == "true"
    if types & {"object", "array"}:
        value = _structure(word)
        if value is not _MISSING and type_of(_json(value)) in types:
            return value
    return _MISSING


def _number(word: str) -> int | float | str:
    number = float(word)
    if not math.isfinite(number):
        return word
    if number.is_integer() and "e" not in word.lower():
        return int(number)
    return number


def _structure(word: str) -> object:
    """Return the object or array in `word`: JSON, a Python literal, or escaped JSON."""
    try:
        return loads(word)
    except ValueError:
        pass
    if '\\"' in word:
        try:
            return loads(str(loads(f'"{word}"')))
        except ValueError:
            pass
    try:
        return literal(word, words=False)
    except Unreadable:
        return _MISSING


def _guessed(raw: str, *, quotes: bool) -> Json:
    """Return the value of `raw` without a schema: JSON only if the whole text is JSON."""
    word = raw.strip()
    if word in _WORDS:
        return _WORDS[word]
    if word[:1] in {'"', "'", ""}:
        return unquoted(word) if quotes and unquoted(word) != word else raw
    if _NUMBER.fullmatch(word):
        number = _number(word)
        return raw if isinstance(number, str) or word[:1] == "+" else number
    if word[0] in "{[":
        value = _structure(word)
        return raw if value is _MISSING else _json(value)
    return raw
