import msgspec
import pytest
from hypothesis import given
from tests import strategies

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.fold import Fold, collect, without_cut_calls
from toolbridge.core.messages import Call, HealingReport, Message, Problem, Text, Thinking
from toolbridge.core.usage import Usage


def folded(events):
    fold = Fold()
    for event in events:
        fold.feed(event)
    return fold


@given(strategies.answers())
def test_the_fold_of_all_events_is_the_message_of_the_last(events):
    assert collect(events) == events[-1].message


@given(strategies.answers(failed=False))
def test_the_parts_are_those_that_the_ends_carried(events):
    without_terminal = folded(events[:-1]).message
    assert without_terminal.content == events[-1].message.content
    assert without_terminal.usage == events[-1].message.usage
    assert without_terminal.stop is None


@given(strategies.messages())
def test_a_message_is_plain_json(message):
    assert msgspec.json.decode(msgspec.json.encode(message), type=Message) == message


def test_the_message_is_known_at_any_time():
    fold = Fold()
    assert fold.message == Message()
    seen = []
    draft = Draft()
    for event in draft.start(id="msg_1", model="m") + draft.think("Hm") + draft.text("Hi"):
        fold.feed(event)
        seen.append(fold.message.content)
    assert seen[-1] == (Thinking("Hm"), Text("Hi"))
    assert seen[1] == (Thinking(""),)


def test_half_a_call_is_never_a_whole_one():
    draft = Draft()
    events = draft.call("a", name="f", id="1") + draft.arguments("a", '{"x":1}')
    assert folded(events).message.calls == (Call("1", "f", raw='{"x":1}'),)


def test_a_piece_for_a_closed_block_is_refused():
    fold = folded([ev.TextStart(0), ev.TextEnd(0, Text("Hi"))])
    with pytest.raises(TypeError, match="block 0 is closed"):
        fold.feed(ev.TextDelta(0, "!"))


def test_healings_are_kept():
    report = HealingReport("1", "f", 1, ())
    assert folded([ev.Healed(0, report)]).message.healed == (report,)


def test_a_changed_answer_ends_with_the_changed_message():
    fold = folded([ev.Started("msg_1", "m"), ev.UsageReported(Usage(input=1))])
    for event in [ev.CallStart(0, "1", "f"), ev.CallEnd(0, Call("1", "f", {"x": 1}))]:
        fold.feed(event)
    old = ev.Finished("end", Message("msg_1", "m", (Text("<tool_call>…"),), stop="end"))
    assert fold.refinish(old) == ev.Finished(
        "tool_use",
        Message("msg_1", "m", (Call("1", "f", {"x": 1}),), Usage(input=1), stop="tool_use"),
    )


def test_a_stop_sequence_is_kept_only_where_it_is_the_reason():
    old = ev.Finished("stop_sequence", Message(stop="stop_sequence", stop_sequence="END"))
    call = ev.CallEnd(0, Call("1", "f"))
    assert folded([]).refinish(old).message.stop_sequence == "END"
    assert folded([ev.CallStart(0, "1", "f"), call]).refinish(old).message == Message(
        content=(Call("1", "f"),), stop="tool_use"
    )


def test_a_call_that_was_taken_out_is_no_reason_to_stop():
    old = ev.Finished("tool_use", Message(stop="tool_use"))
    assert folded([]).refinish(old).reason == "end"


def test_a_failure_stays_a_failure():
    problem = Problem("aborted", "the client left")
    old = ev.Failed(problem, Message(stop="aborted", problem=problem))
    again = folded([ev.TextStart(0), ev.TextDelta(0, "Hi")]).refinish(old)
    assert again == ev.Failed(
        problem, Message(content=(Text("Hi"),), stop="aborted", problem=problem)
    )


def test_a_call_that_the_limit_cut_is_left_out_of_a_whole_reply():
    cut = Message(content=(Text("a"), Call("1", "f", raw='{"x": "ha')), stop="length")
    assert without_cut_calls(cut).content == (Text("a"),)
    broken = Message(content=(Call("1", "f", raw="{oops}"),), stop="tool_use")
    assert without_cut_calls(broken) is broken
