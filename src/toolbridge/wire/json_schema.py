"""Rewrite JSON Schema for APIs that support a part of its keywords.

Each API has its own list of supported keywords, which grows from year to year. A codec keeps the
keywords of its list and moves the others into `description`, where the model can still read them.
This module has the steps that codecs share: resolving `$ref`, merging `allOf`, splitting off null.
"""

from collections.abc import Callable, Mapping
from math import floor
from typing import TypeGuard

from toolbridge.core.json import Json, JsonObject, dumps

MAX_NODES = 20_000
MAX_DEPTH = 64
_VALUES = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose values are data; a `$ref` in them is not a reference."""
_NAMED = frozenset({"properties", "patternProperties"})
"""Keywords whose keys are property names; a property may be called `default` or `$ref`."""
OF_TYPE = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format", "enum"}),
    "array": frozenset({"items", "minItems", "maxItems", "prefixItems", "uniqueItems"}),
    "object": frozenset({"properties", "required", "additionalProperties", "propertyOrdering"}),
    "number": frozenset({"minimum", "maximum"}),
    "integer": frozenset({"minimum", "maximum"}),
}
"""The keywords that belong to one type."""
_SILENT = frozenset(
    {"$schema", "$id", "id", "$anchor", "$comment", "$vocabulary", "$defs", "definitions"}
)
"""Keywords that do not restrict a value."""


# ── references ───────────────────────────────────────────────────────────────


def inline(schema: JsonObject) -> tuple[JsonObject, bool]:
    """Return `schema` with its references resolved, and whether all of them were.

    A recursive reference becomes `{"type": "object"}`, and so does every reference after
    `MAX_NODES` nodes.
    """
    inliner = _Inliner(schema)
    body: JsonObject = {k: v for k, v in schema.items() if k not in {"$defs", "definitions"}}
    found = inliner.expand(body, ())
    return (found if isinstance(found, dict) else {}), inliner.whole


class _Inliner:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._nodes = 0
        self.whole = True

    def expand(self, value: Json, inside: tuple[str, ...], depth: int = 0) -> Json:
        self._nodes += 1
        if depth > MAX_DEPTH and isinstance(value, dict | list):
            self.whole = False
            return {"type": "object"}
        if isinstance(value, list):
            return [self.expand(item, inside, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return {key: self._member(key, item, inside, depth) for key, item in value.items()}
        beside: JsonObject = {key: item for key, item in value.items() if key != "$ref"}
        found = self._resolve(reference, inside)
        expanded = self.expand(found, (*inside, reference), depth + 1)
        # A keyword beside the reference describes the property itself, so it overrides.
        return {**(expanded if isinstance(expanded, dict) else {}), **beside}

    def _member(self, key: str, value: Json, inside: tuple[str, ...], depth: int) -> Json:
        if key in _VALUES:
            return value
        if key in _NAMED and isinstance(value, dict):
            return {name: self.expand(item, inside, depth + 1) for name, item in value.items()}
        return self.expand(value, inside, depth + 1)

    def _resolve(self, reference: str, inside: tuple[str, ...]) -> Json:
        found = None if reference in inside else resolve(self._root, reference)
        # Definitions that each refer to the previous one twice grow exponentially.
        if isinstance(found, dict) and self._nodes < MAX_NODES:
            return found
        self.whole = False
        return {"type": "object"}


def resolve(root: JsonObject, reference: str) -> Json:
    """Return the target of a JSON pointer (RFC 6901) such as `#/$defs/City`, or None."""
    head, *steps = reference.split("/")
    if head != "#" or not steps:
        return None
    found: Json = root
    for step in steps:
        if not isinstance(found, dict):
            return None
        found = found.get(step.replace("~1", "/").replace("~0", "~"))
    return found


# ── one node ─────────────────────────────────────────────────────────────────


def unite(node: JsonObject) -> JsonObject:
    """Return `node` with `allOf` merged into it and `oneOf` renamed to `anyOf`.

    That a value matches exactly one member is rarely intended and enforced by no API.
    """
    members = node.get("allOf")
    united: JsonObject = {key: value for key, value in node.items() if key != "allOf"}
    for member in members if isinstance(members, list) else ():
        if isinstance(member, dict):
            united = merge(united, unite(member))
    if isinstance(united.get("oneOf"), list) and "anyOf" not in united:
        united["anyOf"] = united.pop("oneOf")
    return united


_TIGHTER: dict[str, Callable[[float, float], float]] = {
    "minimum": max, "exclusiveMinimum": max, "minLength": max, "minItems": max,
    "maximum": min, "exclusiveMaximum": min, "maxLength": min, "maxItems": min,
}  # fmt: skip


def merge(first: JsonObject, second: JsonObject) -> JsonObject:
    """Return a schema that requires both; a keyword that cannot be merged is added to `allOf`."""
    both = dict(first)
    for key, value in second.items():
        if key not in both or both[key] == value:
            both[key] = value
            continue
        joined = _joined(key, both[key], value)
        if joined is None:
            rest = both.get("allOf")
            both["allOf"] = [*(rest if isinstance(rest, list) else ()), {key: value}]
        else:
            both[key] = joined
    return both


def _joined(key: str, a: Json, b: Json) -> Json:
    """Return the value of a keyword that requires both `a` and `b`; None if no value does."""
    if isinstance(a, dict) and isinstance(b, dict):
        return _joined_properties(a, b) if key == "properties" else None
    if isinstance(a, list) and isinstance(b, list):
        if key == "required":
            return [*a, *(name for name in b if name not in a)]
        return [value for value in a if value in b] or None if key == "enum" else None
    if key == "description":
        return f"{a} {b}"
    if key in _TIGHTER and is_number(a) and is_number(b):
        return _TIGHTER[key](a, b)
    return None


def _joined_properties(a: JsonObject, b: JsonObject) -> JsonObject:
    joined = dict(a)
    for name, schema in b.items():
        own = joined.get(name)
        if isinstance(own, dict) and isinstance(schema, dict):
            joined[name] = merge(own, schema)
        else:
            joined.setdefault(name, schema)
    return joined


def split_null(node: JsonObject) -> tuple[JsonObject, bool]:
    """Return `node` without null among the allowed values, and whether null was allowed."""
    rest = dict(node)
    null = rest.pop("nullable", False) is True
    kinds = rest.get("type")
    if isinstance(kinds, list) and "null" in kinds:
        left = [kind for kind in kinds if kind != "null"]
        null = null or bool(left)
        rest["type"] = "null" if not left else left[0] if len(left) == 1 else left
    values = rest.get("enum")
    if isinstance(values, list) and None in values and len(values) > 1:
        null = True
        rest["enum"] = [value for value in values if value is not None]
    members = rest.get("anyOf")
    if isinstance(members, list) and any(map(_is_null, members)):
        null = True
        left = [member for member in members if not _is_null(member)]
        del rest["anyOf"]
        if len(left) == 1 and isinstance(left[0], dict):
            rest = merge(rest, left[0])
        elif left:
            rest["anyOf"] = left
    return rest, null


def _is_null(schema: Json) -> bool:
    return isinstance(schema, dict) and schema.get("type") in ("null", ["null"])


def inclusive(node: JsonObject) -> JsonObject:
    """Return `node` with inclusive bounds; for fractions the description keeps the exclusive ones."""
    node = dict(node)
    whole = node.get("type") == "integer"
    low, high = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    if is_number(low):
        least = floor(low) + 1 if whole else low
        own = node.get("minimum")
        node["minimum"] = max(own, least) if is_number(own) else least
    if is_number(high):
        most = -floor(-high) - 1 if whole else high
        own = node.get("maximum")
        node["maximum"] = min(own, most) if is_number(own) else most
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        if whole and is_number(node.get(key)):
            del node[key]
    return node


def split_types(node: JsonObject) -> JsonObject:
    """Return `node` with a list of types as `anyOf`, each with the keywords of its type."""
    kinds = node.get("type")
    if not isinstance(kinds, list) or "anyOf" in node:
        return node
    special = frozenset().union(*OF_TYPE.values())
    rest: JsonObject = {k: v for k, v in node.items() if k not in special and k != "type"}
    rest["anyOf"] = [
        {"type": kind} | {k: v for k, v in node.items() if k in OF_TYPE.get(str(kind), ())}
        for kind in kinds
    ]
    return rest


def describe(node: JsonObject, moved: Mapping[str, Json]) -> JsonObject:
    """Return `node` with the keywords `moved`, which the API does not support, in `description`."""
    added = "; ".join(
        f"{key}: {value if isinstance(value, str) else dumps(value)}"
        for key, value in moved.items()
        if key not in _SILENT and not (key == "additionalProperties" and isinstance(value, bool))
    )
    if not added:
        return node
    own = node.get("description")
    return node | {"description": f"{own} ({added})" if isinstance(own, str) and own else added}


def is_number(value: Json) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
