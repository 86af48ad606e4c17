"""A refusal in known words is mended by asking once more in others, and said."""

import json

from tests.peers import bridged, gateway, model_server, recorded, replay, whole
from tests.server.test_messages import CLAUDE_CODE, body, line, post

from toolbridge.config import Config, ProviderConfig

TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}


async def test_a_model_that_refuses_tools_is_told_of_them_in_its_prompt():
    answers = iter(
        [
            recorded("ollama/jinja/chat_tools_unsupported.txt"),
            replay(line('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>', done=True)),
        ]
    )

    async def chat(heard, peer):
        await next(answers)(heard, peer)

    async with bridged(chat) as (url, server, _):
        answer, reply = await post(url, body(tools=[TOOL], stream=False))
    assert reply["content"][0]["input"] == {"a": 1}
    assert "tools" in server.chats()[0].json
    assert "tools" not in server.chats()[1].json
    assert "no tools of its own" in answer.headers["x-toolbridge-warning"]


async def test_a_model_that_refuses_to_think_is_asked_without_for_a_client_that_attaches_it():
    answers = [recorded("ollama/jinja/chat_think_unsupported.txt"), replay(line("x", done=True))]
    left = iter([*answers, answers[0]])

    async def chat(heard, peer):
        await next(left)(heard, peer)

    thinking = {"type": "enabled", "budget_tokens": 1024}
    async with bridged(chat) as (url, server, _):
        answer, reply = await post(url, body(thinking=thinking, stream=False), **CLAUDE_CODE)
        assert reply["content"][0]["text"] == "x"
        assert "think" in answer.headers["x-toolbridge-warning"]
        answer, error = await post(url, body(thinking=thinking, stream=False))
    assert (answer.status, error["error"]["type"]) == (400, "thinking_not_supported")
    assert len(server.chats()) == 3


async def test_thoughts_that_anthropic_does_not_accept_are_left_out_once():
    refusal = {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
        },
    }
    good = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "c", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "fine"}], "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip

    async def answer(heard, peer):
        thoughts = "signature" in json.dumps(heard.json["messages"])
        await whole(peer, refusal if thoughts else good, 400 if thoughts else 200)

    thought = {"type": "thinking", "thinking": "hm", "signature": "old"}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "b"}]},
        {"role": "user", "content": "c"},
    ]
    async with model_server(answer) as server:
        place = ProviderConfig(api="anthropic", url=server.url)
        config = Config(log="off", map={"default": "there/c"}, providers={"there": place})
        async with gateway(config) as (url, _):
            reply, found = await post(url, body(messages=messages, stream=False))
    assert found["content"][0]["text"] == "fine"
    assert "sent again without it" in reply.headers["x-toolbridge-warning"]
    assert len(server.heard) == 2
