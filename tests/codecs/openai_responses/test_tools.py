import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.openai_responses.decode_request import decode_request
from toolbridge.codecs.openai_responses.encode_request import encode_request
from toolbridge.codecs.openai_responses.item_fields import inner_name
from toolbridge.core.codec import Target
from toolbridge.core.messages import Reference, Request, Result, Tool, ToolChoice, Turn

ORIGIN = "openai_responses"
LOOK = Tool("look", "d", {"type": "object", "properties": {"a": {"type": "string"}}})


def encode(*tools, quirks=None, **fields):
    return encode_request(Request("m", tools=tools, **fields), Target(quirks=quirks or {}))


def offers(*tools, **fields):
    return encode(*tools, **fields).body.get("tools")


def again(**fields):
    """The fields as they come back from our own words."""
    body = json.dumps({"model": "m", "input": "hi", **fields}).encode()
    return encode_request(decode_request(body), Target()).body


def test_a_function_is_flat_and_not_strict_unless_it_says_so():
    (offer,) = offers(LOOK)
    assert offer == {
        "type": "function", "name": "look", "description": "d", "parameters": LOOK.schema,
        "strict": False,
    }  # fmt: skip
    (strict,) = offers(Tool("look", schema={"type": "object"}, strict=True))
    assert strict["strict"] is True


def test_a_schema_without_a_type_gets_one():
    assert offers(Tool("look"))[0]["parameters"] == {"type": "object", "properties": {}}


FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CUSTOM = {
    "type": "custom", "name": "patch", "description": "d",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
}  # fmt: skip


@every_row(
    "tool",
    [
        FUNCTION,
        FUNCTION | {"strict": True, "defer_loading": True, "allowed_callers": ["direct"]},
        CUSTOM,
        {"type": "namespace", "name": "n", "description": "d", "tools": [FUNCTION, CUSTOM]},
        {"type": "web_search", "external_web_access": True},
        {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}},
        {"type": "mcp", "server_label": "docs", "server_url": "https://x"},
    ],
)
def test_a_tool_comes_back_as_it_was(tool):
    assert again(tools=[tool])["tools"] == [tool]


def test_tools_keep_their_order_around_namespaces():
    spaces = [{"type": "namespace", "name": name, "tools": [FUNCTION]} for name in "ab"]
    tools = [FUNCTION, *spaces, {"type": "web_search"}]
    assert again(tools=tools)["tools"] == tools


def test_where_there_are_no_custom_tools_one_is_a_function_of_one_text():
    (offer,) = offers(Tool("patch", "d", freeform=True), quirks={"custom_tools": False})
    assert offer["type"] == "function"
    assert offer["parameters"]["required"] == ["input"]


def test_where_there_are_no_namespaces_tools_are_flat():
    (offer,) = offers(Tool("n__look", namespace="n"), quirks={"namespaces": False}, origin=ORIGIN)
    assert (offer["type"], offer["name"]) == ("function", "n__look")


def test_what_only_another_api_runs_is_lost():
    sent = encode(Tool("web_search", origin="anthropic", hosted={"type": "web_search_20250305"}))
    assert "tools" not in sent.body
    assert [loss.what for loss in sent.losses] == ["tools.0"]


def test_a_deferred_tool_is_offered_once_it_is_found():
    hidden = Tool("hidden", deferred=True)
    assert [offer["name"] for offer in offers(hidden, LOOK)] == ["look"]
    turns = (Turn("user", (Result("c", (Reference("hidden"),)),)),)
    assert [offer["name"] for offer in offers(hidden, LOOK, turns=turns)] == ["look", "hidden"]


@every_row(
    "choice",
    [
        "none",
        "required",
        {"type": "function", "name": "look"},
        {"type": "custom", "name": "patch"},
        {"type": "web_search"},
        {"type": "mcp", "server_label": "docs", "name": "x"},
        {"type": "allowed_tools", "mode": "auto", "tools": [
            {"type": "function", "name": "look"}, {"type": "custom", "name": "patch"},
            {"type": "web_search"}, {"type": "mcp", "server_label": "docs"},
        ]},
    ],
)  # fmt: skip
def test_a_choice_comes_back_as_it_was(choice):
    hosted = [{"type": "web_search"}, {"type": "mcp", "server_label": "docs"}]
    assert again(tools=[FUNCTION, CUSTOM, *hosted], tool_choice=choice)["tool_choice"] == choice


def test_the_usual_choice_is_not_said():
    assert "tool_choice" not in again(tools=[FUNCTION], tool_choice="auto")


@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("named", ("look",))])
def test_a_choice_without_tools_is_lost(choice):
    sent = encode(tool_choice=choice)
    assert "tool_choice" not in sent.body
    assert "tool_choice.mode" in [loss.what for loss in sent.losses]


def test_a_choice_of_a_tool_that_is_not_there_is_lost():
    sent = encode(LOOK, tool_choice=ToolChoice("named", ("other",)))
    assert "tool_choice" not in sent.body
    assert [loss.what for loss in sent.losses] == ["tool_choice"]


def test_calls_one_at_a_time_are_asked_for():
    sent = encode(LOOK, tool_choice=ToolChoice(parallel=False)).body
    assert sent["parallel_tool_calls"] is False


@every_row(
    ("name", "namespace", "inner"),
    [("crm__find", "crm", "find"), ("find", "crm", ""), ("__find", "", ""), ("crm__find", "", "")],
)
def test_the_name_inside_a_namespace_is_that_of_its_own_tools_only(name, namespace, inner):
    assert inner_name(name, namespace) == inner
