"""The size of a schema, compared with the limits of a backend."""

from collections.abc import Iterator

from toolbridge.core.json import Json, JsonObject
from toolbridge.wire.schema_subsets import SchemaLimits


class _Size:
    """Counts the parts of a schema that providers limit; a fault is the path and the reason."""

    def __init__(self, limits: SchemaLimits) -> None:
        self._limits = limits
        self._counts = {"properties": 0, "choices": 0, "characters": 0, "optional": 0, "unions": 0}

    def check(self, schema: Json, path: tuple[str, ...], level: int) -> tuple[tuple[str, ...], str] | None:  # fmt: skip
        if not isinstance(schema, dict):
            return None
        if schema.get("type") in ("object", "array"):
            level += 1
            if self._limits.levels and level > self._limits.levels:
                most = self._limits.levels
                return path, f"is nested {level} levels deep; the provider accepts {most}"
        self._count(schema)
        for name, most in ((name, getattr(self._limits, name)) for name in self._counts):
            if most and self._counts[name] > most:
                return path, f"brings the {_WORDS[name]} to {self._counts[name]}; the provider accepts {most}"  # fmt: skip
        for inner, member in _members(schema):
            fault = self.check(member, (*path, *inner), level)
            if fault is not None:
                return fault
        return None

    def _count(self, schema: JsonObject) -> None:
        properties, required = schema.get("properties"), schema.get("required")
        counts = self._counts
        if isinstance(properties, dict):
            needed = required if isinstance(required, list) else []
            counts["properties"] += len(properties)
            counts["characters"] += sum(map(len, properties))
            counts["optional"] += sum(name not in needed for name in properties)
        choices = schema.get("enum")
        if isinstance(choices, list):
            counts["choices"] += len(choices)
            counts["characters"] += sum(len(value) for value in choices if isinstance(value, str))
        if isinstance(constant := schema.get("const"), str):
            counts["characters"] += len(constant)
        counts["unions"] += "anyOf" in schema


_WORDS = {
    "properties": "number of properties",
    "choices": "number of enum values",
    "characters": "characters of names and enum values",
    "optional": "number of optional properties",
    "unions": "number of unions",
}


def _members(schema: JsonObject) -> Iterator[tuple[tuple[str, ...], Json]]:
    for key in ("properties", "$defs", "definitions"):
        if isinstance(named := schema.get(key), dict):
            for name, member in named.items():
                yield (key, name), member
    for key in ("anyOf", "prefixItems"):
        if isinstance(listed := schema.get(key), list):
            for at, member in enumerate(listed):
                yield (key, str(at)), member
    for key in ("items", "additionalProperties"):
        yield (key,), schema.get(key)


def check_size(schema: JsonObject, limits: SchemaLimits) -> tuple[tuple[str, ...], str] | None:
    """Return the path and the reason if `schema` exceeds a limit; None if it does not."""
    if limits == SchemaLimits():
        return None
    return _Size(limits).check(schema, (), 0)
