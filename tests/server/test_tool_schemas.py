"""A malformed schema of a tool is no fault of the server: it is taken, or refused with its path."""

import json

import aiohttp
import pytest
from tests.peers import gateway, model_server, whole
from tests.properties.test_tool_schemas import APIS, body_with

from toolbridge.config import Config, ProviderConfig

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
    "ollama": "/api/chat",
}
BROKEN = [
    {"required": [{"a": 1}]},
    {"type": ["object", ["null"]], "properties": {"a": {"type": {"b": 1}}}},
    {"properties": {"a": [1]}, "required": "a"},
    {"properties": [1], "additionalProperties": "x"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
    {"enum": "x", "anyOf": {"a": 1}, "allOf": [3], "items": 0},
    [1],
    "object",
    7,
]
CALL = {"name": "f", "arguments": '{"a": "1",}'}
ANSWERS = {
    "anthropic": {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": "1"}}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "openai_chat": {
        "id": "c", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": CALL}],
        }}],
    },
    "openai_responses": {
        "id": "r", "object": "response", "status": "completed", "model": "m",
        "output": [{"type": "function_call", "id": "f", "call_id": "c", "status": "completed", **CALL}],
    },
    "gemini": {
        "candidates": [{"index": 0, "finishReason": "STOP", "content": {
            "role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": "1"}}}],
        }}],
    },
    "ollama": {
        "model": "m", "done": True, "done_reason": "stop",
        "message": {"role": "assistant", "content": "", "tool_calls": [{"function": CALL}]},
    },
}  # fmt: skip


@pytest.mark.parametrize("target", APIS)
@pytest.mark.parametrize("api", APIS)
async def test_a_malformed_schema_is_no_fault_of_the_server(api, target):
    async def answer(heard, line):
        shown = {"capabilities": ["completion", "tools"]} if heard.path == "/api/show" else None
        await whole(line, shown or ANSWERS[target])

    async with model_server(answer) as server:
        place = ProviderConfig(api=target, url=server.url, passthrough=False)
        config = Config(log="off", map={"default": "up/m"}, providers={"up": place})
        async with gateway(config) as (url, _), aiohttp.ClientSession() as session:
            for schema in BROKEN:
                body = body_with(api, schema) | ({"stream": False} if api != "gemini" else {})
                async with session.post(url + PATHS[api], json=body) as reply:
                    said = await reply.text()
                assert reply.status in {200, 400}, (schema, said)
                assert reply.status == 200 or "tools" in json.dumps(said), (schema, said)
