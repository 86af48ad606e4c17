"""Answers that the provider constrains to the union of calls and text."""

import pytest
from tests.tables import every_row

from toolbridge.core import events as ev
from toolbridge.core.fold import collect
from toolbridge.core.messages import Tool
from toolbridge.dialects.constrained import constrained_reader, tagged_calls, union_schema
from toolbridge.dialects.reader import TextReader

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (Tool("get_weather", schema=CITY), Tool("get_time"))
PARIS = ("get_weather", {"city": "Paris"})


def read(text: str, size: int = 1000, reason="end"):
    reader = TextReader(TOOLS, dialect=constrained_reader())
    events: list[ev.Event] = []
    for start in range(0, len(text), size):
        events += reader.feed(text[start : start + size])
    return collect(events + reader.close(reason))


CASES = [
    ('{"name": "get_weather", "parameters": {"city": "Paris"}}', "", [PARIS]),
    ('\n {"parameters": {"city": "Paris"}, "name": "get_weather"}\n', "", [PARIS]),
    (
        '[{"name":"get_time","parameters":{}},{"name":"get_weather","parameters":{"city":"Paris"}}]',
        "",
        [("get_time", {}), PARIS],
    ),
    ('{"text": "Hello\\n \\"w\\u00f6rld\\" \\ud83d\\ude00"}', 'Hello\n "wörld" 😀', []),
    ('{ "text" : "a"}', "a", []),
    ('{"text": ""}', "", []),
    # The client's own JSON, which may look like the beginning of a call or of a text.
    ('{"answer": 3, "name": "x"}', '{"answer": 3, "name": "x"}', []),
    ('{"name": "nobody", "parameters": {}}', '{"name": "nobody", "parameters": {}}', []),
    ('{"texts": ["a"]}', '{"texts": ["a"]}', []),
    # A server that ignores the constraint.
    ("Hello there.", "Hello there.", []),
    ('<tool_call>{"name": "get_time", "arguments": {}}</tool_call>', "", [("get_time", {})]),
    ('<think>hm</think>{"name": "get_time", "parameters": {}}', "", [("get_time", {})]),
    ('<think>hm {"a"</think>\n{"text": "Hello"}', "Hello", []),
    ("\n <thing> is text", "\n <thing> is text", []),
]


@every_row(("text", "said", "calls"), CASES)
@every_row("size", [1, 2, 3, 7, 1000])
def test_every_form_is_read_at_every_cut(text, said, calls, size):
    message = read(text, size)
    assert message.text == said
    assert [(call.name, call.arguments) for call in message.calls] == calls


@pytest.mark.parametrize(("text", "said", "calls"), CASES)
def test_a_cut_answer_never_makes_a_call_up(text, said, calls):
    for end in range(len(text)):
        message = read(text[:end], 3, "length")
        for call, (name, arguments) in zip(message.calls, calls, strict=False):
            assert call.name == name
            assert call.raw or call.arguments == arguments


def test_text_arrives_while_it_is_written():
    reader = TextReader(TOOLS, dialect=constrained_reader())
    reader.feed('{"te')
    deltas = [e.text for e in reader.feed('xt": "Hel') if isinstance(e, ev.TextDelta)]
    assert deltas == ["Hel"]
    deltas = [e.text for e in reader.feed('lo"}') if isinstance(e, ev.TextDelta)]
    assert deltas == ["lo"]


def test_broken_text_is_shown_and_not_lost():
    assert read('{"text": "a\nb"}').text.startswith("a")


def call_of(tool, arguments, key="parameters"):
    properties = {"name": {"type": "string", "enum": [tool]}, key: arguments}
    return {
        "type": "object", "properties": properties, "required": ["name", key],
        "additionalProperties": False,
    }  # fmt: skip


def test_the_schema_of_a_call_has_the_tools_own_schema_without_references():
    """Neither `$schema` nor a reference means anything inside of another document."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/City"}},
        "$defs": {"City": {"type": "string"}},
    }
    tools = [Tool("get_weather", schema=schema)]
    call = call_of("get_weather", CITY)
    assert union_schema(tools, forced=True, parallel=False) == call
    several = {"type": "array", "items": call, "minItems": 1, "maxItems": 8}
    text = {
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"],
        "additionalProperties": False,
    }  # fmt: skip
    assert union_schema(tools, forced=False, parallel=True) == {"anyOf": [call, several, text]}
    assert tagged_calls(tools).schema == call_of("get_weather", CITY, "arguments")
