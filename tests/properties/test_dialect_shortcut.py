"""The law of shortcuts, for text without marks: the same events as from the reader of its dialect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Tool
from toolbridge.dialects.gate import ThoughtGate
from toolbridge.dialects.stage import DialectStage
from toolbridge.healing import Healer

TOOLS = (Tool("read", "", {"type": "object"}), Tool("all"))
PIECES = (
    "a", " word", " to", " to=", "=", " ", "\n", "\t", "read", "read\n", "all", ">", ">>>", "{", "}",
    "<", "<th", "<think>", "</think>", "<tool_", '<tool_call>{"name": "read", "arguments": {}}',
    "</tool_call>", '{"name": "read", "arguments": {"a": 1}}', "`", "```", "é", "日本", "x" * 300,
    "<|im_", "<|im_end|>", "Thought:", "[", "Th", ".", "-",
)  # fmt: skip
DIALECTS = ("auto", "hermes_json", "think_tags", "harmony", "bare_json")


@st.composite
def answers(draw):
    """Return the events of an answer; most of its pieces are text."""
    draft = Draft(Ids("answer"))
    events = draft.start(model="m")
    for number, kind in enumerate(draw(st.lists(st.sampled_from("tttttthcp"), max_size=12))):
        match kind:
            case "t":
                for piece in draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4)):
                    events += draft.text(piece)
            case "h":
                events += draft.think(draw(st.sampled_from(PIECES)))
            case "c":
                events += draft.call(number, name="read", id=f"c{number}")
                events += draft.arguments(number, '{"a":1}') + draft.end(number)
            case _:
                events += draft.lose(f"part.{number}", "why") + draft.end()
    return events + draft.finish(draw(st.sampled_from(["end", "length", "tool_use"])))


def in_deliveries(stage, events, size):
    batches = [events[at : at + size] for at in range(0, len(events), size)]
    return [out for batch in batches for out in stage.feed_all(batch)] + stage.close()


@pytest.mark.parametrize("dialect", DIALECTS)
@given(events=answers(), size=st.integers(1, 5))
def test_text_without_a_mark_is_written_as_a_reader_writes_it(dialect, events, size):
    plain = DialectStage(TOOLS, dialect=dialect, ids=Ids("seed"))
    read = DialectStage(TOOLS, dialect=dialect, ids=Ids("seed"))
    read._marked = None  # every text has a reader
    assert in_deliveries(plain, events, size) == in_deliveries(read, events, size)


@given(events=answers(), size=st.integers(1, 5))
def test_an_answer_before_its_first_call_is_healed_as_any_other(events, size):
    straight, taken = Healer(TOOLS), Healer(TOOLS)
    taken._straight = False
    assert in_deliveries(straight, events, size) == in_deliveries(taken, events, size)


@given(events=answers(), size=st.integers(1, 5))
def test_a_gate_opens_for_deliveries_as_for_single_events(events, size):
    one, many = ThoughtGate(Ids("seed")), ThoughtGate(Ids("seed"))
    assert in_deliveries(many, events, size) == [out for e in events for out in one.feed(e)]


def test_plain_text_needs_no_reader():
    draft = Draft()
    stage = DialectStage(TOOLS)
    for event in draft.start() + draft.text("I read") + draft.text(" it to ") + draft.text("you."):
        stage.feed(event)
    assert stage._reader is None
    out = [o for event in draft.finish("end") for o in stage.feed(event)]
    assert [type(event) for event in out] == [ev.TextEnd, ev.Finished]
