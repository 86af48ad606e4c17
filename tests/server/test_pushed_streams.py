"""Deltas that arrive apart go from the provider's connection to the client's without a task."""

import json
from collections import Counter
from contextlib import suppress

import aiohttp
import pytest
from tests.peers import bridged
from tests.server.test_messages import TOOL, body, line
from tests.waiting import until

from toolbridge.routing import attempts
from toolbridge.server.http_protocol import HttpConnection
from toolbridge.upstream.http_connection import ProviderConnection


def ndjson(*args, **kwargs):
    return json.dumps(line(*args, **kwargs)) + "\n"


@pytest.fixture
def calls(monkeypatch):
    """Count calls of the reading task, and of the two sides of flow control."""
    seen = Counter()

    def counted(owner, name, label):
        function = getattr(owner, name)

        def call(self, *args, **kwargs):
            seen[label] += 1
            return function(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    counted(attempts._Attempt, "read", "read")
    counted(ProviderConnection, "data_received", "delivered")
    counted(HttpConnection, "pause_writing", "paused")
    return seen


def apart(calls, deltas, last):
    """Return a model that sends each delta after the gateway has got the one before."""

    async def chat(_, peer):
        await peer.head()
        for delta in deltas:
            before = calls["delivered"]
            await peer.send(delta)
            await until(lambda before=before: calls["delivered"] > before)
        if last is None:
            peer.cut()
            return
        await peer.send(last)
        await peer.end()

    return chat


async def answer_of(model, **request):
    """Return the stream that a client gets, also if it is cut off."""
    text = b""
    async with bridged(model) as (url, _, app), aiohttp.ClientSession() as session:
        async with session.post(url + "/v1/messages", json=body(**request)) as answer:
            with suppress(aiohttp.ClientPayloadError):
                async for piece in answer.content.iter_any():
                    text += piece
        await until(lambda: not app.in_flight)
    return text.decode()


def told(text):
    events = [json.loads(one.split("data: ")[1]) for one in text.split("\n\n") if "data: " in one]
    return "".join(e["delta"].get("text", "") for e in events if e["type"] == "content_block_delta")


@pytest.mark.parametrize("tools", [[], [TOOL]])
async def test_the_task_of_a_request_sleeps_while_deltas_pass(calls, tools):
    words = [f"word{number} " for number in range(60)]
    text = await answer_of(apart(calls, map(ndjson, words), ndjson(done=True)), tools=tools)
    assert told(text) == "".join(words)
    assert text.rstrip().endswith('{"type":"message_stop"}')
    assert calls["delivered"] > 60
    assert calls["read"] < 10


async def test_a_connection_that_breaks_while_deltas_pass_is_an_error_of_the_stream(calls):
    words = ["one ", "two ", "three"]
    text = await answer_of(apart(calls, map(ndjson, words), None))
    assert told(text) == "one two three"
    assert "event: error" in text
    assert "message_stop" not in text


async def test_a_chunk_that_is_no_json_ends_a_pushed_stream_with_an_error(calls):
    text = await answer_of(apart(calls, map(ndjson, ["one ", "two "]), "{nonsense}\n"))
    assert told(text) == "one two "
    assert "event: error" in text


async def test_a_client_that_stops_reading_stops_the_model_and_gets_everything_later(calls):
    """Flow control in both directions: more than all buffers of the system hold is sent."""
    word, count = "w" * 1000, 12_000
    sent = Counter()

    async def chat(_, peer):
        await peer.head()
        await peer.send(ndjson("begin"))
        for _ in range(count // 20):
            await peer.send(ndjson(word) * 20)
            sent["words"] += 20
        await peer.send(ndjson(done=True))
        await peer.end()

    async with bridged(chat) as (url, _, app), aiohttp.ClientSession() as session:
        async with session.post(url + "/v1/messages", json=body()) as answer:
            first = await answer.content.readany()
            await until(lambda: calls["paused"] > 0)
            text = first + await answer.content.read()
        await until(lambda: not app.in_flight)
    assert told(text.decode()) == "begin" + word * count
    assert sent["words"] == count
