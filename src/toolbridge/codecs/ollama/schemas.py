"""Schemas without references.

Ollama keeps only the plain keywords of a tool's schema, so what a `$ref` points to must stand where
the reference stood. A schema that contains itself is cut where it would repeat, and one that grows
beyond measure stops growing: both are said.
"""

from toolbridge.core.json import Json, JsonObject

MAX_NODES = 20_000
MAX_DEPTH = 64
_VALUES = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose values are data, in which a `$ref` is only a word."""
_NAMED = frozenset({"properties", "patternProperties"})
"""Keywords whose keys are names that the schema's author chose, `default` and `$ref` included."""


def inline(schema: JsonObject) -> tuple[JsonObject, bool]:
    """Return `schema` with its references resolved, and whether all of them could be."""
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
        # What stands beside a reference is nearer to the property than what it refers to.
        return {**(expanded if isinstance(expanded, dict) else {}), **beside}

    def _member(self, key: str, value: Json, inside: tuple[str, ...], depth: int) -> Json:
        if key in _VALUES:
            return value
        if key in _NAMED and isinstance(value, dict):
            return {name: self.expand(item, inside, depth + 1) for name, item in value.items()}
        return self.expand(value, inside, depth + 1)

    def _resolve(self, reference: str, inside: tuple[str, ...]) -> Json:
        found = None if reference in inside else _follow(self._root, reference)
        # Definitions that each use the one before twice double with every step.
        if isinstance(found, dict) and self._nodes < MAX_NODES:
            return found
        self.whole = False
        return {"type": "object"}


def _follow(root: JsonObject, reference: str) -> Json:
    """Return what a pointer such as `#/$defs/City` points to, or None."""
    head, *steps = reference.split("/")
    if head != "#" or not steps:
        return None
    found: Json = root
    for step in steps:
        if not isinstance(found, dict):
            return None
        found = found.get(step.replace("~1", "/").replace("~0", "~"))
    return found
