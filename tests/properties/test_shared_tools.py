"""The law of shared tools: what a list of tools keeps changes no request and no answer."""

import copy
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.request_bodies import BODIES
from tests.properties.test_tool_schemas import APIS, body_with, schemas
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.accounting.count import estimate_request
from toolbridge.core.codec import Target
from toolbridge.core.draft import Draft
from toolbridge.core.errors import ClientError
from toolbridge.core.shared_tools import SharedTools
from toolbridge.translate import RequestOptions, answer_stages, plan

KEEPING = ("anthropic", "ollama", "openai_chat")
"""The APIs whose decoders keep lists of tools."""
TARGETS = (
    Target(model="m"),
    Target(model="m", provider="p", capabilities=frozenset({"thinking"})),
    Target(model="m", provider="p", server_tools=frozenset({"web_search"})),
)


ANSWER = '{"a": 1, "b": {"a": ["x"]}, "required": null'


def answered(request, ready):
    """Return the events of an answer with a call in JSON, a call in text, and a broken call."""
    draft = Draft()
    events = draft.start(id="msg_1", model="m") + draft.text('Now. <tool_call>{"name": "f", ')
    events += draft.text('"arguments": {"a": "1"}}</tool_call>') + draft.end()
    events += draft.call(0, name="F", id="c") + draft.arguments(0, ANSWER + "}")
    events += draft.call(1, name="f", id="d") + draft.arguments(1, ANSWER) + draft.finish("end")
    stages = answer_stages(request, ready, model="m", seed=b"s")
    return stages.feed_all(events) + stages.close()


def planned(request, api, target):
    """Return all that a plan says, in comparable values; the error where it fails."""
    try:
        ready = plan(request, codecs.load(api), target, RequestOptions())
    except ClientError as error:
        return repr(error.problem)
    return (
        json.dumps(ready.outgoing.body),
        ready.losses,
        ready.names,
        [*ready.tools],
        estimate_request(request, family=api),
        answered(request, ready),
    )


def check(body, api):
    data = json.dumps(body).encode()
    decode = codecs.load(api).decode_request
    try:
        request = decode(data, model="m")
    except ClientError:
        return
    before = msgspec.json.encode(request.tools)
    plain = msgspec.structs.replace(request, tools=(*request.tools,))
    for other in APIS:
        for target in TARGETS:
            without = planned(plain, other, target)
            assert planned(request, other, target) == without
            again = decode(data, model="m")
            if api in KEEPING and request.tools:
                assert isinstance(request.tools, SharedTools)
                assert again.tools is request.tools
            assert planned(again, other, target) == without
    assert msgspec.json.encode(request.tools) == before, "a shared tool was changed"


@pytest.mark.parametrize("api", APIS)
def test_a_kept_list_gives_the_same_requests(api):
    check(BODIES[api], api)


@pytest.mark.parametrize("api", KEEPING)
@given(
    schema=schemas,
    names=st.lists(
        st.sampled_from(["f", "g", "f.g", "x" * 70, "tool_search", "é"]), max_size=3, unique=True
    ),
)
def test_a_kept_list_gives_the_same_requests_for_any_schema_and_name(api, schema, names):
    body = body_with(api, schema)
    more = []
    for name in names:
        tool = copy.deepcopy(body["tools"][0])
        (tool if api == "anthropic" else tool["function"])["name"] = name
        more.append(tool)
    check(body | {"tools": [*more, *body["tools"]]}, api)


def test_lists_with_other_paths_or_neighbours_are_not_the_same():
    decode = codecs.load("anthropic").decode_request
    body = body_with("anthropic", {"type": "object"})
    other = {"name": "g", "input_schema": {"type": "object"}}
    first, second = (
        decode(json.dumps(body | {"tools": tools}).encode(), model="m").tools
        for tools in ([*body["tools"], other], [other, *body["tools"]])
    )
    assert [tool.source.path for tool in first if tool.name == "f"] == ["tools.0"]
    assert [tool.source.path for tool in second if tool.name == "f"] == ["tools.1"]


def conversation(times):
    """Return a body whose messages repeat, with ids of their own."""
    body = copy.deepcopy(BODIES["anthropic"])
    messages = []
    for number in range(times):
        text = json.dumps(body["messages"]).replace("toolu_1", f"toolu_{number}")
        messages += json.loads(text)
    return body | {"messages": messages}


@pytest.mark.parametrize("times", [1, 5])
def test_a_kept_turn_gives_the_same_requests(times):
    data = json.dumps(conversation(times)).encode()
    decode = codecs.load("anthropic").decode_request
    request = decode(data)
    before = msgspec.json.encode(request.turns)
    for other in APIS:
        for target in TARGETS:
            first = planned(request, other, target)
            again = decode(data)
            assert (again.turns[0] is request.turns[0]) == (times > 1), "long ones are kept"
            assert again.turns == request.turns
            assert planned(again, other, target) == first
    assert msgspec.json.encode(request.turns) == before, "a shared turn was changed"


@every_row("family", ["", "openai", "anthropic", "gemini"])
def test_a_turn_that_keeps_its_count_is_counted_alike(family):
    request = codecs.load("anthropic").decode_request(json.dumps(conversation(5)).encode())
    estimate_request(request, family="openai")
    fresh = msgspec.structs.replace(
        request, turns=tuple(map(msgspec.structs.replace, request.turns))
    )
    assert not any(vars(turn) for turn in fresh.turns)
    expected = estimate_request(fresh, family=family)
    assert estimate_request(request, family=family) == expected
    assert estimate_request(request, family=family) == expected


def test_a_kept_turn_has_the_path_of_its_own_index():
    decode = codecs.load("anthropic").decode_request
    body = conversation(4)
    decode(json.dumps(body).encode())
    moved = decode(json.dumps(body | {"messages": body["messages"][3:]}).encode())
    paths = [turn.source.path for turn in moved.turns]
    assert paths == [f"messages.{number}" for number in range(len(paths))]
    assert moved.turns[0].content[0].source.path.startswith("messages.0.")
