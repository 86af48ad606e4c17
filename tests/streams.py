"""Structured streams over real sockets: a model that says what it was told to, and a reader."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from tests.peers import Heard, Line, gateway, model_server

from toolbridge.config import Config, HttpConfig, ModelConfig, ProviderConfig, StreamConfig


@dataclass(frozen=True)
class Said:
    """One event as a client reads it."""

    name: str
    data: dict
    id: str = ""


def scripted(*answers: str, size: int = 7):
    """Return a Chat Completions server that gives these answers in turn, a few characters at a time."""
    left = iter(answers)

    async def answer(_: Heard, line: Line) -> None:
        await say(line, next(left), size)

    return answer


async def say(line: Line, text: str, size: int = 7) -> None:
    await line.head(kind="text/event-stream")
    for at in range(0, len(text), size):
        await line.send(chunk({"content": text[at : at + size]}))
    await line.send(chunk({}, "stop") + "data: [DONE]\n\n")
    await line.end()


def chunk(delta: dict, finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c', 'model': 'm', 'choices': [choice]})}\n\n"


@asynccontextmanager
async def streaming(answer, env: dict[str, str] | None = None, key: str = "", **stream):
    """Serve structured streams in front of a model that answers with `answer`; yield URL, server, app.

    The model has no tools of its own, so that it is spoken to in sentinels unless a test says `native`.
    """
    async with model_server(answer) as server:
        config = Config(
            log="off",
            key=key,
            map={"default": "there/m"},
            models={"there/m": ModelConfig(tools=False)},
            providers={"there": ProviderConfig(api="openai_chat", url=server.url, retries=0)},
            http=stream.pop("http", HttpConfig()),
            stream=StreamConfig(**{"demo": True, **stream}),
        )
        async with gateway(config, env) as (url, app):
            yield url, server, app


async def read(response: aiohttp.ClientResponse) -> AsyncIterator[Said]:
    """Yield the events of a reply."""
    name, data, id = "", "", ""
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        field, _, value = line.partition(": ")
        match field:
            case "event":
                name = value
            case "data":
                data = value
            case "id":
                id = value
            case "":
                yield Said(name, json.loads(data), id)
                name, data, id = "", "", ""


async def ask(url: str, body: dict, **headers: str) -> list[Said]:
    """Return all events of a stream."""
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/stream", json=body, headers=headers) as response,
    ):
        assert response.status == 200, await response.text()
        return [said async for said in read(response)]


async def refused(url: str, body: object, **headers: str) -> tuple[int, dict]:
    """Return the status and the error of a request that is not met."""
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/stream", json=body, headers=headers) as response,
    ):
        return response.status, (await response.json())["error"]


def frame(kind: str, id: str, name: str, body: str) -> str:
    field = "name" if kind == "TOOL_CALL" else "schema"
    return f"⟦BEGIN_{kind} id={id} {field}={name}⟧{body}⟦END_{kind} id={id}⟧"


def call(id: str, name: str, args: object) -> str:
    return frame("TOOL_CALL", id, name, json.dumps(args))


def reply(id: str = "R1", answer: str = "done") -> str:
    return frame("RESULT", id, "AssistantReply", json.dumps({"answer": answer, "citations": []}))


def thing(id: str, schema: str, value: object) -> str:
    return frame("OBJECT", id, schema, value if isinstance(value, str) else json.dumps(value))
