"""Anthropic in front and Anthropic behind: the bytes pass untouched, and are accounted for."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.peers import gateway, model_server

from toolbridge.config import Config, ProviderConfig
from toolbridge.server.relay import rename_model

STREAM = (
    b'event: message_start\r\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
    b'"role":"assistant","model":"claude-x","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}'
    b'\r\n\r\nevent: brand_new\r\ndata: {"type":"brand_new", "odd":  1}\r\n\r\n'
    b'event: message_delta\r\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
    b'"usage":{"output_tokens":2}}\r\n\r\nevent: message_stop\r\ndata: {"type":"message_stop"}\r\n\r\n'
)  # fmt: skip


@asynccontextmanager
async def relayed(answer, **settings):
    async with model_server(answer) as server:
        place = ProviderConfig(api="anthropic", url=server.url, key="real-key")
        config = Config(
            log="json", map={"default": "there/claude-x"}, providers={"there": place}, **settings
        )
        async with gateway(config) as (url, app):
            yield url, server, app


def answer(body: bytes, status: int = 200, kind: str = "text/event-stream", **headers: str):
    async def serve(_, line):
        await line.head(status, kind, **headers)
        await line.send(body[:50])
        await asyncio.sleep(0.01)
        await line.send(body[50:])
        await line.end()

    return serve


async def post(url: str, body: bytes, **headers: str):
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + "/v1/messages?beta=true", data=body, headers=headers) as reply,
    ):
        return reply, await reply.read()


ODD = (
    b'{"model": "claude-sonnet-5-5", "max_tokens": 5, "stream":true,  "brand_new": {"a":  1.0},'
    b' "messages": [{"role":"user","content":"caf\\u00e9 \\/"}]}'
)


async def test_every_byte_of_a_stream_passes_and_is_counted(capsys):
    async with relayed(answer(STREAM)) as (url, server, _):
        reply, body = await post(url, ODD, **{"anthropic-beta": "new-thing", "x-api-key": "client"})
    assert body == STREAM
    heard = server.heard[0]
    assert heard.headers["x-api-key"] == "real-key"
    assert heard.headers["anthropic-beta"] == "new-thing"
    assert b'"brand_new":{"a":  1.0}' in heard.body
    assert b"caf\\u00e9 \\/" in heard.body
    assert heard.json["model"] == "claude-x"
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert line["gen_ai.usage.input_tokens"] == 5
    assert line["gen_ai.usage.output_tokens"] == 2
    assert reply.headers["x-toolbridge-model"] == "there/claude-x"


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_of_the_provider_passes_unchanged(stream):
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    serve = answer(error, 529, "application/json", retry_after="7")
    body = ODD if stream else ODD.replace(b'"stream":true', b'"stream":false')
    async with relayed(serve) as (url, *_):
        reply, found = await post(url, body)
    assert (reply.status, found) == (529, error)
    assert reply.headers["retry-after"] == "7"


async def test_a_provider_that_breaks_off_is_an_error_event():
    async def serve(_, line):
        await line.head(200, "text/event-stream")
        await line.send(STREAM[:300])
        await asyncio.sleep(0.05)
        line.cut()

    async with relayed(serve) as (url, *_), aiohttp.ClientSession() as session:
        reply = await session.post(url + "/v1/messages", data=ODD)
        body = await reply.content.readuntil(b"}\n\n")
        while b"event: error" not in body:
            body = await reply.content.readuntil(b"}\n\n")
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.content.read()
        reply.close()


def test_only_the_model_changes():
    body = b'{"a":[1, 2,\n 3],"model":"x","z":"\\u00e9"}'
    assert rename_model(body, "y") == b'{"a":[1, 2,\n 3],"model":"y","z":"\\u00e9"}'
