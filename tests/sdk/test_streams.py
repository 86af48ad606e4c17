"""Answers as they come: increments, and failures as values."""

import asyncio

from tests.peers import ollama
from tests.sdk.held import Held, rejecting
from tests.sdk.places import config_for, place, script, sse

import toolbridge
from toolbridge import AsyncClient, Client


async def test_the_first_words_come_before_the_last_are_sent():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        async for event in stream:
            if isinstance(event, toolbridge.TextDelta):
                assert (event.text, held.sent_last) == ("first ", False) or held.sent_last
                held.go_on.set()
        assert stream.message.text == "first second"


async def test_the_first_words_come_before_the_last_are_sent_to_those_who_block():
    held = Held()
    loop = asyncio.get_running_loop()

    def read(config):
        with Client(config) as client:
            seen = []
            for event in client.stream("there/m", "hi"):
                if isinstance(event, toolbridge.TextDelta):
                    seen.append((event.text, held.sent_last))
                    loop.call_soon_threadsafe(held.go_on.set)
            return seen

    async with place("ollama", held) as (_, config):
        assert await asyncio.to_thread(read, config) == [("first ", False), ("second", True)]


async def test_the_message_is_what_the_events_have_told():
    async with place("ollama") as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        events = []
        async for event in stream:
            events.append(event)
            assert stream.message == toolbridge.collect(events)
        assert await stream.result() == events[-1].message


async def test_a_dead_provider_is_a_value():
    config = config_for("openai_chat", "http://127.0.0.1:1", retries=0)
    async with AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        events = [event async for event in stream]
    assert [type(event).__name__ for event in events] == ["Started", "Failed"]
    assert events[-1].problem.kind == "unreachable"
    assert stream.message.problem == events[-1].problem


async def test_a_rejection_is_a_value():
    async with place("openai_chat", rejecting) as (_, config), AsyncClient(config) as client:
        message = await client.complete("there/m", "hi")
    assert (message.stop, message.problem.status) == ("error", 404)
    assert message.problem.provider == "there"


async def test_an_unknown_model_is_a_value():
    answer = ollama(script("ollama"))
    async with place("ollama", answer) as (_, config), AsyncClient(config) as client:
        message = await client.complete("there/absent", "hi")
    assert message.problem.kind == "unknown_model"
    assert "ollama pull absent" in message.problem.text


async def test_a_fault_of_ours_is_a_value(monkeypatch):
    async with place("ollama") as (_, config), AsyncClient(config) as client:
        monkeypatch.setattr("toolbridge.routing.router.estimate_request", lambda *_, **__: 1 / 0)
        message = await client.complete("there/m", "hi")
    assert message.problem.kind == "internal"
    assert "ZeroDivisionError" in message.problem.text


async def test_a_prompt_that_does_not_fit_is_a_value():
    config = config_for("ollama", "http://127.0.0.1:1", window=10)
    async with AsyncClient(config) as client:
        message = await client.complete("there/m", "word " * 100)
    assert message.problem.kind == "context_overflow"


async def test_what_the_model_cannot_be_told_is_said():
    async with place("ollama") as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi", tools=[toolbridge.Tool("f")], tool_choice="f")
        await stream.result()
    (lost,) = [loss for loss in stream.losses if loss.what == "tools"]
    assert "constrained" in lost.why
    assert stream.model == "there/m"


async def _with_a_strange_part(heard, line):
    parts = [{"type": "output_text", "text": "Hi"}, {"type": "hologram", "data": "AAAA"}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": parts}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    reply = {"id": "resp_1", "status": "completed", "model": "m", "output": [item]}
    await line.head(200, "text/event-stream")
    for frame in sse(done, {"type": "response.completed", "response": reply}):
        await line.send(frame)
    await line.end()


async def test_what_an_answer_loses_is_said_as_it_comes():
    async with (
        place("openai_responses", _with_a_strange_part) as (_, config),
        AsyncClient(config) as client,
    ):
        stream = client.stream("there/m", "hi")
        events = [event async for event in stream]
        assert [event.loss.what for event in events if isinstance(event, toolbridge.Lost)] == [
            "answer.hologram"
        ]
    assert [loss.what for loss in stream.losses] == ["answer.hologram"]
    assert stream.message.losses == stream.losses
    assert stream.message.text == "Hi"


async def test_those_who_block_read_the_losses_of_an_answer_too():
    def read(config):
        with Client(config) as client:
            stream = client.stream("there/m", "hi")
            stream.result()
            return [loss.what for loss in stream.losses]

    async with place("openai_responses", _with_a_strange_part) as (_, config):
        assert await asyncio.to_thread(read, config) == ["answer.hologram"]
