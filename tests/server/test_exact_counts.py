"""Counting endpoints of the gateway, answered by the counting endpoints of providers."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.peers import Heard, Line, gateway, model_server, whole

from toolbridge.config import Config, ProviderConfig
from toolbridge.routing import counting

ASKED = {
    "model": "big",
    "max_tokens": 9,
    "system": "be kind",
    "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": "hello world"}],
}
ACCURACY = "x-toolbridge-token-count"


@asynccontextmanager
async def counted_by(api: str, answer, *, probes: bool = False, **settings):
    """Serve a gateway in front of a provider; yield what counts `ASKED`, and the provider."""
    async with model_server(answer, probes=probes) as server:
        provider = ProviderConfig(api=api, url=server.url, key="k", **settings)
        config = Config(log="off", map={"default": "there/big"}, providers={"there": provider})
        async with gateway(config) as (url, _), aiohttp.ClientSession() as session:

            async def count(**headers: str) -> tuple[int, str]:
                path = f"{url}/v1/messages/count_tokens"
                async with session.post(path, json=ASKED, headers=headers) as answer:
                    assert answer.status == 200
                    return (await answer.json())["input_tokens"], answer.headers[ACCURACY]

            yield count, server


def replying(body: dict, status: int = 200):
    async def answer(_: Heard, line: Line) -> None:
        await whole(line, body, status)

    return answer


@pytest.mark.parametrize(
    ("api", "reply", "path"),
    [
        ("anthropic", {"input_tokens": 77}, "/v1/messages/count_tokens"),
        ("openai_responses", {"object": "response.input_tokens", "input_tokens": 77}, "/v1/responses/input_tokens"),
        ("gemini", {"totalTokens": 77}, "/v1beta/models/big:countTokens"),
    ],
)  # fmt: skip
async def test_a_provider_that_counts_is_asked(api, reply, path):
    async with counted_by(api, replying(reply)) as (count, server):
        assert await count() == (77, "exact")
    (heard,) = server.heard
    assert heard.path == path
    sent = heard.json
    assert "big" in json.dumps(sent)
    for text in ("be kind", "hello world", "Read"):
        assert text in json.dumps(sent)


async def test_anthropic_gets_no_field_that_is_not_counted():
    async with counted_by("anthropic", replying({"input_tokens": 1})) as (count, server):
        await count(**{"anthropic-beta": "some-beta-2026"})
    (heard,) = server.heard
    assert heard.json.keys() == {"model", "messages", "system", "tools"}
    assert heard.headers["x-api-key"] == "k"
    assert "some-beta-2026" in heard.headers["anthropic-beta"]


async def test_gemini_counts_system_and_tools_inside_the_whole_request():
    async with counted_by("gemini", replying({"totalTokens": 1})) as (count, server):
        await count()
    (heard,) = server.heard
    inner = heard.json["generateContentRequest"]
    assert inner["model"] == "models/big"
    assert {"contents", "systemInstruction", "tools"} <= inner.keys()


@pytest.mark.parametrize("setting", ["words4", "chars4"])
async def test_a_simple_rule_goes_before_the_providers_count(setting):
    answer = replying({"input_tokens": 77})
    async with counted_by("anthropic", answer, counting=setting) as (count, server):
        tokens, accuracy = await count()
    assert (server.heard, accuracy) == ([], setting)
    assert tokens == {"words4": 6, "chars4": 5}[setting]  # be kind hello world


@pytest.mark.parametrize(
    "answer",
    [
        replying({"error": {"type": "not_found_error", "message": "no"}}, 404),
        replying({"error": {"message": "no"}}, 401),
        replying({"input_tokens": "many"}),
        replying({}),
    ],
)
async def test_without_a_count_there_is_an_estimate_with_the_overheads_of_the_api(answer):
    async with counted_by("anthropic", answer) as (count, server):
        tokens, accuracy = await count()
        await count()
    assert accuracy == "estimated"
    assert tokens > 600  # Anthropic adds about 600 tokens when there are tools
    assert all("count_tokens" in heard.path for heard in server.heard)


async def test_a_provider_without_the_endpoint_is_asked_once():
    async with counted_by("anthropic", replying({}, 404)) as (count, server):
        for _ in range(3):
            assert (await count())[1] == "estimated"
    assert len(server.heard) == 1


async def test_a_provider_that_is_slow_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(counting, "COUNT_TIMEOUT", 0.05)

    async def silent(_: Heard, line: Line) -> None:
        await line.gone()

    async with counted_by("anthropic", silent) as (count, _):
        tokens, accuracy = await asyncio.wait_for(count(), 20)
    assert (accuracy, tokens > 0) == ("estimated", True)


async def test_the_same_content_is_counted_once():
    async with counted_by("anthropic", replying({"input_tokens": 77})) as (count, server):
        assert [await count() for _ in range(3)] == [(77, "exact")] * 3
        assert await count(**{"anthropic-beta": "other"}) == (77, "exact")
    assert len(server.heard) == 2


async def test_the_counts_that_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(counting, "_MOST_KEPT", 1)
    async with counted_by("anthropic", replying({"input_tokens": 7})) as (count, server):
        for beta in ("a", "b", "a"):
            await count(**{"anthropic-beta": beta})
    assert len(server.heard) == 3


async def test_the_count_that_was_used_last_is_kept_longest(monkeypatch):
    monkeypatch.setattr(counting, "_MOST_KEPT", 2)
    async with counted_by("anthropic", replying({"input_tokens": 7})) as (count, server):
        for beta in ("a", "b", "a", "c", "a"):
            await count(**{"anthropic-beta": beta})
    assert len(server.heard) == 3


# ── engines that count ──


@pytest.mark.parametrize(
    ("owner", "path", "reply"),
    [
        ("llamacpp", "/v1/chat/completions/input_tokens", {"object": "response.input_tokens", "input_tokens": 77}),
        ("vllm", "/tokenize", {"count": 77, "max_model_len": 8192, "tokens": [1], "token_strs": None}),
        ("sglang", "/v1/tokenize", {"tokens": [1], "count": 77, "max_model_len": 8192}),
    ],
)  # fmt: skip
async def test_an_engine_that_counts_is_asked(owner, path, reply):
    async def answer(heard: Heard, line: Line) -> None:
        if heard.method == "POST":
            await whole(line, reply)
        elif heard.path == "/v1/models":
            row = {"id": "big", "object": "model", "owned_by": owner, "max_model_len": 8192}
            await whole(line, {"object": "list", "data": [row]})
        else:
            await whole(line, {}, 404)

    async with counted_by("openai_chat", answer, probes=True) as (count, server):
        assert await count() == (77, "exact")
        assert await count() == (77, "exact")
    (heard,) = (heard for heard in server.heard if heard.method == "POST")
    assert heard.path == path
    sent = heard.json
    assert sent["model"] == "big"
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert sent["tools"][0]["function"]["name"] == "Read"
    assert not sent.keys() & {"max_tokens", "stream", "store"}


async def test_a_server_of_another_engine_is_not_asked_for_a_count():
    async with counted_by("openai_chat", replying({"input_tokens": 77})) as (count, server):
        assert (await count())[1] == "estimated"
    assert server.heard == []
