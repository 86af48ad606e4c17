"""Failover, as users of the official SDKs meet it: they see the answer of the second provider."""

from contextlib import asynccontextmanager

import pytest
from tests.peers import gateway, model_server, whole
from tests.sdk_clients import upstreams
from tests.sdks import SDKS, Tool

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
async def chained(api: str, first, second: str, *, passthrough: bool):
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
