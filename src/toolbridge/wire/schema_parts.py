"""Parts of JSON Schema that fitting reads: references, implied types, and null."""

from collections.abc import Iterator

from toolbridge.core.json import Json, JsonObject
from toolbridge.wire.json_schema import OF_TYPE, is_number

DEFINITIONS = ("$defs", "definitions")
_DATA = frozenset({"enum", "const", "default", "examples", "example"})
_ANNOTATIONS = frozenset({"title", "description"})


def references(schema: Json) -> list[tuple[tuple[str, ...], str]]:
    """Return the path and the target of every reference."""
    return list(_references(schema, ()))


def _references(schema: Json, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(schema, list):
        for at, item in enumerate(schema):
            yield from _references(item, (*path, str(at)))
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key in {"$ref", "$dynamicRef", "$recursiveRef"} and isinstance(value, str):
            yield path, value
        elif key in {"properties", "patternProperties", *DEFINITIONS} and isinstance(value, dict):
            for name, member in value.items():
                yield from _references(member, (*path, key, name))
        elif key not in _DATA:
            yield from _references(value, (*path, key))


_SHAPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems", "required", "enum"), (list,)),
    **dict.fromkeys(("properties", "patternProperties", *DEFINITIONS), (dict,)),
    **dict.fromkeys(("format", "pattern"), (str,)),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), (int, float)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (int, float)),
    "items": (dict, list, bool),
    "additionalProperties": (dict, bool),
    "$ref": (str,),
}


def misshapen(schema: JsonObject) -> str:
    """Return the first keyword whose value has the wrong type; empty if none has."""
    wrong = (
        key
        for key, kinds in _SHAPES.items()
        if key in schema and not isinstance(schema[key], kinds)
    )
    return next(wrong, "")


def infer_type(node: JsonObject) -> Json:
    """Return the type that the keywords of a schema without a type imply; None if none does."""
    for kind in ("object", "array"):
        if node.keys() & OF_TYPE[kind]:
            return kind
    values = [node["const"]] if "const" in node else node.get("enum")
    if not isinstance(values, list) or not values:
        return None
    kinds: list[Json] = []
    for value in values:
        if type_of(value) not in kinds:
            kinds.append(type_of(value))
    return kinds[0] if len(kinds) == 1 else kinds


def type_of(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "number"
    if isinstance(value, str):
        return "string"
    return "null" if value is None else "object" if isinstance(value, dict) else "array"


def takes_null(schema: Json) -> bool:
    """Return whether a fitted schema allows null."""
    if not isinstance(schema, dict):
        return False
    kind, members, values = schema.get("type"), schema.get("anyOf"), schema.get("enum")
    if isinstance(members, list):
        return any(takes_null(member) for member in members)
    if "const" in schema:
        values = [schema["const"]]
    if isinstance(values, list) and (None not in values or kind is None):
        return None in values
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def or_null(schema: JsonObject) -> JsonObject:
    """Return a schema that also allows null."""
    kind, members = schema.get("type"), schema.get("anyOf")
    if kind is not None and not schema.keys() & {"enum", "const"}:
        return schema | {"type": [*(kind if isinstance(kind, list) else [kind]), "null"]}
    null: JsonObject = {"type": "null"}
    if isinstance(members, list):
        return schema | {"anyOf": [*members, null]}
    told: JsonObject = {k: v for k, v in schema.items() if k in _ANNOTATIONS}
    bare: JsonObject = {k: v for k, v in schema.items() if k not in _ANNOTATIONS}
    return told | {"anyOf": [bare, null]}


def with_distinct_keys(members: list[Json]) -> list[Json]:
    """Return a union with the keys of its objects ordered so that no two begin with the same key.

    OpenAI, structured outputs: "Objects provided via 'anyOf' must not share identical first keys".
    Empty if no order does that.
    """
    taken: set[str] = set()
    ordered: list[Json] = []
    for member in members:
        properties = member.get("properties") if isinstance(member, dict) else None
        if not isinstance(member, dict) or not isinstance(properties, dict) or not properties:
            ordered.append(member)
            continue
        first = next((name for name in properties if name not in taken), None)
        if first is None:
            return []
        taken.add(first)
        ordered.append(member | {"properties": {first: properties[first], **properties}})
    return ordered
