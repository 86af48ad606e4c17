"""Schemas of users, fitted to what each backend accepts."""

import json

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.test_tool_schemas import schemas as strange

from toolbridge.wire.schema_fit import SchemaMisfit, fit
from toolbridge.wire.schema_subsets import (
    ANTHROPIC,
    CEREBRAS,
    GEMINI,
    GROQ,
    LLAMACPP,
    OPENAI,
    SUBSETS,
    XGRAMMAR,
)

ALL = list(SUBSETS.values())
NAMES = ("a", "b", "kind", "default", "$ref", "type")


def obj(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


# ── pairs of a schema and a value that it accepts ──


@st.composite
def pair(draw, depth=0):
    kinds = ["string", "integer", "number", "boolean", "enum", "const", "null"]
    if depth < 3:
        kinds += ["object", "object", "array", "tuple", "anyOf", "oneOf", "allOf", "types"]
    kind = draw(st.sampled_from(kinds))
    told = {"description": "about"} if draw(st.booleans()) else {}
    more = {"default": 1, "examples": [1], "x-own": True} if draw(st.booleans()) else {}
    schema, value = draw(PAIRS[kind](depth))
    return {**schema, **told, **more}, value


def strings(_):
    return st.sampled_from(
        [
            ({"type": "string"}, "x"),
            ({"type": "string", "minLength": 1, "maxLength": 3}, "abc"),
            ({"type": "string", "pattern": "^a+$", "maxLength": 9}, "aa"),
            ({"type": "string", "pattern": "b"}, "abc"),
            ({"type": "string", "format": "uri"}, "https://a.b"),
            ({"type": "string", "format": "date", "minLength": 2}, "2026-01-02"),
        ]
    )


def numbers(kind):
    def of(_):
        return st.sampled_from(
            [
                ({"type": kind}, 3),
                ({"type": kind, "minimum": 1, "maximum": 5}, 3),
                ({"type": kind, "exclusiveMinimum": 1, "exclusiveMaximum": 5, "minimum": 0}, 3),
                ({"type": kind, "multipleOf": 3}, 3),
            ]
        )

    return of


def literals(key):
    def of(_):
        values = st.sampled_from(["red", 1, None, True, 1.5, [1], {"a": 1}])
        if key == "const":
            return values.map(lambda value: ({"const": value}, value))
        return st.lists(values, min_size=1, max_size=3).map(lambda v: ({"enum": v}, v[0]))

    return of


@st.composite
def objects(draw, depth):
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    members = {name: draw(pair(depth + 1)) for name in names}
    required = [name for name in names if draw(st.booleans())]
    given = [name for name in names if name in required or draw(st.booleans())]
    schema = {"type": "object", "properties": {n: members[n][0] for n in names}}
    if required or draw(st.booleans()):
        schema["required"] = required
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.booleans())
    if draw(st.booleans()):
        schema |= {"minProperties": 0, "propertyNames": {"maxLength": 99}}
    return schema, {name: members[name][1] for name in given}


@st.composite
def arrays(draw, depth):
    schema, value = draw(pair(depth + 1))
    least = draw(st.integers(0, 3))
    extra = {"minItems": least, "maxItems": 9, "uniqueItems": least < 2}
    return {"type": "array", "items": schema, **extra}, [value] * max(least, 1)


@st.composite
def tuples(draw, depth):
    pairs = draw(st.lists(pair(depth + 1), min_size=1, max_size=2))
    rest = draw(st.sampled_from([False, {"type": "integer"}]))
    schema = {"type": "array", "prefixItems": [p[0] for p in pairs], "items": rest}
    return schema, [p[1] for p in pairs]


def unions(key):
    @st.composite
    def of(draw, depth):
        first, value = draw(pair(depth + 1))
        second, _ = draw(pair(depth + 1))
        members = [first, second] if draw(st.booleans()) else [second, first]
        return {key: members}, value

    return of


@st.composite
def merged(draw, depth):
    (first, value), (second, other) = draw(objects(depth)), draw(objects(depth))
    first["properties"] = {f"x{n}": s for n, s in first["properties"].items()}
    first["required"] = [f"x{n}" for n in first.get("required", [])]
    for schema in (first, second):
        schema.pop("additionalProperties", None)
    return {"allOf": [first, second]}, {**{f"x{n}": v for n, v in value.items()}, **other}


def lists_of_types(_):
    return st.sampled_from(
        [
            ({"type": ["string", "null"], "minLength": 1}, "a"),
            ({"type": ["string", "null"], "enum": ["a", None]}, None),
            ({"type": ["integer", "string"], "minimum": 2}, 2),
            ({"type": ["object", "null"], "properties": {"a": {"type": "string"}}}, {"a": "b"}),
        ]
    )


PAIRS = {
    "string": strings,
    "integer": numbers("integer"),
    "number": numbers("number"),
    "boolean": lambda _: st.just(({"type": "boolean"}, True)),
    "null": lambda _: st.just(({"type": "null"}, None)),
    "enum": literals("enum"),
    "const": literals("const"),
    "object": objects,
    "array": arrays,
    "tuple": tuples,
    "anyOf": unions("anyOf"),
    "oneOf": unions("oneOf"),
    "allOf": merged,
    "types": lists_of_types,
}


def with_nulls(value, schema):
    """Return `value` with null for the optional keys that it leaves out, by the fitted schema."""
    for option in schema.get("anyOf", [schema]):
        filled = with_nulls(value, option) if "anyOf" in option else filled_in(value, option)
        if accepts(option, filled):
            return filled
    return value


def filled_in(value, schema):
    if isinstance(value, list):
        inner = schema.get("items") or {"anyOf": schema.get("prefixItems", [])}
        return [with_nulls(item, inner) for item in value]
    properties = schema.get("properties", {})
    if not isinstance(value, dict) or not set(value) <= set(properties):
        return value
    nulls = {name: None for name in schema.get("required", ()) if name not in value}
    return {name: with_nulls(item, properties[name]) for name, item in value.items()} | nulls


def accepts(schema, value) -> bool:
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


def nodes(schema):
    yield schema
    for key in ("properties", "$defs", "definitions"):
        for member in schema.get(key, {}).values():
            yield from nodes(member)
    for member in (*schema.get("anyOf", ()), *schema.get("prefixItems", ())):
        yield from nodes(member)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key])


def obeys(schema, subset) -> None:
    for node in nodes(schema):
        assert set(node) <= subset.keywords, node
        assert subset.type_lists or not isinstance(node.get("type"), list)
        is_object = "object" in (node.get("type"), *(node.get("type") or ()))
        if subset.closed and is_object:
            assert node["additionalProperties"] is False
        if subset.strict and is_object:
            assert sorted(node["required"]) == sorted(node["properties"])
        if subset.typed:
            assert node.keys() & {"type", "anyOf", "enum", "const", "$ref"}
        if "format" in node and subset.formats is not None:
            assert node["format"] in subset.formats
        if subset.length_or_pattern and node.keys() & {"pattern", "format"}:
            assert not node.keys() & {"minLength", "maxLength"}


@pytest.mark.parametrize("subset", ALL, ids=lambda subset: subset.name)
@given(made=objects(0))
def test_a_fitted_schema_obeys_the_subset_and_accepts_what_the_original_does(subset, made):
    schema, value = made
    assert accepts(schema, value) or "oneOf" in json.dumps(schema)
    before = json.dumps(schema)
    try:
        fitted = fit(schema, subset)
    except SchemaMisfit:
        return
    assert json.dumps(schema) == before
    obeys(fitted.schema, subset)
    mapped = with_nulls(value, fitted.schema) if subset.strict else value
    assert accepts(fitted.schema, mapped), (fitted.schema, mapped)
    again = fit(fitted.schema, subset)
    assert again.schema == fitted.schema
    assert (again.lost, again.nullable) == ((), False)


@pytest.mark.parametrize("subset", ALL, ids=lambda subset: subset.name)
@given(schema=strange)
def test_no_schema_breaks_it(subset, schema):
    if isinstance(schema, dict):
        try:
            obeys(fit(schema, subset).schema, subset)
        except SchemaMisfit as misfit:
            assert str(misfit)  # noqa: PT017  a reason is what is tested


def test_optional_keys_become_nullable_and_objects_closed_for_strict_mode():
    schema = obj(["name"], name={"type": "string"}, age={"type": "integer", "minLength": 3})
    schema["properties"]["tag"] = {"enum": ["a", "b"], "description": "a tag"}
    fitted = fit(schema, OPENAI)
    assert fitted.nullable
    assert fitted.schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": ["integer", "null"], "description": "minLength: 3"},
            "tag": {
                "description": "a tag",
                "anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}],
            },
        },
        "required": ["name", "age", "tag"],
        "additionalProperties": False,
    }
    assert [lost.path for lost in fitted.lost] == ["properties.age.minLength"]


def test_lost_keywords_are_described_only_where_the_model_reads_them():
    schema = obj(["n"], n={"type": "number", "minimum": 1, "description": "how many"})
    assert fit(schema, ANTHROPIC).schema["properties"]["n"] == {
        "type": "number",
        "description": "how many (minimum: 1)",
    }
    fitted = fit(schema, LLAMACPP)
    assert fitted.schema["properties"]["n"] == {"type": "number", "description": "how many"}
    assert [lost.path for lost in fitted.lost] == ["properties.n.minimum"]
    assert fit(obj(n={"type": "integer", "minimum": 1}), LLAMACPP).lost == ()


def test_a_lower_number_of_items_is_kept_as_far_as_it_goes():
    schema = obj(["n"], n={"type": "array", "items": {"type": "string"}, "minItems": 3})
    assert fit(schema, ANTHROPIC).schema["properties"]["n"]["minItems"] == 1
    assert fit(schema, OPENAI).schema["properties"]["n"]["minItems"] == 3
    assert "minItems" not in fit(schema, GROQ).schema["properties"]["n"]


NODE = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
    "required": ["next"],
}
LIST = {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}


def test_a_recursive_schema_keeps_its_definitions_where_the_backend_takes_them():
    tree = obj(["root"], root={"$ref": "#/$defs/Node", "description": "it"}) | {
        "$defs": {"Node": NODE}
    }
    for subset in (OPENAI, LLAMACPP, XGRAMMAR, GEMINI):
        fitted = fit(tree, subset).schema
        assert fitted["properties"]["root"] == {
            "description": "it",
            "anyOf": [{"$ref": "#/$defs/Node"}],
        }
        assert (
            fitted["$defs"]["Node"]["properties"]["next"]["anyOf"][0]
            == NODE["properties"]["next"]["anyOf"][0]
        )
        assert accepts(fitted, {"root": {"next": {"next": None}}})
    for subset in (ANTHROPIC, CEREBRAS):
        with pytest.raises(SchemaMisfit, match=r"properties\.root refers to itself"):
            fit(tree, subset)


FREE = {"type": "object", "additionalProperties": {"type": "string"}}
DEEP = {"type": "string"}
for _ in range(11):
    DEEP = obj(["x"], x=DEEP)


@pytest.mark.parametrize(
    ("schema", "subset", "complaint"),
    [
        (obj(c={"$ref": "https://x.org/c.json"}), LLAMACPP, r"properties\.c refers to 'https:"),
        (obj(c={"$ref": "#/$defs/no"}), XGRAMMAR, r"properties\.c refers to .* does not exist"),
        (obj(c={"type": "florb"}), LLAMACPP, r"properties\.c has the unknown type 'florb'"),
        (obj(c=FREE), OPENAI, r"properties\.c is a map with free keys"),
        (obj(c=FREE), ANTHROPIC, r"properties\.c is a map with free keys"),
        (obj(c={"type": "object"}), ANTHROPIC, r"properties\.c is an object with free keys"),
        (obj(c={}), OPENAI, r"properties\.c allows any value"),
        (obj(c={"type": "array"}), OPENAI, r"properties\.c is an array without `items`"),
        (obj(["d"], c={"type": "string"}), OPENAI, "the schema requires 'd'"),
        ({"type": "array", "items": {"type": "string"}}, OPENAI, "the schema is not an object"),
        (DEEP, OPENAI, r"properties\.x\..* is nested 11 levels deep; the provider accepts 10"),
        (
            obj(c={"enum": [str(n) for n in range(1001)]}),
            OPENAI,
            r"properties\.c\.anyOf\.0 brings the number of enum values to 1001",
        ),
        (
            obj(**{f"p{n}": {"type": "string"} for n in range(5001)}),
            OPENAI,
            "the schema brings the number of properties to 5001; the provider accepts 5000",
        ),
        (
            obj(**{f"p{n}": {"type": "string"} for n in range(25)}),
            ANTHROPIC,
            "the number of optional properties to 25",
        ),
        ({"type": "object", "properties": {"a": {"not": {}}, "b": False}}, GEMINI, "allows no"),
    ],
)
def test_what_cannot_be_fitted_is_named_with_its_place(schema, subset, complaint):
    for _ in range(2):  # the second comes from the cache
        with pytest.raises(SchemaMisfit, match=complaint):
            fit(schema, subset)


def test_objects_of_a_union_begin_with_different_keys_for_openai():
    kinds = [
        obj(["kind", "id"], kind={"const": "place"}, id={"type": "string"}),
        obj(["kind", "at"], kind={"const": "time"}, at={"type": "string"}),
    ]
    fitted = fit(obj(["target"], target={"oneOf": kinds}), OPENAI).schema
    first, second = fitted["properties"]["target"]["anyOf"]
    assert [next(iter(one["properties"])) for one in (first, second)] == ["kind", "at"]
    with pytest.raises(SchemaMisfit, match="same keys"):
        fit(obj(["t"], t={"anyOf": [obj(["a"], a=kinds[0])] * 2}), OPENAI)


def test_a_schema_that_nests_beyond_all_measure_is_a_misfit():
    deep = {"type": "string"}
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaMisfit):
        fit(obj(c=deep), OPENAI)
