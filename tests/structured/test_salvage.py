"""What is kept of a value that is past repair, and what is found without a repair."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.structured.play import ACTION, DEMO_SCHEMAS, REPLY, called, obj, play, result, spoken
from tests.tables import every_row

from toolbridge.core.json import loads
from toolbridge.structured import events as ev
from toolbridge.structured.limits import Limits
from toolbridge.structured.minimal import NoMinimal
from toolbridge.structured.salvage import Salvaged, drafts_of, salvage
from toolbridge.structured.schemas import Schemas, compile_schema

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "degrees": {"type": "number"},
        "sky": {"enum": ["clear", "cloudy"]},
        "days": {"type": "array", "items": {"type": "integer"}},
        "wind": {
            "type": "object",
            "properties": {"from": {"type": "string"}, "speed": {"type": "number"}},
            "required": ["from", "speed"],
        },
    },
    "required": ["city", "degrees", "sky"],
}
ACTION_SCHEMA = DEMO_SCHEMAS.get("Action")


def saved(schema: dict, *texts: str) -> Salvaged:
    compiled = compile_schema(schema)
    found = salvage(schema, compiled.fits, drafts_of(texts, schema))
    assert compiled.fits(found.value)
    return found


@every_row(
    ("text", "value", "invented"),
    [
        ('{"city":"Bern"}', {"city": "Bern", "degrees": 0, "sky": "clear"}, ("degrees", "sky")),
        (
            '{"city":"Bern","degrees":"warm","sky":"cloudy"}',
            {"city": "Bern", "degrees": 0, "sky": "cloudy"},
            ("degrees",),
        ),
        (
            '{"city":5,"degrees":7,"sky":"green","days":[1,"two",3],"more":true}',
            {"city": "5", "degrees": 7, "sky": "clear", "more": True},
            ("sky",),
        ),
        (
            '{"city":"Bern","degrees":7,"sky":"clear","wind":{"from":"west"}}',
            {"city": "Bern", "degrees": 7, "sky": "clear"},
            (),
        ),
        ("nothing", {"city": "", "degrees": 0, "sky": "clear"}, ("city", "degrees", "sky")),
        ("[1]", {"city": "", "degrees": 0, "sky": "clear"}, ("city", "degrees", "sky")),
    ],
)
def test_valid_members_are_kept_and_invented_ones_are_named(text, value, invented):
    found = saved(WEATHER, text)
    assert (found.value, found.invented) == (value, invented)


def test_a_branch_of_a_union_is_the_one_that_was_meant():
    found = saved(ACTION_SCHEMA, '{"mode":"book","target":{"kind":"time"}}')
    assert found.value == {"mode": "book", "target": {"kind": "time", "at": ""}}
    assert found.invented == ("target.at",)


def test_a_list_keeps_its_good_items_and_is_named():
    schema = {
        "type": "object",
        "properties": {"a": WEATHER["properties"]["days"]},
        "required": ["a"],
    }
    assert saved(schema, '{"a":[1,"two",3]}') == Salvaged({"a": [1, 3]}, ("a",))


@every_row(
    ("text", "city"),
    [
        ('{"city":"Ber', ""),
        ('{"city":"Bern"', ""),
        ('{"city":"Bern","degrees":1', "Bern"),
        ('{"city":"Bern","wind":{"from":"we', "Bern"),
    ],
)
def test_of_a_text_that_breaks_off_only_whole_members_are_kept(text, city):
    found = saved(WEATHER, text)
    assert found.value == {"city": city, "degrees": 0, "sky": "clear"}
    assert "degrees" in found.invented


def test_the_draft_with_most_that_fits_counts():
    assert saved(WEATHER, '{"city":"Bern","degrees":4}', "{}").value["city"] == "Bern"
    assert saved(WEATHER, "{}", '{"city":"Bern","degrees":4}').invented == ("sky",)


def test_where_nothing_fits_nothing_is_made_up():
    with pytest.raises(NoMinimal):
        saved({"not": {}}, "{}")


def test_many_members_cost_a_bounded_number_of_checks():
    checks = 0
    compiled = compile_schema(WEATHER)

    def fits(value: object) -> bool:
        nonlocal checks
        checks += 1
        return compiled.fits(value)

    text = "{" + ",".join(f'"m{n}":{n}' for n in range(5000)) + "}"
    salvage(WEATHER, fits, drafts_of([text], WEATHER))
    assert checks < 1000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["city", "degrees", "sky", "wind", "x"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=examples(200), deadline=None)
@given(JSON)
def test_whatever_is_saved_fits_and_says_which_required_members_are_new(draft):
    compiled = compile_schema(WEATHER)
    found = salvage(WEATHER, compiled.fits, [draft])
    assert compiled.fits(found.value)
    own = draft if isinstance(draft, dict) else {}
    for name in WEATHER["required"]:
        kept = name in own and own[name] == found.value[name]
        assert kept or name in found.invented or "." in found.invented


# ── in a stream ──────────────────────────────────────────────────────────────


def test_a_degraded_object_names_what_was_invented():
    done = play(obj('{"mode":"book","target":{"kind":"place"}}') + result(), repairs=["no"])
    assert done.end("O1").value == {"mode": "book", "target": {"kind": "place", "id": ""}}
    assert done.end("O1").invented == ("target.id",)
    assert ev.data_of(done.end("O1"))["invented"] == ["target.id"]


def test_a_frame_that_is_cut_by_the_upstream_keeps_its_whole_members():
    done = play(spoken('⟦BEGIN_OBJECT id=O1 schema=Action⟧{"mode":"book","target":', stop="length"))
    assert done.end("O1").value["mode"] == "book"


def test_words_are_the_answer_and_not_invented():
    done = play("It is open.", repairs=[""])
    assert done.end("R1").value["answer"] == "It is open."
    assert done.end("R1").invented == ("citations",)


# ── found in the text ────────────────────────────────────────────────────────

TEXTS = [
    f"Here you are: {REPLY}",
    f"Here you are:\n```json\n{REPLY}\n```\nAnything else?",
    f"First [1] and {{x}}, then {REPLY} at last.",
    f'Not {{"answer":1}} but {REPLY}',
    '```\n{"answer":"Done.","citations":[],}\n```',
    "So {'answer': 'Done.', 'citations': []} it is",
    f"~~~\n{REPLY}\n~~~",
]


@every_row("mode", ["sentinel", "native"])
@every_row("text", TEXTS)
def test_json_in_prose_or_in_a_fence_is_found_before_a_repair(text, mode):
    done = play(spoken(text, range(1, len(text), 3)), mode=mode)
    assert done.repairs == []
    assert done.value("R1") == loads(REPLY)
    assert done.end("R1").status == "healed"
    assert done.names[-1] == "done"


@every_row(
    "text",
    [
        "Nothing.", "{}", "[1]", '{"answer":"a"', "use { and }", "[" * 5000, '{"a":' * 5000,
        f'It says "{result()}".', f"```\n{result()}\n```", f"It says '{obj(REPLY)}'.",
    ],
)  # fmt: skip
def test_where_no_result_stands_in_the_text_the_model_is_asked(text):
    done = play(text, repairs=[REPLY])
    assert len(done.repairs) == 1
    assert done.end("R1").status == "repaired"


def test_json_beyond_the_limits_is_not_taken():
    deep = '{"answer":"a","citations":[],"x":[[[[1]]]]}'
    assert len(play(f"Well: {deep}", repairs=[REPLY], limits=Limits(depth=3)).repairs) == 1


# ── diagnostics ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["sentinel", "native"])
def test_the_model_never_sees_diagnostics(mode):
    done = play(spoken("Well."), repairs=["{}"], mode=mode)
    assert done.end("R1").value["diagnostics"]["error"] == "no_result"
    for request in (*done.requests, *done.repairs):
        assert "diagnostics" not in repr(request)


@pytest.mark.parametrize("given", ['{"error":"none"}', "null", '"all fine"'])
def test_what_the_model_writes_as_diagnostics_is_removed_and_said(given):
    done = play(result(f'{{"answer":"a","citations":[],"diagnostics":{given}}}'))
    end = done.end("R1")
    assert end.value == {"answer": "a", "citations": []}
    assert end.status == "healed"
    assert end.steps[0].path == ".diagnostics"
    again = play(result("{}"), repairs=[f'{{"answer":"a","citations":[],"diagnostics":{given}}}'])
    assert again.end("R1").value == {"answer": "a", "citations": []}


def test_a_member_of_that_name_in_a_schema_of_the_caller_is_the_models():
    schema = {"type": "object", "properties": {"diagnostics": {"type": "string"}}}
    schemas = Schemas().extended({"Visit": schema})
    done = play(
        result('{"diagnostics":"flu"}', name="Visit"),
        schemas=schemas, result="Visit", objects=(), tools=(),
    )  # fmt: skip
    assert done.value("R1") == {"diagnostics": "flu"}
    assert "diagnostics" in done.requests[0].system[0].text
    assert done.end("R1").status == "valid"


def test_an_object_of_native_mode_is_saved_as_well():
    cut = called(("write_Action", ACTION[:-20]), stop="length")
    done = play(cut, spoken(REPLY), mode="native", repairs=[""])
    assert done.end("O1").status == "degraded"
    assert done.end("O1").value["mode"] == "search"
