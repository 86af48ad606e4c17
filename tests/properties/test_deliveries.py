"""The law of deliveries: events that arrive together are handled as events that arrive one by one."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import answers

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.citations import link
from toolbridge.core.codec import AnswerContext
from toolbridge.core.draft import Draft
from toolbridge.core.fold import Fold
from toolbridge.core.messages import Request, StopDetails, Text, Tool
from toolbridge.core.usage import Usage
from toolbridge.dialects.gate import ThoughtGate
from toolbridge.dialects.stage import DialectStage
from toolbridge.healing import Healer

TOOLS = (Tool("read", "", {"type": "object", "properties": {"path": {"type": "string"}}}),)
WRITTEN = '<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'
STAGES = {
    "dialects": lambda: DialectStage(TOOLS),
    "a dialect": lambda: DialectStage(TOOLS, dialect="hermes_json"),
    "healing": lambda: Healer(TOOLS),
    "gate": ThoughtGate,
    "anthropic": lambda: codecs.load("anthropic").stream_encoder(
        AnswerContext(Request("m", stream=True))
    ),
}
words = st.sampled_from(
    [
        "I",
        " see",
        " the",
        " word ",
        " ",
        "\n",
        "<",
        "<tool",
        "_call>",
        "é",
        "\ud83d",
        " to",
        WRITTEN,
    ]
)


def call(draft):
    written = draft.call("k", name="read") + draft.arguments("k", '{"path": "a"}')
    return written + draft.end("k")


def thought(draft):
    return draft.think("Hm")


def half_a_call(draft):
    return draft.call("half", name="read") + draft.arguments("half", '{"path"')


def beside(draft):
    return draft.text("one", key=1) + draft.text("two", key=2) + draft.text("one", key=1)


def cited(draft):
    return draft.cite(link("http://a"))


def refused(draft):
    details = StopDetails(category="bio", explanation="No.", origin="anthropic")
    return draft.usage(Usage(input=3, output=5)) + draft.finish("refusal", details=details)


def other(draft):
    return draft.end() + draft.text("two", key=2) + draft.end(2)


def answer_of(*parts):
    """Return the events of an answer; each part is a text, or what a draft does."""
    draft = Draft()
    events = draft.start(id="msg_1", model="m")
    for part in parts:
        events += draft.text(part) if isinstance(part, str) else part(draft)
    return events + draft.usage(Usage(input=3, output=5)) + draft.finish("end")


parts = words | words | words | st.sampled_from([call, thought])
texts = st.lists(parts, max_size=12).map(lambda drawn: answer_of(*drawn))
CORNERS = {
    "blocks that get other numbers": answer_of(WRITTEN, call, "I", " see"),
    "blocks that wait for a call": answer_of("I", half_a_call, "I", " see"),
    "blocks side by side": answer_of(beside, "I", " see"),
    "one word": answer_of("I"),
    "one text with a call": answer_of("I " + WRITTEN),
    "one text that ends in a mark": answer_of("I see <tool"),
    "one text that ends in a space": answer_of("I see "),
    "a cited text": answer_of("I", " see", cited, "!"),
    "a refusal with its reason": answer_of("I", " see", refused),
    "a call after a text": answer_of("I", " see", call),
    "a text after a thought": answer_of(thought, "I", " see"),
    "a text after another": answer_of("I", other, "I", " see"),
    "two texts in one delivery": [
        ev.Started("a", "m"),
        ev.TextStart(0),
        ev.TextDelta(0, "I"),
        ev.TextStart(1),
        ev.TextDelta(1, "x"),
        ev.UsageReported(Usage(output=5)),
        ev.TextEnd(1, Text("x")),
        ev.Finished("end"),
    ],
    "half a pair at the end": [
        ev.Started("a", "m"),
        ev.TextStart(0),
        ev.TextDelta(0, "I"),
        ev.TextDelta(0, "\ud83d"),
        ev.UsageReported(Usage(output=5)),
        ev.TextEnd(0, Text("I\ud83d")),
        ev.Finished("end"),
    ],
    "half a pair": [ev.Started("a", "m"), ev.TextStart(0), ev.TextDelta(0, "\ud83d")],
}


def deliveries(data, events):
    """Return `events` in some parts."""
    marks = data.draw(st.sets(st.integers(0, len(events)), max_size=3))
    return [
        events[begin:end] for begin, end in itertools.pairwise([0, *sorted(marks), len(events)])
    ]


def whole(found):
    """Return the bytes of an encoder as one, and events as they are."""
    return b"".join(found) if found and isinstance(found[0], bytes) else found


@pytest.mark.parametrize("name", STAGES)
@given(events=texts | answers(), data=st.data())
def test_a_stage_returns_the_same_for_one_event_and_for_many(name, events, data):
    one_by_one, together = STAGES[name](), STAGES[name]()
    expected = [out for event in events for out in one_by_one.feed(event)]
    found = [out for batch in deliveries(data, events) for out in together.feed_all(batch)]
    assert whole(found) == whole(expected)
    assert together.close() == one_by_one.close()


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("corner", CORNERS)
def test_events_that_a_shortcut_must_not_take(name, corner):
    """However the events are delivered: an answer, its beginning and its end have shortcuts."""
    one_by_one, events = STAGES[name](), CORNERS[corner]
    expected = [out for event in events for out in one_by_one.feed(event)]
    for cuts in itertools.combinations_with_replacement(range(len(events) + 1), 2):
        together = STAGES[name]()
        parts = itertools.pairwise([0, *cuts, len(events)])
        found = [out for begin, end in parts for out in together.feed_all(events[begin:end])]
        assert whole(found) == whole(expected)


@given(events=texts | answers(), data=st.data())
def test_a_fold_is_the_same_for_one_event_and_for_many(events, data):
    one_by_one, together = Fold(), Fold()
    for event in events:
        one_by_one.feed(event)
    for batch in deliveries(data, events):
        together.feed_all(batch)
    assert together.message == one_by_one.message


@given(events=texts | answers(), data=st.data())
def test_a_message_is_the_same_if_it_was_read_before(events, data):
    """The message of one text is made without its parts, unless they were needed before."""
    at_once, before = Fold(), Fold()
    at_once.feed_all(events)
    for batch in deliveries(data, events):
        before.feed_all(batch)
        assert before.losses is not None
    assert before.message == at_once.message
