"""Answers that are ended before they end."""

import asyncio
import gc

import pytest
from tests.sdk.held import Held, soon
from tests.sdk.places import QUIET, place
from tests.waiting import until

import toolbridge
from toolbridge import AsyncClient, Client, Signal
from toolbridge.config import Config


@pytest.mark.req("ZG-34")
async def test_an_abort_in_the_middle_hangs_up_and_is_a_value():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        async for event in stream:
            if isinstance(event, toolbridge.TextDelta):
                stream.abort("enough")
        await soon(held.gone)
    assert isinstance(event, toolbridge.Failed)
    assert (event.problem.kind, event.problem.text) == ("aborted", "enough")
    assert event.message.text == "first "
    assert event.message.stop == "aborted"
    assert await stream.result() == event.message


async def test_an_abort_hangs_up_also_when_nobody_reads_on():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        await anext(stream)
        stream.abort()
        await soon(held.gone)


async def test_the_connection_is_closed_when_the_abort_is_told():
    async with place("ollama", Held()) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        await anext(stream)
        stream.abort()
        await stream.result()
        assert stream._source.ag_frame is None


async def test_an_abort_reaches_one_who_waits():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        reading = asyncio.create_task(stream.result())
        await until(lambda: stream.message.text)
        stream.abort()
        message = await asyncio.wait_for(reading, 20)
        await soon(held.gone)
    assert (message.stop, message.text) == ("aborted", "first ")


async def test_an_abort_before_the_first_event_asks_nobody():
    async with place("ollama") as (server, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        stream.abort()
        events = [event async for event in stream]
        assert [type(event).__name__ for event in events] == ["Started", "Failed"]
        assert server.heard == []


async def test_an_abort_after_the_end_changes_nothing():
    async with place("ollama") as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        message = await stream.result()
        stream.abort()
        assert [event async for event in stream] == []
        assert await stream.result() == message
        assert message.stop == "tool_use"


async def test_an_abort_from_another_thread_reaches_one_who_blocks():
    held = Held()

    def read(config, signal):
        with Client(config) as client:
            return client.complete("there/m", "hi", signal=signal)

    async with place("ollama", held) as (server, config):
        signal = Signal()
        reading = asyncio.create_task(asyncio.to_thread(read, config, signal))
        await until(server.chats)
        signal.abort("from elsewhere")
        message = await asyncio.wait_for(reading, 20)
        await soon(held.gone)
    assert message.problem.text == "from elsewhere"
    assert signal.aborted


async def test_a_signal_that_was_given_before_aborts_at_once():
    signal = Signal()
    signal.abort()
    async with AsyncClient(Config(), env=QUIET) as client:
        message = await client.complete("demo", "hi", signal=signal)
    assert message.stop == "aborted"


async def test_a_cancelled_reader_is_cancelled_and_hangs_up():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await stream.result()
        await soon(held.gone)
        assert (await stream.result()).stop == "aborted"
        assert stream.message.text == "first "


async def test_one_who_is_cancelled_is_cancelled_even_if_the_answer_is_aborted_too():
    async with place("ollama", Held()) as (_, config), AsyncClient(config) as client:
        stream = client.stream("there/m", "hi")
        reading = asyncio.create_task(stream.result())
        await until(lambda: stream.message.text)
        stream.abort()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


async def test_what_was_not_handed_out_before_an_abort_is_not_part_of_it():
    async with AsyncClient(Config(), env=QUIET) as client:
        stream = client.stream("demo", "[[long]]")
        events = []
        async for event in stream:
            events.append(event)
            if isinstance(event, toolbridge.TextDelta):
                stream.abort()
    names = [type(event).__name__ for event in events]
    assert names == ["Started", "TextStart", "TextDelta", "Failed"]
    assert events[-1].message.text == events[2].text


async def test_a_loop_that_is_left_hangs_up():
    held = Held()

    def read(config):
        client = Client(config)
        for event in client.stream("there/m", "hi"):
            if isinstance(event, toolbridge.TextDelta):
                break
        return client

    async with place("ollama", held) as (_, config):
        client = await asyncio.to_thread(read, config)
        await soon(held.gone)
        await asyncio.to_thread(client.close)


async def test_a_stream_that_is_dropped_hangs_up():
    held = Held()
    async with place("ollama", held) as (_, config), AsyncClient(config) as client:
        async for event in client.stream("there/m", "hi"):
            if isinstance(event, toolbridge.TextDelta):
                break
        gc.collect()
        await soon(held.gone)


async def test_a_client_that_closes_wakes_one_who_waits():
    held = Held()
    async with place("ollama", held) as (_, config):
        async with AsyncClient(config) as client:
            stream = client.stream("there/m", "hi")
            reading = asyncio.create_task(stream.result())
            await until(lambda: stream.message.text)
        message = await asyncio.wait_for(reading, 20)
        await soon(held.gone)
    assert message.problem.text == "the client was closed"


async def test_a_client_that_closes_ends_its_answers():
    held = Held()
    async with place("ollama", held) as (_, config):
        async with AsyncClient(config) as client:
            stream, unread = client.stream("there/m", "a"), client.stream("there/m", "b")
            await anext(stream)
        await soon(held.gone)
        assert (await stream.result()).problem.text == "the client was closed"
        assert (await unread.result()).stop == "aborted"
        with pytest.raises(RuntimeError, match="closed"):
            client.stream("there/m", "c")
