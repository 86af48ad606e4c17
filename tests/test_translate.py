"""A request on its way to a provider, and the events of an answer on their way to the client."""

import pytest
from msgspec.structs import replace
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core import events as ev
from toolbridge.core.codec import Outgoing, Target
from toolbridge.core.ids import SeenIds
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import (
    Call,
    Foreign,
    Request,
    Result,
    Sampling,
    Text,
    Think,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.core.shared_fields import NO_LIMIT
from toolbridge.policy.answer_stages import AnswerStages, EveryChoice, Renamer
from toolbridge.translate import (
    PreparedRequest,
    RequestOptions,
    answer_id,
    answer_stages,
    plan,
    translate,
)

CODEC = codecs.load("openai_chat")
TOOL = Tool("look", "Looks", {"type": "object", "properties": {}})
PLAIN = Request("m", turns=(Turn("user", (Text("Hi"),)),))
TARGET = Target(model="m", provider="p")
CALLED = (
    Turn("assistant", (Call("c1", "look"),)),
    Turn("user", (Result("c1", (Text("seen"),), name="look"),)),
)


def planned(request, target=TARGET, codec=CODEC, **options):
    return plan(request, codec, target, RequestOptions(**options))


def lost(ready):
    return [str(loss) for loss in ready.losses]


@every_row(
    ("choice", "sent", "losses"),
    [
        (ToolChoice(), None, []),
        (ToolChoice("named", ("look",)), {"type": "function", "function": {"name": "look"}}, []),
        (ToolChoice("named", ("gone", "too")), None, ["tool_choice: there is no tool 'gone, too'"]),
    ],
)
def test_a_choice_of_a_tool_that_is_not_offered_is_lost(choice, sent, losses):
    ready = planned(replace(PLAIN, tools=(TOOL,), tool_choice=choice))
    assert ready.outgoing.body.get("tool_choice") == sent
    assert lost(ready) == losses
    without = planned(replace(PLAIN, tools=(TOOL,), tool_choice=choice), codec=None)
    assert lost(without) == losses
    assert without.request.tool_choice == (choice if not losses else ToolChoice())


def test_a_target_without_tools_gets_them_in_its_prompt():
    request = replace(PLAIN, tools=(TOOL,))
    native = planned(request)
    assert (native.tool_mode, "tools" in native.outgoing.body) == ("native", True)
    told = planned(request, replace(TARGET, capabilities=frozenset()))
    assert (told.tool_mode, "tools" in told.outgoing.body) == ("prompt", False)
    assert told.tools == request.tools
    assert [str(loss).partition(":")[0] for loss in told.losses] == ["tools"]


@every_row(
    ("asked", "most", "limit", "losses"),
    [
        (None, 0, None, []),
        (50, 0, 50, []),
        (50, 50, 50, []),
        (51, 50, 50, ["max_tokens: lowered from 51 to 50: this model writes at most 50 tokens"]),
    ],
)
def test_the_limit_of_tokens_is_one_that_the_model_accepts(asked, most, limit, losses):
    ready = planned(replace(PLAIN, max_tokens=asked), replace(TARGET, max_output=most))
    assert ready.request.max_tokens == limit
    assert lost(ready) == losses


def test_a_limit_is_left_out_where_the_target_needs_none():
    target = replace(TARGET, max_output=50, limits_only=True)
    assert planned(PLAIN, target).request.max_tokens is None
    assert planned(replace(PLAIN, max_tokens=60), target).request.max_tokens == 50


@every_row(
    ("quirks", "think", "roles"),
    [
        ({"prefill": True}, Think(), ["user", "assistant"]),
        ({"prefill": True}, Think("off"), ["user", "assistant"]),
        ({"prefill": True}, Think("on", budget=2000), ["user", "assistant", "user"]),
        ({}, Think(), ["user", "assistant", "user"]),
    ],
)
def test_a_model_may_continue_the_last_message(quirks, think, roles):
    turns = (*PLAIN.turns, Turn("assistant", (Text("So"),)))
    request = replace(PLAIN, turns=turns, think=think, max_tokens=9000)
    ready = planned(request, replace(TARGET, quirks=quirks), codecs.load("anthropic"))
    assert [message["role"] for message in ready.outgoing.body["messages"]] == roles


@pytest.mark.parametrize("origin", ["openai_chat", "anthropic"])
def test_a_model_without_system_messages_gets_reminders(origin):
    fields = Foreign("anthropic", "message", {"output_config": {"effort": "low"}})
    turns = (*PLAIN.turns, Turn("system", (Text("Be brief."), fields)))
    request = replace(PLAIN, turns=turns, origin=origin, max_tokens=9000)
    quirks = {"system_in_place": False}
    ready = planned(request, replace(TARGET, quirks=quirks), codecs.load("anthropic"))
    blocks = [block for message in ready.outgoing.body["messages"] for block in message["content"]]
    assert blocks[-1] == {
        "type": "text",
        "text": "<system-reminder>\nBe brief.\n</system-reminder>",
    }
    assert {(*message,) for message in ready.outgoing.body["messages"]} == {("role", "content")}
    assert "marked as a reminder" in ready.losses[0].why


LOOK = replace(PLAIN, tools=(TOOL, replace(TOOL, name="see")), max_tokens=9000)


@every_row(
    ("choice", "turns", "losses"),
    [
        (ToolChoice("auto"), (), ["tools: the tools are described in the prompt of m"]),
        (ToolChoice("none"), (), []),
        (ToolChoice("none"), CALLED, ["tools: past calls are written as text for m"]),
    ],
)
def test_tools_that_may_not_be_called_are_not_reported_as_described(choice, turns, losses):
    request = replace(LOOK, turns=(*PLAIN.turns, *turns), tool_choice=choice)
    assert lost(planned(request, tool_mode="prompt")) == losses


@pytest.mark.parametrize("origin", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("api", ["anthropic", "openai_responses", "openai_chat", "ollama"])
def test_the_schema_of_a_constrained_answer_is_reported_as_the_tools(api, origin):
    request = replace(LOOK, origin=origin)
    codec = codecs.load(api)
    losses = lost(planned(request, codec=codec, tool_mode="constrained", constraint="schema"))
    assert {loss.partition(":")[0] for loss in losses} == {"tools"}
    free = any("not enforced" in loss for loss in losses)
    assert free is (api == "openai_responses")
    assert any("is constrained to their schemas" in loss for loss in losses) is not free


@pytest.mark.parametrize("api", codecs.names())
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_no_limit_is_left_out_with_a_warning(api, field):
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}], field: -1}
    request = CODEC.decode_request(dump_bytes(body))
    ready = planned(request, codec=codecs.load(api))
    assert -1 not in ready.outgoing.body.values()
    assert lost(ready) == [f"{field}: {NO_LIMIT}"]
    assert not ready.losses[0].minor


@pytest.mark.parametrize("api", ["anthropic", "openai_chat", "gemini", "ollama"])
def test_truncation_by_the_server_is_a_loss_elsewhere(api):
    body = {"model": "m", "input": "q", "truncation": "auto"}
    request = codecs.load("openai_responses").decode_request(dump_bytes(body))
    (loss,) = planned(request, codec=codecs.load(api)).losses
    assert (loss.what, loss.minor) == ("truncation", False)


# ── answers ──────────────────────────────────────────────────────────────────

READY = PreparedRequest(Outgoing("", {}), PLAIN, (), {})
STARTED = ev.Started("chatcmpl-1", "m")


def stages(request=PLAIN, ready=READY, **options):
    return answer_stages(request, ready, model="m", seed=b"x", **options)


def test_an_answer_has_an_id_of_its_own_unless_the_one_that_came_is_new():
    own = answer_id(b"x")
    assert stages(dialect="off").feed(STARTED) == [replace(STARTED, id=own)]
    seen = SeenIds()
    for expected in ("chatcmpl-1", own):
        one = stages(dialect="off")
        one.seen = seen
        assert one.feed(STARTED) == [replace(STARTED, id=expected)]
    nameless = stages(dialect="off")
    nameless.seen = seen
    assert nameless.feed(replace(STARTED, id="")) == [replace(STARTED, id=own)]
    assert AnswerStages([], ()).feed(STARTED) == [STARTED]


def test_names_of_tools_are_the_clients():
    renamer = Renamer({"a_b": "a.b"})
    call = Call("c", "a_b")
    assert renamer.feed(ev.CallStart(0, "c", "a_b")) == [ev.CallStart(0, "c", "a.b")]
    assert renamer.feed(ev.CallEnd(0, call)) == [ev.CallEnd(0, replace(call, name="a.b"))]
    assert renamer.feed(ev.CallStart(0, "c", "other")) == [ev.CallStart(0, "c", "other")]
    assert renamer.feed(ev.TextStart(0)) == [ev.TextStart(0)]
    assert renamer.close() == []


def test_an_answer_ends_at_a_stop_sequence_that_the_target_does_not_know():
    one = stages(ready=replace(READY, stops=("END",)))
    events = one.feed_all([STARTED, ev.TextStart(0), ev.TextDelta(0, "a END b")])
    assert one.done
    assert [e.text for e in events if isinstance(e, ev.TextDelta)] == ["a "]
    assert isinstance(events[-1], ev.Finished)
    assert not stages().done


def test_the_end_of_an_answer_is_reported():
    ends = []
    request = replace(PLAIN, tools=(TOOL,))
    one = stages(request, replace(READY, tools=(TOOL,)))
    one.on_finish = lambda end, broken: ends.append((end.reason, broken))
    one.feed_all([STARTED, ev.TextStart(0), ev.TextEnd(0, Text("a"))])
    assert ends == []
    one.feed_all([ev.Finished("end")])
    assert ends == [("end", False)]


def test_each_of_several_answers_has_its_own_stages():
    made = []

    def stages_of(choice):
        made.append(choice)
        return Renamer({"a": f"name{choice}"})

    every = EveryChoice(stages_of)
    start = ev.CallStart(0, "c", "a")
    assert every.feed(start) == [ev.CallStart(0, "c", "name0")]
    for choice in (1, 2, 1):
        found = every.feed(ev.Alternative(choice, start))
        assert found == [ev.Alternative(choice, ev.CallStart(0, "c", f"name{choice}"))]
    assert made == [0, 1, 2]
    several = stages(replace(PLAIN, sampling=Sampling(n=2)), dialect="off")
    assert several.feed(STARTED)[0].id == answer_id(b"x")


def test_with_the_dialect_off_text_stays_text():
    think = [STARTED, ev.TextStart(0), ev.TextDelta(0, "<think>a</think>b"), ev.TextEnd(0, Text("<think>a</think>b"))]  # fmt: skip
    off = stages(dialect="off").feed_all([*think])
    assert off[1:] == think[1:]
    read = stages().feed_all([*think])
    assert any(isinstance(event, ev.ThinkingStart) for event in read)


def sent_arguments(api, arguments):
    """Return the body for `api` of a chat history with a call, and the losses."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
    ]
    body = dump_bytes({"model": "m", "messages": messages})
    ready = planned(codecs.load("openai_chat").decode_request(body), codec=codecs.load(api))
    return dump_bytes(ready.outgoing.body).decode(), ready.losses


APIS = ["anthropic", "gemini", "ollama", "openai_chat", "openai_responses"]


@every_row("api", APIS)
@every_row("arguments", ["null", " null\n", ""])
def test_past_arguments_that_are_null_are_empty_arguments(api, arguments):
    body, losses = sent_arguments(api, arguments)
    assert "raw" not in body
    assert '"null' not in body
    assert '" null' not in body
    assert losses == ()


@every_row("api", APIS[:-1])
@every_row("arguments", ["[]", '"x"', "{'a': 1", "7"])
def test_past_arguments_that_are_not_an_object_are_wrapped_and_reported(api, arguments):
    body, losses = sent_arguments(api, arguments)
    assert '"raw"' in body.replace("\\", "")
    why = 'arguments that are not a JSON object are sent as {"raw": "…"}'
    assert [(loss.what, loss.why) for loss in losses] == [("messages.1.tool_calls.0", why)]


def test_past_arguments_of_any_form_are_text_for_responses():
    body, losses = sent_arguments("openai_responses", "[]")
    assert '"arguments":"[]"' in body
    assert losses == ()


HELLO = (
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
)
COUNTS = (
    b'data: {"id":"c","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}'
)


def translated(*pieces):
    stage = translate("openai_chat", "anthropic")
    written = [out for piece in pieces for out in stage.feed(piece)]
    return stage, b"".join([*written, *stage.close()])


@every_row("size", [len("data: {"), 40, len(COUNTS) - 1])
@every_row("newline", [b"\n", b"\r\n", b"\r"])
def test_a_stream_that_is_cut_inside_its_usage_ends_with_an_error(size, newline):
    text = HELLO.replace(b"\n", newline) + COUNTS[:size]
    for pieces in ([text], [text[at : at + 1] for at in range(len(text))]):
        stage, out = translated(*pieces)
        assert isinstance(stage.end, ev.Failed)
        assert stage.end.problem.text == "the provider's answer ended in the middle of an event"
        assert b'"type":"error"' in out
        assert b"message_stop" not in out


@every_row("end", [b"", COUNTS, COUNTS + b"\n\ndata: [DONE]", COUNTS + b"\r\rdata: [DONE]\r\r"])
def test_a_stream_without_its_last_line_end_or_mark_is_whole(end):
    stage, out = translated(HELLO + end)
    assert isinstance(stage.end, ev.Finished)
    assert b"message_stop" in out
