"""The same stream over a model that has tools and schemas of its own."""

import pytest
from tests.structured.play import (
    ACTION,
    REPLY,
    Play,
    call,
    called,
    contract,
    obj,
    play,
    result,
    spoken,
)
from tests.tables import every_row

from toolbridge.core import events as cv
from toolbridge.core.draft import Draft
from toolbridge.core.json import dumps, loads
from toolbridge.core.messages import Call, HealingReport, Opaque, Result, Step, Text, Thinking
from toolbridge.structured import events as ev
from toolbridge.structured.conversation import RunTool
from toolbridge.structured.limits import Limits

SEARCH = ("places.search", '{"query":"pizza"}')
SHOW = ("write_Action", ACTION)
RESULT = ["result.begin", "result.delta", "result.end", "done"]
TOOL = ["tool.call", "tool.result"]


def native(*answers: object, **changes: object) -> Play:
    return play(*answers, mode="native", **changes)


def test_tools_and_the_result_schema_are_offered_as_the_models_own():
    (request,) = native(spoken(REPLY)).requests
    assert [tool.name for tool in request.tools] == [
        "places.search", "bookings.create",
        "write_Action", "write_Grid", "write_Never", "write_List",
    ]  # fmt: skip
    assert request.tools[0].schema["required"] == ["query"]
    assert request.output.name == "AssistantReply"
    assert request.output.schema["required"] == ["answer", "citations"]
    assert "⟦" not in request.system[0].text


def test_an_answer_that_is_json_is_the_result_while_it_is_written():
    cuts = range(1, len(REPLY), 4)
    done = native(spoken(REPLY, cuts))
    assert done.names == RESULT
    assert done.end("R1") == ev.ResultEnd("R1", len(REPLY))
    assert sum(isinstance(e, ev.ResultDelta) for e in done.events) > 3


@pytest.mark.parametrize("text", [f"\n\n {REPLY}\n", f"```json\n{REPLY}\n```", f"```\n{REPLY}```"])
def test_white_space_and_fences_around_the_result_do_no_harm(text):
    for cuts in ((), range(1, len(text))):
        done = native(spoken(text, cuts))
        assert done.names == RESULT
        assert done.value("R1") == loads(REPLY)


@every_row("text", ["Hello.", "`x` is a name.", "``", "  "])
def test_words_are_text_and_the_result_is_asked_for(text):
    for cuts in ((), range(1, len(text))):
        done = native(spoken(text, cuts), repairs=[REPLY])
        assert done.text == text
        assert done.end("R1").status == "repaired"
        assert done.repairs[0].output.name == "AssistantReply"
        assert done.repairs[0].tools == ()


def test_a_result_that_the_token_limit_cut_is_repaired_and_not_closed():
    done = native(spoken(REPLY[:-1], stop="length"), repairs=[REPLY])
    assert done.codes == ["unclosed_frame"]
    assert done.end("R1").status == "repaired"


def test_calls_of_one_answer_run_at_once_and_their_results_go_back_as_results():
    book = ("bookings.create", '{"place_id":"p1","time":"19:00"}')
    done = native(called(SEARCH, book, text="Wait."), spoken(REPLY), tool=lambda w: {"n": w.name})
    calls = ["tool.call", "tool.call", "tool.result", "tool.result"]
    assert done.names == ["text.delta", *calls, *RESULT]
    assert done.rounds == [2]
    assert [(want.id, want.name) for want in done.calls] == [
        ("T1", "places.search"),
        ("T2", "bookings.create"),
    ]
    _, said, told = done.requests[1].turns
    assert said.content == (
        Text("Wait."),
        Call("call_0", "places.search", {"query": "pizza"}),
        Call("call_1", "bookings.create", {"place_id": "p1", "time": "19:00"}),
    )
    assert told.content == tuple(
        Result(f"call_{n}", (Text(dumps({"n": name})),), name=name)
        for n, name in enumerate(["places.search", "bookings.create"])
    )


def test_thoughts_go_back_with_their_seals():
    draft = Draft()
    seal = Opaque("anthropic", "signature", "abc")
    said = draft.think("Hm.") + draft.seal(seal) + draft.call(1, name="places.search", id="c1")
    said += draft.arguments(1, '{"query":"a"}') + draft.finish("tool_use")
    done = native(said, spoken(REPLY))
    assert done.requests[1].turns[1].content[0] == Thinking("Hm.", (seal,))


def test_arguments_are_healed_and_history_has_what_ran():
    done = native(called(("places.search", '{"query":"a","limit":"3"}')), spoken(REPLY))
    assert done.calls[0].args == {"query": "a", "limit": 3}
    assert done.requests[1].turns[1].content[0].arguments == {"query": "a", "limit": 3}


@pytest.mark.parametrize("arguments", ['{"query":"piz', '{"query":"pizza"', '{"query":'])
def test_arguments_that_were_cut_never_run(arguments):
    cut = called(("places.search", arguments), stop="length")
    done = native(cut, spoken(REPLY), repairs=[""])
    assert done.calls == []
    assert done.result_of("T1")["error"]["code"] == "invalid_arguments"
    assert done.requests[1].turns[-1].content[0].is_error
    done = native(cut, spoken(REPLY), repairs=['{"query":"pizza"}'])
    assert done.calls == [RunTool("T1", "places.search", {"query": "pizza"})]


@pytest.mark.req("TF-22", "TF-23")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('{"query":"' + "x" * 50 + '"}', "arguments_too_large"),
        ('{"query":[[[[1]]]]}', "frame_too_deep"),
    ],
)
def test_arguments_beyond_a_limit_do_not_run(arguments, code):
    limits = Limits(arguments=40, depth=3)
    done = native(called(("places.search", arguments)), spoken(REPLY), limits=limits)
    assert (done.calls, done.codes) == ([], [code])


def test_an_object_is_told_while_its_call_is_written():
    done = native(called(SHOW, SEARCH), spoken(REPLY))
    assert done.names == ["json.begin", "json.delta", "json.end", *TOOL, *RESULT]
    assert sum(isinstance(e, ev.JsonDelta) for e in done.events) == 2
    assert done.end("O1") == ev.JsonEnd("O1", len(ACTION))
    assert done.requests[1].turns[2].content[0] == Result(
        "call_0", (Text("ok"),), name="write_Action"
    )


def test_objects_that_are_written_at_once_do_not_mix():
    draft = Draft()
    said = draft.call(0, name="write_Action", id="a") + draft.call(1, name="write_Grid", id="b")
    for a, b in zip(ACTION, '{"rows":[[1,2]]}'.ljust(len(ACTION)), strict=True):
        said += draft.arguments(0, a) + draft.arguments(1, b)
    done = native(said + draft.finish("tool_use"), spoken(REPLY))
    assert done.value("O1") == loads(ACTION)
    assert done.value("O2") == {"rows": [[1, 2]]}


def test_a_broken_object_is_repaired_and_history_has_the_repaired_one():
    bad = ("write_Action", '{"mode":"search"}')
    done = native(called(bad, SEARCH), spoken(REPLY), repairs=[ACTION])
    assert done.end("O1").status == "repaired"
    assert done.requests[1].turns[1].content[0].arguments == loads(ACTION)
    assert len(done.calls) == 1


def test_an_object_that_was_cut_is_repaired():
    cut = called(("write_Action", ACTION[:-1]), stop="length")
    done = native(cut, spoken(REPLY), repairs=[ACTION])
    assert done.codes == ["unclosed_frame"]
    assert done.end("O1").status == "repaired"


def test_what_was_healed_on_its_way_here_is_said():
    events = called(SHOW)
    report = HealingReport(
        "call_0", "write_Action", 1, (Step("trailing comma removed", 1, "", ""),)
    )
    at = next(n for n, event in enumerate(events) if isinstance(event, cv.CallEnd))
    done = native([*events[:at], cv.Healed(0, report), *events[at:]], spoken(REPLY))
    assert done.end("O1").status == "healed"
    assert done.end("O1").steps == (ev.Change("trailing comma removed", 1),)


def test_a_model_that_only_writes_objects_comes_to_an_end():
    done = native(*[called(SHOW)] * 9, repairs=[REPLY], max_tool_calls=2)
    assert done.end("R1").status == "repaired"
    assert len(done.requests) == 3


def test_calls_beyond_the_allowed_number_are_left_out_of_history():
    done = native(called(SEARCH, SEARCH, SEARCH), repairs=[REPLY], max_tool_calls=1)
    assert len(done.calls) == 1
    assert done.codes == ["too_many_tool_calls"]
    calls = [
        part for turn in done.repairs[0].turns for part in turn.content if isinstance(part, Call)
    ]
    assert [part.id for part in calls] == ["call_0"]


@pytest.mark.req("TF-51")
@every_row("text", [call(), f"Hi. {obj()}{call()}", f"So. {result()}", f"{obj()}x"])
def test_there_are_no_sentinels_in_native_mode(text):
    for cuts in ((), range(1, len(text))):
        done = native(spoken(text, cuts), repairs=[REPLY])
        assert done.text == text
        assert done.names == ["text.delta", *RESULT]
        assert done.calls == []


@every_row("quoted", ["⟦END_RESULT id=R1⟧", call(), obj(), "⟦END_TOOL_CALL id=T1⟧"])
def test_a_sentinel_in_the_json_of_native_mode_is_a_part_of_it(quoted):
    body = dumps({"answer": quoted, "citations": []})
    done = native(spoken(body, range(1, len(body))))
    assert done.names == RESULT
    assert done.value("R1") == loads(body)
    shown = dumps({"mode": "search", "target": {"kind": "place", "id": quoted}})
    done = native(called(("write_Action", shown)), spoken(REPLY))
    assert done.value("O1") == loads(shown)


def test_a_call_after_the_result_does_not_run():
    draft = Draft()
    said = draft.text(REPLY) + draft.call(1, name="places.search", id="c1")
    done = native(said + draft.arguments(1, '{"query":"a"}') + draft.finish("tool_use"))
    assert done.names == RESULT
    assert done.calls == []


def test_without_schemas_of_its_own_the_model_writes_the_same_json():
    done = native(called(SEARCH), spoken(REPLY), structured=False)
    assert done.names == [*TOOL, *RESULT]
    assert done.requests[0].output is None
    assert "⟦" not in done.requests[0].system[0].text
    assert len(done.requests[0].tools) == 6


def test_an_unknown_call_is_told_to_the_model():
    done = Play(contract(mode="native")).run([called(("nope", "{}")), spoken(REPLY)])
    assert done.codes == ["unknown_tool"]
    assert done.requests[1].turns[-1].content[0].is_error


@pytest.mark.req("TF-25")
def test_an_object_that_takes_too_long_is_degraded():
    play = Play(contract(mode="native"))
    play.conversation.request()
    for event in called(SHOW)[:3]:
        play.conversation.feed(event)
    assert play.conversation.open_frame == "O1"
    assert [ev.name_of(e) for e in play.conversation.expire_frame()] == ["error", "json.end"]
