import pytest
from tests.tables import every_row

from toolbridge.codecs.ollama.encode_request import encode_request
from toolbridge.core.codec import Target
from toolbridge.core.messages import (
    OutputFormat,
    Reference,
    Request,
    Result,
    Sampling,
    Text,
    Think,
    Tool,
    ToolChoice,
    Turn,
)

HI = Turn("user", (Text("hi"),))
TARGET = Target("qwen3:8b")
THINKER = Target("qwen3:8b", capabilities=frozenset({"tools", "thinking"}))
PLAIN = Target("smollm2", capabilities=frozenset({"tools"}))
LEVELS = Target("gpt-oss", quirks={"think_levels": True})
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("get_weather", "Looks out.", SCHEMA)


def request(**fields):
    return Request("claude", **{"turns": (HI,), **fields})


def body(target=TARGET, **fields):
    return encode_request(request(**fields), target).body


def losses(target=TARGET, **fields):
    return [loss.what for loss in encode_request(request(**fields), target).losses]


def names(target=TARGET, **fields):
    return [tool["function"]["name"] for tool in body(target, **fields).get("tools", [])]


@pytest.mark.req("PX-10", "PX-50")
def test_a_plain_question_is_a_plain_body():
    outgoing = encode_request(request(), TARGET)
    assert outgoing.path == "/api/chat"
    assert outgoing.body == {
        "model": "qwen3:8b",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": False,
    }
    assert outgoing.losses == ()


def test_a_stream_is_always_asked_for_or_refused_in_words():
    assert body(stream=True)["stream"] is True
    assert body(stream=False)["stream"] is False


@pytest.mark.req("PX-X5")
def test_the_system_is_one_message_without_cache_marks():
    outgoing = encode_request(
        request(system=(Text("one", cache="1h"), Text(""), Text("two"))), TARGET
    )
    assert outgoing.body["messages"][0] == {"role": "system", "content": "one\n\ntwo"}
    assert outgoing.losses == ()


# ── tools ──


@pytest.mark.req("PX-07", "PX-34")
def test_a_tool_is_a_function_with_parameters():
    assert body(tools=(WEATHER,))["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Looks out.",
                "parameters": SCHEMA,
            },
        }
    ]


@pytest.mark.req("PX-34")
def test_tools_are_present_only_if_given():
    assert "tools" not in body()
    assert "tools" not in body(tools=(WEATHER,), tool_choice=ToolChoice("none"))
    assert losses(tools=(WEATHER,), tool_choice=ToolChoice("none")) == []


@every_row(
    ("tool", "parameters"),
    [
        (Tool("f"), {"type": "object", "properties": {}}),
        (Tool("f", schema={"description": "none"}),
         {"type": "object", "properties": {}, "description": "none"}),
        (Tool("f", freeform=True),
         {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}),
        (Tool("f", schema={"type": "object", "properties": {"c": {"$ref": "#/$defs/C"}},
                           "$defs": {"C": {"type": "string"}}}),
         {"type": "object", "properties": {"c": {"type": "string"}}}),
    ],
)  # fmt: skip
def test_parameters_are_always_an_object_without_references(tool, parameters):
    assert body(tools=(tool,))["tools"][0]["function"]["parameters"] == parameters
    assert losses(tools=(tool,)) == []


def test_a_schema_that_refers_to_itself_is_a_loss():
    schema = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"items": {"$ref": "#/$defs/A"}}}}  # fmt: skip
    assert losses(tools=(Tool("f", schema=schema),)) == ["tools.0.schema"]


def test_strictness_and_hosted_tools_are_losses():
    hosted = Tool("web_search", origin="anthropic", hosted={"type": "web_search_20250305"})
    strict = Tool("f", strict=True)
    assert names(tools=(hosted, strict)) == ["f"]
    assert losses(tools=(hosted, strict)) == ["tools.0", "tools.1.strict"]


def found(*tools):
    return Turn("user", (Result("c", tuple(Reference(name) for name in tools)),))


LATER = (Tool("a", deferred=True), WEATHER, Tool("b", deferred=True), Tool("c", deferred=True))


def test_a_deferred_tool_is_hidden_until_a_search_finds_it():
    assert names(tools=LATER) == ["get_weather"]
    assert losses(tools=LATER) == []


def test_found_tools_stand_at_the_end_in_the_order_of_their_finding():
    turns = (HI, found("b"), found("a", "b", "unknown"))
    assert names(tools=LATER, turns=turns) == ["get_weather", "b", "a"]
    assert names(tools=LATER, turns=(HI, Turn("user", (Reference("c"),)))) == ["get_weather", "c"]


def test_a_hosted_tool_that_is_deferred_is_no_loss():
    hosted = Tool("x", deferred=True, hosted={"type": "x"})
    assert losses(tools=(hosted,)) == []


# ── tool choice ──


@every_row(
    ("choice", "offered", "order"),
    [
        (ToolChoice("required"), ["get_weather", "f"], "You must call one of the tools now."),
        (ToolChoice("required", ("f",)), ["f"], "You must call one of the tools now."),
        (ToolChoice("named", ("f",)), ["f"], "You must call the tool f now."),
        (ToolChoice("named"), ["get_weather", "f"], "You must call one of the tools now."),
    ],
)
def test_a_forced_call_is_asked_for_and_the_loss_is_said(choice, offered, order):
    tools = (WEATHER, Tool("f"))
    assert names(tools=tools, tool_choice=choice) == offered
    messages = body(tools=tools, tool_choice=choice, system=(Text("be kind"),))["messages"]
    assert messages[0] == {"role": "system", "content": f"be kind\n\n{order}"}
    assert losses(tools=tools, tool_choice=choice) == ["tool_choice"]


def test_nobody_is_told_to_call_a_tool_that_is_not_there():
    for choice, tools in [
        (ToolChoice("named", ("g",)), (WEATHER, Tool("f"))),
        (ToolChoice("required"), ()),
    ]:
        sent = body(tools=tools, tool_choice=choice, system=(Text("be kind"),))
        assert sent["messages"][0]["content"] == "be kind"
        assert losses(tools=tools, tool_choice=choice) == ["tool_choice"]
        assert names(tools=tools, tool_choice=choice) == [tool.name for tool in tools]


def test_allowed_tools_are_the_only_ones_on_offer():
    tools = (WEATHER, Tool("f"))
    choice = ToolChoice("auto", ("f",))
    assert names(tools=tools, tool_choice=choice) == ["f"]
    assert losses(tools=tools, tool_choice=choice) == []


def test_a_tool_that_is_named_is_offered_though_deferred():
    assert names(tools=LATER, tool_choice=ToolChoice("named", ("b",))) == ["b"]


def test_one_call_at_a_time_cannot_be_had():
    assert losses(tools=(WEATHER,), tool_choice=ToolChoice(parallel=False)) == [
        "tool_choice.parallel"
    ]


# ── thinking ──


@pytest.mark.req("PX-10", "PX-20", "PX-21")
@every_row(
    ("target", "think", "sent", "lost"),
    [
        (TARGET, Think(), None, []),
        (THINKER, Think(), False, []),
        (PLAIN, Think(), None, []),
        (LEVELS, Think(), None, []),
        (TARGET, Think("on"), True, []),
        (TARGET, Think("auto"), True, []),
        (TARGET, Think("between_tools"), True, []),
        (TARGET, Think("off"), False, []),
        (THINKER, Think("on", budget=4096), True, ["think.budget"]),
        (THINKER, Think("auto", effort="high"), True, ["think.effort"]),
        (THINKER, Think(effort="high"), False, ["think.effort"]),
        (THINKER, Think(effort="none"), False, []),
        (PLAIN, Think("on"), None, ["think"]),
        (PLAIN, Think("off"), False, []),
        (LEVELS, Think("on"), "medium", []),
        (LEVELS, Think("on", effort="none"), "low", ["think.mode"]),
        (LEVELS, Think("off"), "low", ["think.mode"]),
        (LEVELS, Think("on", effort="minimal"), "low", []),
        (LEVELS, Think("on", effort="low"), "low", []),
        (LEVELS, Think("on", effort="medium"), "medium", []),
        (LEVELS, Think(effort="high"), "high", []),
        (LEVELS, Think("auto", effort="xhigh"), "high", []),
        (LEVELS, Think("auto", effort="max"), "max", []),
        (LEVELS, Think("on", budget=1024), "low", []),
        (LEVELS, Think("on", budget=8192), "medium", []),
        (LEVELS, Think("on", budget=8193), "high", []),
    ],
)
def test_thinking_is_asked_for_as_the_model_takes_it(target, think, sent, lost):
    found = body(target, think=think)
    assert found.get("think") is sent if sent in {None, True, False} else found["think"] == sent
    assert ("think" in found) == (sent is not None)
    assert losses(target, think=think) == lost


# ── options ──


def test_sampling_and_limits_are_options():
    sampling = Sampling(0.1, 0.2, 3, 0.4, 5, 0.6, 0.7, 0.8)
    assert body(sampling=sampling, max_tokens=9, stop=("a", "b"))["options"] == {
        "temperature": 0.1,
        "top_p": 0.2,
        "top_k": 3,
        "min_p": 0.4,
        "seed": 5,
        "frequency_penalty": 0.6,
        "presence_penalty": 0.7,
        "repeat_penalty": 0.8,
        "num_predict": 9,
        "stop": ["a", "b"],
    }


def test_a_zero_is_a_value():
    options = body(sampling=Sampling(temperature=0.0, seed=0))["options"]
    assert options == {"temperature": 0.0, "seed": 0}


@pytest.mark.parametrize(("asked", "alternatives"), [(0, 0), (5, 5)])
def test_logprobs_stand_beside_the_options(asked, alternatives):
    found = body(sampling=Sampling(logprobs=asked))
    assert (found["logprobs"], found["top_logprobs"]) == (True, alternatives)
    assert "options" not in found


@pytest.mark.parametrize(
    ("output", "format"),
    [(OutputFormat(), "json"), (OutputFormat(SCHEMA, name="x", strict=True), SCHEMA)],
)
def test_a_format_is_json_or_a_schema(output, format):
    assert body(output=output)["format"] == format


def test_the_window_is_set_for_the_server_would_choose_a_small_one():
    assert body(Target("m", window=8192))["options"] == {"num_ctx": 8192}
    assert "options" not in body(Target("m"))


def test_a_place_may_ask_that_nothing_be_cut():
    assert body(Target("m", quirks={"no_truncate": True}))["truncate"] is False
    assert "truncate" not in body()


def test_the_configuration_has_the_last_word():
    target = Target(
        "m",
        window=8192,
        options={"num_ctx": 4096, "temperature": 0, "keep_alive": "1h", "options": {"num_gpu": 2}},
    )
    extra = {"keep_alive": "5m", "options": {"num_ctx": 100, "num_thread": 3}}
    found = body(target, sampling=Sampling(temperature=1.0), origin="ollama", extra=extra)
    assert found["keep_alive"] == "1h"
    assert found["options"] == {"num_ctx": 4096, "temperature": 0, "num_thread": 3, "num_gpu": 2}


def test_what_only_ollama_clients_send_goes_to_ollama_alone():
    extra = {"keep_alive": 0, "truncate": False, "_debug_render_only": True, "load": True}
    found = body(origin="ollama", extra=extra)
    assert {name: found[name] for name in extra if name != "load"} == {
        "keep_alive": 0,
        "truncate": False,
        "_debug_render_only": True,
    }
    assert "load" not in found
    assert losses(origin="ollama", extra=extra) == []


def test_what_only_another_api_knows_is_a_loss():
    fields = {"origin": "anthropic", "extra": {"context_management": {"edits": [1]}}}
    assert "context_management" not in body(**fields)
    assert losses(**fields) == ["context_management"]


def test_what_only_generate_takes_is_a_loss_in_a_chat():
    extra = {"generate": True, "template": "{{ .Prompt }}", "context": [1]}
    assert losses(origin="ollama", extra=extra) == ["template", "context"]


def test_the_same_history_gives_the_same_beginning_when_it_grows():
    turns = (HI, Turn("assistant", (Text("yes?"),)), HI)
    short, long = body(turns=turns[:1])["messages"], body(turns=turns)["messages"]
    assert long[: len(short)] == short
