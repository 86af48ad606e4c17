"""Engines that fail to parse their own model, through the gateway: an answer, from one request."""

import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.asking import ask, request
from tests.peers import SHOW, gateway, model_server, whole
from tests.rescue_table import ROWS, SEARCH, llama, ollama
from tests.streams import chunk

from toolbridge import codecs
from toolbridge.config import Config, ModelConfig, ProviderConfig

CLIENTS = codecs.names()
both = pytest.mark.parametrize("stream", [True, False])
JSON_CALL = '{"name": "search", "parameters": {"query": "again"}}'
TAGGED = '<tool_call>{"name": "search", "arguments": {"query": "again"}}</tool_call>'
AGAIN = ("search", {"query": "again"})
HEALED = "read from the engine's error"


def is_model_request(heard) -> bool:
    return heard.method == "POST" and heard.path != "/api/show"


def begins(api: str) -> str:
    """Return the beginning of a stream, before any content."""
    if api == "ollama":
        return ""
    if api == "anthropic":
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
        return f"event: message_start\ndata: {json.dumps({'type': 'message_start', 'message': message})}\n\n"
    first = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]}
    return f"data: {json.dumps(first)}\n\n"


def text_of(api: str, text: str) -> str:
    """Return an answer that is a text."""
    if api == "ollama":
        line = {"model": "m", "message": {"role": "assistant", "content": text}, "done": True}
        return json.dumps(line) + "\n"
    if api == "anthropic":
        body = {"id": "m", "type": "message", "role": "assistant", "model": "m",
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
        return json.dumps(body)
    return chunk({"content": text}) + chunk({}, "stop") + "data: [DONE]\n\n"


def fails(row, then: str = ""):
    """Return a server that answers with the error of `row`, and after it with the text `then`."""
    answers = iter([None])

    async def answer(heard, line) -> None:
        if heard.path == "/api/show":
            await whole(line, SHOW)
            return
        if heard.method != "POST":
            await whole(line, {"error": "not found"}, 404)
            return
        if next(answers, then) == then and then:
            await line.head(
                200, "application/json" if row.api == "anthropic" else "text/event-stream"
            )
            await line.send(text_of(row.api, then))
        elif row.status == 200:
            await line.head(
                200, "application/x-ndjson" if row.api == "ollama" else "text/event-stream"
            )
            end = "\n" if row.api == "ollama" else "\n\n"
            prefix = "" if row.api == "ollama" else "event: error\ndata: "
            await line.send(begins(row.api) + prefix + row.body + end)
        else:
            await line.head(row.status, "application/json")
            await line.send(row.body)
        await line.end()

    return answer


@asynccontextmanager
async def served(answer, api: str, **models):
    async with model_server(answer) as server:
        there = ProviderConfig(api=api, url=server.url)
        config = Config(
            log="off",
            map={"default": "there/m"},
            providers={"there": there},
            models={"there/m": ModelConfig(**models)},
        )
        async with gateway(config) as (url, _):
            yield url, server


def wanted(row):
    return request("do it", tools=row.tools, choice=row.choice)


def clients_of(row) -> str:
    """Return a client API for `row`: each gets its share of the table."""
    usual = [name for name in CLIENTS if name != "ollama" or not row.choice]
    return usual[ROWS.index(row) % len(usual)]


TAKEN = [row for row in ROWS if not row.retry]
LOST = [row for row in ROWS if row.retry]


@both
@pytest.mark.parametrize("row", TAKEN, ids=lambda row: row.name)
async def test_the_answer_is_taken_from_the_error(row, stream):
    async with served(fails(row), row.api) as (url, server):
        found = await ask(url, clients_of(row), wanted(row), stream=stream)
    assert (found.status, found.error) == (200, "")
    assert found.calls == list(row.calls)
    assert found.seen.text == row.text
    assert found.seen.terminal == "finished"
    assert len(list(filter(is_model_request, server.heard))) == 1
    if not stream:
        assert HEALED in found.headers["x-toolbridge-healed"]


@both
@pytest.mark.parametrize("client", CLIENTS)
async def test_every_client_gets_it(client, stream):
    row = ROWS[0]
    async with served(fails(row), row.api) as (url, server):
        found = await ask(url, client, wanted(row), stream=stream)
    assert found.calls == list(row.calls)
    assert len(list(filter(is_model_request, server.heard))) == 1


@both
@pytest.mark.parametrize("row", LOST, ids=lambda row: row.name)
async def test_without_an_answer_the_tools_are_sent_in_the_next_mode_once(row, stream):
    """The tools that the second answer calls are those of the first row that has `search`."""
    then = JSON_CALL if row.choice else TAGGED
    tools = row.tools if SEARCH in row.tools else (SEARCH,)
    async with served(fails(row, then), row.api) as (url, server):
        asked = request("do it", tools=tools, choice=row.choice)
        found = await ask(url, clients_of(row), asked, stream=stream)
    assert found.calls == [AGAIN]
    first, second = (heard.json for heard in filter(is_model_request, server.heard))
    assert "tools" in first
    assert "tools" not in second


@both
async def test_a_second_failure_goes_to_the_client(stream):
    row = next(row for row in LOST if row.name.startswith("llama.cpp#20761"))
    async with served(fails(row), row.api) as (url, server):
        found = await ask(url, "openai_chat", wanted(row), stream=stream)
    assert found.error
    assert len(list(filter(is_model_request, server.heard))) == 2


async def test_in_the_last_mode_there_is_no_second_request():
    row = next(row for row in LOST if row.api == "openai_chat")
    async with served(fails(row), row.api, tool_mode="constrained") as (url, server):
        found = await ask(url, "openai_chat", wanted(row), stream=True)
    assert found.error
    assert len(list(filter(is_model_request, server.heard))) == 1


@both
async def test_what_was_sent_before_the_error_is_kept(stream):
    """gpt-oss behind Ollama thinks first, then its call cannot be parsed."""

    async def answer(heard, line) -> None:
        if heard.path == "/api/show":
            await whole(line, SHOW)
            return
        await line.head()
        thought = {"model": "m", "message": {"role": "assistant", "content": "", "thinking": "Hm."}}
        await line.send(json.dumps({**thought, "done": False}) + "\n")
        await line.send(ollama('{"query": "a"}]', "invalid character ']'") + "\n")
        await line.end()

    async with served(answer, "ollama", thinking=True) as (url, server):
        found = await ask(url, "anthropic", request(tools=(SEARCH,)), stream=stream)
    assert found.seen.thinking == "Hm."
    assert found.calls == [("search", {"query": "a"})]
    assert len(list(filter(is_model_request, server.heard))) == 1


async def test_a_call_that_was_begun_is_not_finished_by_another():
    async def answer(heard, line) -> None:
        await line.head(kind="text/event-stream")
        call = {"index": 0, "id": "c", "function": {"name": "search", "arguments": '{"query": "x'}}
        await line.send(chunk({"tool_calls": [call]}))
        error = llama('<tool_call>{"name": "search", "arguments": {"query": "a"}}</tool_call>')
        await line.send(f"data: {error}\n\n")
        await line.end()

    async with served(answer, "openai_chat") as (url, _):
        found = await ask(url, "openai_responses", request(tools=(SEARCH,)), stream=True)
    assert found.error


async def test_invalid_arguments_of_a_past_call_are_sent_as_json():
    """llama.cpp rejects a request whose history has invalid arguments with 500."""
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"query'}}]},
        {"role": "tool", "tool_call_id": "c", "content": "?"},
    ]  # fmt: skip
    offer = {"type": "function", "function": {"name": "search", "parameters": SEARCH.schema}}

    async def answer(heard, line) -> None:
        await line.head(kind="text/event-stream")
        await line.send(text_of("openai_chat", "ok"))
        await line.end()

    body = {"model": "m", "messages": messages, "tools": [offer]}
    async with (
        served(answer, "openai_chat") as (url, server),
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/chat/completions", json=body) as reply,
    ):
        assert reply.status == 200
    (sent,) = (heard.json for heard in server.heard if heard.method == "POST")
    assert isinstance(
        json.loads(sent["messages"][1]["tool_calls"][0]["function"]["arguments"]), dict
    )
