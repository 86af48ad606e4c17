from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.demo.facts import PromptFacts
from toolbridge.demo.fill import Filler, fill, maybe_from_prompt


def filled(schema, words="", **more):
    return fill(schema, Filler(PromptFacts(words), **more))


@every_row(
    ("schema", "value"),
    [
        ({"type": "string"}, "demo"),
        ({"type": "STRING"}, "demo"),
        ({"type": ["null", "string"]}, "demo"),
        ({"type": "string", "minLength": 6}, "demo.."),
        ({"type": "string", "maxLength": 2}, "de"),
        ({"type": "string", "default": "x"}, "x"),
        ({"type": "string", "format": "date"}, "2026-01-01"),
        ({"type": "string", "format": "uuid"}, "00000000-0000-4000-8000-000000000000"),
        ({"type": "boolean"}, False),
        ({"type": "boolean", "default": True}, True),
        ({"type": "null"}, None),
        ({"const": 7}, 7),
        ({"enum": ["a", "b"]}, "a"),
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "integer", "maximum": -5}, -5),
        ({"type": "integer", "exclusiveMinimum": 1}, 2),
        ({"type": "number", "exclusiveMaximum": 1}, 0.5),
        ({"type": "integer", "multipleOf": 4, "minimum": 5}, 4),
        ({"type": "integer", "default": 9}, 9),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 3}, [1, 2, 3]),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False]),
        ({"type": "array", "maxItems": 0}, []),
        ({"items": {"type": "string"}}, ["demo"]),
        ({"type": "object"}, {}),
        ({"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, {"a": "demo"}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
        ({"oneOf": [{"const": "x"}]}, "x"),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, 3),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"enum": ["z"]}}}, "z"),
        ({"$ref": "#/nowhere"}, "demo"),
        ({"$ref": "https://elsewhere"}, "demo"),
    ],
)
def test_a_value_fits_its_schema(schema, value):
    assert filled(schema) == value


def test_parts_of_a_schema_are_joined():
    schema = {
        "type": "object",
        "properties": {"a": {"const": 1}},
        "required": ["a"],
        "allOf": [{"properties": {"b": {"const": 2}}, "required": ["b"]}],
    }
    assert filled(schema) == {"a": 1, "b": 2}


def test_a_schema_that_holds_itself_ends():
    schema = {
        "$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}}, "required": ["next"]}},
        "$ref": "#/$defs/N",
    }
    depth, value = 0, filled(schema)
    while value:
        depth, value = depth + 1, value["next"]
    assert 1 < depth < 20


def test_a_reference_to_itself_ends():
    assert filled({"$ref": "#"}) == "demo"


@every_row(
    ("name", "words", "value"),
    [
        ("city", "Weather in Oslo", "Oslo"),
        ("city", "weather in oslo", "oslo"),
        ("url", "see https://e.org/x", "https://e.org/x"),
        ("email", "to a@b.org", "a@b.org"),
        ("date", "on 2026-02-03", "2026-02-03"),
        ("file_path", "read x.txt", "x.txt"),
        ("query", "search for cats", "cats"),
        ("query", "cats", "cats"),
        ("name", 'call it "Bo"', "Bo"),
        ("origin", "from Rome to Oslo", "Rome"),
        ("destination", "from Rome to Oslo", "Oslo"),
        ("anything", 'take "this"', "this"),
    ],
)
def test_the_name_of_a_property_says_what_it_wants(name, words, value):
    assert maybe_from_prompt(name, {"type": "string"}, PromptFacts(words)) == value


def test_what_the_prompt_does_not_say_is_none():
    assert maybe_from_prompt("city", {"type": "string"}, PromptFacts("hm")) is None
    assert maybe_from_prompt("city", {"type": "string", "minLength": 1}, PromptFacts("hm")) is None
    assert maybe_from_prompt("n", {"type": "integer"}, PromptFacts("hm")) is None
    assert maybe_from_prompt("x", {"enum": ["a"]}, PromptFacts("hm")) is None
    assert maybe_from_prompt("x", {"type": "object"}, PromptFacts("hm")) is None


def test_numbers_are_taken_in_order():
    facts = PromptFacts("add 3 and 4")
    assert [maybe_from_prompt("n", {"type": "number"}, facts, used) for used in (0, 1)] == [3, 4]


def test_a_choice_follows_the_prompt_or_the_task():
    schema = {"enum": ["celsius", "fahrenheit"]}
    assert filled(schema, "in Fahrenheit please") == "fahrenheit"
    assert filled({"enum": ["view", "create"]}, prefer=("create",)) == "create"


def test_answers_are_put_where_an_answer_is_wanted():
    schema = {"type": "object", "properties": {"answer": {}, "city": {}, "id": {}}}
    assert filled(schema, say="Yes.") == {"answer": "Yes.", "city": "Paris", "id": "demo"}


def fits(value, schema):
    kind = schema["type"]
    if kind == "object":
        shapes = schema["properties"]
        return set(value) >= set(schema["required"]) and all(
            fits(v, shapes[k]) for k, v in value.items()
        )
    if kind == "array":
        return len(value) >= schema["minItems"] and all(fits(v, schema["items"]) for v in value)
    if kind == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    if kind == "string":
        return schema["minLength"] <= len(value) <= schema["maxLength"]
    return value is False


leaves = st.one_of(
    st.just({"type": "boolean"}),
    st.builds(
        lambda low, span: {"type": "integer", "minimum": low, "maximum": low + span},
        st.integers(-99, 99),
        st.integers(0, 9),
    ),
    st.builds(
        lambda low, span: {"type": "string", "minLength": low, "maxLength": low + span},
        st.integers(0, 9),
        st.integers(0, 9),
    ),
)
schemas = st.recursive(
    leaves,
    lambda inner: (
        st.builds(
            lambda items, least: {"type": "array", "items": items, "minItems": least},
            leaves,
            st.integers(0, 1),
        )
        | st.builds(
            lambda shapes: {"type": "object", "properties": shapes, "required": sorted(shapes)},
            st.dictionaries(st.sampled_from(["city", "answer", "n", "path", "x"]), inner),
        )
    ),
    max_leaves=8,
)


@given(schemas, st.text(max_size=40))
def test_whatever_the_prompt_says_the_value_fits(schema, words):
    assert fits(filled(schema, words, say=words), schema)


_KEYS = (
    "type properties required enum const items anyOf allOf $ref default minimum maximum multipleOf"
    " exclusiveMinimum minItems maxItems minLength format city"
)
_keys = st.sampled_from(_KEYS.split())
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_keys, json), st.text(max_size=40))
def test_no_schema_is_too_odd(schema, words):
    filled(schema, words)
    maybe_from_prompt("city", schema, PromptFacts(words))
