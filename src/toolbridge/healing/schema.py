"""The parts of JSON Schema that healing needs.

Types, enums, properties, items, unions and local references are supported. Limits, patterns and
formats are not: a value that violates one of these cannot be healed.
"""

from collections.abc import Mapping

from toolbridge.core.json import Json, JsonObject

MAX_VISITS = 50_000
_HOPS = 16
_EMPTY: JsonObject = {}


class Schema:
    """A schema with its root, for references; `visits` limits the work for one value."""

    __slots__ = ("_names", "root", "visits")

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self.visits = 0
        self._names: frozenset[str] | None = None

    def resolve(self, schema: Json) -> JsonObject:
        """Return the schema that `schema` refers to; an unknown reference allows everything."""
        if isinstance(schema, dict) and "$ref" not in schema:
            return schema
        for _ in range(_HOPS):
            if not isinstance(schema, dict):
                return _EMPTY
            pointer = schema.get("$ref")
            if not isinstance(pointer, str):
                return schema
            schema = self._look_up(pointer)
        return _EMPTY

    def _look_up(self, pointer: str) -> Json:
        if not pointer.startswith("#"):
            return None
        found: Json = self.root
        for step in pointer[1:].split("/"):
            if step:
                name = step.replace("~1", "/").replace("~0", "~")
                found = found.get(name) if isinstance(found, dict) else None
        return found

    def fits(self, value: Json, schema: Json) -> bool:
        """Whether `value` is valid for `schema`."""
        self.visits += 1
        if isinstance(schema, dict) and "$ref" not in schema:
            rule = schema
        elif schema is False:
            return False
        else:
            rule = self.resolve(schema)
        if not rule or self.visits > MAX_VISITS:
            return True
        if value is None and rule.get("nullable") is True:
            return True
        wanted = rule.get("type")
        if wanted != _NAME_OF.get(type(value)) and not _fits_type(value, wanted):
            return False
        if not _PARTS.isdisjoint(rule) and not self._fits_parts(value, rule):
            return False
        if isinstance(value, dict):
            return self._fits_object(value, rule)
        if isinstance(value, list):
            items = rule.get("items")
            return not isinstance(items, dict) or all(self.fits(item, items) for item in value)
        return True

    def _fits_parts(self, value: Json, rule: JsonObject) -> bool:
        choices = choices_of(rule)
        if choices is not None and not any(same(value, choice) for choice in choices):
            return False
        every = rule.get("allOf")
        if isinstance(every, list) and not all(self.fits(value, part) for part in every):
            return False
        options = self.options(rule)
        return not options or any(self.fits(value, option) for option in options)

    def _fits_object(self, value: JsonObject, rule: JsonObject) -> bool:
        required = rule.get("required")
        if isinstance(required, list):
            for name in required:
                if isinstance(name, str) and name not in value:
                    return False
        properties = rule.get("properties")
        if not isinstance(properties, dict):
            properties = _EMPTY
        for key, member in value.items():
            wanted = properties.get(key)
            if (
                isinstance(wanted, dict)
                and wanted.get("type") == _SCALAR_OF.get(type(member), "")
                and _MORE_RULES.isdisjoint(wanted)
            ):
                continue  # the common case of `is_plain`, without the call
            if wanted is None:
                if not self._fits_more(member, rule):
                    return False
            elif not self.fits(member, wanted):
                return False
        return True

    def _fits_more(self, member: Json, rule: JsonObject) -> bool:
        """Whether an undeclared member is allowed."""
        more = rule.get("additionalProperties", True)
        return more is True or "patternProperties" in rule or self.fits(member, more)

    @staticmethod
    def properties(rule: JsonObject) -> Mapping[str, Json]:
        found = rule.get("properties")
        return found if isinstance(found, dict) else _EMPTY

    @staticmethod
    def options(rule: JsonObject) -> list[Json]:
        found = rule.get("anyOf") or rule.get("oneOf")
        return found if isinstance(found, list) else []

    def members(self, schema: Json, depth: int = 0) -> Mapping[str, Json]:
        """Return the properties of an object of `schema`, including those of allOf, anyOf and oneOf."""
        rule = self.resolve(schema)
        if _PARTS.isdisjoint(rule):
            return self.properties(rule)
        parts = rule.get("allOf")
        more = [*parts, *self.options(rule)] if isinstance(parts, list) else self.options(rule)
        if not more or depth > 4:
            return self.properties(rule)
        found = dict(self.properties(rule))
        for part in more:
            for name, member in self.members(part, depth + 1).items():
                found.setdefault(name, member)
        return found

    def all_names(self) -> frozenset[str]:
        """Return all property names of the schema, including nested ones."""
        if self._names is None:
            self._names = frozenset(self._collect(self.root, 0))
        return self._names

    def _collect(self, schema: Json, depth: int) -> set[str]:
        rule = self.resolve(schema)
        members = self.members(rule)
        found = set(members)
        if depth < 4:
            for member in members.values():
                if isinstance(member, dict) and member.keys() & _NESTING:
                    found |= self._collect(member, depth + 1)
            if isinstance(items := rule.get("items"), dict):
                found |= self._collect(items, depth + 1)
        return found


_PARTS = frozenset({"enum", "const", "anyOf", "oneOf", "allOf"})
_NESTING = {"$ref", "properties", "items", "anyOf", "oneOf", "allOf"}


def type_names(rule: JsonObject) -> tuple[str, ...]:
    """Return the types that `rule` allows; empty if it allows any."""
    found = rule.get("type")
    if isinstance(found, str):
        return (found.lower(),)
    if isinstance(found, list):
        return tuple(name.lower() for name in found if isinstance(name, str))
    return ()


def required_of(rule: JsonObject) -> list[str]:
    found = rule.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def choices_of(rule: JsonObject) -> list[Json] | None:
    if "const" in rule:
        return [rule["const"]]
    found = rule.get("enum")
    return found if isinstance(found, list) else None


def _fits_type(value: Json, wanted: Json) -> bool:
    if isinstance(wanted, str):
        return is_type(value, wanted.lower())
    if isinstance(wanted, list):
        return any(isinstance(name, str) and is_type(value, name.lower()) for name in wanted)
    return True


def is_plain(value: Json, wanted: Json) -> bool:
    """Whether `wanted` is only a type and `value` has it: a fast check for the common case."""
    return (
        isinstance(wanted, dict)
        and wanted.get("type") == _SCALAR_OF.get(type(value), "")
        and _MORE_RULES.isdisjoint(wanted)
    )


_MORE_RULES = _PARTS | {"$ref"}
_SCALAR_OF: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NAME_OF: dict[type, str] = {**_SCALAR_OF, dict: "object", list: "array"}
"""The JSON type of a Python type; a float with an integral value may also be an integer."""
_NUMBERS = (int, float)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def is_type(value: Json, name: str) -> bool:
    wanted = _TYPES.get(name)
    if wanted is not None:
        return isinstance(value, wanted)
    if name not in {"integer", "number"}:
        return True
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return False
    return name == "number" or isinstance(value, int) or value.is_integer()


def same(left: Json, right: Json) -> bool:
    """Whether both are equal in JSON, where true is not 1."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)
