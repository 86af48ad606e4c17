"""`[[routes]]` over real sockets: which model gets a request, and what the client is shown."""

import json

import aiohttp
import pytest
from tests.peers import gateway, line_of, model_server, ollama, replay

from toolbridge import AsyncClient
from toolbridge.config import Config, ProviderConfig
from toolbridge.policy.routing_rules import RoutingRule, WeightedModel

MODELS = ("main:latest", "small:latest", "eyes:latest")
CLAUDE = {"user-agent": "claude-cli/2.1.325 (external, cli)", "x-claude-code-session-id": "s-1"}
BASH = {"name": "Bash", "input_schema": {"type": "object"}}
TITLE = {"type": "object", "properties": {"title": {"type": "string"}}}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


def conversation(*content, **fields) -> dict:
    said = [{"type": "text", "text": "hi"}, *content]
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": said}],
        "tools": [BASH],
        **fields,
    }


def blind(name: str) -> list[str]:
    return ["completion", "tools", *(["vision"] if name.startswith("eyes") else [])]


async def models(heard, line):
    """Serve models of which only `eyes` accepts images."""
    if heard.path == "/api/show":
        shown = {"capabilities": blind(heard.json["model"]), "model_info": {}}
        await line.head(kind="application/json")
        await line.send(json.dumps(shown))
        await line.end()
        return
    await ollama(replay(line_of("ok", done=True)), models=MODELS)(heard, line)


def config(url: str, *rules: RoutingRule, **fields) -> Config:
    return Config(
        log="off",
        map={"default": "ollama/main", "haiku": "ollama/small"},
        routes=rules,
        providers={"ollama": ProviderConfig(api="ollama", url=url)},
        **fields,
    )


async def ask(url: str, body: dict, headers: dict | None = None, path="/v1/messages"):
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, json=body, headers=headers or CLAUDE) as answer,
    ):
        assert answer.status == 200, await answer.text()
        await answer.read()
        return (
            answer.headers.get("x-toolbridge-model", ""),
            answer.headers.get("x-toolbridge-route", ""),
        )


BACKGROUND = RoutingRule(to="haiku", task="background")
SUBAGENT = RoutingRule(to="ollama/small", task="subagent")
LONG = RoutingRule(to="ollama/small", task="long_context", min_tokens=5000)
THINKING = RoutingRule(to="ollama/small", task="thinking")
IMAGES = RoutingRule(to="ollama/eyes", task="images")
CODEX = RoutingRule(to="ollama/small", client="codex")


@pytest.mark.parametrize(
    ("rule", "body", "headers", "model"),
    [
        (BACKGROUND, conversation(tools=[], output_config={"format": {"type": "json_schema", "schema": TITLE}}), {}, "small"),
        (BACKGROUND, conversation(), {}, "main"),
        (SUBAGENT, conversation(), {"x-claude-code-agent-id": "a0"}, "small"),
        (SUBAGENT, conversation(), {}, "main"),
        (LONG, conversation({"type": "text", "text": "word " * 8000}), {}, "small"),
        (LONG, conversation(), {}, "main"),
        (THINKING, conversation(thinking={"type": "adaptive"}), {}, "small"),
        (THINKING, conversation(thinking={"type": "disabled"}), {}, "main"),
        (IMAGES, conversation(PICTURE), {}, "eyes"),
        (IMAGES, conversation(), {}, "main"),
        (CODEX, conversation(), {"user-agent": "codex_exec/0.166.0"}, "small"),
        (CODEX, conversation(), {}, "main"),
    ],
)  # fmt: skip
async def test_a_task_selects_the_model(rule, body, headers, model):
    async with (
        model_server(models) as server,
        gateway(config(server.url, rule)) as (url, _),
    ):
        served, why = await ask(url, body, CLAUDE | headers)
    assert served == f"ollama/{model}"
    assert [heard.json["model"] for heard in server.chats()] == [model]
    assert why == ("" if model == "main" else f"1 ({rule.describe()})")


async def test_the_first_rule_that_matches_decides():
    rules = (
        RoutingRule(to="ollama/eyes", model="other-*"),
        RoutingRule(to="ollama/small", model="claude-*"),
        RoutingRule(to="ollama/eyes"),
    )
    async with (
        model_server(models) as server,
        gateway(config(server.url, *rules)) as (url, _),
    ):
        assert await ask(url, conversation()) == ("ollama/small", "2 (model claude-*)")
        assert (await ask(url, conversation(model="x")))[1] == "3 (every request)"


async def test_images_stay_with_a_model_that_accepts_them():
    rules = (
        RoutingRule(to="ollama/small", task="images"),
        RoutingRule(to="ollama/eyes", model="eyes-*"),
    )
    async with (
        model_server(models) as server,
        gateway(config(server.url, *rules)) as (url, _),
    ):
        assert (await ask(url, conversation(PICTURE, model="eyes-1")))[0] == "ollama/eyes"
        assert (await ask(url, conversation(PICTURE)))[0] == "ollama/small"


async def test_a_conversation_stays_with_its_model_of_several():
    share = (WeightedModel("ollama/main", 1), WeightedModel("ollama/small", 1))
    async with (
        model_server(models) as server,
        gateway(config(server.url, RoutingRule(to=share))) as (url, _),
    ):
        served = {}
        for _ in range(2):
            for n in range(12):
                headers = CLAUDE | {"x-claude-code-session-id": f"s-{n}"}
                served.setdefault(n, set()).add((await ask(url, conversation(), headers))[0])
    assert all(len(models) == 1 for models in served.values())
    assert len({model for models in served.values() for model in models}) == 2


async def test_tokens_are_counted_for_the_model_of_the_rule():
    rule = RoutingRule(to="exact/small", model="claude-*")
    async with model_server(models) as server:
        base = config(server.url, rule)
        exact = ProviderConfig(api="ollama", url=server.url, counting="chars4")
        both = {**base.providers, "exact": exact}
        counted = Config(log="off", map=base.map, routes=base.routes, providers=both)
        async with (
            gateway(counted) as (url, _),
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/messages/count_tokens", json=conversation()) as answer,
        ):
            assert answer.headers["x-toolbridge-token-count"] == "chars4"


async def test_the_library_follows_the_rules():
    async with model_server(models) as server:
        rule = RoutingRule(to="ollama/small", model="gpt-*")
        async with AsyncClient(config(server.url, rule), env={}) as client:
            assert await client.ask("gpt-5", "hi") == "ok"
    assert server.chats()[-1].json["model"] == "small"


async def test_the_models_of_a_rule_can_be_a_chain():
    """The first provider refuses the connection; the next one of the rule answers."""
    async with model_server(models) as server:
        dead = ProviderConfig(api="ollama", url="http://127.0.0.1:1", retries=0)
        both = {**config(server.url).providers, "dead": dead}
        named = {"default": "ollama/main", "safe": ("dead/x", "ollama/eyes")}
        for to, served in ((("dead/x", "ollama/small"), "small"), ("safe", "eyes")):
            rule = RoutingRule(to=to, model="claude-*")
            chained = Config(log="off", map=named, routes=(rule,), providers=both)
            async with gateway(chained) as (url, _):
                assert (await ask(url, conversation()))[0] == f"ollama/{served}"
