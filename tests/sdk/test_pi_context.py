"""Contexts as pi writes them, as requests of ours."""

import pytest
from tests.tables import every_row

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.messages import (
    Call,
    Image,
    Message,
    Opaque,
    Request,
    Result,
    Text,
    Thinking,
    Tool,
    Turn,
)
from toolbridge.sdk.pi.context import request_of


def look(city: str) -> str:
    """Look at a city."""
    return city


def test_a_context_may_be_a_text_or_a_request():
    assert request_of("hi")[0].turns == (Turn("user", (Text("hi"),)),)
    given = Request("m", (Turn("user", (Text("hi"),)),))
    assert request_of(given) == (given, ())


CONTEXT = {
    "systemPrompt": "Be brief.",
    "messages": [
        {"role": "user", "content": "hi", "timestamp": 1},
        {"role": "assistant", "api": "anthropic-messages", "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
            {"type": "text", "text": "ok"},
            {"type": "toolCall", "id": "c1", "name": "f", "arguments": {"camelCase": 1}},
            {"type": "toolCall", "id": "c2", "name": "f", "arguments": {}},
        ]},
        {"role": "toolResult", "toolCallId": "c1", "toolName": "f", "isError": False,
         "content": [{"type": "text", "text": "one"},
                     {"type": "image", "data": "aa", "mimeType": "image/png"}]},
        {"role": "toolResult", "toolCallId": "c2", "toolName": "f", "isError": True,
         "content": "bad"},
        {"role": "user", "content": [{"type": "text", "text": "and?"}]},
    ],
    "tools": [{"name": "f", "description": "d", "parameters": {"type": "object"}}],
}  # fmt: skip


def test_a_context_of_pis_is_read():
    request, tools = request_of(CONTEXT)
    assert request.system == (Text("Be brief."),)
    assert tools == (Tool("f", "d", {"type": "object"}),)
    assert request.turns == (
        Turn("user", (Text("hi"),)),
        Turn("assistant", (
            Thinking("hm", (Opaque("anthropic", "signature", "sig"),)),
            Text("ok"),
            Call("c1", "f", {"camelCase": 1}),
            Call("c2", "f"),
        )),
        Turn("user", (
            Result("c1", (Text("one"), Image(data="aa", media_type="image/png")), name="f"),
            Result("c2", (Text("bad"),), is_error=True, name="f"),
        )),
        Turn("user", (Text("and?"),)),
    )  # fmt: skip


def test_names_may_be_pythons():
    message = {"role": "toolResult", "tool_call_id": "c", "tool_name": "f", "is_error": True}
    request, _ = request_of({"system_prompt": "x", "messages": [message]})
    assert request.turns == (Turn("user", (Result("c", (Text(""),), is_error=True, name="f"),)),)
    assert request.system == (Text("x"),)


def test_a_signature_without_a_known_origin_is_left_out():
    part = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}
    request, _ = request_of({"messages": [{"role": "assistant", "content": [part]}]})
    assert request.turns[0].content == (Thinking("hm"),)


def test_a_google_call_keeps_its_signature():
    part = {"type": "toolCall", "id": "c", "name": "f", "thoughtSignature": "s"}
    message = {"role": "assistant", "api": "google-generative-ai", "content": [part]}
    (call,) = request_of({"messages": [message]})[0].turns[0].content
    assert call.opaque == (Opaque("gemini", "thought_signature", "s"),)


def test_our_own_words_may_stand_in_a_context():
    turn = Turn("user", (Text("hi"),))
    request, tools = request_of(
        {"messages": [turn, Message(content=(Text("ok"),)), turn], "tools": [look, Tool("t")]}
    )
    assert request.turns == (turn, Turn("assistant", (Text("ok"),)), turn)
    assert tools == (look, Tool("t"))


@every_row(
    ("context", "where"),
    [
        ({"messages": "hi"}, "context.messages"),
        ({"messages": [{"role": "wizard"}]}, "context.messages.0"),
        ({"messages": [{"content": "hi"}]}, "context.messages.0"),
        ({"messages": [object()]}, "context.messages.0"),
        ({"messages": [{"role": "user", "content": [{"type": "song"}]}]}, "context.messages.0"),
        ({"messages": [{"role": "assistant", "content": [{"type": "image"}]}]},
         "context.messages.0"),
        ({"messages": [], "tools": [{"description": "x"}]}, "context.tools.0"),
        ({"message": []}, "context"),
        ({"systemPrompt": 3, "messages": []}, "context.system_prompt"),
    ],
)  # fmt: skip
def test_a_context_that_nobody_can_read_says_where(context, where):
    with pytest.raises(MalformedRequest) as caught:
        request_of(context)
    assert caught.value.problem.where == where


def test_anything_else_is_no_context():
    with pytest.raises(TypeError, match="context"):
        request_of(3)
