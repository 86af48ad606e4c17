"""A large request takes several turns of the event loop, so that other streams go on."""

import asyncio
import gc
import threading
import weakref

import pytest
from tests.peers import Heard, Line, bridged, gateway, line_of, model_server, replay, whole
from tests.server.test_messages import body, post
from tests.waiting import until

from toolbridge.config import Config, ProviderConfig
from toolbridge.core import json as json_functions
from toolbridge.dialects import auto
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


@pytest.mark.parametrize("api", ["ollama", "anthropic"])
async def test_counting_a_long_conversation_takes_many_turns(api, monkeypatch):
    taken = []
    next_turn = loop_turns.next_turn

    async def noted() -> None:
        taken.append(1)
        await next_turn()

    monkeypatch.setattr(loop_turns, "next_turn", noted)
    monkeypatch.setattr(loop_turns, "_LONGEST", 0.00005)  # a step or a few in each turn
    asked = body("x", stream=False)
    again = {"role": "assistant", "content": [{"type": "text", "text": "y " * 200}]}
    asked["messages"] = [*asked["messages"], *([again, {"role": "user", "content": "z"}] * 2000)]

    async def answer(_: Heard, line: Line) -> None:
        await whole(line, {"input_tokens": 4321})

    async with model_server(answer) as server:
        config = Config(
            log="off",
            map={"default": "there/m"},
            providers={"there": ProviderConfig(api=api, url=server.url, passthrough=False)},
        )
        async with gateway(config) as (url, _):
            response, counted = await post(url, asked, "/v1/messages/count_tokens")
    assert response.status == 200
    if api == "anthropic":
        assert counted["input_tokens"] == 4321
    assert len(taken) > 10


async def test_the_first_request_with_tools_loads_the_dialects_in_a_thread(monkeypatch):
    """They are 60 modules: loaded in the event loop, they stopped all streams for 45 ms."""
    threads = []
    names = auto.names

    def noted() -> list[str]:
        threads.append(threading.current_thread())
        return names()

    monkeypatch.setattr(auto, "names", noted)
    auto.auto_reader.cache_clear()
    tool = {"name": "read", "input_schema": {"type": "object", "properties": {}}}
    async with bridged(replay(line_of("ok", done=True))) as (url, _, _):
        await post(url, body("x", stream=False))
        assert threads == []
        for _ in range(2):
            response, _ = await post(url, body("x", stream=False, tools=[tool]))
            assert response.status == 200
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


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
