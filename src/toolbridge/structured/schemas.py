"""The registry of schemas, and the validation of values.

A schema is given as JSON Schema (draft 2020-12) or as a Python type. Schemas from callers are checked
by `bounds` first. References are never fetched.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jsonschema_rs
import msgspec

from toolbridge.core.errors import ClientError
from toolbridge.core.json import Json, JsonObject, dumps, loads, maybe_object
from toolbridge.core.short_cache import cache_short
from toolbridge.structured import builtin as builtin_schemas
from toolbridge.structured.bounds import MAX_DEPTH, InvalidSchema, check_bounds, depth_of
from toolbridge.structured.flaws import Flaw, find_flaws

__all__ = ["Flaw", "InvalidSchema", "Schemas", "UnknownSchema"]

NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=50_000, size_limit=1_000_000)
# Python's `\Z` matches only at the end of the text; its `$` also before a final line end.
_END_OF_TEXT = re.compile(r"(?<!\\)((?:\\\\)*)\\Z")


class UnknownSchema(ClientError):
    """No schema of this name is registered."""

    kind = "unknown_schema"


@dataclass(frozen=True)
class Compiled:
    """A compiled schema."""

    schema: JsonObject
    fits: Callable[[Json], bool]

    def flaws(self, value: Json) -> tuple[Flaw, ...]:
        """Return the first reasons why `value` does not fit; empty for a valid value."""
        if self.fits(value):
            return ()
        if depth_of(value) > MAX_DEPTH:
            return (Flaw(".", f"is nested more than {MAX_DEPTH} deep"),)
        return find_flaws(value, self.schema)


def compile_schema(schema: JsonObject) -> Compiled:
    """Compile a schema; raise `InvalidSchema` if it is invalid or too expensive."""
    try:
        return _compiled(dumps(schema))
    except (TypeError, ValueError, RecursionError):
        raise InvalidSchema("the schema is not JSON, or is nested too deeply") from None


@cache_short(128)
def _compiled(written: str) -> Compiled:
    # Cached by text: callers send the same schemas with every stream.
    schema = maybe_object(written) or {}
    check_bounds(schema)
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schema, offline=True, pattern_options=_PATTERNS
        )
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise InvalidSchema(_plain(error)) from None

    def fits(value: Json) -> bool:
        try:
            return depth_of(value) <= MAX_DEPTH and validator.is_valid(value)
        except UnicodeEncodeError:  # a lone surrogate is not valid text
            return False

    return Compiled(schema, fits)


def schema_of(shape: object) -> JsonObject:
    """Return the JSON Schema of a schema, a msgspec struct, a dataclass or a pydantic model."""
    if isinstance(shape, dict):
        try:
            copy = loads(dumps(shape))
        except (TypeError, ValueError, RecursionError):
            raise InvalidSchema("the schema is not JSON, or is nested too deeply") from None
        return copy if isinstance(copy, dict) else {}
    own = getattr(shape, "model_json_schema", None)  # a pydantic model; pydantic is not imported
    if callable(own):
        return schema_of(own())
    try:
        made: JsonObject = msgspec.json.schema(shape)
    except (TypeError, ValueError, NameError) as error:
        raise InvalidSchema(f"has no JSON Schema: {error}") from None
    ported = _ported(made)
    return ported if isinstance(ported, dict) else made


def _ported(node: Json) -> Json:
    """Return a schema with its Python patterns written as JSON Schema patterns."""
    if isinstance(node, list):
        return [_ported(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _END_OF_TEXT.sub(r"\1$", value)
        if key == "pattern" and isinstance(value, str)
        else _ported(value)
        for key, value in node.items()
    }


class Schemas:
    """Schemas by name. `Schemas()` has the built-in ones, `Schemas(builtin=False)` is empty."""

    def __init__(self, *, builtin: bool = True) -> None:
        self._known: dict[str, Compiled] = dict(_builtin_compiled()) if builtin else {}

    def register(self, name: str, shape: object) -> None:
        """Register a JSON Schema, a msgspec struct, a dataclass or a pydantic model.

        Raise `InvalidSchema` if it is invalid, or if the name is registered with another schema.
        """
        if not NAME.fullmatch(name):
            text = "a schema name must have 1 to 128 of the characters A-Z a-z 0-9 _ . : / -"
            raise InvalidSchema(text, where=name[:128])
        try:
            schema = schema_of(shape)
            compiled = self._known.get(name) or compile_schema(schema)
        except InvalidSchema as error:
            raise InvalidSchema(error.problem.text, where=name) from None
        if compiled.schema != schema:
            raise InvalidSchema("the name is registered with another schema", where=name)
        self._known[name] = compiled

    def extended(self, more: Mapping[str, object]) -> "Schemas":
        """Return a copy with these schemas added, for one stream."""
        own = Schemas(builtin=False)
        own._known = dict(self._known)
        for name, shape in more.items():
            own.register(name, shape)
        return own

    def names(self) -> tuple[str, ...]:
        return tuple(self._known)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def validator(self, name: str) -> Compiled:
        """Return the compiled schema; raise `UnknownSchema`."""
        known = self._known.get(name)
        if known is None:
            raise UnknownSchema(f"there is no schema {name!r}", where=name[:128])
        return known

    def get(self, name: str) -> JsonObject:
        """Return the JSON Schema registered as `name`; raise `UnknownSchema`."""
        return self.validator(name).schema

    def check(self, name: str, value: Json) -> tuple[Flaw, ...]:
        """Return the first reasons why `value` does not fit; empty for a valid value."""
        return self.validator(name).flaws(value)


_COMPILED: dict[str, Compiled] = {}


def _builtin_compiled() -> dict[str, Compiled]:
    if not _COMPILED:
        _COMPILED.update(
            (name, compile_schema(schema)) for name, schema in builtin_schemas.SCHEMAS.items()
        )
    return _COMPILED


def _plain(error: Exception) -> str:
    text = str(error).split("\n", 1)[0]
    return text if len(text) <= 200 else f"{text[:200]}…"
