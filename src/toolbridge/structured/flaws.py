"""Explains why a value does not fit its schema: path and reason, in plain words.

The validator decides whether a value fits. Its own explanations try every branch of every union and
can take minutes where the decision takes microseconds, so this module searches for the reasons itself
with bounded work: in a union it follows only the branch that was probably meant.
"""

from collections.abc import Iterator

import jsonschema_rs
import msgspec

from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.structured.bounds import follow

MAX_FLAWS = 8
MAX_VISITS = 2_000
_SHOWN = 120
_MAX_HOPS = 32

_WORDS = {
    "minLength": "expected at least {} characters",
    "maxLength": "expected at most {} characters",
    "pattern": "expected text that matches {}",
    "minimum": "expected at least {}",
    "maximum": "expected at most {}",
    "exclusiveMinimum": "expected more than {}",
    "exclusiveMaximum": "expected less than {}",
    "multipleOf": "expected a multiple of {}",
    "minItems": "expected at least {} items",
    "maxItems": "expected at most {} items",
    "uniqueItems": "expected no item twice",
    "minProperties": "expected at least {} members",
    "maxProperties": "expected at most {} members",
}


class Flaw(msgspec.Struct, frozen=True):
    """One reason why a value does not fit: the path, as `.a[0].b` (`.` is the whole), and a message."""

    path: str
    message: str


def find_flaws(value: Json, schema: JsonObject) -> tuple[Flaw, ...]:
    """Return the reasons why `value`, which is invalid, does not fit `schema`."""
    search = _Search(schema)
    search.check(value, schema, "")
    return tuple(search.found[:MAX_FLAWS]) or (Flaw(".", "does not fit the schema"),)


class _Search:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._visits = 0
        self.found: list[Flaw] = []

    def check(self, value: Json, schema: Json, path: str) -> None:
        self._visits += 1
        if self._visits > MAX_VISITS or len(self.found) >= MAX_FLAWS:
            return
        if schema is False:
            self._add(path, "is not expected here")
        for node in self._layers(schema):
            self._check_node(value, node, path)

    def _layers(self, schema: Json) -> Iterator[JsonObject]:
        """Yield `schema` and the schemas that it refers to."""
        for _ in range(_MAX_HOPS):
            if not isinstance(schema, dict):
                return
            yield schema
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return
            schema = follow(self._root, reference)

    def _check_node(self, value: Json, node: JsonObject, path: str) -> None:
        if not _fits_alone(value, node, "type"):
            self._add(path, f"expected {_kinds(node['type'])}")
            return
        if not (_fits_alone(value, node, "const") and _fits_alone(value, node, "enum")):
            self._add(path, f"expected {_choices(node)}")
            return
        for word, text in _WORDS.items():
            if not _fits_alone(value, node, word):
                self._add(path, text.format(_shown(node[word])))
        if isinstance(value, dict):
            self._check_members(value, node, path)
        elif isinstance(value, list):
            self._check_items(value, node, path)
        every = node.get("allOf")
        for part in every if isinstance(every, list) else ():
            self.check(value, part, path)
        self._check_unions(value, node, path)

    def _check_members(self, value: JsonObject, node: JsonObject, path: str) -> None:
        members = node.get("properties")
        members = members if isinstance(members, dict) else {}
        required = node.get("required")
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                self._add(_member(path, name), f"is missing{self._hint(members.get(name))}")
        more = node.get("additionalProperties", True)
        open_names = "patternProperties" in node
        for name, member in value.items():
            if name in members:
                self.check(member, members[name], _member(path, name))
            elif not open_names:
                self.check(member, more, _member(path, name))

    def _hint(self, schema: Json) -> str:
        kinds = [node["type"] for node in self._layers(schema) if "type" in node]
        return f" (expected {_kinds(kinds[0])})" if kinds else ""

    def _check_items(self, value: list[Json], node: JsonObject, path: str) -> None:
        first = node.get("prefixItems")
        first = first if isinstance(first, list) else []
        for index, item in enumerate(value):
            schema = first[index] if index < len(first) else node.get("items", True)
            self.check(item, schema, f"{path}[{index}]")

    def _check_unions(self, value: Json, node: JsonObject, path: str) -> None:
        for word in ("anyOf", "oneOf"):
            options = node.get(word)
            if not isinstance(options, list):
                continue
            before = len(self.found)
            meant = self._meant(value, options)
            if meant is not None:
                self.check(value, meant, path)
            elif not self._kind_fits(value, options):
                kinds = [n["type"] for o in options for n in self._layers(o) if "type" in n]
                self._add(path, f"expected {' or '.join(dict.fromkeys(map(_kinds, kinds)))}")
            if len(self.found) == before and meant is None:
                self._add(path, f"fits none, or too many, of the {len(options)} alternatives")

    def _meant(self, value: Json, options: list[Json]) -> Json:
        """Return the only branch of a union that `value` may be meant for, or None."""
        likely = [option for option in options if self._is_likely(value, option)]
        return likely[0] if len(likely) == 1 else None

    def _is_likely(self, value: Json, option: Json) -> bool:
        """Whether the type fits, and every member with a `const`."""
        for node in self._layers(option):
            if not _fits_alone(value, node, "type"):
                return False
            members = node.get("properties")
            if not isinstance(value, dict) or not isinstance(members, dict):
                continue
            for name, schema in members.items():
                if isinstance(schema, dict) and not _fits_fixed(value.get(name), schema):
                    return False
        return isinstance(option, dict)

    def _kind_fits(self, value: Json, options: list[Json]) -> bool:
        return any(
            all(_fits_alone(value, node, "type") for node in self._layers(option))
            for option in options
        )

    def _add(self, path: str, message: str) -> None:
        if len(self.found) < MAX_FLAWS:
            flaw = Flaw(path if path.startswith(".") else f".{path}", message)
            if flaw not in self.found:
                self.found.append(flaw)


def _fits_fixed(value: Json, schema: JsonObject) -> bool:
    return _fits_alone(value, schema, "const") and _fits_alone(value, schema, "enum")


def _fits_alone(value: Json, node: JsonObject, word: str) -> bool:
    """Whether `value` fits one keyword that does not concern its parts."""
    if word not in node:
        return True
    try:
        return jsonschema_rs.is_valid({word: node[word]}, value, offline=True)
    except (ValueError, TypeError):  # invalid keywords were rejected before: the value is too big
        return True


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{_shown(name)}]"


def _kinds(kinds: Json) -> str:
    return " or ".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds)


def _choices(node: JsonObject) -> str:
    if "const" in node:
        return _shown(node["const"])
    values = node.get("enum")
    return f"one of {_shown(values)}"


def _shown(value: Json) -> str:
    text = dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
