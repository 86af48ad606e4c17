"""How long a prompt is kept."""

import pytest
from tests.tables import every_row

from toolbridge.core.codec import Target
from toolbridge.core.messages import Request, Text, Thinking, Tool, Turn
from toolbridge.sdk.streams.retention import keep

ASKED = Request("m", (Turn("user", (Text("a"),)), Turn("user", (Text("b"), Text("c")))))


def test_marks_stand_after_the_system_and_the_last_turn():
    asked = Request("m", ASKED.turns, system=(Text("x"), Text("y")))
    kept = keep(asked, Target(), "anthropic", "long").request
    assert [part.cache for part in kept.system] == ["", "1h"]
    assert [part.cache for turn in kept.turns for part in turn.content] == ["", "", "1h"]


@pytest.mark.parametrize(
    "marked",
    [
        Request("m", (Turn("user", (Text("a", cache="1h"),)),)),
        Request("m", ASKED.turns, system=(Text("x", cache="5m"),)),
        Request("m", ASKED.turns, tools=(Tool("t", cache="5m"),)),
    ],
)
def test_marks_that_are_there_stay(marked):
    assert keep(marked, Target(), "anthropic", "short").request == marked


def test_a_part_that_takes_no_mark_stays_as_it_is():
    thought = Request("m", (Turn("assistant", (Thinking("hm"),)),))
    assert keep(thought, Target(), "anthropic", "short").request == thought


@every_row("api", ["ollama", "gemini", "demo", "openai_chat", "openai_responses"])
def test_nothing_is_said_where_nothing_was_asked(api):
    kept = keep(ASKED, Target(quirks={"a": 1}), api, None)
    assert (kept.request, kept.target) == (ASKED, Target(quirks={"a": 1}))
