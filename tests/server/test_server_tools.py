"""Tools that only the client's own API can run: no model ever plays their results."""

import json

import aiohttp
import anthropic
import openai
import pytest
from tests.peers import bridged, gateway, line_of, model_server, replay, whole

from toolbridge.config import Config, ProviderConfig
from toolbridge.server_tool_settings import ServerToolSettings, WebFetchSettings

INVENTED = replay(line_of("I searched and found: example.com"), line_of("", done=True))
PREFIX = "Perform a web search for the query: "
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
CLAUDE = {
    "model": "m",
    "max_tokens": 4000,
    "system": [{"type": "text", "text": "You run a web search for another Claude model."}],
    "messages": [{"role": "user", "content": [{"type": "text", "text": f"{PREFIX}hello world"}]}],
    "tools": [SEARCH],
    "tool_choice": {"type": "tool", "name": "web_search"},
}
AUTO = CLAUDE | {"tool_choice": {"type": "auto"}}
"""What Claude Code sends for model names that it does not know."""
SENTENCE = "Not available in this conversation: {}."


async def post(url: str, path: str, body: dict, agent: str = "x/1"):
    async with (
        aiohttp.ClientSession(headers={"user-agent": agent}) as session,
        session.post(url + path, json=body) as answer,
    ):
        return answer, await answer.text()


def system_of(server) -> str:
    messages = server.chats()[0].json["messages"]
    return "\n".join(m["content"] for m in messages if m["role"] == "system")


@pytest.mark.parametrize("body", [CLAUDE, AUTO], ids=["forced", "auto"])
async def test_a_search_of_claude_code_fails_in_its_own_shape(body):
    async with (
        bridged(INVENTED) as (url, server, _),
        anthropic.AsyncAnthropic(base_url=url, api_key="k") as client,
    ):
        whole_answer = await client.messages.create(**body)
        async with client.messages.stream(**body) as stream:
            streamed = await stream.get_final_message()
    assert server.chats() == []
    for message in (whole_answer, streamed):
        call, result, text = message.content
        assert (call.type, call.name) == ("server_tool_use", "web_search")
        assert call.input == {"query": "hello world"}
        assert result.type == "web_search_tool_result"
        assert result.tool_use_id == call.id
        assert result.content.type == "web_search_tool_result_error"
        assert result.content.error_code == "unavailable"
        assert "not available" in text.text
        assert message.stop_reason == "end_turn"
        assert (message.usage.input_tokens, message.usage.output_tokens) == (0, 0)
    assert whole_answer.id != streamed.id


async def test_the_input_of_the_call_is_streamed_and_the_result_has_no_deltas():
    async with bridged(INVENTED) as (url, *_):
        _, text = await post(url, "/v1/messages", CLAUDE | {"stream": True})
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[:6] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_stop",
    ]
    assert kinds[-2:] == ["message_delta", "message_stop"]


@pytest.mark.parametrize(
    ("tool", "result"),
    [
        ({"type": "web_fetch_20260309", "name": "web_fetch"}, "web_fetch_tool_result"),
        (
            {"type": "code_execution_20250825", "name": "code_execution"},
            "code_execution_tool_result",
        ),
    ],
)
async def test_other_tools_of_anthropic_fail_in_their_shape(tool, result):
    body = CLAUDE | {"tools": [tool], "tool_choice": {"type": "tool", "name": tool["name"]}}
    off = ServerToolSettings(web_fetch=WebFetchSettings(enabled=False))
    async with bridged(INVENTED, server_tools=off) as (url, server, _):
        _, text = await post(url, "/v1/messages", body)
    block = json.loads(text)["content"][1]
    assert block["type"] == result
    assert block["content"] == {"type": f"{result}_error", "error_code": "unavailable"}
    assert server.chats() == []


async def test_a_forced_tool_without_a_shape_of_failure_is_a_400():
    tool = {"type": "mcp_toolset", "mcp_server_name": "s", "name": "s"}
    body = CLAUDE | {"tools": [tool], "tool_choice": {"type": "tool", "name": "s"}}
    async with bridged(INVENTED) as (url, server, _):
        answer, text = await post(url, "/v1/messages", body)
    assert answer.status == 400
    assert "is not available with m" in text
    assert server.chats() == []


OFFERS = {
    "anthropic": (
        "/v1/messages",
        CLAUDE
        | {
            "tools": [SEARCH, {"name": "Bash", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "auto"},
            "messages": [{"role": "user", "content": "what is new?"}],
        },
        "web_search",
    ),
    "openai_responses": (
        "/v1/responses",
        {"model": "m", "input": "what is new?", "tools": [{"type": "web_search"}]},
        "web_search",
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": "what is new?"}]}],
            "tools": [{"googleSearch": {}}],
        },
        "googleSearch",
    ),
    "openai_chat": (
        "/v1/chat/completions",
        {
            "model": "m",
            "messages": [{"role": "user", "content": "what is new?"}],
            "web_search_options": {},
        },
        "web_search",
    ),
}


@pytest.mark.parametrize("api", OFFERS)
async def test_a_tool_that_is_only_offered_is_said_to_be_missing(api):
    path, body, name = OFFERS[api]
    async with bridged(INVENTED) as (url, server, _):
        answer, text = await post(url, path, body)
    assert answer.status == 200, text
    assert SENTENCE.format(name) in system_of(server)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("choice", [{"type": "web_search_preview"}, "required"])
async def test_a_search_that_responses_forces_is_a_failed_call(choice, stream):
    ask = {
        "model": "m",
        "input": "news",
        "tools": [{"type": "web_search_preview"}],
        "tool_choice": choice,
    }
    async with (
        bridged(INVENTED) as (url, server, _),
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k") as client,
    ):
        if stream:
            async with client.responses.stream(**ask) as events:
                response = await events.get_final_response()
        else:
            response = await client.responses.create(**ask)
    call, message = response.output
    assert (call.type, call.status) == ("web_search_call", "failed")
    assert call.action.query == "news"
    assert "not available" in message.content[0].text
    assert response.status == "completed"
    assert server.chats() == []


@pytest.mark.parametrize("tool", ["googleSearch", "enterpriseWebSearch", "urlContext"])
async def test_gemini_cli_finds_nothing_instead_of_an_invention(tool):
    body = {
        "contents": [{"role": "user", "parts": [{"text": "hello world"}]}],
        "tools": [{tool: {}}],
        "generationConfig": {"temperature": 0, "topP": 1},
    }
    agent = "GeminiCLI-tui/0.61.0/m (linux; x64; terminal)"
    async with bridged(INVENTED) as (url, server, _):
        answer, text = await post(url, "/v1beta/models/m:generateContent", body, agent)
    assert answer.status == 200
    (candidate,) = json.loads(text)["candidates"]
    assert candidate["content"]["parts"] == [{"text": ""}]
    assert candidate["finishReason"] == "STOP"
    assert server.chats() == []


@pytest.mark.parametrize("passthrough", [True, False])
async def test_a_vendor_that_has_the_tool_gets_it(passthrough):
    reply = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "found"}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }

    async def answer(_, line):
        await whole(line, reply)

    async with model_server(answer) as server:
        place = ProviderConfig(api="anthropic", url=server.url, passthrough=passthrough)
        config = Config(log="off", map={"default": "up/m"}, providers={"up": place})
        async with gateway(config) as (url, _):
            answered, text = await post(url, "/v1/messages", CLAUDE)
    assert answered.status == 200, text
    assert server.heard[0].json["tools"] == [SEARCH]
    assert "Not available" not in server.heard[0].body.decode()
