import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies

from toolbridge.wire.json_schema import (
    MAX_DEPTH,
    MAX_NODES,
    describe,
    inline,
    merge,
    project_strict,
    split_null,
    unite,
)

CITY = {"type": "object", "properties": {"name": {"type": "string"}}}


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


# ── strict mode ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "expected", "same"),
    [
        ({"type": "string"}, {"type": "string"}, True),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]},
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
            True,
        ),
        (
            {"type": "object", "properties": {"a": {"enum": ["x"]}, "b": {"anyOf": [{"type": "string"}, {"type": "number"}]}, "c": {}}, "additionalProperties": False},
            {
                "type": "object",
                "properties": {
                    "a": {"enum": ["x", None]},
                    "b": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
                    "c": {},
                },
                "required": ["a", "b", "c"],
                "additionalProperties": False,
            },
            True,
        ),
        (
            {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
            {"type": "object", "properties": {}, "required": [], "additionalProperties": False, "description": 'additionalProperties: {"type":"string"}'},
            False,
        ),
        ({"type": "object"}, {"type": "object", "properties": {}, "required": [], "additionalProperties": False}, False),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}, "uniqueItems": True},
            {
                "type": "array",
                "items": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
                "description": "uniqueItems: true",
            },
            True,
        ),
        ({"type": "string", "minLength": 1, "format": "uri", "default": "x"}, {"type": "string", "description": "minLength: 1; format: uri; default: x"}, True),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}, True),
        ({"type": ["string", "null"], "enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}, True),
        ({"const": 5}, {"const": 5}, True),
        (
            {"type": "object", "properties": {"a": {"type": ["string", "integer"]}, "b": {"const": 1}}, "additionalProperties": False},
            {
                "type": "object",
                "properties": {"a": {"type": ["string", "integer", "null"]}, "b": {"anyOf": [{"const": 1}, {"type": "null"}]}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
            True,
        ),
        ({"items": False}, {"items": {}}, False),
        ({"items": True}, {"items": {}}, True),
    ],
)  # fmt: skip
def test_strict_mode(schema, expected, same):
    assert project_strict(schema) == (expected, same)


def test_strict_mode_keeps_a_schema_that_contains_itself():
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/definitions/Node", "description": "the rest"}},
        "additionalProperties": False,
    }
    found, same = project_strict({"$ref": "#/definitions/Node", "definitions": {"Node": node}})
    assert found == {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
                "required": ["next"],
                "additionalProperties": False,
            }
        },
    }
    assert same


def test_strict_mode_puts_what_is_referred_to_in_its_place():
    schema = {
        "type": "object",
        "properties": {"c": {"$ref": "#/$defs/C", "description": "where"}},
        "required": ["c"],
        "additionalProperties": False,
        "$defs": {"C": {"type": "string"}},
    }
    found, _ = project_strict(schema)
    assert found["properties"] == {"c": {"type": "string", "description": "where"}}
    assert "$defs" not in found


_keywords = ["type", "properties", "items", "anyOf", "allOf", "enum", "format", "required", "$ref", "additionalProperties", "nullable", "minimum", "x"]  # fmt: skip
_schemas = st.dictionaries(
    st.sampled_from(_keywords),
    st.recursive(
        st.none() | st.booleans() | st.sampled_from(["string", "object", 5]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(_keywords), inner, max_size=3)
        ),
        max_leaves=8,
    ),
)


@given(_schemas)
def test_every_object_of_strict_mode_is_closed(schema):
    found, _ = project_strict(schema)
    left = [found]
    while left:
        node = left.pop()
        if "properties" in node:
            assert node["required"] == list(node["properties"])
            assert node["additionalProperties"] is False
            left += node["properties"].values()
        left += [node["items"]] if "items" in node else []
        left += node.get("anyOf", []) if isinstance(node.get("anyOf"), list) else []
