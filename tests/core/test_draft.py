import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import grammar
from tests.tables import every_row

from toolbridge.core import draft as draft_module
from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Message,
    Opaque,
    Problem,
    Text,
    Thinking,
)
from toolbridge.core.usage import MOST_TOKENS, Cost, Usage

SIGNATURE = Opaque("anthropic", "signature", "c2ln")
REDACTED = Opaque("anthropic", "redacted", "aGlk")
PROBLEM = Problem("truncated", "the upstream stopped in mid-answer")


def kinds(events):
    return [type(event).__name__ for event in events]


def test_the_first_word_starts_the_answer():
    assert kinds(Draft().text("Hi")) == ["Started", "TextStart", "TextDelta"]


def test_a_start_is_said_once():
    draft = Draft()
    assert draft.start(id="msg_1", model="m") == [ev.Started("msg_1", "m")]
    assert draft.start(id="msg_2", model="n") == []


def test_a_start_without_an_id_gets_one():
    (started,) = Draft(Ids("seed")).start()
    assert started.id == Ids("seed").message()


@pytest.mark.parametrize("write", [Draft.text, Draft.think])
def test_an_empty_piece_opens_nothing(write):
    draft = Draft()
    assert write(draft, "") == []
    assert draft.empty
    assert not draft.started


@pytest.mark.req("PX-40", "PX-43")
def test_text_ends_the_thought_that_shares_its_flow():
    draft = Draft()
    draft.think("Hm")
    said = draft.text("Hi")
    assert said == [ev.ThinkingEnd(0, Thinking("Hm")), ev.TextStart(1), ev.TextDelta(1, "Hi")]


def test_a_call_ends_the_flow_but_no_other_call():
    draft = Draft()
    draft.text("Look:")
    assert kinds(draft.call("a", name="f")) == ["TextEnd", "CallStart"]
    assert kinds(draft.call("b", name="g")) == ["CallStart"]
    assert draft.is_open("a")
    assert draft.is_open("b")


def test_a_call_at_a_key_in_use_ends_the_call_before_it():
    draft = Draft()
    draft.call("a", name="f", id="1")
    draft.arguments("a", '{"x":1}')
    said = draft.call("a", name="g", id="2")
    assert said == [ev.CallEnd(0, Call("1", "f", {"x": 1})), ev.CallStart(1, "2", "g")]


def test_interleaved_calls_keep_their_own_arguments():
    draft = Draft()
    events = draft.call("a", name="f", id="1") + draft.call("b", name="g", id="2")
    for key, piece in [("a", '{"x"'), ("b", '{"y":'), ("a", ":1}"), ("b", "2}")]:
        events += draft.arguments(key, piece)
    events += draft.finish("end")
    grammar.check(events)
    assert collect(events).calls == (Call("1", "f", {"x": 1}), Call("2", "g", {"y": 2}))


def test_keyed_texts_may_interleave():
    draft = Draft()
    events = draft.text("a", "x") + draft.text("b", "y") + draft.text("A", "x")
    events += draft.text("B", "y") + draft.finish("end")
    grammar.check(events)
    assert collect(events).content == (Text("aA"), Text("bB"))


@pytest.mark.req("PX-23")
def test_a_missing_or_repeated_id_is_replaced():
    draft = Draft(Ids("seed"))
    for key, id in enumerate(["", "same", "same", ""]):
        draft.call(key, name="f", id=id)
    ids = [call.id for call in collect(draft.finish("end")).calls]
    assert ids[1] == "same"
    assert len(set(ids)) == 4


def test_a_drawn_id_that_the_upstream_used_is_drawn_again():
    taken = Ids("seed").call()
    draft = Draft(Ids("seed"))
    draft.call("a", name="f", id=taken)
    draft.call("b", name="f")
    first, second = collect(draft.finish("end")).calls
    assert first.id == taken
    assert second.id != taken


@pytest.mark.parametrize(
    ("pieces", "call"),
    [
        ([], Call("1", "f")),
        (["", " \n"], Call("1", "f")),
        (["{}"], Call("1", "f")),
        (['{"a"', ":[1,", "2]}"], Call("1", "f", {"a": [1, 2]})),
        (['{"a":"\u2028"}'], Call("1", "f", {"a": "\u2028"})),
        (['{"n":1', "0" * 30 + "}"], Call("1", "f", {"n": 10**30})),
        (['{"a":1'], Call("1", "f", raw='{"a":1')),
        (["[1]"], Call("1", "f", raw="[1]")),
        (['"text"'], Call("1", "f", raw='"text"')),
        (["{'a': 1}"], Call("1", "f", raw="{'a': 1}")),
        (["{" + '"a":{' * 3000], Call("1", "f", raw="{" + '"a":{' * 3000)),
    ],
    ids=range(11),
)
def test_arguments_are_an_object_or_stay_raw(pieces, call):
    draft = Draft()
    draft.call("a", name="f", id="1")
    for piece in pieces:
        draft.arguments("a", piece)
    (end,) = draft.end("a")
    assert end.call == call


@every_row(
    "pieces",
    [["\ud83d", "\ude00"], ["a\ud83d", "\ude00b"], ["\ud83d", "", "\ude00"], ["\ud83d\ude00"]],
)
@every_row("write", [Draft.text, Draft.think])
def test_halves_of_a_surrogate_pair_are_joined(write, pieces):
    draft = Draft()
    events = [event for piece in pieces for event in write(draft, piece)]
    events += draft.finish("end")
    grammar.check(events)
    (part,) = collect(events).content
    assert part.text == "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16")


BEGINNINGS = {
    "nothing": lambda draft: draft.text(""),
    "a text": lambda draft: draft.text("a"),
    "a thought": lambda draft: draft.think("a"),
    "half a pair": lambda draft: draft.text("a\ud83d"),
    "an end": lambda draft: draft.text("a") + draft.finish("end"),
    "a failure": lambda draft: draft.text("a") + draft.fail(Problem("rejected", "no")),
}


@pytest.mark.parametrize("before", BEGINNINGS)
@given(
    pieces=st.lists(st.sampled_from(["", "a", "é\n", "\ud83d", "\ude00"]), min_size=1, max_size=4)
)
def test_pieces_of_a_text_are_written_as_one_after_the_other(before, pieces):
    together, apart = Draft(), Draft()
    assert BEGINNINGS[before](together) == BEGINNINGS[before](apart)
    written = together.text_pieces(pieces)
    assert written == [event for piece in pieces for event in apart.text(piece)]
    assert together.texts == apart.texts
    assert together.finish("end") == apart.finish("end")


def test_halves_in_arguments_are_joined():
    draft = Draft()
    events = draft.call("a", name="f", id="1")
    for piece in ['{"a":"\ud83d', '\ude00"}']:
        events += draft.arguments("a", piece)
    events += draft.finish("end")
    grammar.check(events)
    assert collect(events).calls == (Call("1", "f", {"a": "\U0001f600"}),)


@every_row(
    ("pieces", "text"),
    [
        (["a\ud83d"], "a\ufffd"),
        (["\ud83d"], "\ufffd"),
        (["\ude00b"], "\ufffdb"),
        (["\ud83d", "x"], "\ufffdx"),
        (["\ud83d", "\ud83d", "\ude00"], "\ufffd\U0001f600"),
    ],
)
def test_a_half_that_stays_alone_is_replaced_not_dropped(pieces, text):
    draft = Draft()
    events = [event for piece in pieces for event in draft.text(piece)] + draft.finish("end")
    grammar.check(events)
    assert collect(events).text == text


def test_a_half_is_not_carried_into_the_next_block():
    draft = Draft()
    events = draft.think("\ud83d") + draft.text("\ude00") + draft.finish("end")
    message = collect(events)
    assert message.content == (Thinking("\ufffd"), Text("\ufffd"))


def test_a_seal_belongs_to_the_open_thought():
    draft = Draft()
    draft.think("Hm")
    assert draft.seal(SIGNATURE) == []
    assert draft.end() == [ev.ThinkingEnd(0, Thinking("Hm", (SIGNATURE,)))]


def test_a_seal_without_a_thought_is_a_hidden_one():
    draft = Draft()
    said = draft.text("Hi")
    sealed = draft.seal(REDACTED)
    assert kinds(sealed) == ["TextEnd", "ThinkingStart"]
    assert collect(said + sealed + draft.finish("end")).content == (
        Text("Hi"),
        Thinking("", (REDACTED,)),
    )


def test_a_seal_at_the_key_of_a_call_is_the_calls():
    draft = Draft()
    draft.call("a", name="f", id="1")
    assert draft.seal(SIGNATURE, "a") == []
    draft.tag_call("a", REDACTED)
    assert collect(draft.finish("end")).calls[0].opaque == (SIGNATURE, REDACTED)


def test_a_citation_belongs_to_the_open_text():
    draft = Draft()
    draft.cite({"url": "nowhere yet"})
    draft.text("It is blue.")
    draft.cite({"url": "u"})
    assert collect(draft.finish("end")).content == (Text("It is blue.", ({"url": "u"},)),)


def test_a_tag_for_a_call_that_is_not_open_is_passed_over():
    draft = Draft()
    draft.tag_call("a", SIGNATURE)
    draft.call("a", name="f", id="1")
    assert collect(draft.finish("end")).calls[0].opaque == ()


@pytest.mark.parametrize("part", [Image(data="aGk="), Foreign("gemini", "x", {})])
def test_a_part_that_came_whole_is_a_block_of_its_own(part):
    draft = Draft()
    events = draft.text("See:") + draft.add(part) + draft.text("there") + draft.finish("end")
    grammar.check(events)
    assert collect(events).content == (Text("See:"), part, Text("there"))


def test_usage_is_said_when_it_changes():
    draft = Draft()
    assert draft.usage(Usage()) == []
    assert kinds(draft.usage(Usage(input=3))) == ["Started", "UsageReported"]
    assert draft.usage(Usage(input=3)) == []
    assert kinds(draft.usage(Usage(input=4))) == ["UsageReported"]


@pytest.mark.req("CL-07")
@every_row(
    ("calls", "claimed", "reason"),
    [
        (True, "end", "tool_use"),
        (True, "stop_sequence", "tool_use"),
        (True, "tool_use", "tool_use"),
        (True, "length", "length"),
        (True, "refusal", "refusal"),
        (False, "tool_use", "end"),
        (False, "end", "end"),
        (False, "stop_sequence", "stop_sequence"),
        (False, "pause", "pause"),
        (False, "context_overflow", "context_overflow"),
    ],
)
def test_the_reason_follows_what_was_seen_then_what_was_claimed(calls, claimed, reason):
    draft = Draft()
    if calls:
        draft.call("a", name="f")
    finished = draft.finish(claimed, stop_sequence="END")[-1]
    assert finished.reason == reason
    assert finished.stop_sequence == ("END" if reason == "stop_sequence" else "")


def test_an_answer_may_be_empty():
    events = Draft(Ids("s")).finish("end")
    grammar.check(events)
    assert collect(events) == Message(id=Ids("s").message(), stop="end")


def test_a_good_end_closes_what_is_open_in_the_order_of_its_start():
    draft = Draft()
    draft.call("z", name="f", id="1")
    draft.call("a", name="g", id="2")
    assert [event.index for event in draft.finish("end")[:-1]] == [0, 1]


@pytest.mark.req("CL-05")
def test_a_failure_leaves_half_a_call_open():
    draft = Draft()
    events = draft.call("a", name="f", id="1")
    events += draft.arguments("a", '{"x":')
    events += draft.fail(PROBLEM)
    grammar.check(events)
    assert kinds(events) == ["Started", "CallStart", "CallDelta", "Failed"]
    assert collect(events).calls == (Call("1", "f", raw='{"x":'),)
    assert collect(events).stop == "error"
    assert collect(events).problem == PROBLEM


def test_an_abort_says_so():
    events = Draft().fail(Problem("aborted", "the client left"))
    assert collect(events).stop == "aborted"


@pytest.mark.parametrize("end", [lambda d: d.finish("end"), lambda d: d.fail(PROBLEM)])
def test_after_the_end_there_is_silence(end):
    draft = Draft()
    draft.call("open", name="f")
    end(draft)
    said = [
        draft.start(),
        draft.text("x"),
        draft.think("x"),
        draft.seal(SIGNATURE),
        draft.call("b", name="g"),
        draft.arguments("open", "{}"),
        draft.end("open"),
        draft.add(Image(data="aGk=")),
        draft.usage(Usage(input=1)),
        draft.finish("end"),
        draft.fail(PROBLEM),
    ]
    assert said == [[]] * len(said)


def test_an_end_of_what_is_not_open_says_nothing():
    draft = Draft()
    draft.text("x")
    assert kinds(draft.end()) == ["TextEnd"]
    assert draft.end() == []
    assert draft.end("never") == []


SOME, MUCH = "x" * 1000, "é" * 20_000


@every_row(
    "write",
    [
        lambda draft: draft.text(SOME),
        lambda draft: draft.text(MUCH),
        lambda draft: draft.text_pieces([SOME, SOME]),
        lambda draft: draft.text_pieces([MUCH]),
        lambda draft: draft.think(SOME),
        lambda draft: draft.text(SOME) + draft.end(),
        lambda draft: draft.call("a", name="f") + draft.arguments("a", SOME),
    ],
    ids=["text", "large", "at once", "large at once", "thoughts", "many texts", "many calls"],
)
def test_an_answer_that_is_too_long_fails(write, monkeypatch):
    monkeypatch.setattr(draft_module, "MOST_WRITTEN", 1_000_000)
    draft, events, size = Draft(), [], 0
    while not draft.ended:
        new = write(draft)
        events += new
        size += sum(
            len(one.text) for one in new if isinstance(one, ev.TextDelta | ev.ThinkingDelta)
        )
        size += sum(len(one.json) for one in new if isinstance(one, ev.CallDelta))
        assert size < 1_600_000, "nothing ends it"
    assert size > 1_000_000
    assert isinstance(events[-1], ev.Failed)
    assert "more than 1,000,000 characters" in events[-1].problem.text
    grammar.check(events)
    assert write(draft) == []


def test_a_call_without_a_name_has_one_all_the_same():
    draft = Draft()
    events = draft.call(0, name="") + draft.finish("end")
    assert collect(events).calls[0].name == "unknown"


ABSURD = st.one_of(
    st.integers(max_value=-1), st.integers(min_value=MOST_TOKENS + 1), st.just(2**63)
)
COUNTS = tuple(name for name in Usage.__struct_fields__ if name not in {"cost", "native"})


@given(
    right=st.dictionaries(st.sampled_from(COUNTS), st.integers(0, MOST_TOKENS)),
    wrong=st.dictionaries(st.sampled_from(COUNTS), ABSURD),
)
def test_counts_that_cannot_be_right_are_not_reported(right, wrong):
    events = Draft().usage(Usage(**{**right, **wrong, "output": 7, "native": {"openai": {"x": 1}}}))
    wrong.pop("output", None)
    kept = {name: count for name, count in right.items() if name not in wrong}
    assert events[1] == ev.UsageReported(
        Usage(**{**kept, "output": 7, "native": {"openai": {"x": 1}}})
    )
    assert kinds(events) == ["Started", "UsageReported", *(["Lost"] if wrong else [])]


@pytest.mark.parametrize("dollars", [-1.0, 1e7, 1e300, float("inf"), float("nan")])
def test_a_cost_that_cannot_be_right_is_not_reported(dollars):
    draft = Draft()
    events = draft.usage(Usage(output=1, cost=Cost(total=dollars)))
    assert events[1] == ev.UsageReported(Usage(output=1))
    assert events[2].loss.what == "answer.usage"
    assert kinds(draft.usage(Usage(output=2**63))) == ["UsageReported"], "a loss is reported once"
