"""The reference page of healing lists every step, and each of its examples is healed by that step."""

import json
import re
from pathlib import Path

import pytest
from tests.tables import every_row

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.core.messages import Tool
from toolbridge.healing import Healer, heal, steps

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/healing.md").read_text("utf-8")
SCHEMA = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])
ROW = re.compile(
    r"^\| `(?P<name>[^`]+)` \| .+ \| (?P<levels>[\d, ]+) \| (?P<example>.*) \|$", re.MULTILINE
)
ROWS = {found["name"]: found for found in ROW.finditer(PAGE)}
NAMES = {value for name, value in vars(steps).items() if name.isupper()}
IN_STRUCTURED_STREAMS = {steps.READ_AS_JSON, steps.FOUND_IN_TEXT, steps.RESERVED_KEY}
IN_ANSWERS = {steps.TOOL_NAME, steps.CUT_OFF, steps.CUT_BY_LIMIT, steps.RESCUED}


def levels(name: str) -> list[int]:
    return [int(level) for level in ROWS[name]["levels"].split(",")]


def example(name: str) -> str:
    code = re.match(r"(`+)(.+?)\1", ROWS[name]["example"])
    assert code, name
    return code[2]


def test_the_page_lists_every_step_once_and_no_other():
    assert sorted(found["name"] for found in ROW.finditer(PAGE)) == sorted(NAMES)


def test_every_step_is_used():
    sources = [path for path in (ROOT / "src").rglob("*.py") if path.name != "steps.py"]
    words = {word for path in sources for word in re.findall(r"\w+", path.read_text("utf-8"))}
    assert {name for name in vars(steps) if name.isupper()} - words == set()


@every_row("name", sorted(NAMES - IN_STRUCTURED_STREAMS - IN_ANSWERS))
def test_the_example_is_healed_by_its_step(name):
    schema = {**SCHEMA, "required": ["path", "line"]} if name == steps.BY_POSITION else SCHEMA
    healing = heal(example(name), schema, level=max(2, *levels(name)))
    found = [step for step in healing.steps if step.what.partition(": ")[0] == name]
    assert [step.level for step in found] == levels(name)[:1]


@pytest.mark.parametrize(
    ("name", "called", "arguments", "reason"),
    [
        (steps.TOOL_NAME, "functions.Read", '{"path": "a"}', "tool_use"),
        (steps.CUT_OFF, "read", '{"pa', "tool_use"),
        (steps.CUT_BY_LIMIT, "read", '{"pa', "length"),
    ],
)
def test_steps_of_an_answer(name, called, arguments, reason):
    draft, healer = Draft(), Healer([Tool("read", schema=SCHEMA)])
    events = draft.call("a", name=called, id="1") + draft.arguments("a", arguments)
    out: list[ev.Event] = []
    for event in events + draft.finish(reason):
        out += healer.feed(event)
    (report,) = collect(out).healed
    assert [(step.what, step.level) for step in report.steps][-1] == (name, *levels(name))
