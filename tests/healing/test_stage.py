"""Healing as a stage: what goes out, when, and what never does."""

import json
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import every_row
from tests.work import calls_made

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.json import dumps
from toolbridge.core.messages import Call, Problem, Text, Tool
from toolbridge.healing import Healer, heal, heal_past_call

WRITE = Tool(
    "Write",
    schema={
        "type": "object",
        "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["file_path", "content"],
        "additionalProperties": False,
    },
)
WEATHER = Tool(
    "get_weather",
    schema={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    },
)
TOOLS = (WRITE, WEATHER)
CASES = json.loads(Path(__file__).with_name("cases.json").read_text())


def pieces_of(text: str, cuts=()) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


def answer(pieces, *, name="Write", reason="tool_use", before="", after="") -> list[ev.Event]:
    draft = Draft(Ids("test"))
    events = draft.start(id="msg_1", model="m")
    if before:
        events += draft.text(before)
    events += draft.call("a", name=name, id="call_1")
    for piece in pieces:
        events += draft.arguments("a", piece)
    events += draft.end("a")
    if after:
        events += draft.text(after)
    if reason == "failed":
        return events + draft.fail(Problem("truncated", "the upstream closed the connection"))
    return events + draft.finish(reason)


def healed(events, tools=TOOLS, **options) -> list[ev.Event]:
    healer = Healer(tools, **options)
    out = [made for event in events for made in healer.feed(event)]
    return out + healer.close()


def written(events, index=0) -> str:
    return "".join(e.json for e in events if isinstance(e, ev.CallDelta) and e.index == index)


def calls(events) -> list[Call]:
    return [event.call for event in events if isinstance(event, ev.CallEnd)]


def joined(events) -> list[ev.Event]:
    """Return `events` with the deltas of a block joined where nothing stands between them."""
    out: list[ev.Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, ev.CallDelta) and isinstance(last, ev.CallDelta):
            out[-1] = ev.CallDelta(event.index, last.json + event.json)
        else:
            out.append(event)
    return out


GOOD = '{"file_path": "/tmp/a.txt", "content": "one\\ntwo \\"x\\", é 😀 \\ud83d\\ude00"}'


def test_sound_arguments_pass_as_they_are():
    events = answer(pieces_of(GOOD, range(0, 200, 7)))
    assert joined(healed(events)) == joined(events)


def test_the_content_of_a_string_flows_as_it_comes():
    healer = Healer(TOOLS)
    events = answer(['{"file_path": "a", "content": "', "one ", "two\\", "n", " three", '"}'])
    seen = [[e.json for e in healer.feed(event) if isinstance(e, ev.CallDelta)] for event in events]
    assert ["one "] in seen
    assert ["two"] in seen
    assert ["\\n"] in seen
    assert [" three"] in seen


def test_other_values_wait_until_they_are_whole_and_fit():
    healer = Healer(TOOLS)
    pieces = ['{"city": "x", "days": ', "1", "2", ', "unit": "cel', 'sius", "city": "', "y"]
    events = answer(pieces, name="get_weather")[:-2]
    seen = [e.json for event in events for e in healer.feed(event) if isinstance(e, ev.CallDelta)]
    assert seen == ['{"city": "x"', ', "days": 12', ', "unit": "celsius", "city": "', "y"]


@every_row("case", [c for c in CASES if c.get("kind") != "name"], ids=lambda c: c["id"])
def test_every_case_keeps_its_promises(case):
    tool = Tool("t", schema=case.get("schema") or {})
    whole = healed(answer([case["input"]], name="t"), (tool,))
    bytewise = healed(answer(list(case["input"]), name="t"), (tool,))
    assert joined(whole) == joined(bytewise)
    (call,) = calls(whole)
    text = written(whole)
    if call.raw:
        assert call.arguments == {}
        with pytest.raises(ValueError):
            json.loads(text)
    elif text or call.arguments:
        assert json.loads(text) == call.arguments
    assert collect(whole).calls == (call,)


@every_row("case", [c for c in CASES if c.get("kind") != "name"], ids=lambda c: c["id"])
def test_the_stream_and_the_whole_text_heal_alike(case):
    tool = Tool("t", schema=case.get("schema") or {})
    healing = heal(case["input"], case.get("schema"), words=False)
    (call,) = calls(healed(answer([case["input"]], name="t"), (tool,)))
    if healing.cut:
        assert call.raw or call.arguments == {"raw": case["input"]}
    else:
        assert call.arguments == healing.value


texts = st.sampled_from([c["input"] for c in CASES if c.get("kind") != "name"]) | st.text(
    "{}[]\":,\\\n 'abdcity1.", max_size=40
)
cuts = st.lists(st.integers(0, 300), max_size=8)


@given(texts, cuts, st.sampled_from(["tool_use", "length", "end", "failed"]))
def test_any_cut_gives_the_same_events(text, places, reason):
    one = healed(answer(pieces_of(text), name="get_weather", reason=reason))
    other = healed(answer(pieces_of(text, places), name="get_weather", reason=reason))
    assert joined(one) == joined(other)


@given(texts, cuts)
def test_what_is_sent_is_the_json_of_the_arguments(text, places):
    out = healed(answer(pieces_of(text, places), name="get_weather"))
    (call,) = calls(out)
    sent = written(out)
    if not call.raw and (sent or call.arguments):
        assert json.loads(sent) == call.arguments


@given(texts, cuts, st.sampled_from(["tool_use", "length", "end"]))
def test_a_call_that_stays_broken_is_sent_as_the_model_wrote_it(text, places, reason):
    out = healed(answer(pieces_of(text, places), name="get_weather", reason=reason))
    for call in calls(out):
        if call.raw:
            assert written(out) == text or "\n" in text  # line ends in strings are escaped
            with pytest.raises(ValueError):
                json.loads(written(out))


def test_the_rest_of_a_call_that_the_model_left_open_is_not_lost():
    text = '{"city": "Paris", n: 5'
    out = healed(answer(list(text), name="get_weather"))
    assert [call.raw for call in calls(out)] == [text]
    assert written(out) == text


@given(
    st.dictionaries(st.sampled_from(["file_path", "content"]), st.text(max_size=20), min_size=1),
    st.integers(0, 100),
    cuts,
    st.sampled_from(["length", "failed", "refusal", "context_overflow"]),
)
def test_a_call_that_was_cut_off_is_never_completed(value, at, places, reason):
    text = json.dumps(value)
    prefix = text[: at % len(text)]
    out = healed(answer(pieces_of(prefix, places), reason=reason, before="hm"))
    for call in calls(out):
        assert call.raw == prefix or not prefix.strip()
        assert call.arguments == {}
    assert collect(out).stop == ("error" if reason == "failed" else reason)


def test_a_call_cut_before_anything_was_sent_is_dropped_and_the_reason_stays():
    out = healed(answer(['{"file_path'], reason="length", before="Let me."))
    assert calls(out) == []
    assert not any(isinstance(event, ev.CallStart) for event in out)
    message = collect(out)
    assert message.stop == "length"
    (left_out,) = [event for event in out if isinstance(event, ev.Healed)]
    assert left_out == ev.Healed(ev.NO_BLOCK, message.healed[0])
    assert message.content == (Text("Let me."),)


def test_a_call_cut_inside_what_was_sent_ends_visibly_broken():
    out = healed(answer(['{"file_path": "/tm'], reason="length"))
    (call,) = calls(out)
    assert call == Call("call_1", "Write", raw='{"file_path": "/tm')
    assert written(out) == '{"file_path": "/tm'


@pytest.mark.parametrize("reason", ["tool_use", "end"])
def test_missing_brackets_are_closed_when_the_model_ended_by_itself(reason):
    out = healed(answer(['{"file_path": "a", "content": "b"'], reason=reason))
    (call,) = calls(out)
    assert call.arguments == {"file_path": "a", "content": "b"}
    assert json.loads(written(out)) == call.arguments
    (report,) = [event.report for event in out if isinstance(event, ev.Healed)]
    assert [(step.what, step.level) for step in report.steps] == [("missing bracket added", 1)]
    assert collect(out).healed == (report,)


def test_missing_brackets_are_not_closed_at_the_token_limit():
    out = healed(answer(['{"file_path": "a", "content": "b"'], reason="length"))
    (call,) = calls(out)
    assert call.raw
    assert call.arguments == {}


def test_an_open_string_is_not_closed_even_when_the_model_ended():
    out = healed(answer(['{"file_path": "a", "content": "rm -rf /'], reason="tool_use"))
    (call,) = calls(out)
    assert call.arguments == {}
    assert call.raw == '{"file_path": "a", "content": "rm -rf /'


def test_a_cut_call_of_which_nothing_was_sent_becomes_raw_when_the_model_ended():
    out = healed(answer(['{"fil'], reason="tool_use"))
    (call,) = calls(out)
    assert call.arguments == {"raw": '{"fil'}
    assert json.loads(written(out)) == call.arguments


def test_a_failure_leaves_open_what_was_begun_and_drops_what_was_not():
    draft = Draft(Ids("t"))
    events = draft.call("a", name="Write", id="1") + draft.arguments("a", '{"file_path": "x')
    events += draft.call("b", name="Write", id="2") + draft.arguments("b", '{"fi')
    events += draft.fail(Problem("truncated", "cut"))
    out = healed(events)
    assert calls(out) == []
    assert [e.id for e in out if isinstance(e, ev.CallStart)] == ["1"]
    assert collect(out).calls == (Call("1", "Write", raw='{"file_path": "x'),)


def test_a_dropped_call_leaves_no_gap():
    draft = Draft(Ids("t"))
    events = draft.text("a") + draft.call("x", name="Write", id="1") + draft.arguments("x", '{"fi')
    events += draft.end("x") + draft.text("b") + draft.finish("length")
    out = healed(events)
    assert [event.index for event in out if isinstance(event, ev.TextStart)] == [0, 1]
    assert collect(out).content == (Text("a"), Text("b"))


def test_interleaved_calls_are_healed_apart_and_keep_their_order():
    draft = Draft(Ids("t"))
    events = draft.call("x", name="get_weather", id="1") + draft.call("y", name="Write", id="2")
    events += draft.arguments("y", '{"file_path": "p", ')
    events += draft.arguments("x", "{'city': 'Paris', ")
    events += draft.arguments("y", '"content": "c"}')
    events += draft.arguments("x", "'days': '3'}")
    events += draft.finish("tool_use")
    out = healed(events)
    assert collect(out).calls == (
        Call("1", "get_weather", {"city": "Paris", "days": 3}),
        Call("2", "Write", {"file_path": "p", "content": "c"}),
    )
    assert json.loads(written(out, 0)) == {"city": "Paris", "days": 3}


def test_raw_control_characters_are_escaped_in_the_flow():
    healer = Healer(TOOLS)
    events = answer(['{"content": "a', "\n\tb", '", "file_path": "x"}'])
    seen = [e for event in events for e in healer.feed(event)]
    assert "\\n\\tb" in [e.json for e in seen if isinstance(e, ev.CallDelta)]
    (call,) = calls(seen)
    assert call.arguments == {"content": "a\n\tb", "file_path": "x"}
    assert [step.what for e in seen if isinstance(e, ev.Healed) for step in e.report.steps] == [
        "control character escaped"
    ]


def test_quotes_inside_a_string_are_escaped_behind_what_was_sent():
    text = '{"content": "<a href="x.html">y</a>", "file_path": "a.html"}'
    out = healed(answer(pieces_of(text, range(0, 80, 3))))
    (call,) = calls(out)
    assert call.arguments == {"content": '<a href="x.html">y</a>', "file_path": "a.html"}
    assert json.loads(written(out)) == call.arguments


def test_a_string_that_lost_its_quote_ends_at_the_comma():
    out = healed(answer(list('{"city": "Paris, "days": 2}'), name="get_weather"))
    assert calls(out)[0].arguments == {"city": "Paris", "days": 2}


@pytest.mark.req("PX-X4")
@every_row("name", ["write", "WRITE", "functions.Write", "default_api:Write", "`Write`"])
def test_the_name_of_a_tool_is_healed_and_reported(name):
    out = healed(answer([GOOD], name=name))
    (start,) = [event for event in out if isinstance(event, ev.CallStart)]
    assert start.name == "Write"
    assert calls(out)[0].name == "Write"
    (report,) = [event.report for event in out if isinstance(event, ev.Healed)]
    assert report.steps[0].before == name
    assert report.steps[0].after == "Write"
    assert report.level == 2


def test_an_unknown_tool_is_healed_by_syntax_only():
    out = healed(answer(["{'file_path': 5,}"], name="Delete"))
    assert calls(out)[0] == Call("call_1", "Delete", {"file_path": 5})


def test_without_tools_everything_passes():
    events = answer(["{'broken"], reason="length")
    assert healed(events, ()) == events


def test_hopeless_arguments_become_raw():
    out = healed(answer(["I will not"]))
    assert calls(out)[0].arguments == {"raw": "I will not"}
    (report,) = [event.report for event in out if isinstance(event, ev.Healed)]
    assert report.steps[0].what == "unreadable arguments kept as raw"


def test_a_call_without_arguments_stays_empty():
    tool = Tool("now", schema={"type": "object", "properties": {}})
    events = answer([], name="now")
    assert healed(events, (tool,)) == events


def test_arguments_that_came_without_deltas_are_healed_too():
    tool = WEATHER
    events = answer([], name="get_weather")
    events = [
        msgspec.structs.replace(e, call=Call("call_1", "get_weather", {"city": "x", "days": "3"}))
        if isinstance(e, ev.CallEnd)
        else e
        for e in events
    ]
    out = healed(events, (tool,))
    assert calls(out)[0].arguments == {"city": "x", "days": 3}
    assert json.loads(written(out)) == {"city": "x", "days": 3}


def test_level_zero_changes_nothing_but_refuses_what_is_broken():
    out = healed(answer(["{'city': 1}"], name="get_weather"), level=0)
    assert calls(out)[0].arguments == {"raw": "{'city': 1}"}


@pytest.mark.req("PX-X3")
@every_row(
    ("call", "expected"),
    [
        (Call("1", "get_weather", {"city": "x", "days": "3"}), {"city": "x", "days": 3}),
        (Call("1", "get_weather", raw="{'city': 'x'}"), {"city": "x"}),
        (Call("1", "get_weather", {"city": "x"}), None),
        (Call("1", "get_weather", raw='{"city": "x'), None),
        (Call("1", "get_weather", raw="{{{"), None),
    ],
)
def test_past_calls_are_healed_where_there_is_something_to_heal(call, expected):
    found = heal_past_call(call, WEATHER)
    assert (found.arguments if found else None) == expected
    assert found is None or found.raw == ""


def _work(text: str) -> int:
    events = answer([text[at : at + 10] for at in range(0, len(text), 10)])
    healed(events)  # the first call in a process also compiles regular expressions
    return calls_made(lambda: healed(events))


@pytest.mark.parametrize(
    "make",
    [
        lambda n: dumps({"file_path": "a", "content": 'x = "y"\n' * (n // 10)}),
        lambda n: '{"content": "' + 'say "x" ' * (n // 8) + '", "file_path": "a"}',
        lambda n: '{"content": "' + "a\nb" * (n // 3),
        lambda n: '{"content": "' + "a, " * (n // 3),
        lambda n: '{"nope": "' + "x" * n,
    ],
)
def test_twice_the_arguments_take_about_twice_the_work(make):
    assert _work(make(20_000)) <= 2.3 * _work(make(10_000)) + 100
