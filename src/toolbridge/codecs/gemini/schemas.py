"""JSON Schema as Gemini's `Schema`, and back.

Gemini API, Schema: a subset of OpenAPI 3.0, and one unknown keyword makes the request a 400. Only
listed keywords are sent; the others move into the description. Used for models without JSON Schema
(`Quirks.json_schema`). A property may have the name of a keyword.
"""

from toolbridge.core.json import Json, JsonObject, dumps, maybe_object
from toolbridge.core.short_cache import cache_short
from toolbridge.wire.json_schema import (
    describe,
    inclusive,
    inline,
    is_number,
    split_null,
    split_types,
    unite,
)

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_FORMATS = frozenset({"enum", "date-time", "float", "double", "int32", "int64"})
_NUMBERS = frozenset({"minimum", "maximum"})
_COUNTS = frozenset(
    {"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"}
)
_TEXTS = frozenset({"title", "description", "pattern"})
_BESIDE_ANY_OF = frozenset({"anyOf", "title", "description", "default", "example"})
_SNAKE = {
    "any_of": "anyOf", "property_ordering": "propertyOrdering", "min_items": "minItems",
    "max_items": "maxItems", "min_length": "minLength", "max_length": "maxLength",
    "min_properties": "minProperties", "max_properties": "maxProperties",
    "additional_properties": "additionalProperties",
}  # fmt: skip
"""Keywords in snake case, which protocol buffers accept too."""


def project(schema: JsonObject) -> JsonObject:
    """Return `schema` as a Gemini `Schema`. The result is cached and must not be changed."""
    return _projected(dumps(schema))


@cache_short(512)
def _projected(text: str) -> JsonObject:
    inlined, _ = inline(maybe_object(text) or {})
    return _node(inlined)


def _node(schema: Json) -> JsonObject:
    if not isinstance(schema, dict):
        return {}  # `true`: anything
    # Gemini API, Schema: null is `nullable: true`, and `allOf` and `oneOf` do not exist.
    node, null = split_null(unite(schema))
    node = split_types(inclusive(_as_enum(node)))
    kept: JsonObject = {}
    moved: JsonObject = {}
    for key, value in node.items():
        if (fitting := _fitting(key, value, node)) is None:
            moved[key] = value
        else:
            kept[key] = fitting
    if kept.get("type") == "ARRAY":
        kept.setdefault(
            "items", {"type": "STRING"}
        )  # Gemini API, Schema: an array without items is a 400
    for key in ("properties", "required"):
        if not kept.get(key, True):
            del kept[key]  # an empty one is a 400
    if null:
        kept["nullable"] = True
    return describe(kept, moved)


def _as_enum(node: JsonObject) -> JsonObject:
    """Return `node` with `const` as an enum of one value, and with the type that it implies."""
    node = dict(node)
    if "const" in node and "enum" not in node:
        node["enum"] = [node.pop("const")]
    if "type" in node or "anyOf" in node:
        return node
    values = node.get("enum")
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        node["type"] = "string"
    elif isinstance(values, list) and values and all(map(is_number, values)):
        node["type"] = "integer" if all(isinstance(v, int) for v in values) else "number"
    elif "properties" in node:
        node["type"] = "object"
    elif "items" in node:
        node["type"] = "array"
    return node


def _fitting(key: str, value: Json, node: JsonObject) -> Json:
    """Return the value of a keyword as Gemini takes it; None if Gemini does not take it."""
    fits = False
    if key in _TEXTS:
        fits = isinstance(value, str)
    elif key in _NUMBERS:
        fits = is_number(value)
    elif key in _COUNTS:
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif key in {"default", "example", "propertyOrdering"}:
        fits = True
    else:
        return _fitting_structure(key, value, node)
    return value if fits else None


def _fitting_structure(key: str, value: Json, node: JsonObject) -> Json:
    match key:
        case "type" if isinstance(value, str) and value.lower() in _TYPES:
            return value.upper()
        # Gemini API, Schema: older models reject any other format.
        case "format" if isinstance(value, str) and value in _FORMATS:
            return value
        case "enum" if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
            return value  # Gemini API, Schema: enums hold strings; others move into the description
        case "items" if isinstance(value, dict):
            return _node(value)
        case "properties" if isinstance(value, dict):
            return {name: _node(item) for name, item in value.items()}
        # Gemini API, Schema: a required name without a property is a 400.
        case "required" if isinstance(value, list):
            properties = node.get("properties")
            named = properties if isinstance(properties, dict) else {}
            return [name for name in value if isinstance(name, str) and name in named]
        # Gemini API, Schema: next to `anyOf` only a few keywords are allowed.
        case "anyOf" if isinstance(value, list) and node.keys() <= _BESIDE_ANY_OF:
            return [_node(member) for member in value]
        case _:
            return None


def decode_schema(schema: Json) -> JsonObject:
    """Return a Gemini `Schema` as JSON Schema: types in lower case, `nullable` as a type."""
    if not isinstance(schema, dict):
        return {}
    found: JsonObject = {}
    for key, value in schema.items():
        name = _SNAKE.get(key, key)
        if (name, value) != ("format", "enum"):  # a format that only Gemini has
            found[name] = _decode_keyword(name, value)
    if found.pop("nullable", False) is True:
        _allow_null(found)
    return found


def _decode_keyword(key: str, value: Json) -> Json:
    if key == "type" and isinstance(value, str):
        return value.lower()
    if key == "items" and isinstance(value, dict):
        return decode_schema(value)
    if key in {"anyOf", "prefixItems", "oneOf", "allOf"} and isinstance(value, list):
        return [decode_schema(member) for member in value]
    if key in {"properties", "$defs"} and isinstance(value, dict):
        return {name: decode_schema(item) for name, item in value.items()}
    if key in _COUNTS and isinstance(value, str) and value.isdecimal():
        return int(value)  # Protocol buffers, JSON mapping: an int64 is a string
    return value


def _allow_null(schema: JsonObject) -> None:
    kind, values, members = schema.get("type"), schema.get("enum"), schema.get("anyOf")
    if isinstance(kind, str):
        schema["type"] = [kind, "null"]
    elif isinstance(members, list):
        schema["anyOf"] = [*members, {"type": "null"}]
    if isinstance(values, list) and None not in values:
        schema["enum"] = [*values, None]
