import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import grammar
from tests.strategies import answers
from tests.tables import every_row
from tests.work import calls_made

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.codec import Target
from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import Problem, Request, Text, Turn
from toolbridge.core.usage import Usage
from toolbridge.policy.stops import Scissors, StopScanner
from toolbridge.translate import RequestOptions, answer_stages, plan


def cut(stops, pieces):
    scissors = Scissors(stops)
    text = "".join(scissors.feed(piece) for piece in pieces) + scissors.close()
    return text, scissors.hit


@every_row(
    ("stops", "text", "left", "hit"),
    [
        (["END"], "one END two", "one ", "END"),
        (["END"], "one EN", "one EN", ""),
        (["END"], "EEND", "E", "END"),
        (["ab", "b"], "ab", "", "ab"),
        (["abc", "b"], "abc", "a", "b"),
        (["x", "y"], "-y-x", "-", "y"),
        ([""], "all", "all", ""),
        ([], "all", "all", ""),
        (["aab"], "aaab", "a", "aab"),
    ],
)
def test_text_ends_before_the_stop_that_is_complete_first(stops, text, left, hit):
    assert cut(stops, [text]) == (left, hit)
    assert cut(stops, text) == (left, hit)


few = st.text("ab\n", max_size=12)


@given(st.lists(few, max_size=3), st.lists(few, max_size=6))
def test_any_pieces_give_the_same_cut(stops, pieces):
    assert cut(stops, pieces) == cut(stops, ["".join(pieces)])


@given(st.lists(few.filter(bool), min_size=1, max_size=3), st.lists(few, max_size=6))
def test_what_is_told_holds_no_stop_and_is_the_beginning(stops, pieces):
    text, hit = cut(stops, pieces)
    whole = "".join(pieces)
    assert whole.startswith(text + hit)
    assert not any(stop in text for stop in stops)
    assert hit or text == whole


def test_nothing_is_told_after_the_cut():
    scissors = Scissors(["."])
    assert scissors.feed("a.b") == "a"
    assert scissors.feed("c") == ""
    assert scissors.close() == ""


def test_a_text_without_stops_is_held_no_longer_than_needed():
    scissors = Scissors(["</s>"])
    assert [scissors.feed(piece) for piece in ("a<", "b", "</", "s", "x")] == [
        "a", "<b", "", "", "</sx",
    ]  # fmt: skip


def test_a_long_sequence_costs_no_more_than_its_text():
    def work(size):
        return calls_made(lambda: cut(["a" * (size // 2) + "b"], ["a"] * size))

    assert work(4_000) < 2.2 * work(2_000)


# ── answers ──


def scan(stops, events):
    scanner = StopScanner(stops)
    said = [out for event in events for out in scanner.feed(event)] + scanner.close()
    grammar.check(said)
    return said, scanner


def told(*pieces, finish="end", usage=None):
    draft = Draft(Ids("x"))
    events = draft.start(id="msg_1", model="m")
    events += draft.usage(usage) if usage else []
    for piece in pieces:
        events += draft.text(piece)
    return events + draft.finish(finish)


def test_an_answer_ends_before_the_stop_and_says_which():
    said, scanner = scan(["END"], told("one E", "ND two", " three", usage=Usage(input=7)))
    message = collect(said)
    assert message.text == "one "
    assert (message.stop, message.stop_sequence) == ("stop_sequence", "END")
    assert message.usage == Usage(input=7)
    assert scanner.done


def test_an_answer_without_a_stop_is_told_as_it_is():
    events = told("one E", "N", "d")
    said, scanner = scan(["END"], events)
    assert grammar.joined(said) == grammar.joined(events)
    assert not scanner.done


def test_only_what_may_become_a_stop_is_held():
    scanner = StopScanner(["END"])
    pieces = [
        [out.text for out in scanner.feed(event) if isinstance(out, ev.TextDelta)]
        for event in told("one E", "nd", "EN")
    ]
    assert pieces == [[], [], ["one "], ["End"], [], ["EN"], []]


def test_a_text_that_begins_with_a_stop_is_not_begun():
    said, _ = scan(["END"], told("EN", "D two"))
    assert [type(event) for event in said] == [ev.Started, ev.Finished]


def test_the_scanner_says_at_once_that_it_is_done():
    scanner = StopScanner(["."])
    for event in told("a.b", "c"):
        said = scanner.feed(event)
        if scanner.done:
            break
    assert isinstance(said[-1], ev.Finished)
    assert scanner.feed(ev.TextDelta(0, "d")) == scanner.close() == []


def test_calls_and_thoughts_are_not_searched():
    draft = Draft(Ids("x"))
    events = draft.think("END") + draft.text("so") + draft.call("a", name="f", id="c")
    events += draft.arguments("a", '{"x":"END"}') + draft.finish("end")
    said, scanner = scan(["END"], events)
    assert grammar.joined(said) == grammar.joined(events)
    assert not scanner.done


def test_a_stop_after_a_call_leaves_the_call():
    draft = Draft(Ids("x"))
    events = draft.call("a", name="f", id="c") + draft.end("a") + draft.text("so END it is")
    message = collect(scan(["END"], events + draft.finish("end"))[0])
    assert [call.id for call in message.calls] == ["c"]
    assert (message.text, message.stop, message.stop_sequence) == ("so ", "tool_use", "")


def test_a_call_that_is_open_at_the_stop_is_read_to_its_end():
    draft = Draft(Ids("x"))
    events = draft.text("so", "t") + draft.call("a", name="f", id="c")
    events += draft.arguments("a", '{"x":') + draft.text(" END it", "t") + draft.text(" is", "t")
    before = len(events)
    events += draft.arguments("a", "1}") + draft.usage(Usage(output=3)) + draft.end("a")
    scanner = StopScanner(["END"])
    said = [out for event in events[:before] for out in scanner.feed(event)]
    assert not scanner.done
    said += [out for event in events[before:] for out in scanner.feed(event)]
    assert scanner.done
    grammar.check(said)
    message = collect(said)
    assert message.calls[0].arguments == {"x": 1}
    assert (message.text, message.usage.output) == ("so ", 3)


def test_a_text_that_is_held_is_begun_before_the_next_block():
    draft = Draft(Ids("x"))
    events = draft.text("EN", "t") + draft.call("a", name="f", id="c") + draft.text("D", "t")
    said, _ = scan(["END"], events + draft.end("a") + draft.finish("end"))
    starts = [out.index for out in said if isinstance(out, ev.TextStart | ev.CallStart)]
    assert starts == [0, 1]


def test_a_new_block_after_the_stop_is_not_told():
    draft = Draft(Ids("x"))
    events = draft.text("so", "t") + draft.call("a", name="f", id="c") + draft.text("END", "t")
    events += draft.call("b", name="g", id="d") + draft.end("a") + draft.finish("end")
    assert [call.id for call in collect(scan(["END"], events)[0]).calls] == ["c"]


@pytest.mark.parametrize("held", ["", "EN"])
def test_a_failure_is_told_with_all_that_came(held):
    draft = Draft(Ids("x"))
    events = draft.text("so " + held) + draft.fail(Problem("truncated", "cut"))
    said, _ = scan(["END"], events)
    assert isinstance(said[-1], ev.Failed)
    assert "".join(out.text for out in said if isinstance(out, ev.TextDelta)) == "so " + held


def test_a_failure_within_a_call_after_the_stop_is_a_failure():
    draft = Draft(Ids("x"))
    events = draft.text("so", "t") + draft.call("a", name="f", id="c") + draft.text("END", "t")
    said, scanner = scan(["END"], events + draft.fail(Problem("truncated", "cut")))
    assert isinstance(said[-1], ev.Failed)
    assert scanner.done


@given(answers(), st.lists(st.sampled_from(["a", "e", " ", "\n", "the"]), max_size=2))
def test_every_answer_stays_legal_and_ends_before_its_first_stop(events, stops):
    said, scanner = scan(stops, events)
    message, whole = collect(said), collect(events)
    for part in message.content:
        if isinstance(part, Text) and scanner.done:
            assert not any(stop in part.text for stop in stops)
    if not scanner.done:
        assert message == whole


@given(answers(), st.lists(st.sampled_from(["a", "ea", " t"]), max_size=2), st.data())
def test_any_cut_of_the_deltas_is_stopped_at_the_same_place(events, stops, data):
    finer = []
    for event in events:
        if isinstance(event, ev.TextDelta):
            finer += [ev.TextDelta(event.index, letter) for letter in event.text]
        else:
            finer.append(event)
    assert grammar.joined(scan(stops, finer)[0]) == grammar.joined(scan(stops, events)[0])


# ── what goes where ──

STOPS = ("a", "b", "c", "d", "e", "f", " \n")


@every_row("name", codecs.names())
def test_every_stop_is_sent_or_looked_for(name):
    codec = codecs.load(name)
    request = Request("m", (Turn("user", (Text("hi"),)),), max_tokens=99, stop=STOPS)
    ready = plan(request, codec, Target(model="m"), RequestOptions())
    sent = codec.decode_request(dump_bytes(ready.outgoing.body), model="m").stop
    assert sorted([*sent, *ready.stops]) == sorted(STOPS)
    assert not [loss for loss in ready.losses if loss.what.startswith("stop")]


@pytest.mark.parametrize("codec", [None, codecs.load("ollama")], ids=["ours", "ollama"])
def test_a_target_that_takes_all_stops_is_not_searched(codec):
    request = Request("m", (Turn("user", (Text("hi"),)),), stop=("END",))
    ready = plan(request, codec, Target(model="m"), RequestOptions())
    stages = answer_stages(request, ready, model="m", seed=b"x")
    said = [out for event in told("one END two") for out in stages.feed(event)]
    assert collect(said).text == "one END two"
    assert not stages.done


def test_an_answer_of_a_target_without_stops_is_cut():
    request = Request("m", (Turn("user", (Text("hi"),)),), stop=("END",))
    ready = plan(request, codecs.load("openai_responses"), Target(model="m"), RequestOptions())
    stages = answer_stages(request, ready, model="m", seed=b"x")
    said = []
    for event in told("<think>END</think>", "one E", "ND two"):
        assert not stages.done
        said += stages.feed(event)
        if stages.done:
            break
    message = collect(said + stages.close())
    assert (message.thinking, message.text) == ("END", "one ")
    assert (message.stop, message.stop_sequence) == ("stop_sequence", "END")
