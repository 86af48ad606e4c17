"""Arguments that are no arguments never become a command, on the way through or in a stream."""

import json

import aiohttp
import pytest
from tests.peers import gateway, model_server
from tests.streams import ask, chunk

from toolbridge.config import Config, ModelConfig, ProviderConfig

SHELL = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
    "required": ["command"],
}
HOPELESS = ['"rm -rf /"', "rm -rf /", "{sudo rm -rf /}", '{"raw":"rm -rf /"}', '["rm -rf /"]']


def calling(arguments: str, *after: str):
    """Return a Chat Completions server that calls a shell, and then says `after`."""
    left = iter(after)
    calls = iter([arguments])

    async def answer(_, line) -> None:
        await line.head(kind="text/event-stream")
        if (given := next(calls, None)) is not None:
            function = {"name": "Bash", "arguments": given}
            call = {"index": 0, "id": "c1", "type": "function", "function": function}
            await line.send(chunk({"tool_calls": [call]}) + chunk({}, "tool_calls"))
        else:
            await line.send(chunk({"content": next(left, "no")}) + chunk({}, "stop"))
        await line.send("data: [DONE]\n\n")
        await line.end()

    return answer


@pytest.mark.parametrize("arguments", HOPELESS)
async def test_a_client_gets_them_as_raw(arguments):
    async with model_server(calling(arguments)) as server:
        place = ProviderConfig(api="openai_chat", url=server.url, retries=0)
        body = {
            "model": "there/m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}],
            "tools": [{"name": "Bash", "input_schema": SHELL}],
        }  # fmt: skip
        async with (
            gateway(Config(log="off", providers={"there": place})) as (url, _),
            aiohttp.ClientSession() as client,
            client.post(f"{url}/v1/messages", json=body) as response,
        ):
            (call,) = (await response.json())["content"]
    assert call["input"].keys() == {"raw"}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [(SHELL, text) for text in HOPELESS]
    + [({"type": "object"}, text) for text in HOPELESS if text[1:5] != "sudo"],  # any member fits
)
async def test_a_structured_stream_does_not_call_with_them(schema, arguments):
    result = json.dumps({"answer": "y", "citations": []})
    async with model_server(calling(arguments, "rm -rf /", result, result)) as server:
        place = ProviderConfig(api="openai_chat", url=server.url, retries=0)
        config = Config(
            log="off", map={"default": "there/m"}, providers={"there": place},
            models={"there/m": ModelConfig(tools=True)},
        )  # fmt: skip
        tool = {"name": "Bash", "client": True, "parameters": schema}
        async with gateway(config) as (url, _):
            said = await ask(url, {"prompt": "x", "mode": "native", "tools": [tool]})
    assert not [event for event in said if event.name == "tool.call"]
    assert [e.data["code"] for e in said if e.name == "error"] == ["invalid_arguments"]
