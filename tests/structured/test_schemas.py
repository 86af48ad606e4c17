"""Schemas by name: what is taken, what is refused, and what is said about a value."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import pytest
from tests.structured.play import DEMO_SCHEMAS
from tests.tables import every_row

from toolbridge.core.json import JsonObject
from toolbridge.structured.bounds import InvalidSchema
from toolbridge.structured.flaws import MAX_FLAWS, Flaw
from toolbridge.structured.schemas import Schemas, UnknownSchema


class City(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    size: int = 0


@dataclass
class Town:
    name: str
    size: int = 0


class Nameless:
    pass


def registry(schema: object) -> Schemas:
    schemas = Schemas()
    schemas.register("X", schema)
    return schemas


@pytest.mark.req("TF-43")
def test_the_reply_is_known_from_the_start():
    assert Schemas().names() == ("AssistantReply",)
    assert Schemas(builtin=False).names() == ()


@pytest.mark.parametrize("shape", [City, Town])
def test_a_python_type_is_a_schema(shape):
    schemas = registry(shape)
    assert schemas.check("X", {"name": "Bern"}) == ()
    assert schemas.check("X", {"name": 1}) == (Flaw(".name", "expected string"),)


def test_a_pydantic_model_is_a_schema_where_pydantic_is_installed():
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Village", name=(str, ...), size=(int, 0))
    schemas = registry(model)
    assert schemas.check("X", {"name": "Bern", "size": 3}) == ()
    assert schemas.check("X", {"size": "3"})[0].path == ".name"


def test_the_end_of_text_of_a_python_pattern_is_one_in_json_schema():
    shape = Annotated[str, msgspec.Meta(pattern=r"^a\Z")]
    schemas = registry(shape)
    assert schemas.check("X", "a") == ()
    assert schemas.check("X", "a\n") != ()


@pytest.mark.parametrize("shape", [3, object(), lambda: None])
def test_what_has_no_schema_is_refused(shape):
    with pytest.raises(InvalidSchema):
        registry(shape)


@every_row("name", ["", "a b", "ä", "x" * 129, "a⟧"])
def test_a_name_that_no_sentinel_can_hold_is_refused(name):
    with pytest.raises(InvalidSchema):
        Schemas().register(name, {})


def test_a_name_may_be_registered_again_only_as_the_same():
    schemas = registry({"type": "string"})
    schemas.register("X", {"type": "string"})
    with pytest.raises(InvalidSchema) as caught:
        schemas.register("X", {"type": "number"})
    assert caught.value.problem.where == "X"


def test_the_schemas_of_a_stream_leave_the_registry_as_it_is():
    schemas = Schemas()
    own = schemas.extended({"Mine": {"type": "null"}})
    assert "Mine" in own
    assert "AssistantReply" in own
    assert "Mine" not in schemas


def test_a_schema_that_its_owner_changes_later_stays_as_it_was():
    given: JsonObject = {"type": "object", "required": ["a"]}
    schemas = registry(given)
    given["required"] = []
    assert schemas.check("X", {}) != ()


def test_a_name_that_nobody_registered_is_unknown():
    with pytest.raises(UnknownSchema):
        Schemas().get("Nope")
    with pytest.raises(UnknownSchema):
        Schemas().check("Nope", {})


def doubling(steps: int) -> JsonObject:
    """Return definitions that each use the one before twice."""
    defs: JsonObject = {"a0": {"type": "string"}}
    for n in range(steps):
        ref = {"$ref": f"#/$defs/a{n}"}
        defs[f"a{n + 1}"] = {"allOf": [ref, ref]}
    return {"$ref": f"#/$defs/a{steps}", "$defs": defs}


def chain(steps: int) -> JsonObject:
    defs: JsonObject = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(steps)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{steps}": {}}}


def deep(levels: int) -> JsonObject:
    schema: JsonObject = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


BOMBS = {
    "doubling": doubling(40),
    "doubling through members": {
        "$ref": "#/$defs/a30",
        "$defs": {
            "a0": {},
            **{
                f"a{n + 1}": {"properties": {"x": {"$ref": f"#/$defs/a{n}"}, "y": {"$ref": f"#/$defs/a{n}"}}}
                for n in range(30)
            },
        },
    },
    "a long chain": chain(5000),
    "deep": deep(100),
    "deeper than Python goes": deep(5000),
    "itself": {"$ref": "#"},
    "itself in allOf": {"allOf": [{"$ref": "#"}]},
    "two that are each other": {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}},
        "$ref": "#/$defs/a",
    },
    "many values": {"enum": list(range(5000))},
    "many bytes": {"enum": ["x" * 300_000]},
    "another place": {"$ref": "https://example.com/schema.json"},
    "a file": {"$ref": "file:///etc/passwd"},
    "an id of its own inside": {"properties": {"a": {"$id": "http://x/y", "$ref": "#/$defs/z"}}},
    "dynamic": {"$dynamicRef": "#meta"},
    "a pattern that explodes": {"pattern": "(a{1,1000}){1,1000}"},
}  # fmt: skip


@every_row("name", BOMBS)
def test_a_bomb_is_refused_before_it_is_compiled(name):
    with pytest.raises(InvalidSchema) as caught:
        registry(BOMBS[name])
    assert len(str(caught.value)) < 300


@every_row(
    "schema",
    [
        {"type": "thing"},
        {"required": "a"},
        {"minimum": "1"},
        {"pattern": "("},
        {"properties": []},
        {"$ref": "#/$defs/none"},
        {"$ref": 1},
    ],
)
def test_what_is_no_json_schema_is_refused(schema):
    with pytest.raises(InvalidSchema):
        registry(schema)


def referring(reference: str) -> JsonObject:
    choice: JsonObject = {"anyOf": [{"type": "string"}, {"const": 7}], "title": "a choice"}
    return {"properties": {"x": {"$ref": reference}}, "$defs": {"a/b~c": choice, "1": {"const": 1}}}


@every_row(
    ("reference", "fits", "fails"),
    [
        ("#/$defs/a~1b~0c", 7, 8),
        ("#/$defs/a~1b~0c/anyOf/0", "s", 7),
        ("#/$defs/a~1b~0c/anyOf/1", 7, "s"),
        ("#/$defs/1", 1, 2),
    ],
)
def test_a_pointer_leads_through_objects_and_lists(reference, fits, fails):
    schemas = registry(referring(reference))
    assert schemas.check("X", {"x": fits}) == ()
    assert [flaw.path for flaw in schemas.check("X", {"x": fails})] == [".x"]


@every_row(
    "reference",
    [
        "#/$defs/none", "#/$defs/a~1b~0c/anyOf/2", "#/$defs/a~1b~0c/anyOf/x",
        "#/$defs/a~1b~0c/anyOf/-1", "#/$defs/a~1b~0c/title", "#/$defs/a~1b~0c/title/0",
        "#x/$defs/1", "$defs/1",
    ],
)  # fmt: skip
def test_a_pointer_to_nothing_is_named(reference):
    with pytest.raises(InvalidSchema, match=re.escape(f"{reference!r} points to nothing")):
        registry(referring(reference))


@pytest.mark.req("TF-46")
def test_a_tree_refers_to_itself_and_is_fine():
    tree = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
                "required": ["kids"],
            }
        },
    }
    schemas = registry(tree)
    assert schemas.check("X", {"kids": [{"kids": []}]}) == ()
    assert schemas.check("X", {"kids": [{"kids": [{}]}]}) == (
        Flaw(".kids[0].kids[0].kids", "is missing (expected array)"),
    )


def expression(branches: int) -> JsonObject:
    """Return a recursive union: explaining a fault in it by trying all is exponential."""
    members = [
        {
            "type": "object",
            "properties": {"kind": {"const": f"k{n}"}, "left": {"$ref": "#/$defs/E"}},
            "required": ["kind", "left"],
        }
        for n in range(branches)
    ]
    return {"$ref": "#/$defs/E", "$defs": {"E": {"anyOf": [*members, {"type": "number"}]}}}


@pytest.mark.req("TF-46")
def test_a_fault_deep_in_a_union_is_found_at_once():
    value: object = "bad"
    path = ""
    for _ in range(15):
        value = {"kind": "k7", "left": value}
        path += ".left"
    assert registry(expression(8)).check("X", value) == (Flaw(path, "expected object or number"),)


FLAWS = [
    ("Action", {"mode": "serch", "target": {"kind": "place", "id": "a"}}, ".mode",
     'expected one of ["search","book"]'),
    ("Action", {"mode": "book", "target": {"kind": "place"}}, ".target.id",
     "is missing (expected string)"),
    ("Action", {"mode": "book", "target": {"kind": "time", "at": 7}}, ".target.at",
     "expected string"),
    ("Action", {"mode": "book", "target": {"kind": "thing"}}, ".target",
     "fits none, or too many, of the 2 alternatives"),
    ("Action", {"mode": "book", "target": 5}, ".target", "expected object"),
    ("Action", [], ".", "expected object"),
    ("AssistantReply", {"answer": "a", "citations": ["a", 1]}, ".citations[1]", "expected string"),
    ("places.search", {"query": ""}, ".query", "expected at least 1 characters"),
    ("places.search", {"query": "a", "radius_km": 0}, ".radius_km", "expected more than 0"),
    ("places.search", {"query": "a", "limit": 1.5}, ".limit", "expected integer"),
    ("bookings.create", {"place_id": "a", "time": "19:00", "party_size": 21}, ".party_size",
     "expected at most 20"),
]  # fmt: skip


@every_row(("name", "value", "path", "message"), FLAWS)
def test_a_flaw_has_its_path_and_plain_words(name, value, path, message):
    assert DEMO_SCHEMAS.check(name, value) == (Flaw(path, message),)


MORE_FLAWS = [
    ({"additionalProperties": False}, {"b c": 1}, Flaw('.["b c"]', "is not expected here")),
    ({"additionalProperties": {"type": "string"}}, {"b": 1}, Flaw(".b", "expected string")),
    ({"prefixItems": [{"type": "string"}], "items": False}, [1, 2], Flaw(".[0]", "expected string")),
    ({"minItems": 2}, [1], Flaw(".", "expected at least 2 items")),
    ({"uniqueItems": True}, [1, 1], Flaw(".", "expected no item twice")),
    ({"maxProperties": 0}, {"a": 1}, Flaw(".", "expected at most 0 members")),
    ({"const": [1]}, [2], Flaw(".", "expected [1]")),
    ({"allOf": [{"required": ["a"]}]}, {}, Flaw(".a", "is missing")),
    ({"multipleOf": 5}, 3, Flaw(".", "expected a multiple of 5")),
    ({"not": {"type": "null"}}, None, Flaw(".", "does not fit the schema")),
    ({"oneOf": [{"type": "number"}, {"minimum": 1}]}, 5,
     Flaw(".", "fits none, or too many, of the 2 alternatives")),
    ({"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"],
      "$defs": {"n": {"type": ["string", "null"]}}}, {},
     Flaw(".a", "is missing (expected string or null)")),
    ({"type": "string", "enum": ["x" * 500]}, "y", Flaw(".", f'expected one of ["{"x" * 118}…')),
]  # fmt: skip


@every_row(("schema", "value", "flaw"), MORE_FLAWS)
def test_every_keyword_has_words(schema, value, flaw):
    assert registry(schema).check("X", value)[0] == flaw


def test_only_a_few_flaws_are_told():
    schema = {"items": {"type": "string"}}
    assert len(registry(schema).check("X", list(range(1000)))) == MAX_FLAWS


def test_a_value_that_is_nested_too_deeply_does_not_fit():
    value: object = 1
    for _ in range(100_000):
        value = [value]
    assert registry({"items": {"$ref": "#"}}).check("X", value) != ()


def test_literal_types_are_enums():
    assert registry(Literal["a", "b"]).check("X", "c") == (Flaw(".", 'expected one of ["a","b"]'),)
