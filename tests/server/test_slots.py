"""`id_slot` over real sockets: a llama.cpp server with slots behind the gateway."""

import asyncio
import json

import aiohttp
import pytest
from tests.peers import gateway, model_server, whole

from toolbridge.config import Config, ModelConfig, ProviderConfig

CLAUDE = {"user-agent": "claude-cli/2.1.325 (external, cli)", "x-claude-code-session-id": "s-1"}
BASH = {"name": "Bash", "input_schema": {"type": "object"}}
MAIN = {
    "model": "claude-x",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [BASH],
}
TITLE = {
    **MAIN,
    "tools": [],
    "system": [{"type": "text", "text": "You are naming a coding session so that …"}],
}
SUBAGENT = CLAUDE | {"x-claude-code-agent-id": "a0"}


class LlamaCpp:
    """A server with slots that records the slot of each request."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.asked: list[int | None] = []
        self.released = asyncio.Event()
        self.released.set()

    async def answer(self, heard, line) -> None:
        if heard.path.endswith("/models"):
            await whole(line, {"data": [{"id": "m", "owned_by": "llamacpp"}]})
        elif heard.path == "/props":
            settings = {"n_ctx": 65536}
            props = {"default_generation_settings": settings, "build_info": "b1"}
            await whole(line, props | {"total_slots": self.slots})
        else:
            self.asked.append(heard.json.get("id_slot"))
            await self.released.wait()
            await self.say(heard, line)

    async def requests(self, count: int) -> None:
        """Wait until so many requests have arrived."""
        for _ in range(2000):
            if len(self.asked) >= count:
                return
            await asyncio.sleep(0.005)
        pytest.fail(f"only {len(self.asked)} requests arrived")

    async def say(self, heard, line) -> None:
        if heard.json.get("stream"):
            await line.head(kind="text/event-stream")
            delta = {"delta": {"content": "ok"}, "finish_reason": None}
            end = {"delta": {}, "finish_reason": "stop"}
            for choice in (delta, end):
                await line.send(f"data: {json.dumps({'choices': [choice]})}\n\n")
            await line.send("data: [DONE]\n\n")
            await line.end()
        else:
            message = {"role": "assistant", "content": "ok"}
            await whole(line, {"choices": [{"message": message, "finish_reason": "stop"}]})


def config(url: str, provider: dict | None = None, **fields) -> Config:
    at = ProviderConfig(api="openai_chat", url=f"{url}/v1", **(provider or {}))
    return Config(log="off", map={"default": "llama/m"}, providers={"llama": at}, **fields)


async def post(url: str, body: dict, headers: dict = CLAUDE, path="/v1/messages") -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + path, json=body, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        await answer.read()


@pytest.mark.parametrize("stream", [False, True])
async def test_side_requests_leave_the_conversation_its_slot(stream):
    llama = LlamaCpp(2)
    async with (
        model_server(llama.answer, probes=True) as server,
        gateway(config(server.url)) as (url, _),
    ):
        for body, headers in ((MAIN, CLAUDE), (TITLE, CLAUDE), (MAIN, SUBAGENT), (MAIN, CLAUDE)):
            await post(url, body | {"stream": stream}, headers)
    assert llama.asked == [0, 1, 1, 0]


async def test_two_conversations_have_two_slots():
    llama = LlamaCpp(3)
    other = CLAUDE | {"x-claude-code-session-id": "s-2"}
    async with (
        model_server(llama.answer, probes=True) as server,
        gateway(config(server.url)) as (url, _),
    ):
        for headers in (CLAUDE, other, CLAUDE, other):
            await post(url, MAIN, headers)
        third = CLAUDE | {"x-claude-code-session-id": "s-3"}
        await post(url, MAIN, third)
    assert llama.asked == [0, 1, 0, 1, None]


async def test_a_slot_is_free_again_after_a_client_left():
    llama = LlamaCpp(2)
    async with (
        model_server(llama.answer, probes=True) as server,
        gateway(config(server.url)) as (url, _),
    ):
        llama.released.clear()
        left = asyncio.create_task(post(url, MAIN))
        await llama.requests(1)
        second = asyncio.create_task(post(url, MAIN))  # the slot is busy: the server chooses
        await llama.requests(2)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        llama.released.set()
        await second
        for _ in range(200):
            await post(url, MAIN)
            if llama.asked[-1] == 0:
                break
            await asyncio.sleep(0.005)
    assert llama.asked[:2] == [0, None]
    assert llama.asked[-1] == 0


@pytest.mark.parametrize(
    ("slots", "provider", "models", "sent"),
    [
        (1, {}, {}, None),
        (0, {}, {}, None),
        (2, {"pin_slots": False}, {}, None),
        (2, {}, {"llama/m": ModelConfig(options={"id_slot": 7})}, 7),
    ],
)
async def test_nothing_is_pinned_without_need(slots, provider, models, sent):
    llama = LlamaCpp(slots)
    async with (
        model_server(llama.answer, probes=True) as server,
        gateway(config(server.url, provider, models=models)) as (url, _),
    ):
        await post(url, MAIN)
    assert llama.asked == [sent]


async def test_a_client_that_chooses_its_slot_gets_it():
    llama = LlamaCpp(4)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "id_slot": 2}
    async with (
        model_server(llama.answer, probes=True) as server,
        gateway(config(server.url)) as (url, _),
    ):
        await post(url, body, {}, "/v1/chat/completions")
    assert llama.asked == [2]
