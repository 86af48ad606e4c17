"""URLs of providers: variables, queries, and the paths of their endpoints."""

import pytest
from tests.peers import gateway, model_server, ollama, whole
from tests.server.test_messages import body, post
from tests.tables import every_row

from toolbridge.config import Config, ProviderConfig
from toolbridge.core.errors import ConfigError
from toolbridge.routing.provider_urls import endpoint_url
from toolbridge.routing.providers import find_providers


@every_row(
    ("api", "url", "path", "whole"),
    [
        ("openai_chat", "https://h", "/chat/completions", "https://h/v1/chat/completions"),
        ("openai_chat", "https://h/.", "/models", "https://h/models"),
        ("openai_chat", "https://h/x/", "/models", "https://h/x/models"),
        ("openai_chat", "https://h?v=1", "/models", "https://h/v1/models?v=1"),
        ("openai_chat", "https://h/o?v=1&w=2", "/models", "https://h/o/models?v=1&w=2"),
        ("anthropic", "https://h/v1?beta=true", "/v1/messages", "https://h/v1/messages?beta=true"),
        ("gemini", "https://h/v1beta/?k=1", "/v1beta/m:s?alt=sse", "https://h/v1beta/m:s?alt=sse&k=1"),
        ("ollama", "http://h/?x=y", "/api/chat", "http://h/api/chat?x=y"),
    ],
)  # fmt: skip
def test_an_endpoint_keeps_the_query_of_its_provider(api, url, path, whole):
    assert endpoint_url("p", ProviderConfig(api=api, url=url), path) == whole


def test_variables_of_a_url_are_filled_in():
    config = Config(
        providers={
            "p": ProviderConfig(api="openai_chat", url="https://${REGION:-eu}.h/${ACCOUNT}/v1")
        }
    )
    filled = find_providers(config, {"ACCOUNT": "a1"})["p"]
    assert endpoint_url("p", filled, "/models") == "https://eu.h/a1/v1/models"
    unset = find_providers(config, {})["p"]
    with pytest.raises(ConfigError, match=r"providers\.p: p needs ACCOUNT; set it"):
        endpoint_url("p", unset, "/models")


async def test_every_request_has_the_query():
    async def chat(_, line):
        done = {"model": "m", "message": {"role": "assistant", "content": "x"}, "done": True}
        await whole(line, done | {"done_reason": "stop"})

    async def answer(heard, line):
        heard.path, _, query = heard.path.partition("?")
        queries.append((heard.path, query))
        await ollama(chat)(heard, line)

    queries: list[tuple[str, str]] = []
    async with model_server(answer) as server:
        place = ProviderConfig(api="ollama", url=f"{server.url}/?tenant=7")
        config = Config(log="off", map={"default": "mine/tiny"}, providers={"mine": place})
        async with gateway(config) as (url, _):
            reply, _ = await post(url, body(stream=False))
    assert reply.status == 200
    assert {path for path, _ in queries} >= {"/api/show", "/api/chat"}
    assert {query for _, query in queries} == {"tenant=7"}
