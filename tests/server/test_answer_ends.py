"""How the bytes of a provider end, and what its client gets: an answer with its end, or an error."""

import asyncio
import json
import re
from contextlib import suppress

import msgspec
import pytest
from tests.peers import Heard, Line, gateway, model_server
from tests.resuming import APIS, Asker, config
from tests.streams import chunk
from tests.waiting import until

from toolbridge.config import ProviderConfig

WHOLE = chunk({"content": "all of it"}) + chunk({}, "stop") + "data: [DONE]\n\n"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", ["closes", "stays open", "trickles"])
@pytest.mark.parametrize("passes", [False, True])
async def test_the_client_gets_a_complete_answer(api, way, passes):
    left = asyncio.Event()

    async def answer(_: Heard, line: Line) -> None:
        await line.head(kind="text/event-stream")
        await line.send(WHOLE)
        if way == "closes":
            line.cut()
            return
        gone = asyncio.create_task(line.gone())
        while way == "trickles" and not gone.done():
            with suppress(ConnectionError):
                await line.send(": nothing more\n\n")
            await asyncio.wait({gone}, timeout=0.1)
        await gone
        left.set()

    provider = ProviderConfig(
        api="openai_chat", url="", retries=0, passthrough=passes, idle_timeout=300.0
    )
    async with model_server(answer) as server:
        provider = msgspec.structs.replace(provider, url=server.url)
        async with gateway(config(server.url, providers={"there": provider})) as (url, _):
            async with asyncio.timeout(20):
                found = await Asker(url, api, stream=True).reply()
            if way != "closes":
                await until(left.is_set)
    assert found.status == 200
    assert b"all of it" in found.body
    assert b"closed the connection" not in found.body
    assert found.ended == "clean"


def event(**data: object) -> bytes:
    """Return an event of Anthropic's or OpenAI's Responses API."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def candidate(text: str, **more: object) -> bytes:
    content = {"role": "model", "parts": [{"text": text}]}
    return b"data: %b\r\n\r\n" % json.dumps({"candidates": [{"content": content} | more]}).encode()


MESSAGE = {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 5}}
TEXT = {"type": "message", "id": "i", "role": "assistant"}
SAID = TEXT | {"content": [{"type": "output_text", "text": "all of it"}]}
WORDS = {
    "anthropic": event(type="message_start", message=MESSAGE)
    + event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
    + event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "all of it"})
    + event(type="content_block_stop", index=0)
    + event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
    "openai_chat": (chunk({"content": "all of it"}) + chunk({}, "stop")).encode(),
    "openai_responses": event(type="response.created", response={"id": "r"})
    + event(type="response.output_item.added", output_index=0, item=TEXT | {"content": []})
    + event(type="response.output_text.delta", output_index=0, item_id="i", delta="all of it"),
    "gemini": candidate("all of it") + candidate("", finishReason="STOP"),
    "ollama": b'{"model":"m","message":{"role":"assistant","content":"all of it"},"done":false}\n',
}
"""Answers up to their stop reason, where an event follows it."""
LAST = {
    "anthropic": event(type="message_stop"),
    "openai_chat": b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":5}}\n\n',
    "openai_responses": event(
        type="response.completed", response={"id": "r", "status": "completed", "output": [SAID]}
    ),
    "gemini": b'data: {"usageMetadata":{"promptTokenCount":5}}\r\n\r\n',
    "ollama": b'{"model":"m","message":{"role":"assistant","content":""},"done":true}\n',
}
PATHS = pytest.mark.parametrize("passthrough", [False, True], ids=["translated", "passthrough"])


async def streamed(api: str, data: bytes, *, passthrough: bool, breaks: bool = False):
    """Return the stream for a client of the API whose provider sends `data`."""

    async def answer(_: Heard, line: Line) -> None:
        await line.head(kind="application/x-ndjson" if api == "ollama" else "text/event-stream")
        await line.send(data)
        if breaks:
            await asyncio.sleep(0.05)
            line.cut()
        else:
            await line.end()

    async with model_server(answer) as server:
        there = ProviderConfig(api=api, url=server.url, passthrough=passthrough, retries=0)
        async with gateway(config(server.url, providers={"there": there})) as (url, _):
            return await Asker(url, api, stream=True).reply()


@PATHS
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("size", [3, 20, -6])
async def test_half_a_last_event_is_an_error(api, passthrough, size):
    found = await streamed(api, WORDS[api] + LAST[api][:size], passthrough=passthrough)
    assert b"error" in found.body
    assert found.ended != "clean"


@PATHS
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("left_out", [0, 1, 2])
async def test_a_last_event_may_lack_its_line_ends(api, passthrough, left_out):
    data = WORDS[api] + LAST[api].rstrip() + [b"", b"\n", b"\n\n"][left_out]
    found = await streamed(api, data, passthrough=passthrough)
    assert b"all of it" in found.body
    assert found.ended == "clean"


MARKS = {
    "anthropic": b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    "openai_chat": b"data: [DONE]\n\n",
    "gemini": b"",
}
"""The last event of each API that has its stop reason in an event before."""


@PATHS
@pytest.mark.parametrize("api", MARKS)
async def test_a_mark_that_is_missing_after_the_stop_reason_is_added(api, passthrough):
    found = await streamed(api, WORDS[api], passthrough=passthrough)
    assert found.ended == "clean"
    assert found.body.endswith(MARKS[api])
    if passthrough:
        assert found.body == WORDS[api] + MARKS[api]


@pytest.mark.parametrize("api", MARKS)
async def test_a_mark_that_came_is_not_added_again(api):
    found = await streamed(api, WORDS[api] + MARKS[api], passthrough=True)
    assert found.body == WORDS[api] + MARKS[api]


@PATHS
@pytest.mark.parametrize("api", MARKS)
async def test_a_connection_that_breaks_before_the_mark_is_an_error(api, passthrough):
    found = await streamed(api, WORDS[api], passthrough=passthrough, breaks=True)
    assert b"error" in found.body
    assert found.ended != "clean"


@PATHS
@pytest.mark.parametrize("end", [b"", b"\r", b"\r\n", b"\r\n\r", b"\n"])
async def test_an_event_that_only_ends_an_answer_may_lack_its_line_ends(passthrough, end):
    data = WORDS["gemini"].rstrip()
    found = await streamed("gemini", data + end, passthrough=passthrough)
    assert found.ended == "clean"
    assert b'"STOP"' in found.body
    assert found.body.endswith((b"}\r\n\r\n", b"}\n\n"))
    if passthrough:
        assert found.body.startswith(data + end)


@pytest.mark.parametrize("breaks", [True, False], ids=["breaks", "ends"])
@pytest.mark.parametrize("api", ["gemini", "openai_chat"])
async def test_an_error_event_follows_a_whole_line_end(api, breaks):
    """A line end that was cut in two looks whole to some clients, and not to others."""
    words = WORDS[api].splitlines()[0] + b"\r\n\r\n"
    found = await streamed(api, words[:-1], passthrough=True, breaks=breaks)
    assert found.body.startswith(words)
    *_, error, rest = re.split(rb"\r\n\r\n|\n\n", found.body)
    assert "error" in json.loads(error.rpartition(b"data: ")[2])
    assert rest == b""


BODIES = {
    "anthropic": MESSAGE
    | {"content": [{"type": "text", "text": "all of it"}], "stop_reason": "end_turn"},
    "openai_chat": {"choices": [{"message": {"content": "all of it"}, "finish_reason": "stop"}]},
    "openai_responses": {"id": "r", "status": "completed", "output": [SAID]},
    "gemini": {
        "candidates": [{"content": {"parts": [{"text": "all of it"}]}, "finishReason": "STOP"}]
    },
    "ollama": {"model": "m", "message": {"content": "all of it"}, "done": True},
}


@PATHS
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_whole_body_may_begin_with_a_byte_order_mark(api, passthrough, stream):
    async def answer(_: Heard, line: Line) -> None:
        await line.head(kind="application/json")
        await line.send("\ufeff" + json.dumps(BODIES[api]))
        await line.end()

    async with model_server(answer) as server:
        there = ProviderConfig(api=api, url=server.url, passthrough=passthrough, retries=0)
        async with gateway(config(server.url, providers={"there": there})) as (url, _):
            found = await Asker(url, api, stream=stream).reply()
    assert found.status == 200
    assert b"all of it" in found.body
    assert not found.body.startswith("\ufeff".encode())
    assert found.ended == "clean"


@PATHS
@pytest.mark.parametrize("api", APIS)
async def test_a_stream_may_begin_with_a_byte_order_mark(api, passthrough):
    data = "\ufeff".encode() + WORDS[api] + LAST[api]
    found = await streamed(api, data, passthrough=passthrough)
    assert (found.status, found.ended) == (200, "clean")
    assert b"all of it" in found.body
