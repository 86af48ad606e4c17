"""The parts of JSON Schema that the backends of structured output accept, as data.

`schema_fit.fit` rewrites a schema for one of these. A provider's quirk `schema_subset` names the
subset of an OpenAI-compatible server; the other codecs have one subset each.
"""

import msgspec

_BASE = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf",
     "$ref", "$defs", "definitions", "title", "description"}
)  # fmt: skip
_RANGES = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_LENGTHS = frozenset({"minLength", "maxLength"})
_ITEMS = frozenset({"minItems", "maxItems"})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})  # fmt: skip


class SchemaLimits(msgspec.Struct, frozen=True):
    """The largest schema that a backend accepts; 0 where no limit is known."""

    levels: int = 0
    properties: int = 0
    choices: int = 0
    """Values of all enums together."""
    characters: int = 0
    """Characters of all names and of all values of enums and constants."""
    optional: int = 0
    """Properties that are not required."""
    unions: int = 0


class SchemaSubset(msgspec.Struct, frozen=True):
    """What one backend accepts."""

    name: str
    keywords: frozenset[str]
    formats: frozenset[str] | None = None
    """The values of `format`; None for any."""
    strict: bool = False
    """Whether every object must be closed and every key required, with `strict: true`."""
    closed: bool = False
    """Whether every object must have `additionalProperties: false`."""
    typed: bool = False
    """Whether every schema needs a type, and every array its `items`."""
    object_root: bool = False
    recursive: bool = True
    type_lists: bool = True
    """Whether `type` may be a list."""
    distinct_first_keys: bool = False
    """Whether the objects of an `anyOf` must differ in their first key."""
    most_min_items: int | None = None
    """The largest `minItems`; None for any."""
    choice_types: frozenset[str] = frozenset({"string", "number", "boolean", "null", "object", "array"})  # fmt: skip
    """The types of values that `enum` and `const` may have."""
    integer_ranges: bool = False
    """Whether ranges hold for integers only."""
    anchored_patterns: bool = False
    """Whether a `pattern` holds only from `^` to `$`."""
    length_or_pattern: bool = False
    """Whether a length beside a `pattern` or a `format` is an error."""
    described: bool = True
    """Whether the model reads the descriptions in the schema."""
    limits: SchemaLimits = SchemaLimits()


_SCALARS = frozenset({"string", "number", "boolean", "null"})

# OpenAI, structured outputs: supported schemas. `allOf`, `oneOf`, `not`, `if` and the lengths of
# strings are not among them, and "'default' is not permitted".
OPENAI = SchemaSubset(
    "openai",
    _BASE | _RANGES | _ITEMS | {"const", "pattern", "format", "multipleOf"},
    formats=_FORMATS,
    strict=True,
    closed=True,
    typed=True,
    object_root=True,
    distinct_first_keys=True,
    limits=SchemaLimits(levels=10, properties=5000, choices=1000, characters=120_000),
)
# Anthropic, structured outputs: JSON Schema limitations; 24 optional and 16 union parameters.
ANTHROPIC = SchemaSubset(
    "anthropic",
    _BASE | {"const", "format", "minItems"},
    formats=_FORMATS | {"uri"},
    closed=True,
    typed=True,
    recursive=False,
    type_lists=False,
    most_min_items=1,
    choice_types=_SCALARS,
    limits=SchemaLimits(optional=24, unions=16),
)
# Gemini API, `responseJsonSchema`: the supported keywords; others are ignored.
GEMINI = SchemaSubset(
    "gemini",
    _BASE | _ITEMS | {"minimum", "maximum", "prefixItems", "format", "propertyOrdering"},
    choice_types=frozenset({"string", "number"}),
)
# llama.cpp, json-schema-to-grammar: keywords that it does not have are ignored without an error.
LLAMACPP = SchemaSubset(
    "llamacpp",
    _BASE | _RANGES | _LENGTHS | _ITEMS | {"const", "prefixItems", "pattern", "format"},
    formats=frozenset({"date", "time", "date-time", "uuid"}),
    integer_ranges=True,
    anchored_patterns=True,
    described=False,
)
OLLAMA = msgspec.structs.replace(LLAMACPP, name="ollama")  # Ollama has llama.cpp's converter
# xgrammar, `has_xgrammar_unsupported_json_features` of vLLM: each of the others is a 400.
XGRAMMAR = SchemaSubset(
    "xgrammar",
    _BASE | _RANGES | _LENGTHS | _ITEMS
    | {"const", "prefixItems", "pattern", "format", "minProperties", "maxProperties"},
    formats=_FORMATS
    | {"uri", "uri-reference", "uri-template", "json-pointer", "relative-json-pointer"},
    length_or_pattern=True,
    described=False,
)  # fmt: skip
# Groq, structured outputs: "minItems is not supported"; strict objects are closed and complete.
GROQ = SchemaSubset(
    "groq", _BASE | {"const"}, strict=True, closed=True, typed=True, object_root=True
)
# Cerebras, structured outputs: no pattern, format, recursion; 5000 characters, 10 levels.
CEREBRAS = msgspec.structs.replace(
    GROQ, name="cerebras", recursive=False, limits=SchemaLimits(levels=10, characters=5000)
)

SUBSETS: dict[str, SchemaSubset] = {
    subset.name: subset
    for subset in (OPENAI, ANTHROPIC, GEMINI, LLAMACPP, OLLAMA, XGRAMMAR, GROQ, CEREBRAS)
}
