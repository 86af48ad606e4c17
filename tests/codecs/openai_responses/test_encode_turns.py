import json

import pytest
from tests.tables import every_row

from toolbridge.codecs.openai_responses.decode_request import decode_request
from toolbridge.codecs.openai_responses.encode_request import encode_request
from toolbridge.core.codec import Target
from toolbridge.core.messages import (
    Audio,
    Call,
    Document,
    Foreign,
    Image,
    Opaque,
    Reference,
    Request,
    Result,
    Text,
    Thinking,
    Tool,
    Turn,
)

ORIGIN = "openai_responses"
PNG = Image(data="aGk=", media_type="image/png")


def encode(*turns, quirks=None, target=None, **fields):
    return encode_request(Request("m", turns, **fields), target or Target(quirks=quirks or {}))


def items(*turns, **fields):
    return encode(*turns, **fields).body["input"]


def said(role, *parts, **fields):
    return items(Turn(role, parts), **fields)


def lost(role, *parts, **fields):
    return [loss.what for loss in encode(Turn(role, parts), **fields).losses]


def item(value):
    return (Opaque(ORIGIN, "item", value),)


def again(*raw):
    """The items as they come back from our own words."""
    body = json.dumps({"model": "m", "input": list(raw)}).encode()
    return encode_request(decode_request(body), Target()).body["input"]


# ── messages ──


def test_the_first_word_of_the_system_is_the_instructions():
    sent = encode(Turn("user", (Text("hi"),)), system=(Text("one"), Text("two"), Text("three")))
    assert sent.body["instructions"] == "one"
    assert sent.body["input"][0] == {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": "two"}, {"type": "input_text", "text": "three"}],
    }


def test_a_system_in_place_is_a_developer():
    assert said("system", Text("x"))[0]["role"] == "developer"


@every_row(
    "raw",
    [
        {"type": "message", "id": "msg_1", "role": "developer", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "message", "id": "msg_1", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
            "content": [{"type": "output_text", "text": "a", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "function_call", "call_id": "c", "name": "f", "namespace": "n", "arguments": "{}"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{broken"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "f", "input": "x"},
        {"type": "function_call_output", "id": "fco_1", "call_id": "c", "output": "x"},
        {"type": "function_call_output", "call_id": "c", "output": ""},
        {"type": "function_call_output", "call_id": "c", "output": "Error: x"},
        {"type": "function_call_output", "call_id": "c", "output": [
            {"type": "input_text", "text": "a"}, {"type": "input_image", "detail": "auto", "file_id": "x"},
        ]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "s"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}], "encrypted_content": "s"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "a"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": t} for t in "ab"], "encrypted_content": "s"},
        {"type": "local_shell_call", "call_id": "x", "action": {"type": "exec"}},
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "x", "status": "completed",
         "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": None}},
        {"type": "shell_call", "call_id": "x", "action": {"commands": ["ls"], "new": 1}, "caller": {"type": "direct"}},
        {"type": "apply_patch_call", "call_id": "x", "status": "completed",
         "operation": {"type": "delete_file", "path": "a"}},
        {"type": "tool_search_call", "call_id": "x", "execution": "client", "arguments": {"query": "q"}},
        {"type": "local_shell_call_output", "id": "lsh_1", "output": "x"},
        {"type": "shell_call_output", "call_id": "x", "output": []},
        {"type": "apply_patch_call_output", "call_id": "x", "status": "failed", "output": "no"},
        {"type": "tool_search_output", "call_id": "x", "execution": "client", "status": "completed",
         "tools": [{"type": "function", "name": "late", "parameters": {}}]},
        {"type": "item_reference", "id": "rs_1"},
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "message", "role": "user", "content": [{"type": "input_video", "x": 1}]},
    ],
)  # fmt: skip
def test_an_item_comes_back_as_it_was(raw):
    before = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    sent = again(before, raw)
    assert sent == [before, raw]


def test_a_custom_output_answers_a_custom_call():
    call = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "x"}
    output = {"type": "custom_tool_call_output", "call_id": "c", "output": "done"}
    assert again(call, output) == [call, output]


def test_items_keep_their_order_and_their_bounds():
    said = [
        {"type": "message", "id": f"msg_{n}", "role": "assistant", "content": [
            {"type": "output_text", "text": "a", "annotations": []}
        ]}
        for n in (1, 2)
    ]  # fmt: skip
    search = {"type": "web_search_call", "id": "ws_1"}
    assert again(said[0], search, said[1], said[0]) == [said[0], search, said[1], said[0]]


def test_texts_of_one_turn_are_one_message():
    (message,) = said("assistant", Text("a"), Text("b"))
    assert [part["text"] for part in message["content"]] == ["a", "b"]


def test_citations_of_this_api_go_back_and_others_are_lost():
    ours = {"type": "url_citation", "url": "u"}
    text = Text("a", citations=(ours, {"type": "char_location"}))
    (message,) = said("assistant", text)
    assert message["content"][0]["annotations"] == [ours]
    assert lost("assistant", text) == ["turns.0.content.0.citations"]


# ── thoughts ──


def test_only_sealed_thoughts_go_back():
    (sealed,) = said("assistant", Thinking("hm", (Opaque(ORIGIN, "encrypted", "s"),)))
    assert sealed["encrypted_content"] == "s"
    for foreign in ((), (Opaque("anthropic", "signature", "s"),), (Opaque("gemini", "item", "s"),)):
        thought = Thinking("hm", foreign)
        assert said("assistant", thought) == []
        assert lost("assistant", thought) == ["turns.0.content.0"]


# ── calls and results ──


def test_a_tool_with_free_text_is_called_with_it():
    tools = (Tool("patch", freeform=True),)
    turns = [
        Turn("assistant", (Call("c", "patch", {"input": "x"}),)),
        Turn("user", (Result("c", (Text("done"),)),)),
    ]
    assert [one["type"] for one in items(*turns, tools=tools)] == [
        "custom_tool_call", "custom_tool_call_output",
    ]  # fmt: skip
    plain = items(*turns, tools=tools, quirks={"custom_tools": False})
    assert [one["type"] for one in plain] == ["function_call", "function_call_output"]
    assert plain[0]["arguments"] == '{"input":"x"}'


@every_row(
    ("call", "text"),
    [
        (Call("c", "patch", {"input": "x"}), "x"),
        (Call("c", "patch", {"patch": "x"}), "x"),
        (Call("c", "patch", {"a": "x", "b": 1}), '{"a":"x","b":1}'),
        (Call("c", "patch", raw="just text"), "just text"),
    ],
)
def test_free_text_is_found_however_it_was_wrapped(call, text):
    (sent,) = items(Turn("assistant", (call,)), tools=(Tool("patch", freeform=True),))
    assert sent["input"] == text


def test_a_call_of_a_namespaced_tool_names_its_namespace():
    tools = (Tool("agents__close", namespace="agents"),)
    turn = Turn("assistant", (Call("c", "agents__close"),))
    (sent,) = items(turn, tools=tools)
    assert (sent["name"], sent["namespace"]) == ("close", "agents")
    (flat,) = items(turn, tools=tools, quirks={"namespaces": False})
    assert flat["name"] == "agents__close"
    assert "namespace" not in flat


@every_row(
    ("content", "output"),
    [
        ((), "Error: "),
        ((Text("no"),), "Error: no"),
        ((Text("Error: no"),), "Error: no"),
        (
            (Text("no"), Text("way")),
            [{"type": "input_text", "text": "Error: no"}, {"type": "input_text", "text": "way"}],
        ),
    ],
)
def test_an_error_is_marked_once(content, output):
    (sent,) = said("user", Result("c", content, is_error=True))
    assert sent["output"] == output


def test_a_result_may_hold_a_picture():
    (sent,) = said("user", Result("c", (PNG,), is_error=True))
    assert [part["type"] for part in sent["output"]] == ["input_text", "input_image"]
    assert sent["output"][1]["image_url"] == "data:image/png;base64,aGk="


def test_a_tool_that_was_found_is_named():
    (sent,) = said("user", Result("c", (Reference("look"), Text("x"))))
    assert sent["output"][0]["text"] == "Tool look is now available."


def test_results_stand_before_the_message():
    found = said("user", Result("c", (Text("x"),)), Text("go on"))
    assert [one["type"] for one in found] == ["function_call_output", "message"]


# ── media ──


@every_row(
    ("part", "raw"),
    [
        (PNG, {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}),
        (Image(url="https://x", detail="low"), {"type": "input_image", "detail": "low", "image_url": "https://x"}),
        (Image(file_id="f"), {"type": "input_image", "detail": "auto", "file_id": "f"}),
        (
            Document(data="aGk=", media_type="application/pdf"),
            {"type": "input_file", "file_data": "data:application/pdf;base64,aGk=", "filename": "document"},
        ),
        (Document(url="https://x", title="a"), {"type": "input_file", "file_url": "https://x", "filename": "a"}),
        (Document(file_id="f"), {"type": "input_file", "file_id": "f"}),
        (Document(text="t", title="a", context="c"), {"type": "input_text", "text": "[document: a]\nc\nt"}),
        (Audio("aGk=", "audio/mpeg"), {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}}),
    ],
)  # fmt: skip
def test_media_are_written(part, raw):
    (message,) = said("user", part)
    assert message["content"] == [raw]


def test_what_cannot_be_said_is_lost():
    assert lost("user", Audio("x", "audio/ogg")) == ["turns.0.content.0"]
    assert lost("user", Document(url="u", context="c")) == ["turns.0.content.0.context"]
    assert lost("user", Foreign("gemini", "video", {})) == ["turns.0.content.0"]
    assert lost("assistant", Foreign("anthropic", "server_tool_use", {})) == ["turns.0.content.0"]
    assert lost("assistant", PNG) == ["turns.0.content.0"]


def test_a_blind_model_is_told_of_the_picture():
    blind = Target(model="m", capabilities=frozenset({"tools"}))
    (message,) = said("user", PNG, target=blind)
    assert message["content"][0]["text"] == "[image omitted: m cannot see images]"
    assert lost("user", PNG, target=blind) == ["turns.0.content.0"]


# ── caching ──


@pytest.mark.parametrize(("cache", "ttl"), [("5m", "30m"), ("1h", "12h")])
def test_the_end_of_a_prefix_is_marked_where_that_is_known(cache, ttl):
    part = Text("x", cache=cache)
    (marked,) = said("user", part, quirks={"cache_breakpoints": True})
    assert marked["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit", "ttl": ttl}
    (plain,) = said("user", part)
    assert "prompt_cache_breakpoint" not in plain["content"][0]
    assert lost("user", part) == []


def test_instructions_that_end_a_prefix_are_a_message():
    system = (Text("one", cache="5m"),)
    sent = encode(system=system, quirks={"cache_breakpoints": True}).body
    assert "instructions" not in sent
    assert sent["input"][0]["role"] == "developer"
