"""Who is asked, what is learned, and what it costs."""

import asyncio
import json

import pytest
from tests.peers import model_server, ollama, recorded, replay
from tests.sdk.places import ANTHROPIC, CHAT, QUIET, RATES, config_for, place, script

import toolbridge
from toolbridge import AsyncClient
from toolbridge.config import Config, ModelConfig, ProviderConfig
from toolbridge.core import events as ev
from toolbridge.core.codec import Target
from toolbridge.core.messages import Tool
from toolbridge.core.usage import Usage
from toolbridge.routing.pricing import pricing
from toolbridge.routing.route import Route

USED = ev.UsageReported(Usage(input=100_000, output=100_000))


def route(url: str, model: str = "claude-sonnet-4-5", **settings) -> Route:
    place = ProviderConfig(api="anthropic", url=url)
    return Route("anthropic", place, "", Target(model=model), ModelConfig(**settings))


@pytest.mark.req("ZG-23")
@pytest.mark.parametrize(
    ("there", "total"),
    [
        (route("https://api.anthropic.com"), 1.8),
        (route("https://api.anthropic.com", rates=RATES), 1.2),
        (route("http://127.0.0.1:8080", rates=RATES), 1.2),
    ],
)
async def test_rates_come_from_the_configuration_then_from_the_list(there, total):
    (priced,) = (await pricing(there, 0.0)).feed(USED)
    assert priced.usage.cost.total == pytest.approx(total)


@pytest.mark.parametrize(
    "there", [route("http://127.0.0.1:8080"), route("https://api.anthropic.com", "nobody-knows")]
)
async def test_what_nobody_sells_has_no_cost(there):
    (priced,) = (await pricing(there, 0.0)).feed(USED)
    assert priced.usage.cost is None


async def test_a_place_without_a_default_must_be_named():
    places = {"there": ProviderConfig(api="openai_chat", url="http://127.0.0.1:1")}
    async with AsyncClient(Config(providers=places), env=QUIET) as client:
        message = await client.complete("", "hi")
    assert message.problem.kind == "unknown_model"


async def test_a_provider_is_looked_for_once(monkeypatch):
    looked: list[int] = []

    async def look(_self) -> None:
        looked.append(1)

    monkeypatch.setattr("toolbridge.routing.models.ModelRoutes.discover", look)
    config = config_for("openai_chat", "http://127.0.0.1:1", retries=0)
    async with AsyncClient(config) as client:
        for _ in range(3):
            await client.complete("there/m", "hi")
    assert looked == [1]


async def test_what_a_model_refuses_is_left_out_and_said():
    answers = iter(
        [
            recorded("ollama/jinja/chat_tools_unsupported.txt"),
            replay(json.dumps({"model": "m", "message": {"role": "assistant", "content": "fine"}, "done": True, "done_reason": "stop"}) + "\n"),
        ]
    )  # fmt: skip

    async def chat(heard, peer):
        await next(answers)(heard, peer)

    async with (
        model_server(ollama(chat, models=("m",))) as there,
        AsyncClient(config_for("ollama", there)) as client,
    ):
        stream = client.stream("there/m", "hi", tools=[Tool("f", "", {"type": "object"})])
        message = await stream.result()
    assert [part.text for part in message.content] == ["fine"]
    assert any("no tools of its own" in str(loss) for loss in stream.losses)


@pytest.mark.parametrize("blocks", [True, False], ids=["blocking", "awaiting"])
async def test_a_picture_that_a_tool_returns_reaches_the_model_as_a_picture(blocks):
    picture = toolbridge.Image(data="iVBORw0KGgo=", media_type="image/png")

    def look(city: str):
        """Look at a city."""
        return ["a view of", picture, {"city": city}]

    bodies = []

    async def answer(heard, line):
        bodies.append(heard.json)
        await script("anthropic", None if len(bodies) == 1 else END)(heard, line)

    async with place("anthropic", answer) as (_, config):
        if blocks:
            await asyncio.to_thread(run_blocking, config, look)
        else:
            async with toolbridge.AsyncClient(config, env=QUIET) as client:
                await client.run("m", "look", tools=[look]).result()
    result = bodies[1]["messages"][-1]["content"][0]
    kinds = [(part["type"], part.get("text")) for part in result["content"]]
    assert kinds == [("text", "a view of"), ("image", None), ("text", '{"city":"Paris"}')]
    assert result["content"][1]["source"]["data"] == "iVBORw0KGgo="


def run_blocking(config, look):
    with toolbridge.Client(config, env=QUIET) as client:
        client.run("m", "look", tools=[look]).result()


END = [
    piece.replace('"tool_use"', '"end_turn"')
    for piece in ANTHROPIC
    if "content_block" not in piece or '"index": 0' in piece
]


async def test_a_failure_in_mid_stream_names_its_provider():
    async with (
        place("openai_chat", script("openai_chat", CHAT[:2])) as (_, config),
        toolbridge.AsyncClient(config, env=QUIET) as client,
    ):
        message = await client.complete("m", "hi")
    provider = next(iter(config.providers))
    assert message.problem.kind == "truncated"
    assert message.problem.provider == provider
    assert provider in message.problem.text
    assert message.text == "Looking."
