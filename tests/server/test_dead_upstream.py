"""A provider that does not run: the client is told at once, what to do, and not to ask again."""

import json

import aiohttp
import anthropic
import openai
import pytest
from tests.peers import gateway, model_server

from toolbridge.config import Config, ProviderConfig

PROMPT = [{"role": "user", "content": "x"}]
ASKS = {
    "anthropic": ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": PROMPT}),
    "openai_chat": ("/v1/chat/completions", {"model": "m", "messages": PROMPT}),
    "openai_responses": ("/v1/responses", {"model": "m", "input": "x"}),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
    ),
    "ollama": ("/api/chat", {"model": "m", "messages": PROMPT}),
}
# Claude Code obeys the header; Codex, Gemini CLI and clients on the AI SDK only stop at a 400.
STATUSES = {
    "anthropic": 502,
    "openai_chat": 400,
    "openai_responses": 400,
    "gemini": 400,
    "ollama": 502,
}
START = "refused the connection. Start it with `ollama serve`, or set `OLLAMA_HOST`."


DEAD = "http://127.0.0.1:1"
"""Nobody listens on port 1, and no other test is given it."""


def behind(name: str, api: str, url: str) -> Config:
    place = ProviderConfig(api=api, url=url, retries=0)
    return Config(log="off", map={"default": f"{name}/m"}, providers={name: place})


def message_of(said: dict) -> str:
    error = said["error"]
    return error if isinstance(error, str) else error["message"]


@pytest.mark.req("CL-09")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", ASKS)
async def test_an_ollama_that_does_not_run_says_how_to_start_it(api, stream):
    path, body = ASKS[api]
    if api == "gemini":
        path = path.replace(":g", ":streamG") + "?alt=sse" if stream else path
    else:
        body = body | {"stream": stream}
    async with (
        gateway(behind("ollama", "ollama", DEAD)) as (here, _),
        aiohttp.ClientSession() as session,
        session.post(here + path, json=body) as reply,
    ):
        said = json.loads(await reply.text())
    assert reply.status == STATUSES[api]
    assert reply.headers["x-should-retry"] == "false"
    assert message_of(said) == f"Ollama at {DEAD.removeprefix('http://')} {START}"


@pytest.mark.parametrize("api", ASKS)
async def test_another_provider_is_named_with_its_url_and_the_doctor(api):
    path, body = ASKS[api]
    async with (
        gateway(behind("box", "openai_chat", DEAD)) as (here, _),
        aiohttp.ClientSession() as session,
        session.post(here + path, json=body) as reply,
    ):
        said = message_of(json.loads(await reply.text()))
    assert said.startswith(f"box at {DEAD} refused the connection. ")
    assert "`toolbridge doctor`" in said
    assert reply.headers["x-should-retry"] == "false"


async def test_a_server_that_hangs_up_may_be_asked_again():
    async def hang_up(_, line):
        line.cut()

    async with (
        model_server(hang_up) as server,
        gateway(behind("box", "openai_chat", server.url)) as (here, _),
        aiohttp.ClientSession() as session,
        session.post(here + "/v1/messages", json=ASKS["anthropic"][1]) as reply,
    ):
        assert reply.status == 502
        assert "x-should-retry" not in reply.headers


async def test_the_official_clients_ask_once():
    asked = []
    async with gateway(behind("ollama", "ollama", DEAD)) as (here, app):
        record = app.metrics.record
        app.metrics.record = lambda *a: (asked.append(a), record(*a))
        async with anthropic.AsyncAnthropic(base_url=here, api_key="k") as client:
            with pytest.raises(anthropic.APIStatusError, match="ollama serve"):
                await client.messages.create(model="m", max_tokens=9, messages=PROMPT)
        async with openai.AsyncOpenAI(base_url=f"{here}/v1", api_key="k") as chat:
            with pytest.raises(openai.APIStatusError, match="ollama serve"):
                await chat.chat.completions.create(model="m", messages=PROMPT)
    assert len(asked) == 2
