"""Our events in the words of pi's contract."""

import pytest
from tests.tables import every_row

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.ids import Ids
from toolbridge.core.messages import (
    HealingReport,
    Image,
    Problem,
    Text,
)
from toolbridge.core.usage import Usage
from toolbridge.sdk.pi.events import PiEncoder


def written() -> list[ev.Event]:
    """An answer with a thought, some text, and two calls that are written at the same time."""
    draft = Draft(Ids("pi"))
    said = draft.start(model="m")
    said += draft.usage(Usage(input=3))
    said += draft.think("hm") + draft.think("m")
    said += draft.text("He") + draft.text("llo")
    said += draft.call("a", name="f") + draft.call("b", name="g")
    said += draft.arguments("a", '{"x": [1, ') + draft.arguments("b", '{"y": "par')
    said += draft.arguments("a", "2]}") + draft.arguments("b", 'tial"}')
    said += draft.add(Image(data="aa"))
    said += draft.usage(Usage(input=3, output=9))
    return said + draft.finish("end")


def told(events: list[ev.Event]) -> list:
    teller = PiEncoder()
    return [event for said in events for event in teller.feed(said)] + teller.close()


@pytest.mark.req("ZG-05", "ZG-06")
def test_every_event_has_its_type_and_its_place():
    assert [(event.type, getattr(event, "content_index", None)) for event in told(written())] == [
        ("start", None),
        ("thinking_start", 0), ("thinking_delta", 0), ("thinking_delta", 0), ("thinking_end", 0),
        ("text_start", 1), ("text_delta", 1), ("text_delta", 1), ("text_end", 1),
        ("toolcall_start", 2), ("toolcall_start", 3),
        ("toolcall_delta", 2), ("toolcall_delta", 3), ("toolcall_delta", 2), ("toolcall_delta", 3),
        ("toolcall_end", 2), ("toolcall_end", 3),
        ("done", None),
    ]  # fmt: skip


@pytest.mark.req("ZG-06")
def test_ends_carry_what_was_written():
    by_type = {event.type: event for event in told(written())}
    assert by_type["thinking_end"].content == "hmm"
    assert by_type["text_end"].content == "Hello"
    assert by_type["toolcall_end"].tool_call.arguments == {"y": "partial"}
    assert by_type["done"].reason == "toolUse"
    assert by_type["done"].message.usage.output == 9


@pytest.mark.req("ZG-02", "ZG-06")
def test_the_partial_message_is_that_of_its_moment_whenever_it_is_read():
    events = told(written())
    first = [event.partial for event in events]
    assert [event.partial for event in reversed(events)] == first[::-1]
    calls = [m.content[2:4] for event, m in zip(events, first, strict=True)
             if event.type == "toolcall_delta"]  # fmt: skip
    assert [[call.arguments for call in pair] for pair in calls] == [
        [{"x": [1]}, {}],
        [{"x": [1]}, {"y": "par"}],
        [{"x": [1, 2]}, {"y": "par"}],
        [{"x": [1, 2]}, {"y": "partial"}],
    ]


def test_the_partial_message_grows_with_each_delta():
    texts = [event.partial.text for event in told(written()) if event.type.startswith("text")]
    assert texts == ["", "He", "Hello", "Hello"]


@pytest.mark.req("ZG-23")
def test_counts_stand_in_the_partial_message():
    events = told(written())
    assert events[1].partial.usage.input == 3
    assert events[-1].partial.usage.output == 9


def test_a_delta_does_not_cost_the_message():
    """Nothing is folded before somebody looks."""
    draft = Draft(Ids("pi"))
    teller = PiEncoder()
    for said in draft.start() + draft.text("a"):
        teller.feed(said)
    for _ in range(1000):
        for said in draft.text("word "):
            teller.feed(said)
    assert teller._log._folded == 0
    assert len(teller.message.text) == 5001


def test_what_pi_has_no_event_for_is_in_the_message():
    draft = Draft(Ids("pi"))
    said = draft.start() + draft.add(Image(data="aa")) + draft.text("b")
    report = HealingReport("c", "f", 1, ())
    events = told([*said, ev.Healed(1, report)])
    assert [event.type for event in events] == ["start", "text_start", "text_delta"]
    assert events[-1].content_index == 1
    assert events[-1].partial.content == (Image(data="aa"), Text("b"))


@every_row(
    ("claimed", "kind", "reason"),
    [
        ("end", "done", "stop"),
        ("stop_sequence", "done", "stop"),
        ("pause", "done", "stop"),
        ("length", "done", "length"),
        ("context_overflow", "done", "length"),
        ("refusal", "error", "error"),
    ],
)
@pytest.mark.req("ZG-36")
def test_ends_have_pis_reasons(claimed, kind, reason):
    draft = Draft(Ids("pi"))
    last = told(draft.text("a") + draft.finish(claimed))[-1]
    assert (last.type, last.reason) == (kind, reason)
    assert last.partial.stop == claimed


@pytest.mark.req("ZG-36")
def test_a_turn_with_a_call_ends_with_tool_use():
    draft = Draft(Ids("pi"))
    said = draft.call("c", name="f") + draft.arguments("c", "{}") + draft.end("c")
    last = told(said + draft.finish("end"))[-1]
    assert (last.type, last.reason) == ("done", "toolUse")


@pytest.mark.parametrize(("problem", "reason"), [("aborted", "aborted"), ("overloaded", "error")])
def test_failures_are_error_events(problem, reason):
    draft = Draft(Ids("pi"))
    last = told(draft.text("a") + draft.fail(Problem(problem, "why")))[-1]
    assert (last.type, last.reason) == ("error", reason)
    assert (last.error.text, last.error.problem.text) == ("a", "why")


def test_an_event_shows_itself_without_the_message():
    (start, *_) = told(written())
    assert repr(start) == "Start(moment=Moment(1))"
