"""Thoughts in tags are found at the beginning of an answer without tools, whatever the cut."""

from tests.tables import every_row

from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.dialects.gate import ThoughtGate


def through(text: str, size: int, end: str = "end"):
    draft, gate = Draft(), ThoughtGate()
    events = draft.start(model="m")
    for at in range(0, len(text), size):
        events += draft.text(text[at : at + size])
    events += draft.finish(end)
    return [said for event in events for said in gate.feed(event)]


@every_row("size", [1, 3, 7, 1000])
@every_row(
    ("text", "thinking", "said"),
    [
        ("<think>hm</think>hello", "hm", "hello"),
        ("\n <thinking>hm</thinking>\n\nhello", "hm", "hello"),
        ("plain", "", "plain"),
        ("<thin", "", "<thin"),
        ("<", "", "<"),
        ("The <think> tag", "", "The <think> tag"),
        ("", "", ""),
    ],
)
def test_a_leading_thought_is_a_thought(text, thinking, said, size):
    message = collect(through(text, size))
    assert (message.thinking, message.text) == (thinking, said)


def test_nothing_is_held_once_it_is_decided():
    draft, gate = Draft(), ThoughtGate()
    first = [e for x in draft.start() + draft.text("Hi") for e in gate.feed(x)]
    assert [type(e).__name__ for e in first] == ["Started", "TextStart", "TextDelta"]
    event = draft.text("<think>")[0]
    assert gate.feed(event) == [event]
