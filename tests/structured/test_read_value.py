"""A frame's text as a value."""

import pytest
from tests.structured.play import ACTION, SCHEMAS, obj
from tests.tables import every_row

from toolbridge.core.json import dump_bytes, loads
from toolbridge.structured.bounds import depth_of
from toolbridge.structured.flaws import Flaw
from toolbridge.structured.limits import Limits
from toolbridge.structured.read_value import (
    arguments_schema,
    read_repair,
    read_value,
    whole_numbers,
)
from toolbridge.structured.results import failure, presentable

ACTIONS = SCHEMAS.validator("Action")
GRIDS = SCHEMAS.validator("Grid")


def test_what_is_valid_is_taken_as_it_was_written():
    read = read_value(f"\n{ACTION}\n", ACTIONS)
    assert (read.flaws, read.changes) == ((), ())
    assert read.closed
    assert read.value == loads(ACTION)


def test_what_is_healed_says_how_and_where():
    read = read_value(ACTION.replace("search", "Search"), ACTIONS)
    assert [(c.what, c.level, c.path) for c in read.changes] == [("enum value matched", 2, "mode")]
    assert read.closed


@every_row(
    ("text", "cut", "open_"),
    [
        ('{"rows":[[1,2],[3', True, True),
        ('{"rows":[[1,2],[3]', False, True),
        ('{"rows":[[1,2],[3]]}', False, False),
        ('{"rows":[[1,2],', True, True),
    ],
)
def test_what_breaks_off_is_marked(text, cut, open_):
    read = read_value(text, GRIDS)
    assert (read.cut, read.open) == (cut, open_)
    assert read.flaws == ()


def test_flaws_of_json_that_cannot_be_healed_are_the_validators():
    assert read_value('{"target":{"kind":"place","id":"x"}}', ACTIONS).flaws == (
        Flaw(".mode", "is missing"),
    )


@every_row("text", ["", "no", "null", '"mode"'])
def test_an_object_is_not_made_out_of_nothing(text):
    anything = SCHEMAS.extended({"Open": {"type": "object"}}).validator("Open")
    assert read_value(text, anything).flaws


def test_arguments_may_be_left_out():
    anything = SCHEMAS.extended({"Open": {"type": "object"}}).validator("Open")
    assert read_value("", anything, arguments=True).value == {}


@every_row("text", [ACTION, f"```\n{ACTION}\n```", f"So: {obj()} ok", obj(id="Z")])
def test_a_repair_is_read_with_or_without_a_frame(text):
    assert read_repair(text, ACTIONS, Limits(), 1000).value == loads(ACTION)


def test_a_repair_with_stray_brackets_is_read_whole():
    text = ACTION.replace("p1", "⟦p1⟧")
    assert read_repair(text, ACTIONS, Limits(), 1000).value["target"]["id"] == "⟦p1⟧"


@pytest.mark.parametrize("limits", [Limits(depth=1), Limits()])
def test_a_repair_beyond_a_limit_has_a_flaw(limits):
    most = 1000 if limits.depth == 1 else 10
    assert read_repair(ACTION, ACTIONS, limits, most).flaws


@every_row(("value", "depth"), [(1, 0), ([], 1), ({}, 1), ({"a": [1, [2]]}, 3), ([{}], 2)])
def test_depth_is_how_many_brackets_stand_around_the_innermost(value, depth):
    assert depth_of(value) == depth


def test_whole_numbers_are_written_as_such_and_others_stay():
    value = {"a": [3.0, 3.5, True, 1e300, "3.0", None, -2.0]}
    made = whole_numbers(value)
    assert made == value
    assert [type(item) for item in made["a"]] == [int, float, bool, float, str, type(None), int]


def test_arguments_are_an_object_whatever_else_they_are():
    assert arguments_schema({}) == {"type": "object"}
    assert arguments_schema({"type": "array"}) == {"type": "array"}
    assert arguments_schema({"$ref": "#/$defs/a"}) == {"$ref": "#/$defs/a"}


# ── what tools give back ─────────────────────────────────────────────────────


@pytest.mark.req("TF-24")
@every_row("value", [None, 1, "a", [1, {"a": "⟦b⟧"}], {"é": "\u2028"}])
def test_a_plain_result_stays_as_it_is(value):
    assert presentable(value, 100) == value


@pytest.mark.parametrize("text", ["⟦BEGIN_OBJECT id=1 schema=A⟧", "⟦END_X", "⟦ /end"])
def test_a_client_gets_what_looks_like_a_sentinel_as_it_is(text):
    assert presentable({text: [text]}, 1000) == {text: [text]}


@pytest.mark.req("TF-24")
@every_row("most", [64, 100, 1000])
@every_row("value", ["x" * 5000, '"' * 5000, "é" * 5000, list(range(3000))])
def test_a_long_result_is_cut_and_says_so(value, most):
    told = presentable(value, most)
    assert len(dump_bytes(told)) <= most
    assert told["truncated"] is True
    assert told["bytes"] == len(dump_bytes(value))
    assert dump_bytes(value).decode().startswith(told["start"])


def test_a_failure_has_a_code_and_a_message():
    assert failure("a", "b") == {"error": {"code": "a", "message": "b"}}
