"""Each official SDK in front, each cloud behind: real signatures, tokens, paths and bodies.

The fake clouds verify what arrives; `tests/upstream/clouds/test_vendor_sdks.py` proves with the
vendors' own cloud SDKs that they verify the right thing.
"""

import base64
import json
from contextlib import asynccontextmanager

import pytest
from tests.fake_clouds import CLOUDS, TOKEN, cloud_server
from tests.peers import gateway
from tests.sdk_clients import upstreams
from tests.sdks import PNG, SDKS, Tool

from toolbridge.config import Config, ProviderConfig

every_sdk = pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
every_cloud = pytest.mark.parametrize("cloud", CLOUDS.values(), ids=CLOUDS)
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@asynccontextmanager
async def bridged(cloud, answer=None, **settings):
    """Serve a gateway in front of a fake cloud, configured as a user would."""
    async with cloud_server(cloud, answer) as server:
        there = ProviderConfig(url=server.url, retries=0, **{**cloud.settings, **settings})
        config = Config(
            log="off",
            map={"default": f"{cloud.provider}/{cloud.model}"},
            providers={cloud.provider: there},
        )
        async with gateway(config, {**cloud.env}) as (url, _):
            yield url, server


@every_sdk
@every_cloud
@both_ways
async def test_a_thought_a_text_and_two_calls_arrive(sdk, cloud, stream):
    async with (
        bridged(cloud) as (url, server),
        sdk(url, tools=(Tool(),), think=True) as talk,
    ):
        said = await talk.ask("The weather in Berlin and Rome?", stream=stream)
        assert said.thinking == upstreams.THOUGHT
        assert said.text == upstreams.TEXT
        assert said.calls == upstreams.CALLS
        assert said.stop == "tool_use"
        assert len(set(said.ids)) == 2
        assert (said.input, said.output) == (upstreams.INPUT, upstreams.OUTPUT)
        assert said.cached == (0 if sdk.api == "ollama" else upstreams.CACHED)
        assert (said.pieces > 1) == stream
    (heard,) = server.heard
    assert heard.path == (cloud.stream_path if stream else cloud.whole_path)


@every_sdk
@every_cloud
async def test_results_go_back_to_the_calls_they_belong_to(sdk, cloud):
    async with (
        bridged(cloud) as (url, server),
        sdk(url, tools=(Tool(),)) as talk,
    ):
        await talk.ask("The weather in Berlin and Rome?")
        await talk.answer("snow", "sun")
        first, last = (json.dumps(heard.json) for heard in server.heard)
    assert "snow" not in first
    order = [last.index(word) for word in ("Berlin and Rome", '"snow', '"sun')]
    assert order == sorted(order)
    assert last.count("get_weather") >= 3


@every_cloud
async def test_a_picture_reaches_the_model(cloud):
    async with bridged(cloud) as (url, server), SDKS["anthropic"](url) as talk:
        await talk.ask("what is this?", image=PNG)
        assert base64.b64encode(PNG).decode() in json.dumps(server.heard[0].json)


@every_cloud
async def test_the_secrets_reach_the_cloud_and_nothing_else(cloud):
    async with bridged(cloud) as (url, server), SDKS["openai_chat"](url) as talk:
        await talk.ask("hi")
    (heard,) = server.heard
    assert TOKEN not in heard.path
    assert TOKEN not in heard.body.decode()
    secrets = {"authorization", "x-api-key", "api-key", "x-goog-api-key"} & heard.headers.keys()
    assert secrets == cloud.secret_headers
