"""Parts of JSON Schema, row by row: references, implied types, null, sizes."""

from tests.tables import every_row

from toolbridge.wire.schema_parts import (
    infer_type,
    misshapen,
    or_null,
    references,
    takes_null,
    type_of,
    with_distinct_keys,
)
from toolbridge.wire.schema_size import check_size
from toolbridge.wire.schema_subsets import SchemaLimits

STRING = {"type": "string"}
NULL = {"type": "null"}


@every_row(
    ("schema", "found"),
    [
        ({"$ref": "#/a"}, [((), "#/a")]),
        ({"$ref": 5}, []),
        ({"properties": {"$ref": {"$dynamicRef": "#b"}}}, [(("properties", "$ref"), "#b")]),
        ({"properties": {"$ref": "x"}}, []),
        ({"$defs": {"a": {"$recursiveRef": "#"}}}, [(("$defs", "a"), "#")]),
        ({"definitions": {"const": {"$ref": "#"}}}, [(("definitions", "const"), "#")]),
        ({"anyOf": [STRING, {"items": {"$ref": "#"}}]}, [(("anyOf", "1", "items"), "#")]),
        ({"enum": [{"$ref": "#"}], "const": {"$ref": "#"}, "default": {"$ref": "#"}}, []),
        (True, []),
    ],
)
def test_references_are_found_with_their_places(schema, found):
    assert references(schema) == found


@every_row(
    ("schema", "keyword"),
    [
        ({}, ""),
        ({"anyOf": [], "properties": {}, "minItems": 1, "items": True, "format": "x"}, ""),
        ({"anyOf": {}}, "anyOf"),
        ({"properties": []}, "properties"),
        ({"pattern": 1}, "pattern"),
        ({"minLength": "1"}, "minLength"),
        ({"items": "x"}, "items"),
        ({"additionalProperties": []}, "additionalProperties"),
        ({"$ref": {}}, "$ref"),
    ],
)
def test_a_keyword_of_the_wrong_type_is_named(schema, keyword):
    assert misshapen(schema) == keyword


@every_row(
    ("node", "kind"),
    [
        ({}, None),
        ({"title": "x"}, None),
        ({"properties": {}}, "object"),
        ({"required": []}, "object"),
        ({"items": {}}, "array"),
        ({"const": 1}, "number"),
        ({"const": None}, "null"),
        ({"enum": ["a", "b"]}, "string"),
        ({"enum": ["a", 1, "b", None, True]}, ["string", "number", "null", "boolean"]),
        ({"enum": []}, None),
        ({"enum": "a"}, None),
        ({"const": "a", "enum": [1]}, "string"),
    ],
)
def test_the_type_that_keywords_imply(node, kind):
    assert infer_type(node) == kind


@every_row(
    ("value", "kind"),
    [(True, "boolean"), (1, "number"), (1.5, "number"), ("", "string"), (None, "null"), ({}, "object"), ([], "array")],
)  # fmt: skip
def test_the_type_of_a_value(value, kind):
    assert type_of(value) == kind


@every_row(
    ("schema", "takes", "wider"),
    [
        (STRING, False, {"type": ["string", "null"]}),
        ({"type": ["string", "number"]}, False, {"type": ["string", "number", "null"]}),
        (NULL, True, None),
        ({"type": ["string", "null"]}, True, None),
        ({"anyOf": [STRING]}, False, {"anyOf": [STRING, NULL]}),
        ({"anyOf": [STRING, NULL]}, True, None),
        ({"anyOf": [], "type": "null"}, False, {"anyOf": [], "type": ["null", "null"]}),
        ({"enum": ["a"]}, False, {"anyOf": [{"enum": ["a"]}, NULL]}),
        ({"enum": ["a", None]}, True, None),
        ({"const": None}, True, None),
        ({"const": "a", "title": "t"}, False, {"title": "t", "anyOf": [{"const": "a"}, NULL]}),
        # The values and the type must both allow null.
        ({"type": "string", "enum": ["a", None]}, False, None),
        ({"type": ["string", "null"], "enum": ["a", None]}, True, None),
        ({"type": "null", "enum": ["a"]}, False, None),
        ({"type": "string", "const": "a"}, False, {"anyOf": [{"type": "string", "const": "a"}, NULL]}),
        (True, False, None),
    ],
)  # fmt: skip
def test_a_schema_that_allows_null(schema, takes, wider):
    assert takes_null(schema) is takes
    if wider is not None:
        assert or_null(schema) == wider


def has(*names):
    return {"type": "object", "properties": dict.fromkeys(names, STRING)}


@every_row(
    ("members", "firsts"),
    [
        ([has("a", "b"), has("a", "b")], ["a", "b"]),
        ([has("a"), has("b", "a")], ["a", "b"]),
        ([has("a"), STRING, has(), has("a", "c")], ["a", "", "", "c"]),
        ([has("a"), has("a")], None),
        ([True, {"properties": 5}], ["", ""]),
    ],
)
def test_objects_of_a_union_begin_with_different_keys(members, firsts):
    ordered = with_distinct_keys(members)
    if firsts is None:
        assert ordered == []
        return
    assert ordered == members, "only the order of the keys changes"
    found = [one.get("properties") if isinstance(one, dict) else None for one in ordered]
    assert [next(iter(p), "") if isinstance(p, dict) else "" for p in found] == firsts


def nested(levels):
    return {"type": "array", "items": nested(levels - 1)} if levels else STRING


OPTIONAL = {"type": "object", "properties": {"ab": STRING, "c": STRING}, "required": ["c"]}


@every_row(
    ("schema", "limits", "fault"),
    [
        (nested(9), {}, None),
        (nested(3), {"levels": 3}, None),
        (nested(4), {"levels": 3}, (("items",) * 3, "is nested 4 levels deep; the provider accepts 3")),
        (OPTIONAL, {"properties": 2, "characters": 3, "optional": 1, "levels": 1}, None),
        (OPTIONAL, {"properties": 1}, ((), "brings the number of properties to 2; the provider accepts 1")),
        (OPTIONAL, {"characters": 2}, ((), "brings the characters of names and enum values to 3; the provider accepts 2")),
        ({"properties": {"a": OPTIONAL, "b": OPTIONAL}, "required": ["a", "b"]}, {"optional": 1},
         (("properties", "b"), "brings the number of optional properties to 2; the provider accepts 1")),
        ({"properties": {"a": STRING}, "required": 5}, {"optional": 1}, None),
        ({"enum": ["abc", 5], "const": "de"}, {"choices": 2, "characters": 5}, None),
        ({"enum": ["abc", 5], "const": "de"}, {"characters": 4}, ((), "brings the characters of names and enum values to 5; the provider accepts 4")),
        ({"anyOf": [STRING, {"enum": [1, 2]}]}, {"choices": 1}, (("anyOf", "1"), "brings the number of enum values to 2; the provider accepts 1")),
        ({"anyOf": [{"anyOf": [STRING]}]}, {"unions": 1}, (("anyOf", "0"), "brings the number of unions to 2; the provider accepts 1")),
        ({"$defs": {"d": {"enum": [1, 2]}}}, {"choices": 1}, (("$defs", "d"), "brings the number of enum values to 2; the provider accepts 1")),
        ({"prefixItems": [{"enum": [1, 2]}]}, {"choices": 1}, (("prefixItems", "0"), "brings the number of enum values to 2; the provider accepts 1")),
        ({"additionalProperties": {"enum": [1, 2]}}, {"choices": 1}, (("additionalProperties",), "brings the number of enum values to 2; the provider accepts 1")),
    ],
)  # fmt: skip
def test_the_first_part_beyond_a_limit_is_named(schema, limits, fault):
    assert check_size(schema, SchemaLimits(**limits)) == fault
