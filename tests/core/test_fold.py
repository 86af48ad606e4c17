import msgspec
import pytest
from hypothesis import given
from tests import strategies

from toolbridge.accounting.spent import spent, spent_so_far
from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.fold import Fold, collect, settled_end, without_cut_calls
from toolbridge.core.messages import (
    Call,
    HealingReport,
    Message,
    Problem,
    StopDetails,
    Text,
    Thinking,
)
from toolbridge.core.usage import Usage


def folded(events):
    fold = Fold()
    for event in events:
        fold.feed(event)
    return fold


@given(strategies.answers(failed=False))
def test_a_finished_message_needs_no_deltas(events):
    without_deltas = [event for event in events if not isinstance(event, ev.DELTAS)]
    assert collect(without_deltas) == collect(events)


@given(strategies.answers())
def test_all_events_at_once_are_the_events_one_by_one(events):
    assert collect(events) == folded(events).message


@given(strategies.answers(failed=False))
def test_the_parts_are_those_that_the_ends_carried(events):
    without_terminal = folded(events[:-1]).message
    assert without_terminal == msgspec.structs.replace(
        collect(events), stop=None, stop_sequence="", stop_details=None
    )


@given(strategies.answers())
def test_what_was_used_so_far_is_that_of_the_message(events):
    fold = Fold()
    for event in events:
        fold.feed(event)
        usage, written = fold.so_far()
        message = fold.message
        assert usage == message.usage
        estimate = spent_so_far(usage, written, 50)
        broken = msgspec.structs.replace(message, stop="aborted", problem=None)
        assert estimate.output == spent(broken, 50)[0].output


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
    assert fold.message.content == (Text("Hi"),)
    fold.feed(ev.TextDelta(0, "!"))
    with pytest.raises(TypeError, match="block 0 is closed"):
        assert fold.message


def test_healings_are_kept():
    report = HealingReport("1", "f", 1, ())
    assert folded([ev.Healed(0, report)]).message.healed == (report,)


def test_an_answer_to_which_a_stage_added_calls_stops_for_them():
    assert settled_end(ev.Finished("end"), calls=True) == ev.Finished("tool_use")


def test_a_stop_sequence_is_kept_only_where_it_is_the_reason():
    old = ev.Finished("stop_sequence", "END")
    assert settled_end(old, calls=False) == old
    assert settled_end(old, calls=True) == ev.Finished("tool_use")


def test_details_are_kept_only_of_a_refusal():
    details = StopDetails("no")
    assert settled_end(ev.Finished("refusal", details=details), calls=False).details == details
    assert settled_end(ev.Finished("end", details=details), calls=False).details is None


def test_a_call_that_was_taken_out_is_no_reason_to_stop():
    assert settled_end(ev.Finished("tool_use"), calls=False).reason == "end"


def test_a_failure_keeps_what_came_before_it():
    problem = Problem("aborted", "the client left")
    events = [ev.TextStart(0), ev.TextDelta(0, "Hi"), ev.Failed(problem)]
    assert collect(events) == Message(content=(Text("Hi"),), stop="aborted", problem=problem)


def test_a_call_that_the_limit_cut_is_left_out_of_a_whole_reply():
    cut = Message(content=(Text("a"), Call("1", "f", raw='{"x": "ha')), stop="length")
    assert without_cut_calls(cut).content == (Text("a"),)
    broken = Message(content=(Call("1", "f", raw="{oops}"),), stop="tool_use")
    assert without_cut_calls(broken) is broken


def test_only_the_message_of_an_ended_answer_is_kept():
    fold = Fold()
    fold.feed_all([ev.Started("m", "x"), ev.TextStart(0), ev.TextDelta(0, "some text")])
    assert fold.message == fold.message
    assert fold.message is not fold.message, "a running answer would have its text twice"
    fold.feed_all([ev.TextEnd(0, Text("some text")), ev.Finished("end")])
    assert fold.message is fold.message
    before = fold.message
    fold.feed(ev.UsageReported(Usage(output=3)))
    assert (before.usage.output, fold.message.usage.output) == (0, 3)
