from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.codecs.gemini.schemas import decode_schema, project

ALLOWED = {
    "type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems",
    "properties", "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern",
    "minimum", "maximum", "anyOf", "default", "example", "propertyOrdering",
}  # fmt: skip


def nodes(schema):
    """Every schema within `schema`, itself included."""
    yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    if "items" in schema:
        inner.append(schema["items"])
    for node in inner:
        yield from nodes(node)


@every_row(
    ("schema", "expected"),
    [
        ({}, {}),
        ({"type": "string"}, {"type": "STRING"}),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"type": "string", "nullable": True}, {"type": "STRING", "nullable": True}),
        ({"const": "a"}, {"enum": ["a"], "type": "STRING"}),
        ({"enum": ["a", None]}, {"enum": ["a"], "type": "STRING", "nullable": True}),
        ({"enum": [1, 2]}, {"type": "INTEGER", "description": "enum: [1,2]"}),
        ({"enum": [1, 2.5]}, {"type": "NUMBER", "description": "enum: [1,2.5]"}),
        ({"const": True, "type": "boolean"}, {"type": "BOOLEAN", "description": "enum: [true]"}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "INTEGER", "minimum": 1}),
        ({"type": "integer", "exclusiveMaximum": 5.5}, {"type": "INTEGER", "maximum": 5}),
        ({"type": "integer", "exclusiveMaximum": 5, "maximum": 3}, {"type": "INTEGER", "maximum": 3}),
        (
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "NUMBER", "minimum": 0, "description": "exclusiveMinimum: 0"},
        ),
        (
            {"type": "number", "minimum": 1, "exclusiveMinimum": True},
            {"type": "NUMBER", "minimum": 1, "description": "exclusiveMinimum: true"},
        ),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        (
            {"type": "string", "format": "email", "description": "Who"},
            {"type": "STRING", "description": "Who (format: email)"},
        ),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "STRING", "nullable": True}),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "D"},
            {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}], "description": "D"},
        ),
        (
            {"type": ["string", "array"], "items": {"type": "number"}, "minLength": 2},
            {"anyOf": [{"type": "STRING", "minLength": 2}, {"type": "ARRAY", "items": {"type": "NUMBER"}}]},
        ),
        (
            {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]},
            {"type": "OBJECT", "properties": {"a": {}}, "description": 'anyOf: [{"required":["a"]}]'},
        ),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({"items": {"type": "string"}}, {"items": {"type": "STRING"}, "type": "ARRAY"}),
        (
            {"type": "array", "prefixItems": [{"type": "string"}]},
            {"type": "ARRAY", "items": {"type": "STRING"}, "description": 'prefixItems: [{"type":"string"}]'},
        ),
        ({"type": "object", "properties": {}, "required": []}, {"type": "OBJECT"}),
        (
            {"properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
            {"properties": {"a": {"type": "STRING"}}, "required": ["a"], "type": "OBJECT"},
        ),
        (
            {"$schema": "x", "$id": "y", "type": "object", "additionalProperties": False, "$comment": "z"},
            {"type": "OBJECT"},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "OBJECT", "description": 'additionalProperties: {"type":"string"}'},
        ),
        (
            {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "null"}}, "required": ["b"]}]},
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}, "b": {"type": "NULL"}}, "required": ["b"]},
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string", "title": "T"}}},
            {"properties": {"a": {"type": "STRING", "title": "T"}}, "type": "OBJECT"},
        ),
        ({"type": "string", "minLength": "1"}, {"type": "STRING", "description": "minLength: 1"}),
        ({"type": "widget"}, {"description": "type: widget"}),
        ({"type": "string", "x-unit": "kg"}, {"type": "STRING", "description": "x-unit: kg"}),
        ({"type": "string", "default": "a", "examples": ["b"]}, {"type": "STRING", "default": "a", "description": 'examples: ["b"]'}),
    ],
)  # fmt: skip
def test_a_schema_is_said_in_geminis_words(schema, expected):
    assert project(schema) == expected


@every_row("name", ["$id", "$ref", "type", "allOf", "enum", "default", "items"])
def test_a_property_may_have_the_name_of_a_keyword(name):
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    assert project(schema) == {
        "type": "OBJECT",
        "properties": {name: {"type": "STRING"}},
        "required": [name],
    }


def test_a_schema_that_contains_itself_ends():
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node"}, "n": {"type": "integer"}},
    }
    found = project({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert found["properties"]["next"] == {"type": "OBJECT"}
    assert found["properties"]["n"] == {"type": "INTEGER"}


def test_a_schema_is_projected_once():
    assert project({"type": "string", "title": "once"}) is project(
        {"type": "string", "title": "once"}
    )


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["string", "object", "array", "null", "#/x"]),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(
        st.sampled_from([
            "type", "properties", "items", "anyOf", "allOf", "oneOf", "enum", "const", "$ref", "not",
            "required", "nullable", "minimum", "exclusiveMinimum", "format", "minItems", "pattern",
            "description", "additionalProperties", "if", "$defs", "x",
        ]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["type", "properties", "anyOf", "allOf", "items", "$defs", "const", "required"]), _values))  # fmt: skip
def test_whatever_is_projected_has_only_words_on_the_list(schema):
    for node in nodes(project(schema)):
        assert node.keys() <= ALLOWED
        assert isinstance(node.get("type", ""), str)
        assert node.get("enum", [""]) != []
        assert all(isinstance(value, str) for value in node.get("enum", ()))


# ── and back ─────────────────────────────────────────────────────────────────


@every_row(
    ("schema", "expected"),
    [
        (None, {}),
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "string"}, {"type": "string"}),
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        ({"type": "STRING", "format": "enum", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"anyOf": [{"type": "STRING"}], "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"any_of": [{"type": "STRING"}], "max_items": "3"}, {"anyOf": [{"type": "string"}], "maxItems": 3}),
        (
            {"type": "OBJECT", "properties": {"type": {"type": "ARRAY", "items": {"type": "NUMBER"}}}, "required": ["type"]},
            {"type": "object", "properties": {"type": {"type": "array", "items": {"type": "number"}}}, "required": ["type"]},
        ),
        ({"type": "OBJECT", "properties": {"max_items": {"type": "STRING"}}}, {"type": "object", "properties": {"max_items": {"type": "string"}}}),
    ],
)  # fmt: skip
def test_geminis_words_are_read_as_json_schema(schema, expected):
    assert decode_schema(schema) == expected


@given(
    st.recursive(
        st.sampled_from([{"type": "string"}, {"type": ["integer", "null"], "minimum": 1}, {"type": "string", "enum": ["a"]}]),
        lambda inner: st.builds(lambda item: {"type": "array", "items": item}, inner)
        | st.builds(lambda props: {"type": "object", "properties": props}, st.dictionaries(st.sampled_from("abc"), inner, min_size=1)),
        max_leaves=6,
    )
)  # fmt: skip
def test_what_gemini_can_say_comes_back_as_it_was(schema):
    assert decode_schema(project(schema)) == schema
