"""Events of a structured stream on the wire."""

import pytest
from tests.tables import every_row

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import dump_bytes, loads
from toolbridge.runs.kept_events import Record
from toolbridge.server import stream
from toolbridge.structured import events as ev
from toolbridge.structured.limits import Limits
from toolbridge.wire.sse import SseReader

EVENTS = [
    ("text.delta", ev.RunTextDelta("hé\n"), {"text": "hé\n"}),
    ("json.begin", ev.JsonBegin("O1", "Action"), {"id": "O1", "schema": "Action"}),
    ("json.delta", ev.JsonDelta("O1", '{"a"'), {"id": "O1", "chunk": '{"a"'}),
    ("json.end", ev.JsonEnd("O1", 4), {"id": "O1", "length": 4}),
    (
        "json.end",
        ev.JsonEnd("O1", 4, "healed", {"a": 1}, (ev.Change("trailing comma removed", 1, "a"),)),
        {
            "id": "O1",
            "length": 4,
            "status": "healed",
            "value": {"a": 1},
            "steps": [{"what": "trailing comma removed", "level": 1, "path": "a"}],
        },
    ),
    (
        "json.end",
        ev.JsonEnd("O1", 0, "degraded", None),
        {"id": "O1", "length": 0, "status": "degraded", "value": None},
    ),
    (
        "tool.call",
        ev.RunToolCall("T1", "a.b", {"q": 1}),
        {"id": "T1", "name": "a.b", "args": {"q": 1}},
    ),
    (
        "tool.call",
        ev.RunToolCall("T1", "a", {}, client=True),
        {"id": "T1", "name": "a", "args": {}, "client": True},
    ),
    ("tool.result", ev.ToolResult("T1", "a", [1]), {"id": "T1", "name": "a", "result": [1]}),
    (
        "tool.result",
        ev.ToolResult("T1", "a", None, cached=True),
        {"id": "T1", "name": "a", "result": None, "cached": True},
    ),
    ("result.begin", ev.ResultBegin("R1", "X"), {"id": "R1", "schema": "X"}),
    ("result.delta", ev.ResultDelta("R1", "{}"), {"id": "R1", "chunk": "{}"}),
    ("result.end", ev.ResultEnd("R1", 2), {"id": "R1", "length": 2}),
    ("error", ev.RunError("no_result", "why"), {"code": "no_result", "message": "why"}),
    (
        "error",
        ev.RunError("frame_timeout", "why", "O1"),
        {"code": "frame_timeout", "message": "why", "id": "O1"},
    ),
    ("done", ev.RunDone(), {}),
    ("ping", ev.Ping(), {}),
]


@pytest.mark.req(
    "TF-02", "TF-03", "TF-04", "TF-05", "TF-06", "TF-07", "TF-08", "TF-09", "TF-10", "TF-11"
)
@every_row(("name", "event", "data"), EVENTS)
def test_an_event_says_what_it_must_and_nothing_else(name, event, data):
    assert ev.name_of(event) == name
    assert ev.data_of(event) == data
    assert ev.event_from(name, data) == event


def encoded(event: ev.Event) -> bytes:
    """Return the first event of a run as the server writes it."""
    record = Record(1, ev.name_of(event), dump_bytes(ev.data_of(event)))
    return stream._encode("run_0", record)


@every_row(("name", "event", "data"), EVENTS)
def test_an_event_is_one_server_sent_event(name, event, data):
    (found,) = SseReader().feed(encoded(event))
    assert (found.event, found.id, loads(found.data)) == (name, "run_0:1", data)


def test_a_keep_alive_has_no_id_line():
    assert stream._PING == b"event: ping\ndata: {}\n\n"


def test_half_a_surrogate_pair_is_replaced_on_the_wire():
    assert "\ufffd".encode() in encoded(ev.RunTextDelta("\ud800"))


@pytest.mark.parametrize(
    ("name", "data"), [("json.middle", {}), ("text.delta", {}), ("json.end", {"id": 1})]
)
def test_what_is_no_event_of_ours_is_refused(name, data):
    with pytest.raises(MalformedRequest):
        ev.event_from(name, data)


def test_the_twelve_events_are_the_only_ones():
    assert len(ev.NAMES) == 12


def test_a_caller_may_lower_a_limit_and_not_raise_it():
    own = Limits(frame=100, depth=4)
    assert own.lowered(Limits(frame=50, depth=9, arguments=1, result=2)) == Limits(50, 4, 1, 2)


@pytest.mark.req("TF-21", "TF-22", "TF-23")
def test_the_limits_are_those_of_the_specification():
    assert Limits() == Limits(frame=65_536, depth=16, arguments=32_768, result=65_536)
