"""A provider with two APIs: each client keeps its own where the model accepts the request."""

import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.peers import Heard, Line, gateway, model_server, whole

from toolbridge import providers
from toolbridge.config import Config, ProviderConfig

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SAID = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "x_own": 7,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "from chat"}, "finish_reason": "stop"}]}  # fmt: skip
TOLD = {
    "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m",
    "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "from responses", "annotations": []}]}],
    "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
}  # fmt: skip


async def openai(heard: Heard, line: Line) -> None:
    await whole(line, SAID if heard.path == "/v1/chat/completions" else TOLD)


@asynccontextmanager
async def bridged():
    """Serve a gateway in front of a server that has OpenAI's two APIs."""
    known = providers.load("openai")
    async with model_server(openai) as server:
        at = ProviderConfig(
            api=known.api,
            url=f"{server.url}/v1",
            key="k",
            passthrough=True,
            other_apis=known.other_apis,
        )
        async with gateway(Config(log="off", providers={"openai": at})) as (url, _):
            yield url, server


async def ask(url: str, path: str, body: dict) -> dict:
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as reply:
        assert reply.status == 200, await reply.text()
        return await reply.json()


def chat(model: str, **fields) -> dict:
    return {"model": f"openai/{model}", "messages": [{"role": "user", "content": "hi"}], **fields}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("gpt-4.1", {"tools": [TOOL], "logit_bias": {"1": 1}}),
        ("gpt-5.6-sol", {}),
        ("gpt-5.6-sol", {"tools": [TOOL], "reasoning_effort": "none"}),
        ("gpt-5.2", {"tools": [TOOL], "reasoning_effort": "high"}),
        ("unknown-model", {"tools": [TOOL], "anything": {"new": True}}),
    ],
)
async def test_a_chat_client_passes_through(model, fields):
    async with bridged() as (url, server):
        told = await ask(url, "/v1/chat/completions", chat(model, **fields))
    assert told == SAID  # the provider's own bytes, unknown fields included
    (heard,) = server.heard
    assert heard.path == "/v1/chat/completions"
    assert heard.json == {**chat(model, **fields), "model": model}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("gpt-5.6-sol", {"tools": [TOOL], "reasoning_effort": "high"}),
        ("gpt-5.4", {"tools": [TOOL]}),
        ("gpt-6-astra", {"tools": [TOOL], "reasoning_effort": "none"}),
        ("o3-pro", {}),
    ],
)
async def test_a_chat_client_is_translated_where_the_model_rejects_chat(model, fields):
    async with bridged() as (url, server):
        told = await ask(url, "/v1/chat/completions", chat(model, **fields))
    assert told["choices"][0]["message"]["content"] == "from responses"
    (heard,) = server.heard
    assert heard.path == "/v1/responses"
    assert heard.json["model"] == model
    if "tools" in fields:
        assert heard.json["tools"][0]["name"] == "f"
    efforts = {"gpt-5.6-sol": "high", "gpt-6-astra": "low"}
    assert heard.json.get("reasoning", {}).get("effort") == efforts.get(model)


async def test_other_clients_use_the_main_api():
    body = {"max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]}
    async with bridged() as (url, server):
        told = await ask(url, "/v1/messages", {"model": "openai/gpt-4.1", **body})
        own = await ask(url, "/v1/responses", {"model": "openai/gpt-4.1", "input": "hi"})
    assert told["content"][0]["text"] == "from responses"
    assert own == json.loads(json.dumps(TOLD))
    assert [heard.path for heard in server.heard] == ["/v1/responses"] * 2


async def test_embeddings_of_the_provider_work():
    vector = {"object": "embedding", "index": 0, "embedding": [0.5]}

    async def answer(heard: Heard, line: Line) -> None:
        assert heard.path == "/v1/embeddings"
        await whole(line, {"object": "list", "data": [vector], "model": "e", "usage": {"prompt_tokens": 1, "total_tokens": 1}})  # fmt: skip

    async with model_server(answer) as server:
        at = ProviderConfig(api="openai_responses", url=f"{server.url}/v1", key="k")
        async with gateway(Config(log="off", providers={"openai": at})) as (url, _):
            body = {"model": "openai/text-embedding-3-small", "input": "x"}
            told = await ask(url, "/v1/embeddings", body)
    assert told["data"][0]["embedding"] == [0.5]
