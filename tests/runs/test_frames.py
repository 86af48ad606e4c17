"""The lines of a run, with no secret in them however the network cut it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.core.json import loads
from toolbridge.core.redaction import Redactor
from toolbridge.runs.frames import EventFrame, EventFrames
from toolbridge.runs.redact_events import HELD


def lines_of(events):
    """Return the lines that a run of `(event, data)` leaves."""
    stage = EventFrames(Redactor(["open-sesame"]))
    lines = []
    for n, (event, data) in enumerate(events, 1):
        lines += stage.feed(EventFrame(n * 1.5, n, event, data))
    return [loads(line) for line in lines + stage.close()]


def cuts(text, event, member, **data):
    """Return every way to cut `text` in two, and the one into single characters."""
    yield [(event, {**data, member: char}) for char in text]
    for at in range(len(text) + 1):
        yield [(event, {**data, member: piece}) for piece in (text[:at], text[at:])]


JSON = '{"api_key":"a b","note":"x\\nsk_live_12345 and open-sesame","url":"http://u:p@h/?key=9"}'
TEXT = "first\nsk_live_1234\nAuthorization: Bearer abc.def\n\nopen-sesame\nend sk-ant-1234567"


@pytest.mark.req("TF-50")
@pytest.mark.parametrize("kind", ["json", "result"])
def test_no_cut_lets_a_secret_of_an_object_through(kind):
    for pieces in cuts(JSON, f"{kind}.delta", "chunk", id="O1"):
        lines = lines_of(
            [(f"{kind}.begin", {"id": "O1"}), *pieces, (f"{kind}.end", {"id": "O1", "length": 9})]
        )
        assert [line["n"] for line in lines] == list(range(1, len(pieces) + 3))
        assert [line["ms"] for line in lines] == [1.5 * line["n"] for line in lines]
        assert "".join(line["data"]["chunk"] for line in lines[1:-1]) == Redactor(
            ["open-sesame"]
        ).text(JSON)


@pytest.mark.req("TF-50")
def test_no_cut_lets_a_secret_of_a_text_through():
    for pieces in cuts(TEXT, "text.delta", "text"):
        lines = lines_of([*pieces, ("done", {})])
        assert [line["n"] for line in lines] == list(range(1, len(pieces) + 2))
        joined = "".join(line["data"]["text"] for line in lines[:-1])
        assert joined == Redactor(["open-sesame"]).text(TEXT)


@pytest.mark.req("TF-50")
@given(
    st.lists(st.sampled_from(["sk_", "live1", "\n", " ", "token=", '"', "open-", "sesame", "abc"]))
)
def test_pieces_of_any_kind_leave_what_the_whole_leaves(pieces):
    lines = lines_of([("text.delta", {"text": piece}) for piece in pieces])
    joined = "".join(line["data"]["text"] for line in lines)
    assert joined == Redactor(["open-sesame"]).text("".join(pieces))


def test_text_is_written_at_the_end_of_a_line_and_objects_at_their_end():
    stage = EventFrames(Redactor())
    assert stage.feed(EventFrame(1, 1, "text.delta", {"text": "a"})) == []
    assert len(stage.feed(EventFrame(2, 2, "text.delta", {"text": "b\nc"}))) == 1
    assert len(stage.feed(EventFrame(3, 3, "text.delta", {"text": "d\n"}))) == 2
    assert stage.feed(EventFrame(4, 4, "json.delta", {"id": "O1", "chunk": "[\n"})) == []
    assert len(stage.feed(EventFrame(5, 5, "json.delta", {"id": "O2", "chunk": "]"}))) == 1
    assert len(stage.feed(EventFrame(6, 6, "json.end", {"id": "O2"}))) == 2
    assert stage.close() == []


def test_text_without_end_is_not_held_for_ever():
    stage = EventFrames(Redactor())
    lines = []
    for n in range(1, 101):
        lines += stage.feed(EventFrame(n, n, "text.delta", {"text": "x" * (HELD // 50)}))
    assert len(lines) >= 50


@pytest.mark.req("TF-30")
@every_row("event", ["json.end", "result.end"])
@every_row(("status", "expected"), [("degraded", True), ("repaired", None), (None, None)])
def test_a_degraded_frame_is_marked(event, status, expected):
    data = {"id": "R1", "length": 2, **({"status": status, "value": {}} if status else {})}
    [line] = lines_of([(event, data)])
    assert line.get("degraded") is expected


@pytest.mark.req("TF-50")
def test_everything_else_is_redacted_as_values():
    call = {"id": "T1", "name": "x", "args": {"password": "p", "q": "see sk_live_12345"}}
    [line] = lines_of([("tool.call", call)])
    assert line["data"]["args"] == {"password": "[redacted]", "q": "see [redacted]"}
