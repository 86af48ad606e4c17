"""The smallest value that fits."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.tables import every_row

from toolbridge.core.json import JsonObject
from toolbridge.structured.minimal import NoMinimal, minimal, with_diagnostics
from toolbridge.structured.sample import sample
from toolbridge.structured.schemas import Schemas, compile_schema

DIAGNOSTICS: JsonObject = {
    "error": "schema_repair_failed",
    "last_validator_errors": [{"path": ".field", "message": "expected string"}],
}

SMALLEST = [
    ({}, None),
    ({"const": {"a": 1}}, {"a": 1}),
    ({"enum": [3, 1]}, 3),
    ({"type": "string"}, ""),
    ({"type": "string", "minLength": 3}, "xxx"),
    ({"type": "string", "pattern": r"^[A-Z]{3}-\d{2}$"}, "AAA-00"),
    ({"type": "string", "pattern": "^a+$", "minLength": 4}, "aaaa"),
    ({"type": "string", "format": "date"}, "1970-01-01"),
    ({"type": "string", "pattern": r"^(?=x)x\d$", "examples": ["x1"]}, "x1"),
    ({"type": "integer"}, 0),
    ({"type": "integer", "minimum": 7}, 7),
    ({"type": "integer", "exclusiveMinimum": 7}, 8),
    ({"type": "integer", "maximum": -2}, -2),
    ({"type": "integer", "minimum": 7, "multipleOf": 5}, 10),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
    ({"type": "boolean"}, False),
    ({"type": ["null", "string"]}, None),
    ({"type": "array"}, []),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [0, 0]),
    ({"items": {"enum": ["a", "b", "c"]}, "minItems": 3, "uniqueItems": True}, ["a", "b", "c"]),
    ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "minItems": 2}, [1, 2]),
    ({"type": "array", "contains": {"const": 5}}, [5]),
    ({"type": "object", "properties": {"a": {}}}, {}),
    ({"required": ["b", "a"], "properties": {"a": {"type": "string"}}}, {"b": None, "a": ""}),
    ({"type": "object", "minProperties": 1, "properties": {"a": {"const": 1}}}, {"a": 1}),
    ({"minProperties": 1, "additionalProperties": {"type": "integer"}}, {"x0": 0}),
    ({"oneOf": [{"type": "string"}, {"type": "null"}]}, ""),
    ({"anyOf": [{"type": "string", "not": {}}, {"type": "integer"}]}, 0),
    ({"oneOf": [{"type": "object"}, {"type": "object", "required": ["a"]}]}, {}),
    (
        {"allOf": [{"required": ["a"]}, {"properties": {"a": {"minimum": 4}}}], "type": "object"},
        {"a": 4},
    ),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "boolean"}},
            "required": ["a"],
            "if": {"properties": {"a": {"const": False}}},
            "then": {"required": ["b"]},
        },
        {"a": True},
    ),
    (
        {
            "$ref": "#/$defs/T",
            "$defs": {
                "T": {
                    "required": ["kids"],
                    "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}},
                }
            },
        },
        {"kids": []},
    ),
]


@pytest.mark.req("TF-29", "TF-46")
@every_row(("schema", "value"), SMALLEST)
def test_the_smallest_value_fits(schema, value):
    fits = compile_schema(schema).fits
    assert minimal(schema, fits) == value
    assert fits(value)


@every_row(
    "schema",
    [
        {"not": {}},
        {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
        {"type": "array", "minItems": 100_000},
        {"type": "string", "pattern": "^(?=secret)(?!secret)"},
        {"allOf": [{"type": "string"}, {"type": "number"}]},
    ],
)
def test_where_nothing_is_found_that_is_said(schema):
    with pytest.raises(NoMinimal):
        minimal(schema, compile_schema(schema).fits)


def diagnosed(schema: JsonObject) -> object:
    fits = compile_schema(schema).fits
    return with_diagnostics(minimal(schema, fits), schema, fits, DIAGNOSTICS)


@pytest.mark.req("TF-29")
def test_the_reply_has_the_form_of_the_specification():
    schema = Schemas().get("AssistantReply")
    value = diagnosed(schema)
    assert list(value) == ["answer", "citations", "diagnostics"]
    assert value == {"answer": "", "citations": [], "diagnostics": DIAGNOSTICS}


@pytest.mark.parametrize(
    ("diagnostics", "wanted"),
    [
        ({"type": "object"}, DIAGNOSTICS),
        (
            {"properties": {"error": {"type": "string"}}, "additionalProperties": False},
            {"error": "schema_repair_failed"},
        ),
        ({"type": "integer"}, None),
    ],
)
def test_diagnostics_stand_where_the_schema_has_room_for_them(diagnostics, wanted):
    schema = {"type": "object", "properties": {"diagnostics": diagnostics}}
    value = diagnosed(schema)
    assert value == ({} if wanted is None else {"diagnostics": wanted})


def test_a_schema_without_diagnostics_gets_none():
    assert diagnosed({"type": "object"}) == {}


def test_a_member_of_that_name_in_the_value_stays():
    schema = {"properties": {"diagnostics": {}}, "required": ["diagnostics"], "type": "object"}
    assert diagnosed(schema) == {"diagnostics": None}


ATOMS = st.sampled_from(
    ["a", r"\d", r"\w", r"\.", "[a-f]", "[^a-z]", "[0-9x]", "(?:ab|c)", "(x)", "."]
)
QUANTIFIERS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{2,}", "+?"])
PATTERNS = st.lists(st.tuples(ATOMS, QUANTIFIERS).map("".join), max_size=6).map("".join)


@settings(max_examples=examples(200), deadline=None)
@given(PATTERNS)
def test_a_sample_matches_its_pattern(pattern):
    text = sample(f"^{pattern}$")
    assert text is not None
    assert re.fullmatch(pattern, text)


@every_row("pattern", ["(", "[", "(?=a)b", r"\p{L}", "a{2000}{2000}", "(" * 50, "a)"])
def test_a_pattern_that_is_not_understood_has_no_sample(pattern):
    assert sample(pattern) is None


SCHEMAS = st.deferred(
    lambda: st.one_of(
        st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "boolean", "null"])}),
        st.fixed_dictionaries({"const": st.integers()}),
        st.fixed_dictionaries({"type": st.just("string"), "minLength": st.integers(0, 4)}),
        st.fixed_dictionaries({"type": st.just("integer"), "minimum": st.integers(-5, 5)}),
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": SCHEMAS, "minItems": st.integers(0, 2)}
        ),
        st.fixed_dictionaries({"anyOf": st.lists(SCHEMAS, min_size=1, max_size=3)}),
        st.dictionaries(st.sampled_from("abc"), SCHEMAS, max_size=3).map(
            lambda members: {"type": "object", "properties": members, "required": list(members)}
        ),
    )
)


@settings(max_examples=examples(150), deadline=None)
@given(SCHEMAS)
def test_every_plain_schema_has_a_smallest_value(schema):
    fits = compile_schema(schema).fits
    assert fits(minimal(schema, fits))
