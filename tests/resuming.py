"""Clients that leave, come back and repeat themselves, and a model that answers at their pace."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.asking import request
from tests.peers import Heard, Line, gateway, model_server
from tests.peers import whole as reply_whole
from tests.streams import chunk

from toolbridge.config import Config, ProviderConfig
from toolbridge.conformance import clients
from toolbridge.conformance.http_client import GatewayReply, HttpClient

APIS = ("anthropic", "openai_chat", "openai_responses", "gemini", "ollama")
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


class PacedModel:
    """A Chat Completions server that sends one word for each step that it is allowed."""

    def __init__(self, words: list[str] | None = None) -> None:
        self.words = words or [f"word{n}\n" for n in range(20)]
        self.requests = 0
        self.left = 0
        """Requests whose connection the gateway has closed before their end."""
        self.steps = 0
        self.sent = 0
        """Words of the last answer."""
        self.status = 200
        self._changed = asyncio.Condition()

    async def allow(self, steps: int = 1 << 30) -> None:
        """Let every answer have this many words."""
        async with self._changed:
            self.steps = steps
            self._changed.notify_all()

    async def __call__(self, heard: Heard, line: Line) -> None:
        self.requests += 1
        if self.status != 200:
            await reply_whole(line, {"error": {"message": "no"}}, self.status)
            return
        gone = asyncio.create_task(line.gone())
        work = asyncio.create_task(self._answer(heard, line))
        done, _ = await asyncio.wait({gone, work}, return_when=asyncio.FIRST_COMPLETED)
        if work not in done or work.exception() is not None:
            self.left += 1
            work.cancel()
        gone.cancel()
        await asyncio.wait({gone, work})  # the next request is read from the same connection

    async def _answer(self, heard: Heard, line: Line) -> None:
        number = self.requests
        words = [f"answer {number}: ", *self.words]
        if heard.json.get("stream"):
            await line.head(kind="text/event-stream")
        for n, word in enumerate(words):
            async with self._changed:
                await self._changed.wait_for(lambda n=n: self.steps > n)
            if heard.json.get("stream"):
                await line.send(chunk({"content": word}))
            self.sent = n
        if heard.json.get("stream"):
            end = f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\n"
            await line.send(chunk({}, "stop") + end + "data: [DONE]\n\n")
            await line.end()
            return
        message = {"role": "assistant", "content": "".join(words)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await reply_whole(line, {"id": "c", "choices": [choice], "usage": USAGE})


def config(url: str, **fields) -> Config:
    return Config(
        **{
            "log": "off",
            "map": {"default": "there/m"},
            "providers": {"there": ProviderConfig(api="openai_chat", url=url, retries=0)},
            **fields,
        }
    )


@asynccontextmanager
async def paced(env: dict | None = None, **fields) -> AsyncIterator[tuple[str, PacedModel]]:
    model = PacedModel()
    async with (
        model_server(model) as server,
        gateway(config(server.url, **fields), env) as (url, _),
    ):
        yield url, model


class Asker:
    """One request to the gateway; it can be left, and sent again."""

    def __init__(
        self, url: str, api: str, *, stream: bool, text: str = "hi", **headers: str
    ) -> None:
        encoded = clients.load(api).ask(request(text, tools=()), "m", stream)
        self.path, self.body = encoded.path, json.dumps(encoded.body).encode()
        self.headers = {**encoded.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}
        self._leave = asyncio.Event()
        self.client = HttpClient(url)
        self._task = asyncio.create_task(self._ask())

    async def _ask(self) -> GatewayReply:
        return await self.client.ask(
            self.path, self.headers, self.body, limit=60, leave=self._leave
        )

    @property
    def so_far(self) -> bytes:
        return self.client.reply.body

    async def leave(self) -> bytes:
        """Disconnect; return what has arrived."""
        self._leave.set()
        await self._task
        return self.so_far

    def cancel(self) -> None:
        """Send nothing; the request is only a pattern."""
        self._task.cancel()

    async def reply(self) -> GatewayReply:
        return await self._task
