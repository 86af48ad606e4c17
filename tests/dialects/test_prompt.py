"""Tools for models without tools of their own."""

import json
import re
from contextlib import suppress

import pytest
from tests.tables import every_row

from toolbridge.core.messages import (
    Call,
    Image,
    Request,
    Result,
    Text,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.dialects import load, names
from toolbridge.dialects.constrained import CONSTRAINED
from toolbridge.dialects.dialect import ResultText
from toolbridge.dialects.prompt import render_history, tool_prompt
from toolbridge.dialects.reader import read_text

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "deep": {"type": "object"},
        "ok": {"type": "boolean"},
    },
}
WEATHER = Tool("get_weather", "Tells the weather.", SCHEMA)
TOOLS = (WEATHER, Tool("get_time"))
CALLS = [
    Call(
        "call00001",
        "get_weather",
        {
            "city": 'São "Paulo"\n<b> & more',
            "days": 2,
            "tags": ["a", "b"],
            "deep": {"x": [1, {"y": None}]},
            "ok": True,
        },
    ),
    Call("call00002", "get_time"),
]
THAT_CALL = [name for name in names() if load(name).marks]


@every_row("dialect", THAT_CALL)
def test_what_a_dialect_writes_it_reads_again(dialect):
    reading = read_text(load(dialect).render.calls(CALLS), TOOLS, dialect=dialect)
    assert [(c.name, c.arguments) for c in reading.calls] == [(c.name, c.arguments) for c in CALLS]
    assert reading.content.strip() == ""


@every_row("dialect", names())
def test_a_result_holds_what_the_tool_said(dialect):
    written = load(dialect).render.results([ResultText("get_weather", "call00001", "sunny")])
    assert "sunny" in written


def described_tools(prompt: str) -> list[dict]:
    """Return the tools in the list of a prompt, however the dialect writes it."""
    found, end = [], 0
    for begin in re.finditer(r'\{"(?:name|description|function|type)": ?', prompt):
        with suppress(ValueError):
            if begin.start() >= end:
                tool, end = json.JSONDecoder().raw_decode(prompt, begin.start())
                found.append(tool.get("function", tool))
    return [tool for tool in found if "parameters" in tool]


@every_row(
    ("dialect", "listed"),
    [
        (
            "hermes_json",
            '<tools>\n{"type": "function", "function": {"name": "f", "parameters": {}}}\n</tools>',
        ),
        ("minimax_m2", '<tools>\n<tool>{"name": "f", "parameters": {}}</tool>\n</tools>'),
        (
            "nemotron_nano_v2",
            '<AVAILABLE_TOOLS>[{"name": "f", "parameters": {}}]</AVAILABLE_TOOLS>',
        ),
        ("kimi_k3", '```json\n[{"function":{"name":"f","parameters":{}},"type":"function"}]\n```'),
        (
            "lfm2",
            'List of tools: [{"type": "function", "function": {"name": "f", "parameters": {}}}]',
        ),
    ],
)
def test_the_tools_are_listed_as_the_template_of_the_model_lists_them(dialect, listed):
    assert load(dialect).tools.written([{"name": "f", "parameters": {}}]) == listed


@pytest.mark.req("CB-29")
@every_row("dialect", names())
def test_the_prompt_names_every_tool_with_its_schema(dialect):
    described = described_tools(tool_prompt(TOOLS, dialect))
    assert described[0] == {
        "name": "get_weather",
        "description": "Tells the weather.",
        "parameters": SCHEMA,
    }
    assert [tool["name"] for tool in described][:2] == ["get_weather", "get_time"]


@pytest.mark.req("CB-29")
@every_row("dialect", THAT_CALL)
def test_the_example_in_the_prompt_is_a_call_of_the_dialect(dialect):
    prompt = tool_prompt([Tool("get_weather", schema={"properties": {"city": {}}})], dialect)
    example = prompt.split("filled in:\n\n")[1].split("\n\nYou may use")[0]
    reading = read_text(example, [WEATHER], dialect=dialect)
    assert [(c.name, c.arguments) for c in reading.calls] == [("get_weather", {"city": "value"})]


@pytest.mark.req("CB-29")
def test_without_tools_nothing_is_added():
    request = Request("m", system=(Text("Be brief."),))
    assert tool_prompt((), "hermes_json") == ""
    assert render_history(request, "hermes_json") == request


@pytest.mark.req("CB-29")
def test_the_system_text_of_the_caller_stays_first():
    request = Request("m", system=(Text("Be brief."),), tools=TOOLS)
    rendered = render_history(request, "hermes_json")
    assert rendered.system[0] == Text("Be brief.")
    assert rendered.system[1] == Text(tool_prompt(TOOLS, "hermes_json"))
    assert rendered.tools == ()


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (ToolChoice("required"), "use at least one tool"),
        (ToolChoice("named", ("get_time",)), "use the tool get_time"),
    ],
)
def test_a_choice_is_said_in_words(choice, words):
    assert tool_prompt(TOOLS, "hermes_json", choice).endswith(words + ".")


def test_a_choice_against_tools_says_nothing():
    assert tool_prompt(TOOLS, "hermes_json", ToolChoice("none")) == ""


@pytest.mark.req("CB-35")
def test_the_history_reaches_the_model_as_text():
    image = Image(data="aGk=", media_type="image/png")
    request = Request(
        "m",
        turns=(
            Turn("user", (Text("Weather?"),)),
            Turn("assistant", (Text("Looking."), *CALLS)),
            Turn(
                "user",
                (
                    Result("call00001", (Text("sunny"), image)),
                    Result("call00002", (Text("no clock"),), is_error=True),
                    Text("And?"),
                ),
            ),
        ),
        tools=TOOLS,
    )
    _, assistant, user = render_history(request, "hermes_json").turns
    assert assistant.content[0] == Text("Looking.")
    written = "".join(part.text for part in assistant.content[1:])
    assert [c.name for c in read_text(written, TOOLS).calls] == ["get_weather", "get_time"]
    results, picture, question = user.content
    assert results.text == (
        "<tool_response>\nsunny\n</tool_response>\n<tool_response>\nError: no clock\n</tool_response>"
    )
    assert picture == image
    assert question == Text("And?")


@pytest.mark.parametrize(
    ("dialect", "written"),
    [
        ("hermes_json", '<tool_call>\n{"name": "get_time", "arguments": {"a": }\n</tool_call>'),
        ("qwen3_xml", '<tool_call>\n<function=get_time>\n{"a": </function>\n</tool_call>'),
    ],
)
def test_a_broken_call_of_the_history_is_written_as_it_came(dialect, written):
    assert load(dialect).render.calls([Call("id", "get_time", raw='{"a": ')]) == written


def test_kimi_gets_ids_that_it_knows():
    calls = [Call("functions.get_time:4", "get_time"), Call("toolu_1", "get_time")]
    ids = [
        call.id
        for call in read_text(load("kimi_k2").render.calls(calls), None, dialect="kimi_k2").calls
    ]
    assert ids == ["functions.get_time:4", "functions.get_time:1"]


HISTORY = {
    "hermes_json": (
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>',
        "<tool_response>\nsunny\n</tool_response>",
    ),
    "hunyuan_v3": (
        (
            "<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n"
            "<arg_key:opensource>city</arg_key:opensource>\n"
            "<arg_value:opensource>Paris</arg_value:opensource>\n"
            "<arg_key:opensource>days</arg_key:opensource>\n"
            "<arg_value:opensource>2</arg_value:opensource>\n"
            "</tool_call:opensource>\n</tool_calls:opensource>"
        ),
        (
            "<tool_responses:opensource>\n<tool_response:opensource>\nsunny\n"
            "</tool_response:opensource>\n</tool_responses:opensource>"
        ),
    ),
    "lfm2": (
        "<|tool_call_start|>[get_weather(city='Paris', days=2)]<|tool_call_end|>",
        "sunny",
    ),
    "granite3": (
        (
            '<|tool_call|>[\n    {\n        "name": "get_weather",\n        "arguments": {\n'
            '            "city": "Paris",\n            "days": 2\n        }\n    }\n]'
        ),
        "sunny",
    ),
    "llama4_pythonic": ('[get_weather(city="Paris", days=2)]', '"sunny"'),
    "muse_atem": (
        (
            '<|start|>assistant to=get_weather<|message|><atem:function_calls>\n<atem:invoke name="get_weather">\n'
            '<atem:parameter name="city">Paris</atem:parameter>\n<atem:parameter name="days">2</atem:parameter>\n'
            "</atem:invoke>\n</atem:function_calls><|eot|>"
        ),
        '<tool_output name="get_weather">\nsunny\n</tool_output>',
    ),
    "cohere_cmd3": (
        (
            '<|START_ACTION|>[\n    {"tool_call_id": "call00001", "tool_name": "get_weather", '
            '"parameters": {"city": "Paris", "days": 2}}\n]<|END_ACTION|>'
        ),
        (
            '<|START_TOOL_RESULT|>[\n    {\n        "tool_call_id": "call00001",\n        "results": {\n'
            '            "0": "sunny"\n        },\n        "is_error": null\n    }\n]<|END_TOOL_RESULT|>'
        ),
    ),
    "kimi_k3": (
        (
            '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>'
            '<|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>'
            '<|open|>argument key="days" type="number"<|sep|>2<|close|>argument<|sep|>'
            "<|close|>call<|sep|><|close|>tools<|sep|>"
        ),
        "sunny",
    ),
}


@pytest.mark.req("CB-35")
@every_row("dialect", HISTORY)
def test_the_history_has_the_form_of_the_chat_template(dialect):
    render = load(dialect).render
    call = Call("call00001", "get_weather", {"city": "Paris", "days": 2})
    written = (
        render.calls([call]),
        render.results([ResultText("get_weather", "call00001", "sunny")]),
    )
    assert written == HISTORY[dialect]


def test_attributes_are_escaped_as_the_template_of_kimi_k3_does():
    calls = [Call("id", "get_time", {'a "b" & c': 'x & "y"'})]
    written = load("kimi_k3").render.calls(calls)
    assert 'key="a &quot;b&quot; &amp; c"' in written
    assert '<|sep|>x & "y"<|close|>' in written
    assert read_text(written, TOOLS, dialect="kimi_k3").calls[0].arguments == calls[0].arguments


@every_row(
    ("choice", "several"),
    [
        (ToolChoice(), True),
        (ToolChoice(parallel=True), True),
        (ToolChoice(parallel=False), False),
        (ToolChoice(mode="required"), False),
    ],
)
def test_a_constrained_prompt_offers_several_calls_where_they_are_allowed(choice, several):
    prompt = tool_prompt([Tool("f"), Tool("g")], choice=choice, dialect=CONSTRAINED)
    assert ("several tools" in prompt) is several
