"""Checks the cost of a caller's schema before it is compiled.

References may only point inside the schema. A recursive reference is allowed if each step goes into
a part of the value (a tree), and rejected otherwise. Nodes are counted as if every reference were
expanded, because definitions that each use the previous one twice grow exponentially.
"""

from collections.abc import Iterator

from toolbridge.core.errors import ClientError
from toolbridge.core.json import Json, JsonObject, dump_bytes

MAX_BYTES = 262_144
MAX_LEVELS = 64
MAX_VALUES = 4_096
"""The most values of one `enum`."""
MAX_NODES = 50_000
MAX_HOPS = 32
"""The longest chain of references."""
MAX_DEPTH = 128
"""The deepest value: the validator is recursive, and its stack is limited."""

_SAME_LISTS = ("allOf", "anyOf", "oneOf")
_SAME = ("not", "if", "then", "else")
"""Keywords whose schemas apply to the same value; those below apply to a part of it."""
_PART_MAPS = ("properties", "patternProperties")
_PART_LISTS = ("prefixItems", "items")
_PARTS = (
    "additionalProperties", "items", "contains", "propertyNames", "additionalItems",
    "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
_DYNAMIC = ("$dynamicRef", "$recursiveRef")


class InvalidSchema(ClientError):
    """The schema is invalid, or exceeds a limit."""

    kind = "invalid_schema"


def check_bounds(schema: JsonObject) -> None:
    """Raise `InvalidSchema` for a schema that is too large, too deep or has outside references."""
    _check_shape(schema)
    _Count(schema).of(schema)


def _check_shape(schema: JsonObject) -> None:
    try:
        size = len(dump_bytes(schema))
    except (TypeError, ValueError, RecursionError):
        raise InvalidSchema("the schema is not JSON, or is nested too deeply") from None
    if size > MAX_BYTES:
        raise InvalidSchema(f"the schema has {size} bytes; {MAX_BYTES} are allowed")
    left: list[tuple[Json, int]] = [(schema, 0)]
    while left:
        node, level = left.pop()
        if level > MAX_LEVELS:
            raise InvalidSchema(f"the schema is nested more than {MAX_LEVELS} deep")
        if isinstance(node, dict):
            left += [(member, level + 1) for member in node.values()]
        elif isinstance(node, list):
            left += [(member, level + 1) for member in node]


class _Count:
    """Counts the nodes of a schema with its references expanded."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._known: dict[int, int] = {}
        self._inside: dict[int, int] = {}
        """The nodes on the current path, and the depth of the value at each."""

    def of(self, node: Json, parts: int = 0, hops: int = 0) -> int:
        if not isinstance(node, dict):
            return 1
        key = id(node)
        if key in self._inside:
            if self._inside[key] == parts:
                raise InvalidSchema(
                    "a reference leads back to itself without descending into the value"
                )
            return 1
        if key not in self._known:
            self._inside[key] = parts
            self._known[key] = self._count(node, parts, hops)
            del self._inside[key]
        return self._known[key]

    def _count(self, node: JsonObject, parts: int, hops: int) -> int:
        self._check(node)
        if len(self._inside) > MAX_LEVELS * 4 or hops > MAX_HOPS:
            raise InvalidSchema(f"a chain of references is longer than {MAX_HOPS}")
        total = 1
        for inner in _same(node):
            total += self.of(inner, parts)
        for inner in _parts(node):
            total += self.of(inner, parts + 1)
        reference = node.get("$ref")
        if isinstance(reference, str):
            total += self.of(self._follow(reference), parts, hops + 1)
        if total > MAX_NODES:
            raise InvalidSchema(
                f"with its references expanded, the schema has more than {MAX_NODES} nodes"
            )
        return total

    def _check(self, node: JsonObject) -> None:
        values = node.get("enum")
        if isinstance(values, list) and len(values) > MAX_VALUES:
            raise InvalidSchema(f"an enum has {len(values)} values; {MAX_VALUES} are allowed")
        if any(word in node for word in _DYNAMIC):
            raise InvalidSchema("dynamic references are not supported")
        if "$id" in node and node is not self._root:
            raise InvalidSchema("a nested schema may not have an `$id`")

    def _follow(self, reference: str) -> Json:
        found = follow(self._root, reference)
        if not isinstance(found, dict | bool):
            raise InvalidSchema(f"{reference[:100]!r} points to nothing in the schema")
        return found


def follow(root: JsonObject, reference: str) -> Json:
    """Return the node at a pointer such as `#/$defs/City` in `root`, or None."""
    head, *steps = reference.split("/")
    if head != "#":
        return None
    found: Json = root
    for step in steps:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def _same(node: JsonObject) -> Iterator[Json]:
    for word in _SAME_LISTS:
        inner = node.get(word)
        yield from inner if isinstance(inner, list) else ()
    for word in _SAME:
        if word in node:
            yield node[word]
    dependent = node.get("dependentSchemas")
    yield from dependent.values() if isinstance(dependent, dict) else ()


def _parts(node: JsonObject) -> Iterator[Json]:
    for word in _PART_MAPS:
        inner = node.get(word)
        yield from inner.values() if isinstance(inner, dict) else ()
    for word in _PART_LISTS:
        inner = node.get(word)
        yield from inner if isinstance(inner, list) else ()
    for word in _PARTS:
        if isinstance(node.get(word), dict):
            yield node[word]


def depth_of(value: Json) -> int:
    """Return the nesting depth of `value`: 0 for a scalar."""
    deepest = 0
    left: list[tuple[Json, int]] = [(value, 0)]
    while left:
        part, level = left.pop()
        deepest = max(deepest, level)
        if isinstance(part, dict):
            left += [(member, level + 1) for member in part.values()]
            deepest = max(deepest, level + 1)
        elif isinstance(part, list):
            left += [(item, level + 1) for item in part]
            deepest = max(deepest, level + 1)
    return deepest
