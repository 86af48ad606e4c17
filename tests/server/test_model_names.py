"""A model's name comes from a client: it chooses a model, never a path, a header or a log line."""

import json
from urllib.parse import quote

import aiohttp
import pytest
from tests.peers import gateway, model_server, whole
from yarl import URL

from toolbridge.config import Config, ProviderConfig

NAMES = [
    "gem/../../admin?x=",
    "gem/../../admin",
    "gem/a?key=1",
    "gem/a#b",
    "gem/a\r\nx-evil: 1",
    "gem/a\x00",
    "gem/..\\..\\admin",
    "../admin",
    "plain?x",
]
CHAT = {"messages": [{"role": "user", "content": "x"}], "stream": False}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
ASKS = {
    "anthropic": ("/v1/messages", CHAT | {"max_tokens": 9}),
    "anthropic count": ("/v1/messages/count_tokens", CHAT),
    "openai_chat": ("/v1/chat/completions", CHAT),
    "openai_responses": ("/v1/responses", {"input": "x"}),
    "responses count": ("/v1/responses/input_tokens", {"input": "x"}),
    "ollama": ("/api/chat", CHAT),
    "ollama generate": ("/api/generate", {"prompt": "x", "stream": False}),
    "ollama show": ("/api/show", {}),
    "gemini": ("/v1beta/models/{}:generateContent", GEMINI),
    "gemini stream": ("/v1beta/models/{}:streamGenerateContent?alt=sse", GEMINI),
    "gemini count": ("/v1beta/models/{}:countTokens", GEMINI),
}
ANSWER = {
    "candidates": [
        {
            "index": 0,
            "finishReason": "STOP",
            "content": {"role": "model", "parts": [{"text": "hello"}]},
        }
    ]
}


def gemini_behind(server, *, passthrough: bool) -> Config:
    place = ProviderConfig(api="gemini", url=server.url, key="k", passthrough=passthrough)
    return Config(log="off", map={"default": "gem/m"}, providers={"gem": place})


async def answer(_, line):
    await whole(line, ANSWER)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ask", ASKS)
async def test_a_name_that_could_be_a_path_is_refused_before_anything_is_sent(ask, name):
    path, body = ASKS[ask]
    body = body if "{}" in path else body | {"model": name}
    async with model_server(answer) as server:
        config = gemini_behind(server, passthrough=True)
        async with gateway(config) as (url, _), aiohttp.ClientSession() as session:
            target = URL(url + path.replace("{}", quote(name, safe="")), encoded=True)
            async with session.post(target, json=body) as reply:
                said = json.loads(await reply.text())
                assert reply.status in {400, 404}, said
                assert "error" in said
                assert "x-evil" not in reply.headers
        assert server.heard == []


@pytest.mark.parametrize("passthrough", [True, False])
@pytest.mark.parametrize("api", ["anthropic", "gemini"])
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a b%2e%2e%2fc", "a%20b%252e%252e%252fc"),
        ("tuned/x:1", "tuned/x:1"),
        ("köln&x=1;y", "k%C3%B6ln&x=1;y"),
    ],
)
async def test_the_name_is_quoted_in_the_path(api, passthrough, name, part):
    path, body = ASKS[api]
    body = body if "{}" in path else body | {"model": f"gem/{name}"}
    async with model_server(answer) as server:
        config = gemini_behind(server, passthrough=passthrough)
        async with gateway(config) as (url, _), aiohttp.ClientSession() as session:
            target = URL(url + path.replace("{}", quote(f"gem/{name}", safe="")), encoded=True)
            async with session.post(target, json=body) as reply:
                assert reply.status == 200, await reply.text()
        assert [heard.path for heard in server.heard] == [f"/v1beta/models/{part}:generateContent"]
