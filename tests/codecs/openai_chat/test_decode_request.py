import json
from pathlib import Path

import pytest
from tests.tables import every_row

from toolbridge.codecs.openai_chat.decode_request import decode_request
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.messages import OutputFormat, Sampling, Think, Tool, ToolChoice
from toolbridge.core.source import own_words

HELLO = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"p": {"type": "string"}}}


def decode(**fields):
    return decode_request(json.dumps({"model": "m", "messages": HELLO, **fields}).encode())


def test_the_least_request_is_read():
    request = decode()
    assert (request.model, request.origin, request.stream) == ("m", "openai_chat", False)
    assert request.extra == {}


@every_row(
    ("fields", "where"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"content": "Hi"}]}, "messages.0.role"),
        ({"messages": [{"role": "judge", "content": "Hi"}]}, "messages.0.role"),
        ({"messages": [*HELLO, {"role": "user", "content": 7}]}, "messages.1.content"),
        ({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}, "messages.0.content.0.type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content.0.image_url"),
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]}, "messages.0.content.0.file.file_data"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.tool_call_id"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ({"tools": [{"type": "function"}]}, "tools.0.function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools.0.function.name"),
        ({"tools": [{"type": "custom"}]}, "tools.0.custom"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function.name"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_path(fields, where):
    with pytest.raises(MalformedRequest) as raised:
        decode(**fields)
    assert raised.value.problem.where == where


def test_the_path_may_say_model_and_stream():
    body = json.dumps({"messages": HELLO}).encode()
    request = decode_request(body, model="other", stream=True)
    assert (request.model, request.stream) == ("other", True)


def test_a_counter_needs_no_message():
    assert decode_request(b'{"model":"m","messages":[]}', counting=True).turns == ()


@every_row(
    ("fields", "limit"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 7, "max_tokens": 5}, 7),
        ({"max_tokens": -1}, None),
    ],
)
def test_a_limit_has_two_names(fields, limit):
    assert decode(**fields).max_tokens == limit


@pytest.mark.parametrize(
    ("given", "stop"), [(None, ()), ("END", ("END",)), (["a", "b"], ("a", "b"))]
)
def test_a_stop_is_a_text_or_a_list(given, stop):
    assert decode(stop=given).stop == stop


def test_sampling_includes_what_only_some_places_take():
    request = decode(
        temperature=0.5, top_p=1, top_k=4, min_p=0.1, seed=7, frequency_penalty=1,
        presence_penalty=-1, repetition_penalty=1.1, logprobs=True, top_logprobs=3,
    )  # fmt: skip
    assert request.sampling == Sampling(0.5, 1, 4, 0.1, 7, 1, -1, 1.1, 3)
    assert decode(repeat_penalty=1.2).sampling.repeat_penalty == 1.2
    assert decode(top_logprobs=3).sampling.logprobs is None


@every_row(
    ("effort", "think"),
    [
        (None, Think()),
        ("none", Think("off", effort="none")),
        ("minimal", Think("on", effort="minimal")),
        ("max", Think("on", effort="max")),
    ],
)
def test_an_effort_is_how_to_think(effort, think):
    assert decode(reasoning_effort=effort).think == think


def test_an_effort_that_is_newer_than_we_are_is_kept():
    request = decode(reasoning_effort="ultra")
    assert request.think == Think("on")
    assert request.extra == {"reasoning_effort": "ultra"}


@every_row(
    ("format", "output"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, OutputFormat()),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
            OutputFormat(SCHEMA, "n", True),
        ),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, OutputFormat({}, "n")),
    ],
)
def test_a_response_format_is_an_output(format, output):
    assert decode(response_format=format).output == output


def test_a_format_that_we_do_not_know_is_kept():
    assert decode(response_format={"type": "grammar"}).extra == {
        "response_format": {"type": "grammar"}
    }


def test_the_user_has_two_names():
    assert decode(user="a").user == "a"
    assert decode(user="a", safety_identifier="b").user == "b"


@pytest.mark.req("CL-02")
def test_fields_that_nobody_else_knows_are_kept():
    fields = {
        "logit_bias": {"1": -100},
        "store": True,
        "metadata": {"a": "b"},
        "prediction": {"type": "content", "content": "x"},
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "stream_options": {"include_usage": True},
        "brand_new": [1],
    }
    assert decode(**fields).extra == fields


# ── tools ──


def test_a_function_is_a_tool():
    function = {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
    request = decode(tools=[{"type": "function", "function": function}])
    assert request.tools == (Tool("f", "d", SCHEMA, strict=True),)


@pytest.mark.parametrize(("parallel", "wanted"), [(None, False), (True, True)])
def test_a_function_of_the_old_kind_is_a_tool_and_remembers_it(parallel, wanted):
    fields = {} if parallel is None else {"parallel_tool_calls": parallel}
    request = decode(functions=[{"name": "f", "parameters": SCHEMA}], **fields)
    (tool,) = request.tools
    assert (tool.schema, tool.origin, tool.native) == (SCHEMA, "openai_chat", {"name": "f"})
    assert request.tool_choice == ToolChoice(parallel=wanted)


def test_a_custom_tool_takes_free_text_and_keeps_its_grammar():
    format = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
    custom = {"name": "patch", "description": "d", "format": format}
    request = decode(tools=[{"type": "custom", "custom": custom}])
    assert request.tools == (Tool("patch", "d", freeform=True, origin="openai_chat"),)
    assert own_words(request.tools[0], "openai_chat") == {"type": "custom", "custom": custom}


@pytest.mark.parametrize(
    ("given", "name"), [({"type": "web_search"}, "web_search"), ({"type": "x", "name": "y"}, "y")]
)
def test_a_tool_of_a_type_that_we_do_not_know_is_hosted(given, name):
    assert decode(tools=[given]).tools == (Tool(name, origin="openai_chat", hosted=given),)


@every_row(
    ("given", "choice"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ("any", ToolChoice("required")),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("named", ("f",))),
        ({"type": "custom", "custom": {"name": "f"}}, ToolChoice("named", ("f",))),
        ({"type": "function", "name": "f"}, ToolChoice("named", ("f",))),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "g"}}]}},
            ToolChoice("required", ("f", "g")),
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}},
            ToolChoice("auto", ("f",)),
        ),
    ],
)  # fmt: skip
def test_a_choice_is_a_word_or_an_object(given, choice):
    assert decode(tool_choice=given).tool_choice == choice


def test_a_legacy_choice_is_a_choice():
    assert decode(function_call="none").tool_choice == ToolChoice("none")
    assert decode(function_call={"name": "f"}).tool_choice == ToolChoice("named", ("f",))


@pytest.mark.parametrize("parallel", [True, False])
def test_calls_may_be_held_to_one_at_a_time(parallel):
    assert decode(parallel_tool_calls=parallel).tool_choice.parallel is parallel


# ── captured ──

CAPTURES = sorted(
    (Path(__file__).parents[4] / "shared/clients/captures").glob("opencode_chat_*.json")
)


@pytest.mark.skipif(not CAPTURES, reason="the captures are not here")
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_captured_request_is_read_whole(path):
    body = json.loads(path.read_text("utf-8"))["body"]
    request = decode_request(json.dumps(body).encode())
    assert len(request.tools) == len(body.get("tools", []))
    assert set(request.extra) == {"stream_options"}
    assert request.stream


def test_the_number_of_answers_is_read_and_one_is_the_default():
    assert decode(n=2).sampling.n == 2
    assert decode(n=1).sampling.n is None
    for wrong in (0, 129):
        with pytest.raises(MalformedRequest) as refused:
            decode(n=wrong)
        assert refused.value.problem.where == "n"
