"""Users of created keys: keys by the command line, a model server that counts, and a gateway."""

import asyncio
import contextlib
import io
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from tests.peers import Heard, Line, gateway, model_server
from tests.peers import whole as reply_whole

from toolbridge.cli import main
from toolbridge.config import Config, ModelConfig, ProviderConfig, RatesConfig


def command(*args: str) -> str:
    """Run a command as a person does; return what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(list(args)) == 0
    return out.getvalue()


async def key(*args: str) -> str:
    """Run `toolbridge key …`; return what it printed."""
    return await asyncio.to_thread(command, "key", *args)


async def after_midnight() -> None:
    """Wait for the next day when it is near: limits per day and month end at midnight UTC."""
    left = 86_400 - time.time() % 86_400
    if left < 20:
        await asyncio.sleep(left + 0.1)


async def create(name: str, *args: str) -> str:
    """Create a key; return it. No day ends while a test uses its limits."""
    await after_midnight()
    return (await key("create", name, *args)).split("\n")[0]


class CountingModel:
    """A Chat Completions server: 100 input tokens, and 10 output tokens unless told otherwise."""

    def __init__(self) -> None:
        self.requests = 0
        self.running = 0
        self.most = 0
        self.input = 0
        self.output = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.status = 200
        self.heard: list[dict] = []
        self.reported: dict = {}
        """Counts in place of the right ones."""

    async def __call__(self, heard: Heard, line: Line) -> None:
        self.requests += 1
        self.heard.append(heard.json)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
            if self.status != 200:
                await reply_whole(line, {"error": {"message": "no"}}, self.status)
                return
            self.input += 100
            self.output += 10
            usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
            usage |= self.reported
            if heard.json.get("stream"):
                await self._stream(line, usage)
                return
            message = {"role": "assistant", "content": "Yes."}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            await reply_whole(line, {"id": "c", "choices": [choice], "usage": usage})
        finally:
            self.running -= 1

    async def _stream(self, line: Line, usage: dict) -> None:
        await line.head(kind="text/event-stream")
        for delta, end in (({"content": "Yes."}, None), ({}, "stop")):
            chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
            await line.send(f"data: {json.dumps(chunk)}\n\n")
        await line.send(f"data: {json.dumps({'id': 'c', 'choices': [], 'usage': usage})}\n\n")
        await line.send("data: [DONE]\n\n")
        await line.end()


def settings(url: str, **more) -> Config:
    rates = ModelConfig(rates=RatesConfig(input=1.0, output=10.0), tools=True)
    return Config(
        **{
            "log": "off",
            "map": {"default": "there/big", "small": "there/small"},
            "providers": {"there": ProviderConfig(api="openai_chat", url=url, retries=0)},
            "models": {"there/big": rates, "there/small": rates},
            **more,
        }
    )


@asynccontextmanager
async def team(state, **more) -> AsyncIterator[tuple[str, CountingModel]]:
    """Serve a gateway whose state is in `state`, in front of a model that counts."""
    model = CountingModel()
    async with model_server(model) as server:
        env = {"XDG_STATE_HOME": str(state)}
        async with gateway(settings(server.url, **more), env) as (url, _):
            yield url, model


async def ask(url: str, key: str = "", **more) -> tuple[int, dict, dict]:
    """Send one request; return status, body and headers."""
    body = {
        "model": "any",
        "max_tokens": 20,
        "messages": [{"role": "user", "content": "hi"}],
    } | more
    headers = {"x-api-key": key} if key else {}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/messages", json=body, headers=headers) as answer,
    ):
        text = await answer.text()
        found = {} if body.get("stream") and answer.status == 200 else json.loads(text)
        return answer.status, found, {k.lower(): v for k, v in answer.headers.items()}
