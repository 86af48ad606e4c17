"""Each official SDK in front, each API behind, over real sockets."""

import base64
import json
from contextlib import asynccontextmanager

import anthropic
import ollama
import openai
import pytest
from google.genai import errors as genai
from tests.peers import gateway, model_server, whole
from tests.sdk_clients import upstreams
from tests.sdks import PNG, SDKS, Tool

from toolbridge.config import Config, ModelConfig, ProviderConfig

every_sdk = pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
every_api = pytest.mark.parametrize("behind", upstreams.APIS)
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@asynccontextmanager
async def bridged(behind: str, answer, **place):
    """Serve a gateway in front of a server that speaks `behind`, and tells nothing of itself."""

    async def serve(heard, line):
        if _is_chat(heard):
            await answer(heard, line)
        else:
            await whole(line, {"error": "there is nothing here"}, 404)

    async with model_server(serve) as server:
        there = ProviderConfig(api=behind, url=server.url, **{"retries": 0, **place})
        config = Config(
            log="off",
            map={"default": "there/m"},
            providers={"there": there},
            models={"there/m": ModelConfig(thinking=True, tools=True, vision=True)},
        )
        async with gateway(config) as (url, _):
            yield url, server


def asked(server) -> list[dict]:
    """Return the requests for words that reached the server."""
    return [heard.json for heard in server.heard if _is_chat(heard)]


def _is_chat(heard) -> bool:
    return heard.method == "POST" and not heard.path.startswith("/api/show")


@every_sdk
@every_api
@both_ways
async def test_a_thought_a_text_and_two_calls_arrive(sdk, behind, stream):
    async with (
        bridged(behind, upstreams.answering(behind)) as (url, _),
        sdk(url, tools=(Tool(),), think=True) as talk,
    ):
        said = await talk.ask("The weather in Berlin and Rome?", stream=stream)
        assert said.thinking == upstreams.THOUGHT
        assert said.text == upstreams.TEXT
        assert said.calls == upstreams.CALLS
        assert said.stop == "tool_use"
        assert len(set(said.ids)) == 2
        assert (said.input, said.output) == (upstreams.INPUT, upstreams.OUTPUT)
        knows_caches = "ollama" not in {behind, sdk.api}
        assert said.cached == (upstreams.CACHED if knows_caches else 0)
        assert (said.pieces > 1) == stream


@every_sdk
@every_api
async def test_results_go_back_to_the_calls_they_belong_to(sdk, behind):
    async with (
        bridged(behind, upstreams.answering(behind)) as (url, server),
        sdk(url, tools=(Tool(),)) as talk,
    ):
        await talk.ask("The weather in Berlin and Rome?")
        await talk.answer("snow", "sun")
        first, last = (json.dumps(request) for request in asked(server))
    assert "snow" not in first
    order = [last.index(word) for word in ("Berlin and Rome", '"snow', '"sun')]
    assert order == sorted(order)
    assert last.count("get_weather") >= 3  # the offer, and two calls


@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
@every_api
@both_ways
async def test_a_picture_reaches_the_model(sdk, behind, stream):
    async with (
        bridged(behind, upstreams.answering(behind)) as (url, server),
        sdk(url) as talk,
    ):
        await talk.ask("what is this?", stream=stream, image=PNG)
        assert base64.b64encode(PNG).decode() in json.dumps(asked(server)[0])


@pytest.mark.parametrize("api", upstreams.APIS)
@both_ways
async def test_the_same_api_on_both_sides_passes_untouched(api, stream):
    async with (
        bridged(api, upstreams.answering(api), passthrough=True) as (url, _),
        SDKS[api](url, tools=(Tool(),), think=True) as talk,
    ):
        said = await talk.ask("The weather in Berlin and Rome?", stream=stream)
    assert (said.thinking, said.text) == (upstreams.THOUGHT, upstreams.TEXT)
    assert said.calls == upstreams.CALLS


# ── errors ───────────────────────────────────────────────────────────────────

# The exception that each SDK raises, as its users catch it.
RAISES: dict[str, dict[int, type[Exception]]] = {
    "anthropic": {
        400: anthropic.BadRequestError, 404: anthropic.NotFoundError,
        429: anthropic.RateLimitError, 529: anthropic.InternalServerError,
    },
    "openai_chat": {
        400: openai.BadRequestError, 404: openai.NotFoundError, 429: openai.RateLimitError,
        529: openai.InternalServerError,
    },
    "openai_responses": {
        400: openai.BadRequestError, 404: openai.NotFoundError, 429: openai.RateLimitError,
        529: openai.InternalServerError,
    },
    "gemini": {
        400: genai.ClientError, 404: genai.ClientError, 429: genai.ClientError,
        529: genai.ServerError,
    },
    "ollama": dict.fromkeys((400, 404, 429, 529), ollama.ResponseError),
}  # fmt: skip


@pytest.mark.req("CL-09")
@every_sdk
@every_api
@pytest.mark.parametrize("status", [400, 404, 429, 529])
async def test_a_refusal_is_the_exception_that_users_of_the_sdk_know(sdk, behind, status):
    async with (
        bridged(behind, upstreams.refusing(behind, status, "no, not today")) as (url, _),
        sdk(url) as talk,
    ):
        for stream in (True, False):
            talk.begin()
            with pytest.raises(RAISES[sdk.api][status], match="no, not today") as caught:
                await talk.ask("please", stream=stream)
            found = getattr(caught.value, "status_code", 0) or getattr(caught.value, "code", 0)
            assert found in ({503, 529} if status == 529 else {status})
            if status in {429, 529} and sdk.api != "ollama":  # whose exception has no headers
                assert _wait(caught.value) == 7


def _wait(error: Exception) -> int:
    """Return the seconds that an SDK's user is asked to wait."""
    if isinstance(error, genai.APIError):
        details = error.details["error"]["details"]
        return next(int(d["retryDelay"].rstrip("s")) for d in details if "retryDelay" in d)
    return int(error.response.headers["retry-after"])


@pytest.mark.req("CL-05")
@every_sdk
@every_api
async def test_an_answer_that_breaks_off_raises_and_is_no_success(sdk, behind):
    async with (
        bridged(behind, upstreams.dying(behind)) as (url, _),
        sdk(url, tools=(Tool(),)) as talk,
    ):
        with pytest.raises(
            (anthropic.APIError, openai.APIError, genai.APIError, ollama.ResponseError)
        ):
            await talk.ask("please", stream=True)


# ── the demo model ───────────────────────────────────────────────────────────

WRITE = Tool(
    "write_file", "Write a file.",
    {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
     "required": ["path", "content"]},
)  # fmt: skip


@every_sdk
@both_ways
async def test_the_demo_model_writes_a_file_and_says_so(sdk, stream):
    async with gateway() as (url, _), sdk(url, tools=(WRITE,)) as talk:
        said = await talk.ask(
            "Create the file notes.txt with exactly this content: hi", stream=stream
        )
        assert [name for name, _ in said.calls] == ["write_file"]
        assert said.calls[0][1]["content"].strip() == "hi"
        assert said.calls[0][1]["path"].endswith("notes.txt")
        last = await talk.answer("File written", stream=stream)
    assert last.calls == []
    assert "notes.txt" in last.text
    assert last.stop == "end"
    assert last.input > said.input > 0


@every_sdk
@both_ways
async def test_the_demo_model_thinks_when_asked(sdk, stream):
    async with gateway() as (url, _), sdk(url, think=True) as talk:
        said = await talk.ask("hello", stream=stream)
    assert said.thinking
    assert said.text
