"""Finds the smallest value that fits a schema, for a frame whose value cannot be repaired."""

from collections.abc import Callable, Iterator
from itertools import islice

import jsonschema_rs

from toolbridge.core.json import Json, JsonObject
from toolbridge.structured.bounds import follow
from toolbridge.structured.sample import sample
from toolbridge.wire.json_schema import is_number, merge, unite

MAX_TRIES = 200
_MAX_STEPS = 5_000
_MAX_DEPTH = 24
_MAX_ITEMS = 1_000
_MAX_CHOICES = 8

_FORMATS = {
    "date-time": "1970-01-01T00:00:00Z",
    "date": "1970-01-01",
    "time": "00:00:00Z",
    "duration": "PT0S",
    "email": "a@example.com",
    "hostname": "example.com",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "about:blank",
    "uuid": "00000000-0000-0000-0000-000000000000",
}
_HINTS = (
    ("object", ("properties", "required", "additionalProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "contains", "uniqueItems")),
    ("string", ("minLength", "maxLength", "pattern", "format")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
_LIMITS = (
    "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf",
)  # fmt: skip


class NoMinimal(ValueError):
    """No fitting value was found."""


def minimal(schema: JsonObject, fits: Callable[[Json], bool]) -> Json:
    """Return the smallest fitting value that was found; raise `NoMinimal` without one."""
    for value in islice(minimal_values(schema), MAX_TRIES):
        if fits(value):
            return value
    raise NoMinimal("no small value fits the schema")


def minimal_values(schema: JsonObject) -> Iterator[Json]:
    """Yield values that may fit, small ones first."""
    return _Maker(schema).values(schema)


def with_diagnostics(
    value: Json, schema: JsonObject, fits: Callable[[Json], bool], diagnostics: JsonObject
) -> Json:
    """Return `value` with `diagnostics`, if its schema has that member and the result fits."""
    if not isinstance(value, dict) or not _Maker(schema).knows(schema, "diagnostics"):
        return value
    if "diagnostics" in value:  # the caller's own schema has a member of this name
        return value
    for shown in (diagnostics, {"error": diagnostics.get("error", "")}):
        with_it = {**value, "diagnostics": shown}
        if fits(with_it):
            return with_it
    return value


class _Maker:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._steps = 0

    def values(self, schema: Json, depth: int = 0) -> Iterator[Json]:
        """Yield values that may fit, small ones first."""
        self._steps += 1
        if depth > _MAX_DEPTH or self._steps > _MAX_STEPS or schema is False:
            return
        node = self._united(schema)
        for word in ("anyOf", "oneOf"):
            options = node.get(word)
            if isinstance(options, list) and options:
                rest: JsonObject = {key: value for key, value in node.items() if key != word}
                for option in options:
                    yield from self.values(merge(rest, self._united(option)), depth + 1)
                return
        yield from self._of_node(node, depth)

    def knows(self, schema: Json, name: str) -> bool:
        members = self._united(schema).get("properties")
        return isinstance(members, dict) and name in members

    def _united(self, schema: Json, hops: int = 0) -> JsonObject:
        """Return a schema with its references and its `allOf` merged into it."""
        if not isinstance(schema, dict) or hops > _MAX_DEPTH:
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            beside: JsonObject = {key: value for key, value in schema.items() if key != "$ref"}
            return merge(beside, self._united(follow(self._root, reference), hops + 1))
        every = schema.get("allOf")
        if not isinstance(every, list):
            return schema
        parts: list[Json] = [self._united(part, hops + 1) for part in every]
        # `unite` writes every union as anyOf; the validator decides in the end.
        return unite({**schema, "allOf": parts})

    def _of_node(self, node: JsonObject, depth: int) -> Iterator[Json]:
        if "const" in node:
            yield node["const"]
            return
        choices = node.get("enum")
        if isinstance(choices, list):
            yield from choices[:MAX_TRIES]
            return
        for kind in _kinds(node):
            yield from self._of_kind(kind, node, depth)
        if "default" in node:
            yield node["default"]
        examples = node.get("examples")
        yield from examples if isinstance(examples, list) else ()
        for word in ("then", "else"):  # additional demands of an `if`
            if isinstance(node.get(word), dict):
                rest: JsonObject = {
                    k: v for k, v in node.items() if k not in {"if", "then", "else"}
                }
                yield from self.values(merge(rest, self._united(node[word])), depth + 1)

    def _of_kind(self, kind: Json, node: JsonObject, depth: int) -> Iterator[Json]:
        match kind:
            case "object":
                yield from self._objects(node, depth)
            case "array":
                yield from self._arrays(node, depth)
            case "string":
                yield from filter(_limits(node), _strings(node))
            case "number" | "integer":
                yield from filter(_limits(node), _numbers(node, whole=kind == "integer"))
            case "boolean":
                yield from (False, True)
            case _:
                yield None

    def _objects(self, node: JsonObject, depth: int) -> Iterator[Json]:
        members = node.get("properties")
        members = members if isinstance(members, dict) else {}
        required = node.get("required")
        names = (
            [name for name in required if isinstance(name, str)]
            if isinstance(required, list)
            else []
        )
        least = _count(node, "minProperties")
        names += [name for name in members if name not in names][: max(0, least - len(names))]
        names += [f"x{n}" for n in range(max(0, least - len(names)))]
        other = node.get("additionalProperties", True)
        options = [self._few(members.get(name, other), depth) for name in names]
        if all(options):
            first = {name: few[0] for name, few in zip(names, options, strict=True)}
            yield first
            for name, few in zip(names, options, strict=True):
                for value in few[1:]:
                    yield {**first, name: value}

    def _arrays(self, node: JsonObject, depth: int) -> Iterator[Json]:
        least = _count(node, "minItems")
        contains = node.get("contains")
        if contains is not None:
            least = max(least, 1)
        first = node.get("prefixItems")
        first = first if isinstance(first, list) else []
        items: list[Json] = []
        for index in range(least):
            schema = first[index] if index < len(first) else node.get("items", True)
            if index == 0 and contains is not None:
                schema = merge(self._united(schema), self._united(contains))
            few = self._few(schema, depth, least + 1 if node.get("uniqueItems") else _MAX_CHOICES)
            fresh = [v for v in few if v not in items] if node.get("uniqueItems") else few
            if not fresh:
                return
            items.append(fresh[0])
        yield items

    def _few(self, schema: Json, depth: int, most: int = _MAX_CHOICES) -> list[Json]:
        return list(islice(self.values(schema, depth + 1), min(most, MAX_TRIES)))


def _limits(node: JsonObject) -> Callable[[Json], bool]:
    """Return a check that a number or a string is within the limits of `node`."""
    known: JsonObject = {word: node[word] for word in _LIMITS if word in node}

    def fits(value: Json) -> bool:
        return not known or jsonschema_rs.is_valid(known, value, offline=True)

    return fits


def _kinds(node: JsonObject) -> list[Json]:
    kind = node.get("type")
    if isinstance(kind, list):
        return kind
    if kind is not None:
        return [kind]
    hinted: list[Json] = [name for name, words in _HINTS if any(word in node for word in words)]
    return hinted or ["null", "object", "array", "string", "number", "boolean"]


def _strings(node: JsonObject) -> Iterator[Json]:
    pattern, format = node.get("pattern"), node.get("format")
    least = _count(node, "minLength")
    if isinstance(pattern, str) and (text := sample(pattern)) is not None:
        yield text
        yield text.ljust(least, text[-1:] or "x")
    if isinstance(format, str) and format in _FORMATS:
        yield _FORMATS[format]
    # Several, for arrays with `uniqueItems`.
    yield from ("x" * least, "y" * max(least, 1), "z" * max(least, 1))


def _numbers(node: JsonObject, *, whole: bool) -> Iterator[Json]:
    low, high = node.get("minimum"), node.get("maximum")
    over, under = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    step = node.get("multipleOf")
    guesses: list[float] = [0]
    for bound in (low, high, over, under):
        if is_number(bound):
            guesses += [bound, bound + 1, bound - 1]
    bottom, top = (low if is_number(low) else over), (high if is_number(high) else under)
    if is_number(bottom) and is_number(top):
        guesses.append((bottom + top) / 2)
    if is_number(step) and step > 0:
        guesses += [n * step for guess in guesses[:] for n in (guess // step, guess // step + 1)]
    for guess in guesses:
        if float(guess).is_integer():
            yield int(guess)
        elif not whole:
            yield guess
    yield from (1, 2, 3)


def _count(node: JsonObject, word: str) -> int:
    found = node.get(word)
    return min(int(found), _MAX_ITEMS) if is_number(found) and found > 0 else 0
