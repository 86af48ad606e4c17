"""Laws of a structured stream: whatever a model writes, what the client is told is in order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.structured.play import (
    ACTION,
    REPLY,
    SCHEMAS,
    Play,
    call,
    called,
    contract,
    obj,
    result,
    spoken,
)

from toolbridge.core.json import loads
from toolbridge.structured import events as ev
from toolbridge.structured.limits import Limits

PARTS = st.sampled_from(
    [
        obj(), call(), result(), obj("{}"), call("{}"), result("{}"), obj(ACTION[:-1]),
        call('{"query":"a"'), obj(name="Nope"), call(name="nope"), obj("[1,2", name="List"),
        obj('{"rows":[[1],[2', name="Grid"), obj("{}", name="Never"), "Hello. ", "⟦", '"', "{", "}",
        "\\", "⟦BEGIN_OBJECT id=O7 schema=Action⟧", "⟦END_OBJECT id=O7⟧", ACTION, REPLY,
        "⟦BEGIN_RESULT id=R7 schema=AssistantReply⟧", "⟦END_RESULT id=R7⟧", "```json\n", "\n",
        "⟦BEGIN_TOOL_CALL id=T7 name=places.search⟧", "⟦END_TOOL_CALL id=T7⟧", "[" * 20, "é" * 40,
    ]
)  # fmt: skip
ANSWERS = st.lists(PARTS | st.text(max_size=5), max_size=10).map("".join)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["places.search", "write_Action", "write_Grid", "nope"]),
        st.sampled_from(['{"query":"a"}', ACTION, "{}", '{"rows":[[1]', "", "x", "[" * 20]),
    ),
    max_size=3,
)
STOPS = st.sampled_from(["end", "length", "tool_use", "refusal"])
SAID = st.builds(
    lambda text, cut, stop: spoken(text, [cut], stop), ANSWERS, st.integers(0, 99), STOPS
)
CALLED = st.builds(
    lambda calls, text, stop: called(*calls, text=text, stop=stop), CALLS, ANSWERS, STOPS
)
REPAIRS = st.lists(
    st.sampled_from([ACTION, REPLY, "{}", "", "no", obj(), '{"query":"b"}']), max_size=6
)
MODES = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["sentinel", "native"]),
        "structured": st.booleans(),
        "hold_results": st.booleans(),
        "repair_retries": st.integers(0, 2),
        "max_tool_calls": st.integers(0, 3),
        "limits": st.sampled_from([Limits(), Limits(frame=70, depth=4, arguments=40)]),
    }
)


def judge(play: Play) -> None:
    """Assert that the events are in order, and that what is called valid is valid."""
    open_: dict[str, tuple[str, list[str]]] = {}
    calls: set[str] = set()
    ids: set[str] = set()
    for event in play.events:
        match event:
            case ev.JsonBegin(id, schema) | ev.ResultBegin(id, schema):
                assert id not in ids
                ids.add(id)
                open_[id] = (schema, [])
            case ev.JsonDelta(id, chunk) | ev.ResultDelta(id, chunk):
                assert chunk
                open_[id][1].append(chunk)
            case ev.JsonEnd() | ev.ResultEnd():
                judge_end(event, *open_.pop(event.id))
            case ev.RunToolCall(id, name, args):
                assert id not in ids
                ids.add(id)
                calls.add(id)
                assert SCHEMAS.check(name, args) == ()
            case ev.ToolResult(id, _, value):
                assert id in calls or value.keys() == {"error"}
                calls.discard(id)
            case _:
                pass
    assert (open_, calls) == ({}, set())
    assert [ev.name_of(e) for e in play.events].count("done") == 1
    assert isinstance(play.events[-1], ev.RunDone)


def judge_end(end: ev.JsonEnd | ev.ResultEnd, schema: str, chunks: list[str]) -> None:
    written = "".join(chunks)
    assert end.length == len(written.encode())
    if end.status == "valid":
        assert SCHEMAS.check(schema, loads(written)) == ()
    elif end.value is None:
        assert (end.status, schema) == ("degraded", "Never")
    else:
        assert SCHEMAS.check(schema, end.value) == ()


def finish(answers: list[object], repairs: list[str], changes: dict[str, object]) -> Play:
    """Play the answers; a model that has no more to say says the result."""
    play = Play(contract(**changes))
    last = spoken(REPLY) if changes["mode"] == "native" else result()
    return play.run([*answers, *[last] * 9], repairs)


@pytest.mark.req("TF-10", "TF-18", "TF-46", "TF-64")
@settings(max_examples=examples(250), deadline=None)
@given(st.lists(SAID | CALLED, max_size=3), REPAIRS, MODES)
def test_whatever_the_model_writes_the_events_are_in_order(answers, repairs, changes):
    judge(finish(answers, repairs, changes))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(SAID | CALLED, max_size=2), REPAIRS, MODES, st.integers(0, 40), st.booleans())
def test_wherever_a_stream_is_aborted_the_events_are_in_order(
    answers, repairs, changes, at, expires
):
    play = Play(contract(**changes))
    conversation = play.conversation
    script = iter(repairs)
    events = [event for answer in answers for event in answer]
    conversation.request()
    for event in events[:at]:
        out = conversation.feed(event)
        play.events += [e for e in out if type(e) in ev.NAMES.values()]
        if expires:
            more = conversation.expire_frame()
            play.events += [e for e in more if type(e) in ev.NAMES.values()]
            if conversation.effect is not None:
                more = conversation.repaired(next(script, ""))
                play.events += [e for e in more if type(e) in ev.NAMES.values()]
    play.events += conversation.abort("aborted", "enough")
    judge(play)


@pytest.mark.req("TF-19")
@settings(max_examples=examples(120), deadline=None)
@given(ANSWERS, REPAIRS, MODES)
def test_no_cut_of_an_answer_changes_what_the_client_is_told(text, repairs, changes):
    whole = finish([spoken(text)], repairs, changes)
    pieces = finish([spoken(text, range(1, len(text)))], repairs, changes)
    assert joined(whole.events) == joined(pieces.events)
    assert whole.requests == pieces.requests
    assert whole.repairs == pieces.repairs


def joined(events: list[ev.Event]) -> list[ev.Event]:
    """Return `events` with adjacent deltas of one frame, or of text, joined."""
    out: list[ev.Event] = []
    for event in events:
        last = out[-1] if out else None
        match last, event:
            case ev.RunTextDelta(a), ev.RunTextDelta(b):
                out[-1] = ev.RunTextDelta(a + b)
            case ((ev.JsonDelta() | ev.ResultDelta()), (ev.JsonDelta() | ev.ResultDelta())) if (
                last.id == event.id
            ):
                out[-1] = type(event)(event.id, last.chunk + event.chunk)
            case _:
                out.append(event)
    return out


@pytest.mark.req("TF-36", "TF-55")
@settings(max_examples=examples(40), deadline=None)
@given(st.lists(SAID | CALLED, max_size=3), REPAIRS, MODES)
def test_the_same_answers_are_told_the_same_way(answers, repairs, changes):
    first, second = (finish(answers, repairs, changes) for _ in range(2))
    assert first.events == second.events
    assert first.requests == second.requests
