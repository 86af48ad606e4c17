"""Who is asked, what is learned, and what it costs."""

import json

import pytest
from tests.peers import model_server, ollama, recorded, replay
from tests.sdk.places import QUIET, RATES, config_for

from toolbridge import AsyncClient
from toolbridge.config import Config, ModelConfig, ProviderConfig
from toolbridge.core import events as ev
from toolbridge.core.codec import Target
from toolbridge.core.messages import Tool
from toolbridge.core.usage import Usage
from toolbridge.switchboard.pricing import pricing
from toolbridge.switchboard.roster import Route

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

    monkeypatch.setattr("toolbridge.switchboard.roster.Roster.look_around", look)
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
