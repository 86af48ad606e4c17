"""The built-in schema and those of the demo: the structs and the JSON Schemas give the same verdict."""

import math
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.structured.play import DEMO_SCHEMAS
from tests.tables import every_row

from toolbridge.core.json import dumps, loads
from toolbridge.demo.restaurant import schemas as restaurant
from toolbridge.structured import builtin
from toolbridge.structured.read_value import whole_numbers
from toolbridge.structured.schemas import Schemas, schema_of

STRUCTS = {**builtin.STRUCTS, **restaurant.STRUCTS}
SCHEMAS = {**builtin.SCHEMAS, **restaurant.SCHEMAS}

TIMES = st.sampled_from(
    ["19:00", "7pm", "24:00", "23:59:59", "2030-05-01T19:00", "2030-05-01 19:00:00", "19:00\n",
     "٠٩:٠٠", "1:00", ""]
)  # fmt: skip
NUMBERS = st.sampled_from([0, 1, 2, 5, 20, 21, -1, 0.5, 2.0, 50, 50.1, 1e-9, 10**30, True])
TEXTS = st.sampled_from(["", "a", "place", "time", "search", "book", "x" * 64, "x" * 65, "x" * 201])
LEAVES = st.none() | NUMBERS | TEXTS | TIMES | st.just([]) | st.just({}) | st.just(["a"])

FIELDS = {
    "Action": {
        "mode": st.sampled_from(["search", "book", "eat"]),
        "target": st.fixed_dictionaries({"kind": st.sampled_from(["place", "time"]), "id": TEXTS})
        | st.fixed_dictionaries({"kind": TEXTS}, optional={"id": LEAVES, "at": LEAVES}),
    },
    "AssistantReply": {
        "answer": TEXTS,
        "citations": st.lists(TEXTS | LEAVES, max_size=2),
        "diagnostics": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "error": TEXTS | LEAVES,
                "last_validator_errors": st.lists(
                    st.fixed_dictionaries({}, optional={"path": TEXTS, "message": LEAVES}),
                    max_size=2,
                ),
            },
        ),
    },
    "places.search": {
        "query": TEXTS,
        "radius_km": NUMBERS,
        "open_at": st.none() | TIMES,
        "limit": NUMBERS,
    },
    "bookings.create": {
        "place_id": TEXTS,
        "time": TIMES,
        "party_size": NUMBERS,
        "name": TEXTS,
    },
}


def values(name: str) -> st.SearchStrategy[object]:
    """Return values that are right, nearly right, or something else."""
    fields = {field: strategy | LEAVES for field, strategy in FIELDS[name].items()}
    nearly = st.fixed_dictionaries({}, optional={**fields, "more": LEAVES})
    right = st.fixed_dictionaries(FIELDS[name])
    return right | nearly | LEAVES


def by_struct(name: str) -> Callable[[str], bool]:
    decoder = msgspec.json.Decoder(STRUCTS[name])

    def fits(text: str) -> bool:
        try:
            decoder.decode(text)
        except msgspec.ValidationError:
            return False
        return True

    return fits


# To JSON 2 and 2.0 are one number; to Python they are not, so arguments are made whole on their way.
@pytest.mark.req("TF-41", "TF-42", "TF-43", "TF-44", "TF-45")
@pytest.mark.parametrize("name", STRUCTS)
def test_struct_and_json_schema_give_the_same_verdict(name):
    by_type, schemas = by_struct(name), DEMO_SCHEMAS
    seen: set[bool] = set()

    # Few bookings are valid by chance, and both verdicts must occur.
    @settings(max_examples=max(200, examples(400)), deadline=None)
    @given(values(name))
    def agree(value: object) -> None:
        text = dumps(value)
        verdict = not schemas.check(name, loads(text))
        assert by_type(dumps(whole_numbers(loads(text)))) == verdict, text
        seen.add(verdict)

    agree()
    assert seen == {True, False}


@pytest.mark.req("TF-45")
@pytest.mark.parametrize("name", STRUCTS)
def test_the_schema_of_the_struct_gives_the_same_verdict(name):
    schemas = DEMO_SCHEMAS.extended({"Made": schema_of(STRUCTS[name])})

    @settings(max_examples=examples(200), deadline=None)
    @given(values(name))
    def agree(value: object) -> None:
        value = loads(dumps(value))
        assert (not schemas.check(name, value)) == (not schemas.check("Made", value))

    agree()


@pytest.mark.req("TF-44")
@every_row(
    ("value", "fits"),
    [
        ({"mode": "search", "target": {"kind": "place", "id": "p1"}}, True),
        ({"mode": "book", "target": {"kind": "time", "at": "19:00"}}, True),
        ({"mode": "book", "target": {"kind": "time", "id": "p1"}}, False),
        ({"mode": "eat", "target": {"kind": "place", "id": "p1"}}, False),
        ({"mode": "book"}, False),
    ],
)
def test_an_action_is_a_mode_and_one_of_two_targets(value, fits):
    assert (DEMO_SCHEMAS.check("Action", value) == ()) == fits


@pytest.mark.req("TF-29", "TF-43")
def test_the_form_of_a_failed_repair_is_a_reply():
    value = {
        "answer": "",
        "citations": [],
        "diagnostics": {
            "error": "schema_repair_failed",
            "last_validator_errors": [{"path": ".field", "message": "expected string"}],
        },
    }
    assert Schemas().check("AssistantReply", value) == ()


def test_the_defaults_of_the_schemas_are_those_of_the_structs():
    for name, struct in STRUCTS.items():
        for field in msgspec.structs.fields(struct):
            written = SCHEMAS[name]["properties"][field.encode_name].get("default", field.default)
            assert written == field.default or math.isclose(written, field.default)
