import json

import pytest
from hypothesis import given
from tests import strategies
from tests.tables import every_row

from toolbridge.wire.json_schema import (
    MAX_DEPTH,
    MAX_NODES,
    describe,
    inline,
    merge,
    split_null,
    unite,
)

CITY = {"type": "object", "properties": {"name": {"type": "string"}}}


@every_row(
    ("schema", "expected"),
    [
        ({}, {}),
        (
            {"properties": {"c": {"$ref": "#/$defs/City"}}, "$defs": {"City": CITY}},
            {"properties": {"c": CITY}},
        ),
        (
            {"properties": {"c": {"$ref": "#/definitions/City"}}, "definitions": {"City": CITY}},
            {"properties": {"c": CITY}},
        ),
        (
            {"items": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"$ref": "#/$defs/B"}, "B": CITY}},
            {"items": [CITY]},
        ),
        (
            {
                "properties": {"c": {"$ref": "#/$defs/City", "description": "where"}},
                "$defs": {"City": {**CITY, "description": "a city"}},
            },
            {"properties": {"c": {**CITY, "description": "where"}}},
        ),
        (
            {"properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}},
            {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/x~1y~0z"}}, "$defs": {"x/y~z": CITY}},
            {"properties": {"a": CITY}},
        ),
        ({"$ref": "#/$defs/City", "$defs": {"City": CITY}}, CITY),
    ],
)
def test_what_a_reference_points_to_takes_its_place(schema, expected):
    assert inline(schema) == (expected, True)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"$ref": {"type": "string"}, "definitions": {"type": "string"}}},
        {"properties": {"a": {"enum": [{"$ref": "#/$defs/X"}], "default": {"$ref": "x"}}}},
        {"properties": {"a": {"const": {"$ref": "x"}}}},
    ],
)
def test_a_word_that_only_looks_like_a_reference_stays(schema):
    assert inline(schema) == (schema, True)


def test_a_property_called_default_is_a_property():
    schema = {"properties": {"default": {"$ref": "#/$defs/City"}}, "$defs": {"City": CITY}}
    assert inline(schema) == ({"properties": {"default": CITY}}, True)


def test_a_schema_that_contains_itself_is_cut_where_it_repeats():
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}
    found, whole = inline({"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}})
    assert found == {"type": "object", "properties": {"left": {"type": "object"}}}
    assert not whole


@every_row(
    "reference", ["#/$defs/None", "https://example.org/s.json", "#", "", "#/$defs/City/type/x"]
)
def test_a_reference_to_nowhere_is_any_object_and_said(reference):
    schema = {"properties": {"a": {"$ref": reference}}, "$defs": {"City": CITY}}
    assert inline(schema) == ({"properties": {"a": {"type": "object"}}}, False)


def test_definitions_that_double_stop_growing():
    defs = {f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n - 1}"} for k in "ab"}} for n in range(1, 40)}  # fmt: skip
    found, whole = inline({"$ref": "#/$defs/d39", "$defs": {**defs, "d0": {"type": "string"}}})
    assert not whole
    assert len(json.dumps(found)) < MAX_NODES * 100


def test_a_very_deep_schema_is_cut():
    schema = {"type": "string"}
    for _ in range(MAX_DEPTH * 5):
        schema = {"items": schema}
    found, whole = inline(schema)
    assert not whole
    assert json.dumps(found).count("items") <= MAX_DEPTH + 1


@given(strategies.json_objects)
def test_a_schema_without_references_stays_as_it_is(schema):
    schema = {k: v for k, v in schema.items() if k not in {"$defs", "definitions"}}
    assert inline(schema) == (schema, True)


# ── one node ─────────────────────────────────────────────────────────────────


@every_row(
    ("first", "second", "expected"),
    [
        ({}, {"type": "string"}, {"type": "string"}),
        ({"required": ["a"]}, {"required": ["b", "a"]}, {"required": ["a", "b"]}),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, {"enum": ["b"]}),
        ({"minimum": 1, "maximum": 9}, {"minimum": 3, "maximum": 20}, {"minimum": 3, "maximum": 9}),
        ({"description": "A."}, {"description": "B."}, {"description": "A. B."}),
        (
            {"properties": {"a": {"type": "string"}, "b": {}}},
            {"properties": {"a": {"minLength": 1}, "c": {}}},
            {"properties": {"a": {"type": "string", "minLength": 1}, "b": {}, "c": {}}},
        ),
        (
            {"type": "string"},
            {"type": "integer", "pattern": "x"},
            {"type": "string", "allOf": [{"type": "integer"}], "pattern": "x"},
        ),
        ({"enum": ["a"]}, {"enum": ["b"]}, {"enum": ["a"], "allOf": [{"enum": ["b"]}]}),
        ({"not": {"a": 1}}, {"not": {"b": 1}}, {"not": {"a": 1}, "allOf": [{"not": {"b": 1}}]}),
    ],
)
def test_two_schemas_are_asked_for_together(first, second, expected):
    assert merge(first, second) == expected


@every_row(
    ("node", "expected"),
    [
        ({"allOf": [{"type": "object"}, {"allOf": [{"title": "T"}]}]}, {"type": "object", "title": "T"}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ({"oneOf": [{}], "anyOf": [{}]}, {"oneOf": [{}], "anyOf": [{}]}),
        ({"allOf": "x", "type": "string"}, {"type": "string"}),
    ],
)  # fmt: skip
def test_members_are_united(node, expected):
    assert unite(node) == expected


@every_row(
    ("node", "expected", "null"),
    [
        ({"type": "string"}, {"type": "string"}, False),
        ({"type": ["string", "null"]}, {"type": "string"}, True),
        ({"type": ["string", "integer", "null"]}, {"type": ["string", "integer"]}, True),
        ({"type": ["null"]}, {"type": "null"}, False),
        ({"type": "string", "nullable": True}, {"type": "string"}, True),
        ({"enum": ["a", None]}, {"enum": ["a"]}, True),
        ({"enum": [None]}, {"enum": [None]}, False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "title": "T"}, {"title": "T", "type": "string"}, True),
        ({"anyOf": [{"a": 1}, {"b": 1}, {"type": "null"}]}, {"anyOf": [{"a": 1}, {"b": 1}]}, True),
        ({"anyOf": [{"type": "null"}]}, {}, True),
    ],
)  # fmt: skip
def test_null_is_split_off(node, expected, null):
    assert split_null(node) == (expected, null)


@every_row(
    ("node", "moved", "description"),
    [
        ({}, {}, None),
        ({}, {"$schema": "x", "$defs": {}, "additionalProperties": False}, None),
        ({}, {"multipleOf": 5}, "multipleOf: 5"),
        ({"description": "D"}, {"format": "uri", "not": {"a": 1}}, 'D (format: uri; not: {"a":1})'),
        ({"description": 5}, {"a": None}, "a: null"),
    ],
)
def test_what_may_not_stand_is_told(node, moved, description):
    assert describe(node, moved).get("description") == description
