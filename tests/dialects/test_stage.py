"""Behind a decoder: text is read, everything else passes."""

import pytest
from tests.properties.grammar import check
from tests.work import calls_made

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.fold import collect
from toolbridge.core.messages import Opaque, Problem, Text, Thinking, Tool
from toolbridge.dialects.stage import DialectStage

TOOLS = [Tool("read_file"), Tool("get_time")]
HALF = '<tool_call>{"name": "read_file", "arguments": {"path": '
CALL = '<tool_call>{"name": "read_file", "arguments": {"path": "a"}}</tool_call>'


def staged(events, **options):
    stage = DialectStage(TOOLS, **options)
    return [out for event in events for out in stage.feed(event)] + stage.close()


def answer(*parts, reason="end"):
    """Return the events of an answer; each part is a text, or what a draft does."""
    draft = Draft()
    events = draft.start(id="msg_1", model="m")
    for part in parts:
        events += draft.text(part) if isinstance(part, str) else part(draft)
    return events + draft.finish(reason)


def native(draft):
    return (
        draft.call("k", name="get_time", id="toolu_1")
        + draft.arguments("k", '{"zone": "UTC"}')
        + draft.end("k")
    )


@pytest.mark.req("CB-32", "CB-33")
def test_a_call_in_the_text_becomes_a_call_and_the_reason_follows():
    events = staged(answer("Let me see. ", CALL))
    message = collect(events)
    assert [type(part).__name__ for part in message.content] == ["Text", "Call"]
    assert message.calls[0].arguments == {"path": "a"}
    assert message.stop == "tool_use"
    assert message.id == "msg_1"
    check(events)


@pytest.mark.req("CB-34")
def test_plain_text_passes_as_it_is():
    message = collect(staged(answer("  Hello, ", "world.\n")))
    assert message.content == (Text("  Hello, world.\n"),)
    assert message.stop == "end"


def test_a_native_call_passes_untouched():
    message = collect(staged(answer("Now. ", native)))
    assert message.content[0] == Text("Now. ")
    assert message.calls[0].id == "toolu_1"
    assert message.calls[0].arguments == {"zone": "UTC"}


def test_native_and_written_calls_share_one_row_of_indices():
    events = staged(answer(CALL, native, "Then ", CALL))
    message = collect(events)
    check(events)
    assert [type(part).__name__ for part in message.content] == ["Call", "Call", "Text", "Call"]
    assert len({call.id for call in message.calls}) == 3


def test_an_id_that_was_used_before_is_replaced():
    written = "[TOOL_CALLS]read_file[CALL_ID]toolu_1[ARGS]{}"
    calls = collect(staged(answer(native, written), dialect="mistral_callid")).calls
    assert calls[0].id == "toolu_1"
    assert calls[1].id != "toolu_1"


def test_a_thought_passes_byte_for_byte_with_its_seal():
    seal = Opaque("anthropic", "signature", "sig")
    thought = f"\n Maybe {CALL} \n"
    events = answer(lambda d: d.think(thought) + d.seal(seal), "Yes.")
    message = collect(staged(events))
    assert message.content[0] == Thinking(thought, (seal,))
    assert message.calls == ()


def test_a_call_in_a_thought_that_something_follows_is_a_draft():
    message = collect(staged(answer(lambda d: d.think(f"Maybe {CALL}"), "No.")))
    assert message.thinking == f"Maybe {CALL}"
    assert message.text == "No."
    assert message.calls == ()


def test_a_call_in_the_last_thought_is_a_call():
    events = staged(answer(lambda d: d.think("I read it. <tool"), lambda d: d.think(CALL[5:])))
    message = collect(events)
    assert message.thinking == "I read it. "
    assert message.calls[0].name == "read_file"
    assert message.stop == "tool_use"
    check(events)


def test_an_answer_that_ran_out_of_tokens_keeps_its_reason_and_no_whole_call():
    message = collect(staged(answer(HALF, reason="length")))
    assert message.stop == "length"
    assert message.calls[0].raw


def test_after_a_failure_half_a_call_stays_open():
    draft = Draft()
    events = draft.start() + draft.text(HALF) + draft.fail(Problem("truncated", "cut"))
    said = staged(events)
    assert not any(isinstance(event, ev.CallEnd) for event in said)
    assert isinstance(said[-1], ev.Failed)
    assert collect(said).calls[0].raw == '{"path": '


def test_after_a_failure_held_text_is_said():
    draft = Draft()
    events = draft.start() + draft.text("a <tool") + draft.fail(Problem("truncated", "cut"))
    assert collect(staged(events)).text == "a <tool"


def test_citations_stay_with_the_text():
    def cited(draft):
        said = draft.text("A fact.")
        draft.cite({"url": "u"})
        return said

    message = collect(staged(answer(cited)))
    assert message.content == (Text("A fact.", citations=({"url": "u"},)),)


def test_every_cut_of_the_text_gives_the_same_message():
    text = f"See. {CALL} and <think>hm</think> so"
    whole = collect(staged(answer(text)))
    pieces = collect(staged(answer(*text)))
    assert pieces.content == whole.content


def test_a_thought_that_is_nothing_but_a_call_is_no_thought():
    events = staged(answer(lambda d: d.think(CALL)))
    check(events)
    assert [type(part).__name__ for part in collect(events).content] == ["Call"]


def test_a_hidden_thought_keeps_its_token():
    seal = Opaque("anthropic", "redacted", "secret")
    events = staged(answer(lambda d: d.seal(seal), "Yes."))
    check(events)
    assert collect(events).content[0] == Thinking("", (seal,))


def test_a_sealed_thought_is_never_taken_apart():
    seal = Opaque("anthropic", "signature", "sig")
    message = collect(staged(answer(lambda d: d.think(CALL) + d.seal(seal))))
    assert message.content == (Thinking(CALL, (seal,)),)


@pytest.mark.parametrize(("dialect", "most"), [("auto", 61), ("hermes_json", 54)])
def test_ten_characters_of_prose_cost_few_calls(dialect, most):
    text = "The house is small, but it has a garden; to the left, a tree. " * 50
    events = answer(*(text[at : at + 10] for at in range(0, len(text), 10)))
    staged(events, dialect=dialect)  # what is made once is made here
    assert calls_made(lambda: staged(events, dialect=dialect)) / len(events) < most
