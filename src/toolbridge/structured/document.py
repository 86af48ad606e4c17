"""The JSON document that a constrained answer consists of: parts for the user, and the result.

    {"parts": [{"text": "Here it is."}, {"Action": {...}}], "result": {...}}

A provider that constrains an answer to a JSON Schema constrains the whole answer, so that words,
objects and the result have to be members of one document. A part has one member, whose name is its
schema; the part with words has a name that no schema of the stream has. For a local server there are
no words: a small model that is constrained fills them until its token limit.
"""

from collections.abc import Collection, Mapping

from toolbridge.core.json import Json, JsonObject
from toolbridge.wire.json_schema import inline

PARTS = "parts"
RESULT = "result"
MAX_PARTS = 16
"""A small model may repeat parts until its token limit."""


def text_key(objects: Collection[str]) -> str:
    """Return the member of a part that holds words."""
    key = "text"
    while key in objects:
        key += "_"
    return key


def document_schema(
    objects: Mapping[str, JsonObject], result: JsonObject, *, words: bool = True
) -> JsonObject:
    """Return the schema of the document; with `words`, its parts may be text."""
    definitions: JsonObject = {}
    said: JsonObject = {"type": "string"}
    parts: list[Json] = [_part(text_key(objects), said)] if words or not objects else []
    for name, schema in objects.items():
        parts.append(_part(name, _embedded(schema, f"{PARTS}.{name}", definitions)))
    body: JsonObject = {
        PARTS: {
            "type": "array",
            "items": {"anyOf": parts} if len(parts) > 1 else parts[0],
            "maxItems": MAX_PARTS,
        },
        RESULT: _embedded(result, RESULT, definitions),
    }
    whole: JsonObject = {"type": "object", "properties": body, "required": [PARTS, RESULT]}
    whole["additionalProperties"] = False
    return whole | {"$defs": definitions} if definitions else whole


def _part(name: str, schema: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": {name: schema},
        "required": [name],
        "additionalProperties": False,
    }


def _embedded(schema: JsonObject, name: str, definitions: JsonObject) -> JsonObject:
    """Return `schema` as a part of another one: its references point to `definitions`."""
    inlined, whole = inline(schema)
    if whole:
        return {key: value for key, value in inlined.items() if key != "$schema"}
    own = name.replace("~", "~0").replace("/", "~1")
    for holder in ("$defs", "definitions"):
        if isinstance(defined := schema.get(holder), dict):
            for key, value in defined.items():
                definitions[f"{name}.{key}"] = _moved(value, own)
    body: JsonObject = {k: v for k, v in schema.items() if k not in ("$defs", "definitions")}
    moved = _moved(body, own)
    definitions[name] = moved
    return {"$ref": f"#/$defs/{own}"}


def _moved(schema: Json, own: str) -> Json:
    """Return `schema` with its references pointing to the definitions under the name `own`."""
    if isinstance(schema, list):
        return [_moved(item, own) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved: JsonObject = {
        key: value if key in {"enum", "const", "default", "examples"} else _moved(value, own)
        for key, value in schema.items()
    }
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference == "#":
        moved["$ref"] = f"#/$defs/{own}"
    elif isinstance(reference, str) and reference.startswith(("#/$defs/", "#/definitions/")):
        moved["$ref"] = f"#/$defs/{own}.{reference.split('/', 2)[2]}"
    return moved
