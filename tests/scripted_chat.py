"""A chat-completions model that gives scripted answers, one per request, over a real socket."""

import json
from contextlib import asynccontextmanager

from tests.peers import Heard, Line, gateway, model_server, whole
from tests.search_double import search_double

from toolbridge.config import Config, ProviderConfig
from toolbridge.server_tool_settings import ServerToolSettings, WebSearchSettings


def call(name: str, id: str = "call_1", **arguments) -> dict:
    return {"id": id, "name": name, "arguments": json.dumps(arguments)}


def says(*parts: str | dict, prompt: int = 10, output: int = 5) -> dict:
    """Return an answer of text and calls."""
    return {
        "text": [part for part in parts if isinstance(part, str)],
        "calls": [part for part in parts if isinstance(part, dict)],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
        },
    }


def scripted(*answers: dict | int):
    """Return a chat server's answer: the next scripted one, the last one again at the end.

    A number is the status of a failure.
    """
    left = list(answers)

    async def chat(heard: Heard, line: Line) -> None:
        if heard.method != "POST":
            await whole(line, {"data": [{"id": "m"}]})
            return
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, int):
            await whole(line, {"error": {"message": "no"}}, answer)
        elif heard.json.get("stream"):
            await _stream(line, answer)
        else:
            await _whole(line, answer)

    return chat


def _function(index: int, made: dict) -> dict:
    function = {"name": made["name"], "arguments": made["arguments"]}
    return {"index": index, "id": made["id"], "type": "function", "function": function}


async def _whole(line: Line, answer: dict) -> None:
    calls = [_function(i, one) for i, one in enumerate(answer["calls"])]
    message = {"role": "assistant", "content": "".join(answer["text"]) or None}
    if calls:
        message["tool_calls"] = calls
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    await whole(line, {"id": "c", "model": "m", "choices": [choice], "usage": answer["usage"]})


async def _stream(line: Line, answer: dict) -> None:
    await line.head(kind="text/event-stream")
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text} for text in answer["text"]]
    deltas += [{"tool_calls": [_function(i, one)]} for i, one in enumerate(answer["calls"])]
    for delta in deltas:
        await _chunk(line, [{"index": 0, "delta": delta, "finish_reason": None}])
    reason = "tool_calls" if answer["calls"] else "stop"
    await _chunk(line, [{"index": 0, "delta": {}, "finish_reason": reason}])
    await _chunk(line, [], usage=answer["usage"])
    await line.send("data: [DONE]\n\n")
    await line.end()


async def _chunk(line: Line, choices: list, **fields) -> None:
    body = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": choices}
    await line.send(f"data: {json.dumps(body | fields)}\n\n")


@asynccontextmanager
async def searching(*answers: dict | int, env: dict | None = None, **settings):
    """Serve a gateway with SearXNG's double in front of a scripted model.

    Yield the gateway's URL, the model server, the search double and the application.
    """
    async with search_double() as double, model_server(scripted(*answers)) as server:
        own = {"backend": "searxng", "url": double.url} | settings.pop("web_search", {})
        search = WebSearchSettings(**own)
        tools = ServerToolSettings(web_search=search, **settings.pop("server_tools", {}))
        config = Config(
            log="off",
            map=settings.pop("map", {"default": "own/m"}),
            providers={
                "own": ProviderConfig(api="openai_chat", url=f"{server.url}/v1", retries=0),
                **settings.pop("providers", {}),
            },
            server_tools=tools,
            **settings,
        )
        async with gateway(config, env) as (url, app):
            yield url, server, double, app


def chats(server) -> list[dict]:
    """Return the bodies of the requests to the model."""
    return [heard.json for heard in server.heard if heard.method == "POST"]
