import json

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests import strategies
from tests.tables import every_row

from toolbridge.codecs.ollama.decode_request import decode_request
from toolbridge.codecs.ollama.encode_request import encode_request
from toolbridge.codecs.ollama.generate import decode_generate
from toolbridge.core.codec import Target
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import (
    Audio,
    Call,
    Completion,
    Document,
    Image,
    OutputFormat,
    Request,
    Result,
    Sampling,
    Text,
    Think,
    Thinking,
    Tool,
    Turn,
)

HI = {"role": "user", "content": "hi"}
PNG = "iVBORw0KGgoAAAAN"


def decode(**fields):
    return decode_request(json.dumps({"model": "m", "messages": [HI], **fields}).encode())


def turns(*messages):
    return decode(messages=list(messages)).turns


def calling(*calls, **rest):
    return {"role": "assistant", "content": "", "tool_calls": list(calls), **rest}


def call(name, arguments=None, **rest):
    return {"function": {"name": name, "arguments": arguments}, **rest}


def tool(content="", **rest):
    return {"role": "tool", "content": content, **rest}


def test_a_plain_question_is_one_turn_and_streams_by_default():
    assert decode() == Request(
        "m", turns=(Turn("user", (Text("hi"),)),), stream=True, origin="ollama"
    )


def test_a_stream_can_be_refused_by_the_body_or_by_the_path():
    assert decode(stream=None).stream is True
    assert decode(stream=False).stream is False
    assert decode_request(b'{"model":"m","stream":true}', stream=False).stream is False


def test_the_path_may_name_the_model():
    assert decode_request(b"{}", model="n").model == "n"


@pytest.mark.parametrize("messages", [[], None])
def test_a_request_without_messages_only_loads(messages):
    request = decode(messages=messages, keep_alive=0)
    assert (request.turns, request.extra) == ((), {"load": True, "keep_alive": 0})


# ── messages ──


def test_leading_systems_are_the_system_and_later_ones_turns():
    request = decode(
        messages=[
            {"role": "system", "content": "a"},
            {"role": "developer", "content": "b"},
            HI,
            {"role": "System", "content": "c"},
        ]
    )
    assert request.system == (Text("a"), Text("b"))
    assert request.turns == (Turn("user", (Text("hi"),)), Turn("system", (Text("c"),)))


@pytest.mark.parametrize(
    "message", [{"role": "critic", "content": "hm"}, {"content": "hm"}, {"role": None, "content": "hm"}]
)  # fmt: skip
def test_any_other_role_is_the_users(message):
    assert turns(message) == (Turn("user", (Text("hm"),)),)


@pytest.mark.parametrize("message", [{"role": "user"}, {"role": "user", "content": None}])
def test_a_message_may_be_empty(message):
    assert turns(message) == (Turn("user", (Text(""),)),)


def test_pictures_and_sounds_come_in_one_list():
    (turn,) = turns({**HI, "images": [PNG, "UklGRjEyMzRXQVZF"]})
    assert turn.content == (
        Text("hi"),
        Image(PNG, "image/png"),
        Audio("UklGRjEyMzRXQVZF", "audio/wav"),
    )


@pytest.mark.req("PX-08", "PX-09")
def test_an_answer_thinks_then_speaks_then_calls():
    (turn,) = turns(calling(call("f", {"a": 1}, id="c1"), content="so", thinking="hm"))
    assert turn == Turn("assistant", (Thinking("hm"), Text("so"), Call("c1", "f", {"a": 1})))


@pytest.mark.req("PX-08")
@every_row(
    ("arguments", "expected"),
    [
        ({"a": 1}, Call("c", "f", {"a": 1})),
        ('{"a":1}', Call("c", "f", {"a": 1})),
        ("", Call("c", "f")),
        (None, Call("c", "f")),
        ("not-json", Call("c", "f", raw="not-json")),
        ([1], Call("c", "f", raw="[1]")),
    ],
)
def test_past_arguments_may_be_an_object_or_its_text(arguments, expected):
    assert turns(calling(call("f", arguments, id="c")))[0].content == (expected,)


def ids(parts):
    return [part.id if isinstance(part, Call) else part.call_id for part in parts]


def test_a_result_is_matched_by_id_first():
    asked, answered = turns(
        calling(call("f", id="c1"), call("f", id="c2")),
        tool("two", tool_call_id="c2", tool_name="f"),
        tool("one", tool_name="f"),
    )
    assert ids(answered.content) == ["c2", "c1"]
    assert [result.name for result in answered.content] == ["f", "f"]
    assert ids(asked.content) == ["c1", "c2"]


def test_a_result_without_an_id_is_matched_by_name_in_order():
    asked, answered = turns(
        calling(call("f"), call("g"), call("f")),
        tool("g", tool_name="g"),
        tool("f1", tool_name="f"),
        tool("f2", tool_name="f"),
    )
    first, second, third = ids(asked.content)
    assert len({first, second, third}) == 3
    assert ids(answered.content) == [second, first, third]


def test_a_result_without_a_name_is_matched_by_order():
    asked, answered = turns(calling(call("f"), call("g")), tool("1"), tool("2", tool_name="other"))
    assert ids(answered.content) == ids(asked.content)
    assert [result.name for result in answered.content] == ["f", "other"]


def test_a_result_of_no_call_keeps_a_name_of_its_own():
    _, orphan = turns(HI, tool("x"))
    assert orphan.content[0].call_id.startswith("toolu_")
    assert turns(HI, tool("x", tool_call_id="gone"))[1].content[0].call_id == "gone"


def test_calls_of_different_messages_have_different_ids():
    first, _, second, answer = turns(calling(call("f")), tool("1"), calling(call("f")), tool("2"))
    assert ids(first.content) != ids(second.content)
    assert ids(answer.content) == ids(second.content)


def test_the_same_history_gives_the_same_ids_when_it_grows():
    history = [HI, calling(call("f"), call("f")), tool("1"), tool("2")]
    longer = turns(*history, {"role": "assistant", "content": "done"}, calling(call("f")))
    assert longer[:3] == turns(*history)


def test_results_and_the_words_after_them_are_one_turn():
    found = turns(calling(call("f"), call("f")), tool("1"), tool("2"), HI, HI)
    assert [turn.role for turn in found] == ["assistant", "user", "user"]
    assert [type(part).__name__ for part in found[1].content] == ["Result", "Result", "Text"]


@pytest.mark.req("PX-36")
@every_row(
    ("content", "text", "is_error"),
    [("boom", "boom", False), ("Error: boom", "boom", True), ("Error: ", None, True), ("", None, False)],
)  # fmt: skip
def test_a_result_that_says_error_is_one(content, text, is_error):
    result = turns(calling(call("f", id="c")), tool(content))[1].content[0]
    assert result == Result("c", (Text(text),) if text else (), is_error=is_error, name="f")


def test_a_result_may_show_pictures():
    result = turns(calling(call("f", id="c")), tool("see", images=[PNG]))[1].content[0]
    assert result.content == (Text("see"), Image(PNG, "image/png"))


# ── everything else ──


@pytest.mark.req("PX-07", "PX-10")
def test_tools_are_read_and_may_be_none():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    given_tools = [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}},
        {"function": {"name": "g"}},
    ]
    assert decode(tools=given_tools).tools == (Tool("f", "d", schema), Tool("g"))
    assert decode(tools=[]).tools == decode(tools=None).tools == ()


@every_row(
    ("think", "expected"),
    [
        (None, Think()),
        (True, Think("on")),
        (False, Think("off")),
        ("low", Think("on", effort="low")),
        ("max", Think("on", effort="max")),
    ],
)
def test_think_is_a_switch_or_a_level(think, expected):
    assert decode(think=think).think == expected


@every_row(
    ("format", "expected"),
    [
        (None, None),
        ("", None),
        ("json", OutputFormat()),
        ({"type": "object"}, OutputFormat({"type": "object"})),
    ],
)
def test_format_is_json_or_a_schema(format, expected):
    assert decode(format=format).output == expected


def test_options_with_a_meaning_elsewhere_are_ours_and_the_rest_is_kept():
    request = decode(
        options={
            "num_predict": 128.0,
            "temperature": 0,
            "top_p": 0.5,
            "top_k": 40.0,
            "min_p": 0.1,
            "seed": 7,
            "frequency_penalty": 0.2,
            "presence_penalty": 0.3,
            "repeat_penalty": 1.1,
            "stop": ["a", "b"],
            "num_ctx": 4096,
            "num_gpu": 1,
            "unheard_of": True,
        },
        keep_alive="5m",
        truncate=False,
        shift=False,
        _debug_render_only=True,
        logprobs=True,
        top_logprobs=3,
    )
    assert request.sampling == Sampling(0.0, 0.5, 40, 0.1, 7, 0.2, 0.3, 1.1, 3)
    assert (request.max_tokens, request.stop) == (128, ("a", "b"))
    assert request.extra == {
        "keep_alive": "5m",
        "truncate": False,
        "shift": False,
        "_debug_render_only": True,
        "options": {"num_ctx": 4096, "num_gpu": 1, "unheard_of": True},
    }


@every_row("limit", [-1, -2, None, 0])
def test_no_limit_is_no_limit(limit):
    assert decode(options={"num_predict": limit}).max_tokens is None


def test_options_may_be_null_and_a_stop_one_word():
    assert decode(options=None).sampling == Sampling()
    assert decode(options={"stop": "x"}).stop == ("x",)


@pytest.mark.parametrize(("logprobs", "expected"), [(True, 0), (False, None), (None, None)])
def test_logprobs_without_a_number_report_the_chosen_token(logprobs, expected):
    assert decode(logprobs=logprobs).sampling.logprobs == expected


@every_row(
    ("fields", "where"),
    [
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"messages": [HI, {"role": "user", "content": [{"type": "text"}]}]}, "messages.1.content"),
        ({"messages": [{"role": 7}]}, "messages.0.role"),
        ({"messages": [calling({"function": {"name": 7}})]}, "messages.0.tool_calls.0.function.name"),
        ({"tools": [{"function": {}}]}, "tools.0.function.name"),
        ({"options": {"temperature": "hot"}}, "options.temperature"),
        ({"options": {"num_predict": "many"}}, "options.num_predict"),
        ({"think": "bogus"}, "think"),
        ({"think": 7}, "think"),
        ({"format": "xml"}, "format"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"stream": "yes"}, "stream"),
    ],
)  # fmt: skip
def test_a_fault_is_answered_with_its_path(fields, where):
    with pytest.raises(MalformedRequest) as caught:
        decode(**fields)
    assert caught.value.problem.where == where


@every_row("body", [b"", b"{", b"[]", b"\xff", b"[" * 5000])
def test_what_is_no_request_is_malformed(body):
    with pytest.raises(MalformedRequest):
        decode_request(body)


# ── generate ──


def generate(**fields):
    return decode_generate(json.dumps({"model": "m", **fields}).encode())


def test_a_prompt_is_one_turn_that_remembers_its_endpoint():
    request = generate(prompt="why?", system="short", images=[PNG], think=True, raw=True)
    assert request == Request(
        "m",
        turns=(Turn("user", (Text("why?"), Image(PNG, "image/png"))),),
        system=(Text("short"),),
        think=Think("on"),
        stream=True,
        origin="ollama",
        completion=Completion(),
        extra={"generate": True, "raw": True},
    )


def test_what_only_generate_takes_is_kept():
    request = generate(prompt="a", suffix="b", template="c", context=[1, 2], keep_alive=5)
    assert request.completion == Completion(suffix="b")
    assert request.extra == {
        "generate": True,
        "template": "c",
        "context": [1, 2],
        "keep_alive": 5,
    }


def test_no_prompt_only_loads():
    request = generate(stream=False)
    assert (request.turns, request.extra) == ((), {"generate": True, "load": True})
    assert request.stream is False


# ── the law ──


@given(strategies.requests(origin="ollama"))
def test_the_wishes_of_a_request_come_back(request):
    outgoing = encode_request(request, Target(request.model))
    lost = {loss.what for loss in outgoing.losses}
    assert ("sampling.n" in lost) == (request.sampling.n is not None)
    request = replace(request, sampling=replace(request.sampling, n=None))
    back = decode_request(dump_bytes(outgoing.body))
    for field in ("model", "max_tokens", "stop", "sampling", "output", "stream"):
        assert getattr(back, field) == getattr(request, field), field
    assert back.think.mode == ("on" if request.think.mode == "auto" else request.think.mode)
    assert ("think.effort" in lost) == (back.think.effort != request.think.effort)
    assert ("think.budget" in lost) == (back.think.budget != request.think.budget)
    if "tool_choice" not in lost:
        assert [text.text for text in back.system] == (
            ["\n\n".join(text.text for text in request.system)] if request.system else []
        )


@given(strategies.requests(origin="ollama"))
def test_the_tools_of_a_request_come_back(request):
    back = decode_request(dump_bytes(encode_request(request, Target(request.model)).body))
    choice = request.tool_choice
    offered = [
        Tool(tool.name, tool.description, tool.schema)
        for tool in request.tools
        if choice.mode != "none"
        and (tool.name in choice.names if choice.mode == "named" else not tool.deferred)
    ]
    assert list(back.tools) == offered


@given(strategies.requests(origin="ollama"))
def test_the_turns_of_a_request_come_back_or_are_said_to_be_lost(request):
    outgoing = encode_request(request, Target(request.model))
    lost = [loss.what for loss in outgoing.losses]
    back = decode_request(dump_bytes(outgoing.body))
    assert [turn.role for turn in back.turns] == [turn.role for turn in request.turns]
    for number, (mine, theirs) in enumerate(zip(back.turns, request.turns, strict=True)):
        assert stand_in_order(words_of(theirs), "".join(words_of(mine)))
        assert parts_of(mine, Call) == [
            Call(call.id, call.name, call.arguments) for call in parts_of(theirs, Call)
        ]
        if not any(what.startswith(f"turns.{number}.") for what in lost):
            assert pictures_of(mine) == pictures_of(theirs)
        for left, right in zip(parts_of(mine, Result), parts_of(theirs, Result), strict=True):
            assert (left.call_id, left.is_error) == (right.call_id, right.is_error)
            assert left.name


def parts_of(turn, kind):
    return [part for part in turn.content if isinstance(part, kind)]


def words_of(turn):
    """What is thought or read in a turn and its results."""
    flat = [inner for part in turn.content for inner in getattr(part, "content", (part,))]
    thoughts = [part.text for part in flat if isinstance(part, Thinking)]
    return thoughts + [part.text for part in flat if isinstance(part, Text | Document)]


def stand_in_order(words, text):
    at = 0
    for word in words:
        at = text.find(word, at)
        if at < 0:
            return False
        at += len(word)
    return True


def pictures_of(turn):
    flat = [inner for part in turn.content for inner in getattr(part, "content", (part,))]
    return [part.data for part in flat if isinstance(part, Image)]


def test_a_second_trip_changes_nothing():
    first = decode(
        messages=[
            {"role": "system", "content": "be kind"},
            HI,
            calling(call("f", {"a": 1}), call("g", {}), thinking="hm", content="so"),
            tool("Error: no", tool_name="g"),
            tool("sun", tool_name="f", images=[PNG]),
            HI,
        ],
        tools=[{"function": {"name": "f", "parameters": {"type": "object"}}}],
        think=True,
        format="json",
        options={"num_ctx": 10, "num_predict": 5, "stop": ["x"]},
        keep_alive="5m",
    )
    again = decode_request(dump_bytes(encode_request(first, Target("m")).body))
    assert again == first
