"""Any schema of a tool is taken, or refused with its path: no surface and no target breaks on one."""

import json

import msgspec
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.examples import examples

from toolbridge import codecs, demo, dialects
from toolbridge.core.codec import Target
from toolbridge.core.draft import Draft
from toolbridge.core.errors import ClientError, ToolbridgeError
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Text, ToolChoice, Turn
from toolbridge.healing import heal
from toolbridge.translate import RequestOptions, answer_stages, plan

APIS = tuple(codecs.names())
KEYWORDS = (
    "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "not",
    "$ref", "$defs", "definitions", "additionalProperties", "patternProperties", "prefixItems",
    "format", "pattern", "minimum", "maximum", "default", "description", "title", "nullable",
    "minItems", "if", "then", "else", "examples", "dependentSchemas", "propertyNames", "$schema",
)  # fmt: skip
scalars = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "string", "object", "array", "STRING", "#", "#/$defs/a", "#/x/0"])
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYWORDS, "a", "b", ""]), inner, max_size=4)
    ),
    max_leaves=12,
)
schemas = st.dictionaries(st.sampled_from(KEYWORDS), anything, max_size=5) | anything


def body_with(api: str, schema: object) -> dict:
    function = {"name": "f", "description": "d", "parameters": schema, "strict": True}
    chat = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": function}],
    }
    return {
        "anthropic": {
            "model": "m",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "x"}],
            "tools": [{"name": "f", "description": "d", "input_schema": schema}],
        },
        "openai_chat": chat,
        "ollama": chat,
        "openai_responses": {
            "model": "m",
            "input": "x",
            "tools": [{"type": "function", **function}],
        },
        "gemini": {
            "contents": [{"role": "user", "parts": [{"text": "x"}]}],
            "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}],
        },
    }[api]


def read(api: str, schema: object):
    """Return the request, or None where it is refused with the path of the fault."""
    body = json.dumps(body_with(api, schema)).encode()
    try:
        return codecs.load(api).decode_request(body, model="m")
    except ClientError as error:
        assert "tools" in error.problem.where  # noqa: PT017  the path is what is tested
        return None


@pytest.mark.parametrize("api", APIS)
@given(schema=schemas)
def test_any_schema_is_taken_or_refused_with_its_path(api, schema):
    request = read(api, schema)
    if request is None:
        return
    for other in APIS:
        try:
            ready = plan(request, codecs.load(other), Target(model="m"), RequestOptions())
        except ClientError as error:
            assert "tools" in error.problem.where  # noqa: PT017
            continue
        answer(request, ready)


@settings(max_examples=examples(1000))
@given(schema=schemas, tenth=st.integers(0, 9))
def test_any_schema_can_be_told_in_a_prompt(schema, tenth):
    """Each schema is told in a tenth of the dialects: to draw one takes longer than to tell it."""
    request = read("anthropic", schema)
    if request is None:
        return
    told = Target(model="m", capabilities=frozenset())
    for dialect in dialects.names()[tenth::10]:
        note(dialect)
        ready = plan(request, codecs.load("openai_chat"), told, RequestOptions(dialect=dialect))
        answer(request, ready, dialect)


@given(schema=schemas, prompt=st.sampled_from(["call f", "read a.txt", "x"]))
def test_the_demo_model_takes_any_schema(schema, prompt):
    request = read("anthropic", schema)
    if request is None:
        return
    asked = Turn("user", (Text(prompt),))
    demo.answer(msgspec.structs.replace(request, turns=(asked,)), Ids(b"s"))
    forced = msgspec.structs.replace(request, tool_choice=ToolChoice("named", ("f",)))
    demo.answer(forced, Ids(b"s"))


def answer(request, ready, dialect="auto"):
    stages = answer_stages(request, ready, model="m", dialect=dialect, seed=b"s")
    draft = Draft()
    events = draft.call(0, name="f", id="c")
    for piece in ('{"a": 1, "b": {"a"', ': ["x"]}, "requ', 'ired": null}'):
        events += draft.arguments(0, piece)
    events += draft.call(1, name="f", id="d") + draft.arguments(1, "{a: [1,}") + draft.finish("end")
    try:
        for event in events:
            stages.feed(event)
        stages.close()
    except ToolbridgeError as error:
        raise AssertionError from error


@given(
    schema=st.dictionaries(st.sampled_from(KEYWORDS), anything, max_size=5),
    text=st.sampled_from(
        ['{"a": 1}', "[1, 2]", "{'a': {'b': 'c'}}", "words", '{"a": "1", "b": []}']
    ),
    level=st.integers(0, 3),
)
def test_any_schema_heals_or_leaves_alone(schema, text, level):
    assert isinstance(heal(text, schema, level=level).value, dict)
