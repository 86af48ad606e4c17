"""Failover of structured streams, of the Python SDK and of compaction."""

import json

import aiohttp
import pytest
from tests.peers import gateway, model_server
from tests.server.test_failover import DEAD, fails, says
from tests.streams import ask, reply, scripted

from toolbridge.config import Config, ModelConfig, ProviderConfig, StreamConfig
from toolbridge.core.errors import Overloaded
from toolbridge.sdk import AsyncClient


def two(first: str, second: str, **settings) -> Config:
    place = {"api": "openai_chat", "retries": 0}
    return Config(
        log="off",
        map={"default": ("a/x", "b/y")},
        models={name: ModelConfig(tools=False) for name in ("a/x", "b/y")},
        providers={
            "a": ProviderConfig(url=first, **place),
            "b": ProviderConfig(url=second, **place),
        },
        **settings,
    )


async def test_a_structured_stream_is_answered_by_the_second_model(tmp_path):
    async with model_server(scripted(f"Hello. {reply()}")) as second:
        config = two(DEAD, second.url, stream=StreamConfig(demo=True))
        async with gateway(config, {"XDG_STATE_HOME": str(tmp_path)}) as (here, _):
            events = await ask(here, {"prompt": "x"})
    assert [said.name for said in events][-1] == "done"
    assert not [said for said in events if said.name == "error"]
    assert any("Hello" in json.dumps(said.data) for said in events)
    (metrics,) = tmp_path.rglob("metrics.json")
    found = json.loads(metrics.read_text())
    assert found["model"] == "b/y"
    assert any("b/y answered instead of a/x" in loss for loss in found["losses"])


async def test_a_structured_stream_reports_the_failure_of_every_model():
    async with model_server(fails(529)) as first, model_server(fails(401)) as second:
        config = two(first.url, second.url, stream=StreamConfig(demo=True))
        async with gateway(config) as (here, _):
            events = await ask(here, {"prompt": "x"})
    said = json.dumps([event.data for event in events])
    assert "a/x overload (529)" in said
    assert "b/y auth (401)" in said


async def test_the_sdk_gets_the_answer_of_the_second_model_and_the_loss():
    async with (
        model_server(says("openai_chat", "hello")) as second,
        AsyncClient(two(DEAD, second.url), env={}) as client,
    ):
        stream = client.stream("m", "x")
        message = await stream.result()
    assert message.text == "hello"
    assert any("b/y answered instead of a/x" in str(loss) for loss in stream.losses)


async def test_the_sdk_raises_an_error_that_names_every_model():
    async with (
        model_server(fails(529)) as first,
        model_server(fails(401)) as second,
        AsyncClient(two(first.url, second.url), env={}) as client,
    ):
        with pytest.raises(Overloaded, match="none of 2 models answered"):
            await client.ask("m", "x")


async def test_a_summary_is_written_by_the_second_model():
    async with (
        model_server(says("openai_chat", "short")) as second,
        gateway(two(DEAD, second.url)) as (here, _),
        aiohttp.ClientSession() as session,
        session.post(
            f"{here}/v1/responses/compact", json={"model": "m", "input": "long"}
        ) as answer,
    ):
        assert answer.status == 200
    assert len(second.heard) == 1
