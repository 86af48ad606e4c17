"""Rewrites a schema whose root combines several schemas as one object schema.

Some APIs accept `oneOf`, `anyOf` and `allOf` inside of a tool's parameters only. The properties of
all branches become properties of the root, and the branches of a union go into its description. The
result accepts everything that the schema accepts, and more; calls are still healed by the original.
"""

from collections.abc import Iterator

from toolbridge.core.json import Json, JsonObject
from toolbridge.wire.json_schema import describe, merge, resolve

COMBINED = frozenset({"oneOf", "anyOf", "allOf"})
_UNIONS = ("oneOf", "anyOf")
_MOST_LEVELS = 8
_OWN = ("properties", "required")


def flatten_root(schema: JsonObject) -> JsonObject:
    """Return `schema` without a combination at its root; itself if it has none."""
    if COMBINED.isdisjoint(schema):
        return schema
    unions = {key: schema[key] for key in _UNIONS if key in schema}
    return describe({"type": "object", **_flat(schema, schema, 0)}, unions)


def _flat(node: JsonObject, root: JsonObject, level: int) -> JsonObject:
    flat: JsonObject = {key: value for key, value in node.items() if key not in COMBINED}
    if level > _MOST_LEVELS:
        return flat
    for branch in _branches(node.get("allOf"), root):
        flat = merge(flat, _members(_flat(branch, root, level + 1)))
    for key in _UNIONS:
        branches = [_flat(branch, root, level + 1) for branch in _branches(node.get(key), root)]
        flat = merge(flat, _united(branches))
    # A keyword that two branches state differently cannot stay at the root.
    return {key: value for key, value in flat.items() if key not in COMBINED}


def _branches(listed: Json, root: JsonObject) -> Iterator[JsonObject]:
    for branch in listed if isinstance(listed, list) else ():
        reference = branch.get("$ref") if isinstance(branch, dict) else None
        found = resolve(root, reference) if isinstance(reference, str) else branch
        if isinstance(found, dict):
            yield found


def _members(branch: JsonObject) -> JsonObject:
    return {key: branch[key] for key in _OWN if key in branch}


def _united(branches: list[JsonObject]) -> JsonObject:
    """Return the properties of all branches, and the names that every branch requires."""
    properties: JsonObject = {}
    for branch in branches:
        declared = branch.get("properties")
        for name, schema in declared.items() if isinstance(declared, dict) else ():
            properties[name] = _either(properties[name], schema) if name in properties else schema
    required = [
        name
        for name in _required(branches[0] if branches else {})
        if all(name in _required(branch) for branch in branches)
    ]
    return ({"properties": properties} if properties else {}) | (
        {"required": required} if required else {}
    )


def _required(branch: JsonObject) -> list[Json]:
    names = branch.get("required")
    return names if isinstance(names, list) else []


def _either(first: Json, second: Json) -> Json:
    if first == second:
        return first
    if isinstance(first, dict) and [*first] == ["anyOf"] and isinstance(first["anyOf"], list):
        known = first["anyOf"]
        return first if second in known else {"anyOf": [*known, second]}
    return {"anyOf": [first, second]}
