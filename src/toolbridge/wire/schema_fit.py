"""Fit a JSON Schema to the subset that a backend of structured output accepts.

The fitted schema accepts every value that the original accepts, with two changes: an optional key
may have to be null instead of missing, and an object has only the keys that its schema names.
Keywords that the subset lacks are listed as lost and, where the model reads them, described. The
answer is therefore checked against the original schema afterwards. `SchemaMisfit` names the place of
a schema that cannot be fitted, such as a map with free keys where every key must be declared.
"""

from typing import TypeAlias

import msgspec

from toolbridge.core.json import Json, JsonObject, dumps, maybe_object
from toolbridge.core.short_cache import cache_short
from toolbridge.wire.json_schema import (
    describe,
    inclusive,
    inline,
    is_number,
    merge,
    resolve,
    split_types,
    unite,
)
from toolbridge.wire.schema_parts import (
    DEFINITIONS,
    infer_type,
    misshapen,
    or_null,
    references,
    takes_null,
    type_of,
    with_distinct_keys,
)
from toolbridge.wire.schema_size import check_size
from toolbridge.wire.schema_subsets import SUBSETS, SchemaSubset

Path: TypeAlias = tuple[str, ...]

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_CONSTRAINTS = frozenset({
    "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "then", "else",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType",
    "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains",
    "maxContains", "minItems", "maxItems", "uniqueItems",
    "additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties",
    "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies",
})  # fmt: skip
"""Keywords that restrict a value; to leave one out is a loss."""
_ANNOTATIONS = frozenset({"title", "description"})
_UNIONS = frozenset({"anyOf", "oneOf"})
_CONDITIONS = frozenset({"then", "else", "dependentSchemas", "dependencies"})
"""Keywords that may add keys to an object."""
_OPEN_KEYS = ("patternProperties", "unevaluatedProperties")


class LostKeyword(msgspec.Struct, frozen=True):
    """A keyword that the subset does not have; the path ends with it: `properties.age.minimum`."""

    path: str


class FittedSchema(msgspec.Struct, frozen=True):
    schema: JsonObject
    lost: tuple[LostKeyword, ...] = ()
    nullable: bool = False
    """Whether optional keys became required ones that may be null."""


class SchemaMisfit(ValueError):
    """The schema cannot be fitted: where, and why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{'.'.join(path) or 'the schema'} {why}")
        self.path = path
        self.why = why


def fit(schema: JsonObject, subset: SchemaSubset) -> FittedSchema:
    """Return `schema` in `subset`; raise `SchemaMisfit`. The result must not be changed."""
    found = _fitted(f"{subset.name} {dumps(schema)}")
    if not isinstance(found, FittedSchema):
        raise SchemaMisfit(*found)
    return found


@cache_short(256)
def _fitted(text: str) -> FittedSchema | tuple[Path, str]:
    """Return the fitted schema, or the path and the reason of a misfit."""
    name, _, written = text.partition(" ")
    try:
        return _Fitting(maybe_object(written) or {}, SUBSETS[name]).fit()
    except SchemaMisfit as misfit:
        return misfit.path, misfit.why
    except RecursionError:
        return (), "is nested too deeply"


class _Fitting:
    """Fits one schema; `_lost` and `_nullable` describe what was changed."""

    def __init__(self, schema: JsonObject, subset: SchemaSubset) -> None:
        self._original = schema
        self._subset = subset
        self._lost: list[LostKeyword] = []
        self._nullable = False

    def fit(self) -> FittedSchema:
        subset, schema = self._subset, self._original
        self._check_references()
        inlined, whole = inline(schema)
        fitted = self._node(inlined, ()) if whole else self._with_definitions(schema)
        if subset.object_root and fitted.get("type") != "object":
            raise SchemaMisfit((), "is not an object, and the provider accepts only objects")
        if (fault := check_size(fitted, subset.limits)) is not None:
            raise SchemaMisfit(*fault)
        return FittedSchema(fitted, tuple(self._lost), self._nullable)

    # ── references ──

    def _check_references(self) -> None:
        for path, reference in references(self._original):
            if not reference.startswith("#"):
                why = f"refers to {reference[:100]!r}; only references inside the schema work"
                raise SchemaMisfit(path, why)
            if reference != "#" and not isinstance(resolve(self._original, reference), dict | bool):
                raise SchemaMisfit(path, f"refers to {reference[:100]!r}, which does not exist")

    def _with_definitions(self, schema: JsonObject) -> JsonObject:
        """Fit a recursive schema: its references and definitions stay."""
        for path, reference in references(schema):
            if not self._subset.recursive:
                why = "refers to itself or is too large; the provider has no recursive schemas"
                raise SchemaMisfit(path, why)
            if reference != "#" and reference.split("/")[1:-1] not in (["$defs"], ["definitions"]):
                raise SchemaMisfit(
                    path, f"refers to {reference[:100]!r}, which is not a definition"
                )
        body: JsonObject = {k: v for k, v in schema.items() if k not in DEFINITIONS}
        fitted = self._node(body, ())
        for name in DEFINITIONS:
            if isinstance(defined := schema.get(name), dict):
                fitted[name] = {
                    key: self._node(value, (name, key)) for key, value in defined.items()
                }
        return fitted

    # ── one schema ──

    def _node(self, schema: Json, path: Path) -> JsonObject:
        if schema is False:
            raise SchemaMisfit(path, "allows no value")
        if schema is True or schema == {}:
            return self._anything(path)
        if not isinstance(schema, dict):
            raise SchemaMisfit(path, "is not a schema")
        if wrong := misshapen(schema):
            raise SchemaMisfit(path, f"has a `{wrong}` of the wrong type")
        if "$ref" in schema:
            return self._reference(schema, path)
        node = self._typed(self._united(schema, path), path)
        if isinstance(node.get("anyOf"), list):
            return self._union(node, path)
        if isinstance(node.get("type"), list) and not self._subset.type_lists:
            if node.keys() & {"enum", "const"}:  # the values have their types
                return self._keywords({k: v for k, v in node.items() if k != "type"}, path)
            return self._union(split_types(node), path)
        return self._keywords(node, path)

    def _anything(self, path: Path) -> JsonObject:
        if self._subset.typed:
            raise SchemaMisfit(path, "allows any value; the provider needs a type")
        return {}

    def _reference(self, schema: JsonObject, path: Path) -> JsonObject:
        """Return a reference alone: OpenAI and Gemini reject other keywords beside it."""
        beside: JsonObject = {k: v for k, v in schema.items() if k != "$ref"}
        if beside.keys() & _CONSTRAINTS or beside.keys() & {"properties", "required", "type"}:
            raise SchemaMisfit(path, "has keywords beside a recursive reference")
        told: JsonObject = {k: v for k, v in beside.items() if k in _ANNOTATIONS}
        alone: JsonObject = {"$ref": schema["$ref"]}
        return {**told, "anyOf": [alone]} if told else alone

    def _united(self, schema: JsonObject, path: Path) -> JsonObject:
        node = unite(schema)
        left = node.get("allOf")
        parts = left if isinstance(left, list) else []
        if "$ref" in node or any(references(part) for part in parts):
            raise SchemaMisfit(path, "combines a recursive reference with allOf")
        # An object that is closed for one of them would exclude the keys of the others.
        more = [node] if "anyOf" in node and "oneOf" in node else []
        more += [part for part in parts if isinstance(part, dict) and part.keys() & _UNIONS]
        if self._subset.closed and (more or node.keys() & _CONDITIONS):
            raise SchemaMisfit(path, "has several unions or conditions, which cannot be closed")
        return node

    def _typed(self, node: JsonObject, path: Path) -> JsonObject:
        """Check the type, or infer it where the subset needs one."""
        kinds = node.get("type")
        for kind in kinds if isinstance(kinds, list) else [kinds] if "type" in node else ():
            if not isinstance(kind, str) or kind not in _TYPES:
                raise SchemaMisfit(path, f"has the unknown type {kind!r}")
        if kinds == []:
            raise SchemaMisfit(path, "allows no type")
        if isinstance(kinds, list) and len(kinds) == 1:
            return node | {"type": kinds[0]}
        if kinds is not None or not self._subset.typed or "anyOf" in node:
            return node
        inferred = infer_type(node)
        return node | {"type": inferred} if inferred else node

    def _union(self, node: JsonObject, path: Path) -> JsonObject:
        """Return a union; the keywords beside `anyOf` are required by every member."""
        members = node["anyOf"]
        told: JsonObject = {k: v for k, v in node.items() if k in _ANNOTATIONS}
        rest: JsonObject = {k: v for k, v in node.items() if k not in _ANNOTATIONS | {"anyOf"}}
        shared = bool(rest.keys() & (_CONSTRAINTS | {"properties", "required", "type"}))
        fitted: list[Json] = []
        for at, member in enumerate(members if isinstance(members, list) else ()):
            if member is not False:
                whole = _with(rest, member) if shared else member
                fitted.append(self._node(whole, (*path, "anyOf", str(at))))
        if not fitted:
            raise SchemaMisfit(path, "allows no value")
        if self._subset.distinct_first_keys:
            fitted = with_distinct_keys(fitted)
            if not fitted:
                raise SchemaMisfit(path, "is a union of objects with the same keys")
        return told | {"anyOf": fitted}

    def _keywords(self, node: JsonObject, path: Path) -> JsonObject:
        subset = self._subset
        if "exclusiveMinimum" not in subset.keywords:
            node = inclusive(node)
        kept: JsonObject = {}
        moved: JsonObject = {}
        for key, value in node.items():
            fitting = self._keyword(key, value, node)
            if fitting is not None:
                kept[key] = fitting
            elif key in _CONSTRAINTS or key == "default":
                moved[key] = value
        self._structure(node, kept, moved, path)
        if subset.typed and not kept.keys() & {"type", "enum", "const"}:
            raise SchemaMisfit(path, "has no type that the provider accepts")
        self._lost += [LostKeyword(".".join((*path, key))) for key in moved if key != "default"]
        return describe(kept, moved) if subset.described else kept

    def _keyword(self, key: str, value: Json, node: JsonObject) -> Json:
        """Return the value of a keyword as the subset takes it; None if it does not."""
        if key not in self._subset.keywords or key in _STRUCTURE:
            return None
        match key:
            case "title" | "description" if not isinstance(value, str):
                return None
            case "pattern" if self._subset.anchored_patterns and not _is_anchored(value):
                return None
            case "format" if self._subset.formats is not None and value not in self._subset.formats:
                return None
            case "minLength" | "maxLength" if self._subset.length_or_pattern and (
                "pattern" in node or "format" in node
            ):
                return None
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" if (
                self._subset.integer_ranges and node.get("type") != "integer"
            ):
                return None
            case _:
                return value

    # ── keywords with schemas or choices in them ──

    def _structure(self, node: JsonObject, kept: JsonObject, moved: JsonObject, path: Path) -> None:
        for key in _STRUCTURE:
            moved.pop(key, None)
        self._choices(node, kept, moved)
        kinds = node.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if "object" in kinds or "properties" in node:
            self._object(node, kept, moved, path)
        if "array" in kinds or "items" in node or "prefixItems" in node:
            self._array(node, kept, moved, path)

    def _choices(self, node: JsonObject, kept: JsonObject, moved: JsonObject) -> None:
        subset = self._subset
        for key in ("const", "enum"):
            if key not in node:
                continue
            values = [node[key]] if key == "const" else node[key]
            if not isinstance(values, list) or not values:
                continue
            if not all(type_of(value) in subset.choice_types for value in values):
                moved[key] = node[key]
            elif key in subset.keywords:
                kept[key] = node[key]
            else:
                kept["enum"] = values

    def _object(self, node: JsonObject, kept: JsonObject, moved: JsonObject, path: Path) -> None:
        properties = node.get("properties")
        named = properties if isinstance(properties, dict) else {}
        required = node.get("required")
        needed = [n for n in required if isinstance(n, str)] if isinstance(required, list) else []
        fitted = {
            name: self._node(value, (*path, "properties", name)) for name, value in named.items()
        }
        if self._subset.closed:
            self._close(node, named, needed, path)
            kept["additionalProperties"] = False
            if node.get("additionalProperties") is True:
                moved["additionalProperties"] = True
        else:
            self._leave_open(node, kept, path)
        if self._subset.strict:
            for name in named:
                if name not in needed and not takes_null(fitted[name]):
                    fitted[name] = or_null(fitted[name])
                    self._nullable = True
            needed = list(named)
        if "properties" in node or self._subset.closed:
            kept["properties"] = {**fitted}
        if required is not None or self._subset.strict:
            kept["required"] = [*needed]

    def _close(self, node: JsonObject, named: JsonObject, needed: list[str], path: Path) -> None:
        """Raise if closing the object would exclude values that it is meant for."""
        more = node.get("additionalProperties", True)
        if (isinstance(more, dict) and more) or any(key in node for key in _OPEN_KEYS):
            raise SchemaMisfit(path, "is a map with free keys; the provider needs every key listed")
        if not named and more is not False:
            raise SchemaMisfit(
                path, "is an object with free keys; the provider needs every key listed"
            )
        for name in needed:
            if name not in named:
                raise SchemaMisfit(path, f"requires {name!r}, which has no schema in `properties`")

    def _leave_open(self, node: JsonObject, kept: JsonObject, path: Path) -> None:
        more = node.get("additionalProperties")
        if isinstance(more, bool):
            kept["additionalProperties"] = more
        elif isinstance(more, dict):
            kept["additionalProperties"] = self._node(more, (*path, "additionalProperties"))
        if "patternProperties" in node:  # a closed object would exclude the keys that match
            kept["additionalProperties"] = True

    def _array(self, node: JsonObject, kept: JsonObject, moved: JsonObject, path: Path) -> None:
        items, first = node.get("items"), node.get("prefixItems")
        if isinstance(items, list):  # draft 7 wrote a tuple so
            first, items = items, node.get("additionalItems")
        if isinstance(first, list) and first:
            self._tuple(first, items, kept, moved, path)
        elif isinstance(items, dict) and items:
            kept["items"] = self._node(items, (*path, "items"))
        elif self._subset.typed and items is not False:
            raise SchemaMisfit(path, "is an array without `items`, and the provider needs them")
        most = self._subset.most_min_items
        least = node.get("minItems")
        if "minItems" in kept and most is not None and is_number(least) and least > most:
            kept["minItems"], moved["minItems"] = most, least

    def _tuple(
        self, first: list[Json], items: Json, kept: JsonObject, moved: JsonObject, path: Path
    ) -> None:
        """Fit the items of a tuple; without `prefixItems`, as a list of any of them."""
        fitted = [self._node(item, (*path, "prefixItems", str(i))) for i, item in enumerate(first)]
        more = self._node(items, (*path, "items")) if isinstance(items, dict) else None
        if "prefixItems" in self._subset.keywords:
            kept["prefixItems"] = [*fitted]
            if more is not None or isinstance(items, bool):
                kept["items"] = items if isinstance(items, bool) else more
            return
        if items is None or items is True:
            raise SchemaMisfit(
                path, "is a tuple with free items; the provider needs every item listed"
            )
        choices: list[Json] = []
        for choice in (*fitted, *([more] if more is not None else [])):
            if choice not in choices:
                choices.append(choice)
        kept["items"] = choices[0] if len(choices) == 1 else {"anyOf": choices}
        moved["prefixItems"] = [*first]


_STRUCTURE = (
    "properties", "required", "additionalProperties", "items", "prefixItems", "enum", "const",
)  # fmt: skip


def _with(rest: JsonObject, member: Json) -> Json:
    """Return a member of a union that also requires `rest`."""
    return merge(rest, unite(member)) if isinstance(member, dict) else rest


def _is_anchored(pattern: Json) -> bool:
    return isinstance(pattern, str) and pattern.startswith("^") and pattern.endswith("$")
