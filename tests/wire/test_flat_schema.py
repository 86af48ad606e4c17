"""A schema whose root combines schemas, as one object."""

import pytest

from toolbridge.wire.flat_schema import COMBINED, flatten_root

A, B = {"type": "string"}, {"type": "integer"}
X = {"properties": {"k": {"const": "x"}, "a": A}, "required": ["k", "a"]}
Y = {"properties": {"k": {"const": "y"}, "b": B}, "required": ["k"]}
EITHER = {"anyOf": [{"const": "x"}, {"const": "y"}]}


@pytest.mark.parametrize(
    ("given", "properties", "required"),
    [
        ({"oneOf": [X, Y]}, {"k": EITHER, "a": A, "b": B}, ["k"]),
        ({"anyOf": [X, Y]}, {"k": EITHER, "a": A, "b": B}, ["k"]),
        ({"allOf": [{"properties": {"a": A}, "required": ["a"]}, {"properties": {"b": B}, "required": ["b"]}]},
         {"a": A, "b": B}, ["a", "b"]),
        ({"properties": {"a": A, "b": B}, "required": ["a"], "anyOf": [{"required": ["b"]}, {}]},
         {"a": A, "b": B}, ["a"]),
        ({"$defs": {"X": X}, "oneOf": [{"$ref": "#/$defs/X"}, {"$ref": "#/$defs/gone"}, 3]},
         X["properties"], ["k", "a"]),
        ({"allOf": [{"oneOf": [X, Y]}, {"properties": {"c": A}, "required": ["c"]}]},
         {"k": EITHER, "a": A, "b": B, "c": A}, ["k", "c"]),
        ({"anyOf": [X, X, {"properties": {"k": {"const": "z"}}, "required": ["k", "a"]}]},
         {"k": {"anyOf": [{"const": "x"}, {"const": "z"}]}, "a": A}, ["k", "a"]),
    ],
)  # fmt: skip
def test_the_branches_are_merged_into_one_object(given, properties, required):
    flat = flatten_root(given)
    assert flat["type"] == "object"
    assert COMBINED.isdisjoint(flat)
    assert flat["properties"] == properties
    assert flat.get("required", []) == required


def test_the_branches_of_a_union_are_described():
    flat = flatten_root({"description": "D", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})
    assert flat["description"] == 'D (oneOf: [{"required":["a"]},{"required":["b"]}])'


def test_a_plain_schema_is_not_touched():
    schema = {"type": "object", "properties": {"a": EITHER}}
    assert flatten_root(schema) is schema


def test_a_schema_that_refers_to_itself_ends():
    flat = flatten_root({"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, X]}}, "$ref": "#", "anyOf": [{"$ref": "#/$defs/A"}]})  # fmt: skip
    assert flat["properties"]["a"] == A
