import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.openai_responses.decode_request import decode_request
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.messages import OutputFormat, Text, Think, Tool, ToolChoice, Turn

ORIGIN = "openai_responses"
FUNCTION = {
    "type": "function", "name": "look", "description": "d",
    "parameters": {"type": "object", "properties": {}}, "strict": False,
}  # fmt: skip


def decode(**fields):
    return decode_request(json.dumps({"model": "m", "input": "hi"} | fields).encode())


def refused(**fields):
    with pytest.raises(MalformedRequest) as caught:
        decode(**fields)
    return caught.value.problem.where


def test_a_text_is_what_the_user_says():
    asked = decode(instructions="Be brief.", stream=True)
    assert asked.turns == (Turn("user", (Text("hi"),)),)
    assert asked.system == (Text("Be brief."),)
    assert asked.stream
    assert asked.origin == ORIGIN


def test_the_path_may_say_model_and_stream():
    asked = decode_request(b'{"input":"hi"}', model="other", stream=True)
    assert (asked.model, asked.stream) == ("other", True)


@every_row(
    ("fields", "where"),
    [
        ({"model": None}, "model"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": "x"}, "max_output_tokens"),
        ({"tools": [{"name": "x"}]}, "tools.0.type"),
        ({"tools": [{"type": "function"}]}, "tools.0.name"),
        ({"tools": [FUNCTION, {"type": "namespace", "tools": []}]}, "tools.1.name"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "custom"}]}]}, "tools.0.tools.0.name"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name"),
        ({"tool_choice": {}}, "tool_choice.type"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
        ({"text": {"format": {}}}, "text.format.type"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
    ],
)  # fmt: skip
def test_a_fault_has_its_path(fields, where):
    assert refused(**fields) == where


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "prompt"])
def test_what_is_remembered_elsewhere_needs_no_input(name):
    asked = decode(input=None, **{name: "x"})
    assert asked.turns == ()
    assert asked.extra == {name: "x"}


def test_counting_needs_no_input():
    assert decode_request(b'{"model":"m"}', counting=True).turns == ()


# ── tools ──


def test_a_function_is_a_tool():
    tool = {**FUNCTION, "defer_loading": True, "output_schema": {"type": "string"}}
    asked = decode(tools=[tool])
    assert asked.tools == (
        Tool("look", "d", {"type": "object", "properties": {}}, strict=False, deferred=True),
    )
    assert asked.tools[0].source.unknown == ("output_schema",)


def test_a_custom_tool_takes_free_text_and_keeps_its_grammar():
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
    asked = decode(tools=[{"type": "custom", "name": "patch", "format": grammar}])
    assert asked.tools == (Tool("patch", freeform=True),)
    assert asked.tools[0].source.unknown == ("format",)


def test_a_namespace_is_laid_flat():
    agents = {"type": "namespace", "name": "agents", "description": "d", "tools": [FUNCTION]}
    asked = decode(tools=[agents])
    (tool,) = asked.tools
    assert (tool.name, tool.namespace) == ("agents__look", "agents")
    assert asked.extra == {"namespaces": {"agents": {"description": "d"}}}


@pytest.mark.req("CL-02")
@every_row(
    ("raw", "name"),
    [
        ({"type": "file_search", "vector_store_ids": ["vs_1"]}, "file_search"),
        ({"type": "image_generation"}, "image_generation"),
        ({"type": "shell", "environment": {"type": "container_auto"}}, "shell"),
        ({"type": "computer"}, "computer"),
        ({"type": "brand_new", "name": "x"}, "x"),
    ],
)
def test_a_tool_that_the_api_runs_is_kept_as_it_is(raw, name):
    assert decode(tools=[raw]).tools == (Tool(name, origin=ORIGIN, hosted=raw),)


@every_row(
    ("choice", "wanted"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "look"}, ToolChoice("named", ("look",))),
        ({"type": "custom", "name": "patch"}, ToolChoice("named", ("patch",))),
        ({"type": "function", "name": "x", "namespace": "n"}, ToolChoice("named", ("n__x",))),
        ({"type": "web_search"}, ToolChoice("named", ("web_search",))),
        ({"type": "mcp", "server_label": "docs", "name": "x"}, ToolChoice("named", ("docs",))),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "a"}]},
            ToolChoice("required", ("a",)),
        ),
    ],
)  # fmt: skip
def test_a_choice_is_read(choice, wanted):
    assert decode(tool_choice=choice).tool_choice == wanted


def test_parallel_calls_are_part_of_the_choice():
    assert decode(parallel_tool_calls=False).tool_choice == ToolChoice(parallel=False)


# ── settings ──


@every_row(
    ("reasoning", "think", "rest"),
    [
        (None, Think(), {}),
        ({}, Think(), {}),
        ({"effort": "high"}, Think("auto", effort="high"), {}),
        ({"effort": "none"}, Think("off"), {}),
        ({"summary": "auto"}, Think("auto", show="summarized"), {}),
        ({"summary": "detailed"}, Think("auto", show="summarized"), {"summary": "detailed"}),
        ({"effort": "extreme"}, Think("auto"), {"effort": "extreme"}),
        ({"context": "all_turns"}, Think(), {"context": "all_turns"}),
    ],
)
def test_how_to_think_is_read(reasoning, think, rest):
    asked = decode(reasoning=reasoning)
    assert asked.think == think
    assert asked.extra == ({"reasoning": rest} if rest else {})


@every_row(
    ("text", "output", "rest"),
    [
        ({"format": {"type": "text"}, "verbosity": "low"}, None, {"verbosity": "low"}),
        ({"format": {"type": "json_object"}}, OutputFormat(), {}),
        (
            {"format": {"type": "json_schema", "name": "response", "schema": {}}},
            OutputFormat({}),
            {},
        ),
        (
            {"format": {"type": "json_schema", "name": "x", "schema": {"a": 1}, "strict": True, "description": "d"}},
            OutputFormat({"a": 1}, "x", strict=True),
            {"format": {"description": "d"}},
        ),
        ({"format": {"type": "grammar", "x": 1}}, None, {"format": {"type": "grammar", "x": 1}}),
    ],
)  # fmt: skip
def test_the_shape_of_the_answer_is_read(text, output, rest):
    asked = decode(text=text)
    assert asked.output == output
    assert asked.extra == ({"text": rest} if rest else {})


def test_sampling_and_limits_are_read():
    asked = decode(temperature=0.5, top_p=0.9, top_logprobs=3, max_output_tokens=20)
    sampling = asked.sampling
    assert (sampling.temperature, sampling.top_p, sampling.logprobs) == (0.5, 0.9, 3)
    assert asked.max_tokens == 20


def test_the_user_is_known_by_either_name():
    assert decode(user="a").user == "a"
    both = decode(user="a", safety_identifier="b")
    assert (both.user, both.extra) == ("b", {"user": "a"})


def test_what_only_this_api_knows_is_kept():
    asked = decode(store=False, metadata={"a": "b"}, client_metadata={"c": "d"})
    assert asked.extra == {"store": False, "metadata": {"a": "b"}, "client_metadata": {"c": "d"}}


def test_that_thoughts_come_sealed_need_not_be_said():
    sealed = "reasoning.encrypted_content"
    assert decode(include=[sealed]).extra == {}
    assert decode(include=[sealed, "x"]).extra == {"include": ["x"]}


def test_the_key_of_the_cache_is_the_session():
    asked = decode(prompt_cache_key="s1")
    assert (asked.session, asked.extra) == ("s1", {})
