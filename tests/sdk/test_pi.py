"""pi's contract: events, contexts, and one object for those who block and those who await."""

import asyncio
import gc

import pytest
from tests.sdk.household import nothing_left
from tests.sdk.places import ANSWERS, QUIET, RATES, place, script

import toolbridge
from toolbridge import AsyncClient, Client
from toolbridge.config import Config
from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.ids import Ids
from toolbridge.core.messages import (
    Call,
    HealingReport,
    Image,
    Message,
    Opaque,
    Problem,
    Request,
    Result,
    Text,
    Thinking,
    Tool,
    Turn,
)
from toolbridge.core.usage import Usage
from toolbridge.sdk.pi_context import request_of
from toolbridge.sdk.pi_events import Teller


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    """An environment in which the demo model answers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OLLAMA_HOST", QUIET["OLLAMA_HOST"])
    for name in ("TOOLBRIDGE_CONFIG", "XDG_CONFIG_HOME", "TOOLBRIDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)


def look(city: str) -> str:
    """Look at a city."""
    return city


# ── events ──


def written() -> list[ev.Event]:
    """An answer with a thought, some text, and two calls that are written at the same time."""
    draft = Draft(Ids("pi"))
    said = draft.start(model="m")
    said += draft.usage(Usage(input=3))
    said += draft.think("hm") + draft.think("m")
    said += draft.text("He") + draft.text("llo")
    said += draft.call("a", name="f") + draft.call("b", name="g")
    said += draft.arguments("a", '{"x": [1, ') + draft.arguments("b", '{"y": "par')
    said += draft.arguments("a", "2]}") + draft.arguments("b", 'tial"}')
    said += draft.add(Image(data="aa"))
    said += draft.usage(Usage(input=3, output=9))
    return said + draft.finish("end")


def told(events: list[ev.Event]) -> list:
    teller = Teller()
    return [event for said in events for event in teller.feed(said)] + teller.close()


@pytest.mark.req("ZG-05", "ZG-06")
def test_every_event_has_its_type_and_its_place():
    assert [(event.type, getattr(event, "content_index", None)) for event in told(written())] == [
        ("start", None),
        ("thinking_start", 0), ("thinking_delta", 0), ("thinking_delta", 0), ("thinking_end", 0),
        ("text_start", 1), ("text_delta", 1), ("text_delta", 1), ("text_end", 1),
        ("toolcall_start", 2), ("toolcall_start", 3),
        ("toolcall_delta", 2), ("toolcall_delta", 3), ("toolcall_delta", 2), ("toolcall_delta", 3),
        ("toolcall_end", 2), ("toolcall_end", 3),
        ("done", None),
    ]  # fmt: skip


@pytest.mark.req("ZG-06")
def test_ends_carry_what_was_written():
    by_type = {event.type: event for event in told(written())}
    assert by_type["thinking_end"].content == "hmm"
    assert by_type["text_end"].content == "Hello"
    assert by_type["toolcall_end"].tool_call.arguments == {"y": "partial"}
    assert by_type["done"].reason == "toolUse"
    assert by_type["done"].message.usage.output == 9


@pytest.mark.req("ZG-02", "ZG-06")
def test_the_partial_message_is_that_of_its_moment_whenever_it_is_read():
    events = told(written())
    first = [event.partial for event in events]
    assert [event.partial for event in reversed(events)] == first[::-1]
    calls = [m.content[2:4] for event, m in zip(events, first, strict=True)
             if event.type == "toolcall_delta"]  # fmt: skip
    assert [[call.arguments for call in pair] for pair in calls] == [
        [{"x": [1]}, {}],
        [{"x": [1]}, {"y": "par"}],
        [{"x": [1, 2]}, {"y": "par"}],
        [{"x": [1, 2]}, {"y": "partial"}],
    ]


def test_the_partial_message_grows_with_each_delta():
    texts = [event.partial.text for event in told(written()) if event.type.startswith("text")]
    assert texts == ["", "He", "Hello", "Hello"]


@pytest.mark.req("ZG-23")
def test_counts_stand_in_the_partial_message():
    events = told(written())
    assert events[1].partial.usage.input == 3
    assert events[-1].partial.usage.output == 9


def test_a_delta_does_not_cost_the_message():
    """Nothing is folded before somebody looks."""
    draft = Draft(Ids("pi"))
    teller = Teller()
    for said in draft.start() + draft.text("a"):
        teller.feed(said)
    for _ in range(1000):
        for said in draft.text("word "):
            teller.feed(said)
    assert teller._log._folded == 0
    assert len(teller.message.text) == 5001


def test_what_pi_has_no_event_for_is_in_the_message():
    draft = Draft(Ids("pi"))
    said = draft.start() + draft.add(Image(data="aa")) + draft.text("b")
    report = HealingReport("c", "f", 1, ())
    events = told([*said, ev.Healed(1, report)])
    assert [event.type for event in events] == ["start", "text_start", "text_delta"]
    assert events[-1].content_index == 1
    assert events[-1].partial.content == (Image(data="aa"), Text("b"))


@pytest.mark.parametrize(
    ("claimed", "kind", "reason"),
    [
        ("end", "done", "stop"),
        ("stop_sequence", "done", "stop"),
        ("pause", "done", "stop"),
        ("length", "done", "length"),
        ("context_overflow", "done", "length"),
        ("refusal", "error", "error"),
    ],
)
@pytest.mark.req("ZG-36")
def test_ends_have_pis_reasons(claimed, kind, reason):
    draft = Draft(Ids("pi"))
    last = told(draft.text("a") + draft.finish(claimed))[-1]
    assert (last.type, last.reason) == (kind, reason)
    assert last.partial.stop == claimed


@pytest.mark.parametrize(("problem", "reason"), [("aborted", "aborted"), ("overloaded", "error")])
def test_failures_are_error_events(problem, reason):
    draft = Draft(Ids("pi"))
    last = told(draft.text("a") + draft.fail(Problem(problem, "why")))[-1]
    assert (last.type, last.reason) == ("error", reason)
    assert (last.error.text, last.error.problem.text) == ("a", "why")


# ── contexts ──


def test_a_context_may_be_a_text_or_a_request():
    assert request_of("hi")[0].turns == (Turn("user", (Text("hi"),)),)
    given = Request("m", (Turn("user", (Text("hi"),)),))
    assert request_of(given) == (given, ())


CONTEXT = {
    "systemPrompt": "Be brief.",
    "messages": [
        {"role": "user", "content": "hi", "timestamp": 1},
        {"role": "assistant", "api": "anthropic-messages", "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
            {"type": "text", "text": "ok"},
            {"type": "toolCall", "id": "c1", "name": "f", "arguments": {"camelCase": 1}},
            {"type": "toolCall", "id": "c2", "name": "f", "arguments": {}},
        ]},
        {"role": "toolResult", "toolCallId": "c1", "toolName": "f", "isError": False,
         "content": [{"type": "text", "text": "one"},
                     {"type": "image", "data": "aa", "mimeType": "image/png"}]},
        {"role": "toolResult", "toolCallId": "c2", "toolName": "f", "isError": True,
         "content": "bad"},
        {"role": "user", "content": [{"type": "text", "text": "and?"}]},
    ],
    "tools": [{"name": "f", "description": "d", "parameters": {"type": "object"}}],
}  # fmt: skip


def test_a_context_of_pis_is_read():
    request, tools = request_of(CONTEXT)
    assert request.system == (Text("Be brief."),)
    assert tools == (Tool("f", "d", {"type": "object"}),)
    assert request.turns == (
        Turn("user", (Text("hi"),)),
        Turn("assistant", (
            Thinking("hm", (Opaque("anthropic", "signature", "sig"),)),
            Text("ok"),
            Call("c1", "f", {"camelCase": 1}),
            Call("c2", "f"),
        )),
        Turn("user", (
            Result("c1", (Text("one"), Image(data="aa", media_type="image/png")), name="f"),
            Result("c2", (Text("bad"),), is_error=True, name="f"),
        )),
        Turn("user", (Text("and?"),)),
    )  # fmt: skip


def test_names_may_be_pythons():
    message = {"role": "toolResult", "tool_call_id": "c", "tool_name": "f", "is_error": True}
    request, _ = request_of({"system_prompt": "x", "messages": [message]})
    assert request.turns == (Turn("user", (Result("c", (Text(""),), is_error=True, name="f"),)),)
    assert request.system == (Text("x"),)


def test_a_signature_without_a_known_origin_is_left_out():
    part = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}
    request, _ = request_of({"messages": [{"role": "assistant", "content": [part]}]})
    assert request.turns[0].content == (Thinking("hm"),)


def test_a_google_call_keeps_its_signature():
    part = {"type": "toolCall", "id": "c", "name": "f", "thoughtSignature": "s"}
    message = {"role": "assistant", "api": "google-generative-ai", "content": [part]}
    (call,) = request_of({"messages": [message]})[0].turns[0].content
    assert call.opaque == (Opaque("gemini", "thought_signature", "s"),)


def test_our_own_words_may_stand_in_a_context():
    turn = Turn("user", (Text("hi"),))
    request, tools = request_of(
        {"messages": [turn, Message(content=(Text("ok"),)), turn], "tools": [look, Tool("t")]}
    )
    assert request.turns == (turn, Turn("assistant", (Text("ok"),)), turn)
    assert tools == (look, Tool("t"))


@pytest.mark.parametrize(
    ("context", "where"),
    [
        ({"messages": "hi"}, "context.messages"),
        ({"messages": [{"role": "wizard"}]}, "context.messages.0"),
        ({"messages": [{"content": "hi"}]}, "context.messages.0"),
        ({"messages": [object()]}, "context.messages.0"),
        ({"messages": [{"role": "user", "content": [{"type": "song"}]}]}, "context.messages.0"),
        ({"messages": [{"role": "assistant", "content": [{"type": "image"}]}]},
         "context.messages.0"),
        ({"messages": [], "tools": [{"description": "x"}]}, "context.tools.0"),
        ({"message": []}, "context"),
        ({"systemPrompt": 3, "messages": []}, "context.system_prompt"),
    ],
)  # fmt: skip
def test_a_context_that_nobody_can_read_says_where(context, where):
    with pytest.raises(MalformedRequest) as caught:
        request_of(context)
    assert caught.value.problem.where == where


def test_anything_else_is_no_context():
    with pytest.raises(TypeError, match="context"):
        request_of(3)


# ── the stream ──


def test_those_who_block_iterate():
    answer = toolbridge.stream("x", {"messages": [{"role": "user", "content": "5 + 5"}]})
    events = list(answer)
    assert "".join(event.delta for event in events if event.type == "text_delta") == "5 + 5 = 10"
    assert events[-1].type == "done"
    assert answer.result() == events[-1].message
    assert toolbridge.complete("x", "5 + 5").text == "5 + 5 = 10"


async def test_those_who_await_iterate():
    answer = toolbridge.stream("x", "5 + 5")
    events = [event async for event in answer]
    assert events[-1].type == "done"
    assert (await toolbridge.stream("x", "5 + 5")).text == "5 + 5 = 10"


async def test_an_answer_is_read_in_one_way_only():
    blocked = toolbridge.stream("x", "hi")
    next(blocked)
    with pytest.raises(TypeError, match="`for`"):
        await anext(blocked)
    awaited = toolbridge.stream("x", "hi")
    await anext(awaited)
    with pytest.raises(TypeError, match="async for"):
        next(awaited)
    await awaited
    with Client(Config(), env=QUIET) as client, pytest.raises(TypeError, match="`for`"):
        await toolbridge.stream("x", "hi", client=client)
    async with AsyncClient(Config(), env=QUIET) as other:
        with pytest.raises(TypeError, match="async for"):
            toolbridge.complete("x", "hi", client=other)


@pytest.mark.req("ZG-34")
async def test_nothing_stays_behind_an_answer_that_is_left():
    async with nothing_left():
        for event in toolbridge.stream("x", "[[long]]"):
            if event.type == "text_delta":
                break
        async for event in toolbridge.stream("x", "[[long]]"):
            if event.type == "text_delta":
                break
        gc.collect()


def test_the_tools_of_a_context_are_offered():
    context = {"messages": [{"role": "user", "content": "Look at Paris"}], "tools": [look]}
    message = toolbridge.complete("x", context)
    assert [(call.name, call.arguments) for call in message.calls] == [("look", {"city": "Paris"})]


def test_an_event_shows_itself_without_the_message():
    (start, *_) = told(written())
    assert repr(start) == "Start(moment=Moment(1))"


def test_an_abort_is_an_event():
    answer = toolbridge.stream("x", "[[long]]")
    for event in answer:
        if event.type == "text_delta":
            answer.abort()
    assert (event.type, event.reason) == ("error", "aborted")
    assert event.error.text
    assert answer.message == event.error


def test_an_abort_ends_its_own_answer_only():
    signal = toolbridge.Signal()
    with Client(Config(), env=QUIET) as client:
        one, other = (
            toolbridge.stream("x", "[[long]]", signal=signal, client=client) for _ in range(2)
        )
        one.abort()
        assert one.result().stop == "aborted"
        next(other)
        signal.abort("all of you")
        assert other.result().problem.text == "all of you"


async def test_a_failure_is_an_event():
    async with (
        place("anthropic", script("anthropic", ANSWERS["anthropic"][:4])) as (_, config),
        AsyncClient(config) as client,
    ):
        events = [event async for event in toolbridge.stream("there/m", "hi", client=client)]
    assert (events[-1].type, events[-1].reason) == ("error", "error")
    assert events[-1].error.text == "Looking."
    assert events[-1].error.usage.cost.total > 0


@pytest.mark.req("ZG-23", "ZG-24")
async def test_the_cost_follows_every_count():
    async with place("anthropic") as (_, config), AsyncClient(config) as client:
        events = [
            event async for event in toolbridge.stream("there/m", "hi", tools=[look], client=client)
        ]
    usages = [event.partial.usage for event in events[1:]]
    assert all(usage.cost.input == usage.input * RATES.input / 1e6 for usage in usages)
    assert usages[0].cost.total < usages[-1].cost.total


async def test_reasoning_is_pis_word_for_thinking():
    async with AsyncClient(Config(), env=QUIET) as client:
        answer = toolbridge.stream("x", "hi", reasoning="high", client=client)
        kinds = {event.type async for event in answer}
    assert {"thinking_start", "thinking_delta", "thinking_end"} <= kinds


def test_a_client_is_kept_between_calls():
    with Client(Config(), env=QUIET) as client:
        assert toolbridge.complete("x", "1 + 1", client=client).text == "1 + 1 = 2"
        assert toolbridge.complete("x", "1 + 2", client=client).text == "1 + 2 = 3"


def test_bad_words_raise_at_once():
    with pytest.raises(TypeError, match="no option"):
        toolbridge.stream("x", "hi", warmth=1)
    with pytest.raises(MalformedRequest):
        toolbridge.stream("x", {"messages": []})


async def test_a_blocking_answer_works_inside_a_running_loop():
    assert toolbridge.stream("x", "5 + 5").result().text == "5 + 5 = 10"
    assert (await asyncio.to_thread(toolbridge.complete, "x", "5 + 5")).stop == "end"
