"""A large request takes several turns of the event loop, so that other streams go on."""

import asyncio
import gc
import weakref

import pytest
from tests.peers import bridged, line_of, replay
from tests.server.test_messages import body, post
from tests.waiting import until

from toolbridge.core import json as json_functions
from toolbridge.routing import loop_turns, sources
from toolbridge.routing.translated import TranslatedRequest
from toolbridge.server.api_endpoint import ApiEndpoint
from toolbridge.server.http_protocol import HttpConnection
from toolbridge.server.streaming import StreamReply


class Turns:
    """Counts turns of the event loop, and notes in which turn a function was called."""

    def __init__(self) -> None:
        self.now = 0
        self.seen: dict[str, int] = {}

    def count(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now += 1
        self._next = loop.call_soon(self.count, loop)

    def stop(self) -> None:
        self._next.cancel()

    def noting(self, name, function):
        def call(*args, **kwargs):
            self.seen[name] = self.now
            return function(*args, **kwargs)

        return call


@pytest.fixture
def turns(monkeypatch):
    turns = Turns()
    for owner, name, step in (
        (ApiEndpoint, "read", "decode"),
        (ApiEndpoint, "reading", "decode"),
        (TranslatedRequest, "preparing", "plan"),
    ):
        monkeypatch.setattr(owner, name, turns.noting(step, getattr(owner, name)))
    dump = json_functions.dump_bytes
    monkeypatch.setattr(sources, "dump_bytes", turns.noting("send", dump))
    return turns


async def steps_of(turns, text):
    async with bridged(replay(line_of("ok", done=True))) as (url, _, _):
        await post(url, body("The first request asks the server for its model.", stream=False))
        turns.count(asyncio.get_running_loop())
        response, _ = await post(url, body(text, stream=False))
        turns.stop()
    assert response.status == 200
    return [turns.seen[name] for name in ("decode", "plan", "send")]


async def test_decoding_planning_and_sending_are_separate_turns(turns):
    decoded, planned, sent = await steps_of(turns, "x " * loop_turns.LARGE)
    assert decoded < planned < sent


async def test_a_small_request_does_not_wait_for_other_tasks(turns):
    decoded, planned, sent = await steps_of(turns, "x")
    assert decoded == planned == sent


async def test_a_long_conversation_is_sent_alike_each_time():
    asked = body("x", stream=False)
    again = {"role": "assistant", "content": [{"type": "text", "text": "y " * 2000}]}
    asked["messages"] = [*asked["messages"], *([again, {"role": "user", "content": "z"}] * 20)]
    async with bridged(replay(line_of("ok", done=True))) as (url, server, _):
        for _ in range(2):
            response, answer = await post(url, asked)
            assert response.status == 200
            assert answer["content"] == [{"type": "text", "text": "ok"}]
    first, second = (heard.json for heard in server.heard if heard.path == "/api/chat")
    assert first == second
    assert len(first["messages"]) == len(asked["messages"])


@pytest.mark.parametrize("stream", [True, False])
async def test_an_exchange_is_freed_at_its_end_without_a_collection(monkeypatch, stream):
    begun, freed = [], []
    for kind in (StreamReply, HttpConnection):

        def begin(self, *args, kind=kind, begin=kind.__init__, **kwargs):
            begin(self, *args, **kwargs)
            begun.append(kind)
            weakref.finalize(self, freed.append, kind)

        monkeypatch.setattr(kind, "__init__", begin)
    gc.disable()
    try:
        async with bridged(replay(line_of("ok"), line_of("", done=True))) as (url, _, _):
            response, _ = await post(url, body("x", stream=stream))
            assert response.status == 200
        await until(lambda: len(freed) == len(begun))
    finally:
        gc.enable()
    assert (StreamReply in begun) == stream
    assert HttpConnection in begun
