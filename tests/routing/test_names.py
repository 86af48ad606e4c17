"""Names as strangers type them, over real sockets: the gateway, the library and structured streams."""

import asyncio
from contextlib import closing

import aiohttp
import pytest
from tests.peers import gateway, model_server, ollama, replay, whole
from tests.ports import HeldPort
from tests.streams import streaming

from toolbridge import Client
from toolbridge.config import Config, ProviderConfig
from toolbridge.core.errors import UnknownModel

SAID = {
    "message": {"role": "assistant", "content": "from Ollama"},
    "done": True,
    "done_reason": "stop",
}
HI = [{"role": "user", "content": "hi"}]
ASKS = {
    "anthropic": ("/v1/messages", {"max_tokens": 9, "messages": HI}),
    "chat": ("/v1/chat/completions", {"messages": HI}),
    "responses": ("/v1/responses", {"input": "hi"}),
    "gemini": ("/v1beta/models/{model}:generateContent", {"contents": [{"parts": [{"text": "hi"}]}]}),
    "ollama": ("/api/chat", {"messages": HI, "stream": False}),
    "stream": ("/v1/stream", {"prompt": "hi"}),
}  # fmt: skip


async def ask(url: str, model: str, api: str = "anthropic") -> tuple[int, dict, str]:
    """Return status, body and who answered."""
    path, body = ASKS[api]
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path.replace("{model}", model), json={"model": model, **body}) as answer,
    ):
        found = await answer.json(content_type=None) if answer.status >= 400 else {}
        return answer.status, found, answer.headers.get("x-toolbridge-model", "")


def found_at(server) -> dict[str, str]:
    return {"OLLAMA_HOST": server.url}


def chatting(*models: str, **more):
    return ollama(replay(SAID), models=models, **more)


# ── nothing configured ──


@pytest.mark.parametrize("api", sorted(ASKS))
@pytest.mark.parametrize("name", ["gpt-4o-mini", "antropic/claude-sonnet-4-5", "zzz/none"])
async def test_an_unknown_name_gets_no_demo_answer(api, name):
    if api == "gemini" and "/" in name:
        name = name.replace("/", "-x-")
    async with gateway(demo=False) as (url, _):
        status, body, _ = await ask(url, name, api)
    assert status == 404
    shown = str(body)
    assert f"no model is called '{name}'" in shown.replace("\\'", "'")
    if name == "gpt-4o-mini":
        assert "OPENAI_API_KEY" in shown
        assert "--model demo" in shown
    if name.startswith("antropic/"):
        assert "anthropic/claude-sonnet-4-5" in shown


async def test_the_error_has_the_code_of_the_clients_api():
    async with gateway(demo=False) as (url, _):
        bodies = {api: (await ask(url, "gpt-4o-mini", api))[1] for api in ASKS}
    assert bodies["anthropic"]["error"]["type"] == "not_found_error"
    assert bodies["chat"]["error"]["code"] == "model_not_found"
    assert bodies["responses"]["error"]["code"] == "model_not_found"
    assert bodies["gemini"]["error"]["status"] == "NOT_FOUND"
    assert isinstance(bodies["ollama"]["error"], str)
    assert bodies["stream"]["error"]["code"] == "unknown_model"


@pytest.mark.parametrize(
    "name", ["claude-sonnet-4-5", "claude-opus-5-5", "haiku", "demo/toolbridge-demo"]
)
async def test_a_claude_name_is_answered_by_the_demo_model(name):
    async with gateway(demo=False) as (url, _):
        status, _, model = await ask(url, name)
    assert (status, model) == (200, "demo/toolbridge-demo")


async def test_a_stream_without_a_model_is_answered_by_the_demo_model():
    async with (
        gateway(demo=False) as (url, _),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/stream", json={"prompt": "hi"}) as answer,
    ):
        assert answer.status == 200


async def test_a_key_in_the_environment_makes_its_provider_serve_its_names():
    """`toolbridge-demo` is still listed, but a name of OpenAI's goes to OpenAI."""
    async with gateway(demo=False, env={"OPENAI_API_KEY": "k"}) as (_, app):
        assert (await app.gateway.model_routes.route("gpt-4o-mini")).address == "openai/gpt-4o-mini"
        assert (await app.gateway.model_routes.route("openai/gpt-9")).address == "openai/gpt-9"
        assert (await app.gateway.model_routes.route("claude-opus-5")).is_demo
        with pytest.raises(UnknownModel, match="GEMINI_API_KEY"):
            await app.gateway.model_routes.route("gemini-3-pro")


@pytest.mark.parametrize("name", ["gpt-4o-mini", "antropic/claude-sonnet-4-5", "zzz/none"])
def test_the_library_raises_for_an_unknown_name(name):
    with Client(Config(), env={"OLLAMA_HOST": "127.0.0.1:1"}) as client:
        with pytest.raises(UnknownModel, match="no model is called"):
            client.ask(name, "hi")
        assert client.complete("claude-sonnet-4-5", "5 + 5").text == "5 + 5 = 10"


def test_the_librarys_error_has_the_nearest_names():
    with (
        Client(Config(), env={"OLLAMA_HOST": "127.0.0.1:1"}) as client,
        pytest.raises(UnknownModel) as raised,
    ):
        client.ask("antropic/claude-sonnet-4-5", "hi")
    assert raised.value.nearest[0] == "anthropic/claude-sonnet-4-5"


async def test_a_configured_demo_answers_to_every_name():
    async with gateway(Config(log="off", map={"default": "demo"}), demo=False) as (url, _):
        for api in ASKS:
            assert (await ask(url, "gpt-4o-mini", api))[0] == 200


# ── an Ollama on this machine ──


@pytest.mark.parametrize("name", ["mistral:latest", "mistral", "claude-mistral:latest"])
@pytest.mark.parametrize("api", sorted(set(ASKS) - {"stream"}))
async def test_a_local_model_is_not_sent_to_a_cloud_of_its_name(name, api):
    async with (
        model_server(chatting("qwen3:8b", "mistral:latest")) as server,
        gateway(demo=False, env=found_at(server) | {"MISTRAL_API_KEY": "k"}) as (url, _),
    ):
        status, body, model = await ask(url, name, api)
    assert (status, model) == (200, "ollama/mistral:latest"), body


@pytest.mark.parametrize("name", ["mistral:7b", "mistral:instruct"])
async def test_another_tag_of_a_local_model_is_unknown_and_not_sent_to_a_cloud(name):
    async with (
        model_server(chatting("mistral:latest")) as server,
        gateway(demo=False, env=found_at(server) | {"MISTRAL_API_KEY": "k"}) as (url, _),
    ):
        status, body, _ = await ask(url, name)
    assert status == 404
    assert f"ollama pull {name}" in body["error"]["message"]
    assert "Did you mean mistral:latest?" in body["error"]["message"]
    assert not server.chats()


async def test_agents_names_mean_the_local_model_and_misspelt_ones_do_not():
    async with (
        model_server(chatting("qwen3:8b")) as server,
        gateway(demo=False, env=found_at(server)) as (url, _),
    ):
        for api, name in [("anthropic", "claude-opus-5-5"), ("responses", "gpt-5.5-codex"),
                          ("gemini", "gemini-3-pro"), ("ollama", "qwen3:8b")]:  # fmt: skip
            assert (await ask(url, name, api))[::2] == (200, "ollama/qwen3:8b")
        for name in ("qwen3:9b", "zzz/none", "gpt-oss:20b"):
            status, body, _ = await ask(url, name)
            assert (status, body["error"]["type"]) == (404, "not_found_error")


async def test_an_ollama_that_starts_later_serves_without_a_restart(monkeypatch):
    monkeypatch.setattr("toolbridge.routing.discovery.INTERVAL", 0.05)
    with closing(HeldPort()) as held:
        env = {"OLLAMA_HOST": f"127.0.0.1:{held.number}"}
        async with gateway(demo=False, env=env) as (url, _):
            assert (await ask(url, "claude-sonnet-4-5"))[2] == "demo/toolbridge-demo"
            async with model_server(chatting("qwen3:8b"), held.number):
                await asyncio.sleep(0.1)
                assert (await ask(url, "claude-sonnet-4-5"))[2] == "ollama/qwen3:8b"


async def test_a_model_that_was_pulled_a_moment_ago_is_found(monkeypatch):
    monkeypatch.setattr("toolbridge.upstream.ollama.LIST_KEPT", 0.0)
    models = ["qwen3:8b"]

    async def answer(heard, line):
        await chatting(*models)(heard, line)

    async with (
        model_server(answer) as server,
        gateway(demo=False, env=found_at(server)) as (url, _),
    ):
        assert (await ask(url, "gemma3:4b"))[0] == 404
        models.append("gemma3:4b")
        assert (await ask(url, "gemma3:4b"))[::2] == (200, "ollama/gemma3:4b")


async def test_while_nobody_answers_at_a_far_address_requests_do_not_wait(monkeypatch):
    """A look that takes long is not repeated with every request."""
    hung = 0

    async def silent(_, line):
        nonlocal hung
        hung += 1
        await line.gone()

    async with (
        model_server(silent) as server,
        gateway(demo=False, env=found_at(server)) as (url, _),
    ):
        for _ in range(5):
            assert (await ask(url, "claude-sonnet-4-5"))[0] == 200
    assert hung == 1


# ── what is offered for chat ──


def embedding_shows(embeds: set[str]):
    async def answer(heard, line):
        if heard.path == "/api/tags":
            names = ["nomic-embed-text:latest", "odd:latest", "minilm:latest", "qwen3:8b"]
            families = {"minilm:latest": ["bert"]}
            found = [
                {"name": n, "details": {"families": families.get(n, ["llama"])}} for n in names
            ]
            await whole(line, {"models": found})
        elif heard.path == "/api/show":
            name = heard.json["model"]
            if name in embeds:
                await whole(line, {"capabilities": ["embedding"], "model_info": {}})
            elif name == "qwen3:8b":
                await whole(line, {"capabilities": ["completion", "tools"],
                                   "model_info": {"x.context_length": 40960}})  # fmt: skip
            else:
                await whole(line, {"model_info": {}})  # an old server says nothing
        else:
            await replay(SAID)(heard, line)

    return answer


async def test_embedding_models_are_not_offered_for_chat():
    async with (
        model_server(embedding_shows({"odd:latest"})) as server,
        gateway(demo=False, env=found_at(server)) as (url, app),
        aiohttp.ClientSession() as session,
    ):
        async with session.get(f"{url}/v1/models") as answer:
            listed = [model["id"] for model in (await answer.json())["data"]]
        async with session.get(f"{url}/v1/models", headers={"anthropic-version": "x"}) as answer:
            shown = (await answer.json())["data"]
        model_routes = app.gateway.model_routes
        assert model_routes.default == "ollama/qwen3:8b"
        embedding = [model.id for model in await model_routes.listed("embedding")]
        assert (
            await model_routes.route("nomic-embed-text")
        ).address == "ollama/nomic-embed-text:latest"
    assert listed == ["qwen3:8b"]
    assert shown[0]["max_input_tokens"] == 40960
    assert embedding == ["nomic-embed-text:latest", "odd:latest", "minilm:latest"]


async def test_an_ollama_with_nothing_but_embeddings_leaves_the_demo_model():
    models = ollama(replay(SAID), models=("nomic-embed-text:latest",), show={"model_info": {}})
    async with (
        model_server(models) as server,
        gateway(demo=False, env=found_at(server)) as (url, app),
    ):
        assert (await ask(url, "claude-sonnet-4-5"))[2] == "demo/toolbridge-demo"
        assert "no chat model" in app.gateway.model_routes.found


# ── configured ──


async def test_a_configured_default_serves_every_name_but_a_misspelt_provider():
    async with streaming(replay()) as (url, server, _):
        status, body, _ = await ask(url, "antropic/claude-opus-5")
        assert (status, server.heard) == (404, [])
        assert "anthropic/claude-opus-5" in body["error"]["message"]


async def test_a_provider_without_its_key_is_said_before_anything_is_sent():
    async with gateway(Config(log="off", map={"default": "openai/gpt-5"})) as (url, _):
        status, body, _ = await ask(url, "claude-opus-5")
    assert status == 404
    assert "OPENAI_API_KEY is not set" in body["error"]["message"]


async def test_a_server_of_ones_own_needs_no_key():
    async with model_server(replay()) as server:
        there = ProviderConfig(url=f"{server.url}/v1")
        async with gateway(Config(log="off", providers={"openai": there})) as (_, app):
            assert (await app.gateway.model_routes.route("gpt-5")).address == "openai/gpt-5"
            with pytest.raises(UnknownModel) as raised:
                await app.gateway.model_routes.route("Qwen3")
    assert raised.value.nearest == ("openai/Qwen3",)


def listing(*models: str):
    """Return a server of Chat Completions that lists `models`."""

    async def answer(heard, line):
        rows = [{"id": name, "object": "model"} for name in models]
        found = heard.path == "/v1/models"
        await whole(line, {"data": rows} if found else {}, 200 if found else 404)

    return answer


@pytest.mark.parametrize(
    ("name", "nearest"), [("dumbb", ("dumb",)), ("nope", ()), ("Dumb2", ("dumb",))]
)
async def test_only_models_that_exist_are_suggested_where_every_provider_has_a_list(name, nearest):
    async with (
        model_server(listing("dumb", "other-model"), probes=True) as one,
        model_server(listing("third"), probes=True) as two,
    ):
        places = {"fk": one, "fs": two}
        providers = {
            name: ProviderConfig(api="openai_chat", url=at.url) for name, at in places.items()
        }
        async with gateway(Config(log="off", providers=providers)) as (_, app):
            with pytest.raises(UnknownModel) as raised:
                await app.gateway.model_routes.route(name)
    assert raised.value.nearest == nearest
    assert ("Did you mean" in raised.value.problem.text) is bool(nearest)
