"""Failover, as users of the official SDKs meet it: they see the answer of the second provider."""

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.peers import gateway, model_server, whole
from tests.sdk_clients import upstreams
from tests.sdks import SDKS, Tool
from tests.server.test_failover import asked

from toolbridge.config import Config, ModelConfig, ProviderConfig

OTHER = {"anthropic": "openai_chat", "openai_chat": "anthropic", "openai_responses": "gemini",
         "gemini": "ollama", "ollama": "openai_responses"}  # fmt: skip


def serving(answer):
    async def serve(heard, line):
        if heard.method == "POST" and not heard.path.startswith("/api/show"):
            await answer(heard, line)
        else:
            await whole(line, {"error": "there is nothing here"}, 404)

    return serve


@asynccontextmanager
async def chained(api: str, first, second: str, *, passthrough: bool, **settings):
    """Serve a gateway in front of a provider of `api` that fails, and one of `second` behind it."""
    async with (
        model_server(serving(first)) as one,
        model_server(serving(upstreams.answering(second))) as other,
    ):
        place = {"retries": 0, "key": "sk-upstream-0123456789", "passthrough": passthrough}
        can = ModelConfig(thinking=True, tools=True, vision=True)
        config = Config(
            log="off",
            map={"default": ("one/m", "two/m")},
            providers={
                "one": ProviderConfig(api=api, url=one.url, **place),
                "two": ProviderConfig(api=second, url=other.url, **place),
            },
            models={"one/m": can, "two/m": can},
            **settings,
        )
        async with gateway(config) as (url, _):
            yield url, one, other


def cut_short(api: str):
    """Return a server's answer that breaks off before any content."""

    async def answer(_, line):
        await line.head(200, upstreams.kind(api, stream=True))
        line.cut()

    return answer


@pytest.mark.parametrize("passthrough", [True, False], ids=["passthrough", "translated"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("same", [True, False], ids=["same api", "other api"])
@pytest.mark.parametrize("fault", ["overloaded", "cut"])
@pytest.mark.parametrize("api", upstreams.APIS)
async def test_every_sdk_reads_the_answer_of_the_second_provider(
    api, fault, same, stream, passthrough
):
    second = api if same else OTHER[api]
    broken = upstreams.refusing(api, 529, "busy") if fault == "overloaded" else cut_short(api)
    async with (
        chained(api, broken, second, passthrough=passthrough) as (url, one, other),
        SDKS[api](url, tools=(Tool(),), think=True) as talk,
    ):
        said = await talk.ask("What is the weather?", stream=stream)
    assert upstreams.TEXT in said.text
    assert [name for name, _ in said.calls] == ["get_weather"] * len(said.calls)
    assert said.calls
    assert len([h for h in one.heard if h.method == "POST" and "show" not in h.path]) == 1
    assert len([h for h in other.heard if h.method == "POST" and "show" not in h.path]) == 1


@pytest.mark.parametrize("api", upstreams.APIS)
async def test_a_failure_after_the_text_is_an_error_and_nothing_is_sent_to_the_second(api):
    async with (
        chained(api, upstreams.dying(api), api, passthrough=True) as (url, _, other),
        SDKS[api](url, tools=(Tool(),), think=True) as talk,
    ):
        with pytest.raises(Exception):  # noqa: B017  each SDK has its own class
            await talk.ask("What is the weather?")
    assert not [h for h in other.heard if h.method == "POST" and "show" not in h.path]


@pytest.mark.parametrize("api", upstreams.APIS)
async def test_an_answer_that_a_keep_alive_has_begun_is_continued_not_begun_again(api):
    """The first provider has another API; the second one's own bytes would begin a second answer."""

    async def late(_, line):
        await asyncio.sleep(0.3)
        line.cut()

    waits = {"first_byte": 0.05, "keep_alive": 0.05}
    async with chained(OTHER[api], late, api, passthrough=True, **waits) as (url, _, other):
        async with SDKS[api](url, tools=(Tool(),), think=True) as talk:
            said = await talk.ask("What is the weather?")
        path, body = asked(api, stream=True)
        async with (
            aiohttp.ClientSession() as session,
            session.post(url + path.replace("/m:", "/x:"), json=body | {"model": "x"}) as reply,
        ):
            raw = await reply.text()
    assert upstreams.TEXT in said.text
    assert len(other.heard) >= 2
    plain = raw.replace(" ", "")
    assert plain.count('"type":"response.created"') == (api == "openai_responses")
    assert plain.count('"type":"message_start"') == (api == "anthropic")
