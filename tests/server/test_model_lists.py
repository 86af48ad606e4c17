"""The lists of models in four shapes: every provider in use, with limits and capabilities."""

import asyncio
import json

import aiohttp
import pytest
from tests.peers import Heard, Line, gateway, model_server, whole

from toolbridge.config import Config, ModelConfig, ProviderConfig

OPENROUTER = {
    "id": "x/y", "context_length": 61234, "architecture": {"input_modalities": ["text", "image"]},
    "top_provider": {"max_completion_tokens": 9000}, "supported_parameters": ["tools", "reasoning"],
}  # fmt: skip
LISTS = {
    "/v1/models": {"data": [OPENROUTER, {"id": "text-embedding-x"}]},
    "/v1/models?limit=1000": {"data": [{"id": "claude-sonnet-4-5", "type": "model"}], "has_more": False},
    "/v1beta/models?pageSize=1000": {"models": [{"name": "models/gemini-2.5-pro", "inputTokenLimit": 9}]},
    "/props": None,
}  # fmt: skip


async def serve(heard: Heard, line: Line) -> None:
    found = LISTS.get(heard.path)
    await whole(line, found or {"error": "no"}, 200 if found else 404)


def configured(url: str, **more) -> Config:
    providers = {
        "many": ProviderConfig(api="openai_chat", url=f"{url}/v1"),
        "claude": ProviderConfig(api="anthropic", url=url, key="k"),
        "gem": ProviderConfig(api="gemini", url=url, key="k"),
    }
    return Config(log="off", map={"default": "many/x/y"}, providers=providers, **more)


async def listed(url: str, path: str = "/v1/models", **headers: str) -> dict:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url + path, headers=headers) as reply,
    ):
        assert reply.status == 200
        return await reply.json()


async def lists(config: Config, *asks: tuple[str, dict[str, str]]) -> list[dict]:
    async with gateway(config) as (url, _):
        return [await listed(url, path, **headers) for path, headers in asks]


OPENAI = ("/v1/models", {})
ANTHROPIC = ("/v1/models", {"anthropic-version": "2023-06-01"})
GEMINI = ("/v1beta/models", {})
OLLAMA = ("/api/tags", {})


async def test_every_provider_is_listed_in_every_shape():
    async with model_server(serve, probes=True) as server:
        found = await lists(configured(server.url), OPENAI, ANTHROPIC, GEMINI, OLLAMA)
    openai, anthropic, gemini, ollama = found
    names = {"many/x/y", "claude/claude-sonnet-4-5", "gem/gemini-2.5-pro"}
    assert names <= {row["id"] for row in openai["data"]}
    assert names <= {row["id"] for row in anthropic["data"]}
    assert names <= {row["name"].removeprefix("models/") for row in gemini["models"]}
    assert names <= {row["name"] for row in ollama["models"]}
    assert "embedding" not in json.dumps(found)
    paths = [heard.path for heard in server.heard]
    assert len(paths) == len(set(paths))  # asked once, for four lists


async def test_limits_and_capabilities_are_in_the_fields_of_each_api():
    async with model_server(serve, probes=True) as server:
        found = await lists(configured(server.url), OPENAI, ANTHROPIC, GEMINI, OLLAMA)
    openai, anthropic, gemini, ollama = (
        next(row for row in rows if (row.get("id") or row["name"]).endswith("many/x/y"))
        for rows in (found[0]["data"], found[1]["data"], found[2]["models"], found[3]["models"])
    )
    assert (openai["context_length"], openai["max_output_tokens"]) == (61234, 9000)
    assert openai["architecture"] == {"input_modalities": ["text", "image"]}
    assert openai["supported_parameters"] == ["tools", "reasoning"]
    assert (anthropic["max_input_tokens"], anthropic["max_tokens"]) == (61234, 9000)
    assert anthropic["capabilities"]["image_input"] == {"supported": True}
    assert anthropic["capabilities"]["pdf_input"] == {"supported": False}
    assert anthropic["capabilities"]["thinking"]["supported"] is True
    assert (gemini["inputTokenLimit"], gemini["outputTokenLimit"]) == (61234, 9000)
    assert gemini["thinking"] is True
    assert ollama["capabilities"] == ["completion", "tools", "thinking", "vision"]


async def test_the_table_completes_what_a_list_lacks():
    async with model_server(serve, probes=True) as server:
        (found,) = await lists(configured(server.url), ANTHROPIC)
    row = next(row for row in found["data"] if row["id"] == "claude/claude-sonnet-4-5")
    assert (row["max_input_tokens"], row["max_tokens"]) == (200_000, 64_000)
    assert row["lifecycle"] == "deprecated"
    types = row["capabilities"]["thinking"]["types"]
    assert {name for name, leaf in types.items() if leaf["supported"]} == {"enabled", "disabled"}


async def test_the_sdks_read_the_lists():
    import anthropic
    import openai

    async with (
        model_server(serve, probes=True) as server,
        gateway(configured(server.url)) as (url, _),
    ):
        async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as client:
            model = next(m for m in (await client.models.list()).data if m.id == "many/x/y")
            assert model.capabilities.thinking.types.adaptive.supported is True
            assert model.capabilities.effort.supported is False
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k") as client:
            found = await client.models.list()
        assert "many/x/y" in {model.id for model in found.data}


async def test_one_model_has_the_same_fields():
    async with (
        model_server(serve, probes=True) as server,
        gateway(configured(server.url)) as (url, _),
    ):
        assert (await listed(url, "/v1/models/many/x/y"))["context_length"] == 61234
        shown = await listed(url, "/v1beta/models/claude/claude-opus-5-5")
    assert (shown["inputTokenLimit"], shown["outputTokenLimit"]) == (1_000_000, 128_000)


async def test_ollamas_clients_see_only_capabilities_that_are_known():
    provider = ProviderConfig(api="openai_chat", url="http://127.0.0.1:1")
    models = {"fk/dumb": ModelConfig(tool_mode="native"), "fk/none": ModelConfig(vision=True)}
    config = Config(log="off", providers={"fk": provider}, models=models)
    async with gateway(config) as (url, _), aiohttp.ClientSession() as session:
        for name, has in (("fk/dumb", ["tools"]), ("fk/none", ["tools", "vision"])):
            async with session.post(f"{url}/api/show", json={"model": name}) as reply:
                assert (await reply.json())["capabilities"] == ["completion", *has]


async def test_a_limit_that_is_not_known_is_left_out_for_gemini():
    from google import genai

    row = {"id": "plain", "object": "model"}

    async def engine(heard: Heard, line: Line) -> None:
        await whole(line, {"data": [row]} if heard.path == "/v1/models" else {}, 200)

    async with model_server(engine, probes=True) as server:
        provider = ProviderConfig(api="openai_chat", url=server.url)
        async with gateway(Config(log="off", providers={"box": provider})) as (url, _):
            shown = (await listed(url, "/v1beta/models"))["models"]
            client = genai.Client(api_key="k", http_options={"base_url": url})
            models = [one async for one in await client.aio.models.list()]
            await client.aio.aclose()
    assert "TokenLimit" not in json.dumps(shown)
    assert "models/box/plain" in {model.name for model in models}
    assert {(model.input_token_limit, model.output_token_limit) for model in models} == {(None, None)}  # fmt: skip


async def test_a_provider_that_hangs_does_not_hold_up_the_list():
    async def hang(_: Heard, line: Line) -> None:
        await line.gone()

    async with model_server(hang, probes=True) as dead, model_server(serve, probes=True) as server:
        config = configured(server.url)
        config.providers["dead"] = ProviderConfig(api="openai_chat", url=dead.url)
        async with gateway(config) as (url, _), asyncio.timeout(20):
            found = await listed(url)
            again = await listed(url)
    assert {row["id"] for row in found["data"]} == {row["id"] for row in again["data"]}
    assert "many/x/y" in {row["id"] for row in found["data"]}
    assert len(dead.heard) == 1


async def test_a_cloud_without_a_key_is_not_asked_and_not_listed():
    config = Config(
        log="off",
        map={"default": "demo", "opus": "anthropic/claude-opus-5-5"},
        providers={"openai": ProviderConfig()},
    )
    (found,) = await lists(config, OPENAI)
    assert {row["id"] for row in found["data"]} == {"opus", "toolbridge-demo"}


async def test_a_model_of_a_local_server_is_found_by_its_own_name():
    row = {"id": "smol", "object": "model", "owned_by": "llamacpp"}

    async def engine(heard: Heard, line: Line) -> None:
        if heard.method == "GET":
            ok = heard.path == "/v1/models"
            await whole(line, {"data": [row]} if ok else {}, 200 if ok else 404)
            return
        message = {"role": "assistant", "content": "from smol"}
        answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        await whole(line, {"id": "1", "object": "chat.completion", "model": "smol", **answer})

    async with model_server(engine, probes=True) as server:
        provider = ProviderConfig(api="openai_chat", url=server.url)
        config = Config(log="off", providers={"box": provider})
        async with gateway(config) as (url, app), aiohttp.ClientSession() as session:
            assert app.gateway.model_routes.default == "box/smol"  # nothing else is configured
            for name in ("smol", "box/smol", "claude-smol", "claude-box/smol", "claude-opus-5-5"):
                ask = {
                    "model": name,
                    "max_tokens": 9,
                    "messages": [{"role": "user", "content": "x"}],
                }
                async with session.post(f"{url}/v1/messages", json=ask) as reply:
                    assert reply.status == 200, await reply.text()
                    assert reply.headers["x-toolbridge-model"] == "box/smol"


@pytest.mark.parametrize("shape", [OPENAI, ANTHROPIC, GEMINI, OLLAMA])
async def test_the_configuration_wins_in_the_lists(shape):
    async with model_server(serve, probes=True) as server:
        models = {"many/x/y": ModelConfig(window=777, vision=False)}
        (found,) = await lists(configured(server.url, models=models), shape)
    text = json.dumps(found)
    assert "61234" not in text
    assert "9000" in text or shape is OLLAMA  # the rest is the provider's
    assert "777" in text or shape is OLLAMA


async def test_a_model_is_owned_by_its_provider_and_a_name_of_the_map_by_the_gateway():
    async with model_server(serve, probes=True) as server:
        config = configured(server.url)
        config.map["mine"] = "many/x/y"
        [found] = await lists(config, OPENAI)
    owners = {model["id"]: model["owned_by"] for model in found["data"]}
    assert owners["many/x/y"] == "many"
    assert owners["gem/gemini-2.5-pro"] == "gem"
    assert owners["mine"] == "toolbridge"
