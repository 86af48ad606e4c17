"""Changes of the schemas in a body, for providers that accept a part of JSON Schema only.

The schemas are those of the tools and of the output, at the positions of all APIs.
`policy/corrections.py` uses these functions.
"""

from collections.abc import Callable

from toolbridge.core.json import Json, JsonObject
from toolbridge.wire.json_paths import REMOVED, edit
from toolbridge.wire.json_schema import describe

_SCHEMAS = (
    "tools.*.function.parameters",
    "tools.*.parameters",
    "tools.*.input_schema",
    "tools.*.functionDeclarations.*.parameters",
    "tools.*.functionDeclarations.*.parametersJsonSchema",
    "response_format.json_schema.schema",
    "text.format.schema",
    "output_config.format.schema",
    "generationConfig.responseSchema",
    "generationConfig.responseJsonSchema",
    "format",
)
_STRICT = (
    "tools.*.function.strict",
    "tools.*.strict",
    "response_format.json_schema.strict",
    "text.format.strict",
)
_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose value is an object of schemas, so that its keys are no keywords."""
_DATA = frozenset({"enum", "const", "default", "example", "examples", "required"})


def close_objects(body: JsonObject, *, require: bool) -> JsonObject:
    """Return `body` with `additionalProperties: false` in every object of its schemas.

    With `require`, all properties become required and optional ones may be null (OpenAI, structured
    outputs, strict mode).
    """

    def close(node: JsonObject) -> JsonObject:
        properties = node.get("properties")
        if node.get("type") != "object" and not isinstance(properties, dict):
            return node
        closed = node if node.get("additionalProperties") is False else node | _CLOSED
        if not require or not isinstance(properties, dict):
            return closed
        given = node.get("required")
        required = given if isinstance(given, list) else []
        every = {
            name: schema if name in required else _nullable(schema)
            for name, schema in properties.items()
        }
        result = closed | {"properties": every, "required": list(properties)}
        return node if result == node else result

    return _each_schema(body, close)


_CLOSED: JsonObject = {"additionalProperties": False}


def _nullable(schema: Json) -> Json:
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return schema if kind == "null" else schema | {"type": [kind, "null"]}
    if isinstance(kind, list) and "enum" not in schema:
        return schema if "null" in kind else schema | {"type": [*kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def not_strict(body: JsonObject) -> JsonObject:
    """Return `body` without `strict`: the schemas are a hint for the model then."""
    for path in _STRICT:
        body = edit(body, path, lambda _: REMOVED)
    return body


def without_keywords(body: JsonObject, keywords: frozenset[str]) -> JsonObject:
    """Return `body` with `keywords` of its schemas moved into the descriptions."""

    def move(node: JsonObject) -> JsonObject:
        moved = {key: value for key, value in node.items() if key in keywords}
        if not moved:
            return node
        return describe({k: v for k, v in node.items() if k not in keywords}, moved)

    return _each_schema(body, move)


def _each_schema(body: JsonObject, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    for path in _SCHEMAS:
        body = edit(body, path, lambda schema: _changed(schema, change))
    return body


def _changed(node: Json, change: Callable[[JsonObject], JsonObject]) -> Json:
    """Return `node` with every schema inside it changed; `node` itself if none is."""
    if isinstance(node, list):
        items = [_changed(item, change) for item in node]
        return items if any(a is not b for a, b in zip(items, node, strict=True)) else node
    if not isinstance(node, dict):
        return node
    inner = {key: _member(key, value, change) for key, value in node.items()}
    if all(inner[key] is node[key] for key in node):
        inner = node
    return change(inner)


def _member(key: str, value: Json, change: Callable[[JsonObject], JsonObject]) -> Json:
    if key in _DATA:
        return value
    if key in _MAPS and isinstance(value, dict):
        found = {name: _changed(schema, change) for name, schema in value.items()}
        return found if any(found[name] is not value[name] for name in value) else value
    return _changed(value, change) if isinstance(value, dict | list) else value
