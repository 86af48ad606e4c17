"""An answer of a node as a source: read until None, closed in the middle, twice, or not at all."""

import asyncio

import pytest
from tests.node.server import Scene
from tests.node.sessions import TEXT, prompt, session_with, works
from tests.waiting import until

from toolbridge.core import events as ev
from toolbridge.core.errors import Unreachable
from toolbridge.core.fold import collect


async def read_all(source) -> list[ev.Event]:
    events = []
    while (batch := await source.read()) is not None:
        events += batch
    return events


class TestReading:
    async def test_read_returns_none_after_the_last_event_and_stays_so(self):
        async with session_with() as (session, node, _):
            source = session.answer(prompt())
            assert collect(await read_all(source)).text == TEXT
            assert await source.read() is None
            assert await source.read() is None
        assert len(node.heard) == 1

    async def test_nothing_is_paid_or_sent_before_the_first_read(self):
        async with session_with() as (session, node, funding):
            source = session.answer(prompt())
            await asyncio.sleep(0.05)
            assert (funding.opened, node.connections, session.waiting) == ([], 0, 0)
            await source.close()

    async def test_a_source_that_failed_is_at_its_end(self):
        async with session_with() as (session, node, funding):
            funding.error = Unreachable("no chain")
            source = session.answer(prompt())
            with pytest.raises(Unreachable):
                await source.read()
            funding.error = None
            assert await source.read() is None
            assert session.waiting == 0
            await works(session)
        assert len(node.heard) == 1


class TestClosing:
    async def test_closed_before_the_first_read_it_asks_nothing(self):
        async with session_with() as (session, node, funding):
            source = session.answer(prompt())
            await source.close()
            assert await source.read() is None
            assert (funding.opened, node.connections, session.waiting) == ([], 0, 0)

    async def test_closed_in_the_middle_it_stops_the_node_and_reads_no_more(self):
        async with session_with() as (session, node, funding):
            node.play(Scene(tuple("abcdefghij"), pause=0.03))
            source = session.answer(prompt())
            assert await source.read()
            await source.close()
            assert await source.read() is None
            assert session.waiting == 0
            await works(session)
            assert len(node.cancelled) == 1
            assert len(funding.opened) == 1

    async def test_closed_twice_it_frees_the_queue_once(self):
        async with session_with() as (session, node, _):
            node.play(Scene(tuple("abcdefghij"), pause=0.03), Scene(pause=0.05))
            first = session.answer(prompt("1"))
            assert await first.read()
            second = asyncio.create_task(read_all(session.answer(prompt("2"))))
            await asyncio.sleep(0)
            await first.close()
            await first.close()
            third = asyncio.create_task(read_all(session.answer(prompt("3"))))
            assert collect(await second).text == collect(await third).text == TEXT
            assert session.waiting == 0
            assert node.dropped == []
        assert node.most_at_once == 1

    async def test_closed_after_the_end_it_changes_nothing(self):
        async with session_with() as (session, node, _):
            source = session.answer(prompt())
            await read_all(source)
            await source.close()
            assert session.waiting == 0
            await works(session)
            assert node.cancelled == []


class TestCancelling:
    async def test_cancelled_while_the_node_is_silent_it_stops_the_node(self):
        async with session_with() as (session, node, funding):
            node.play(Scene(wrong="silence"))
            source = session.answer(prompt())
            reading = asyncio.create_task(source.read())
            await until(lambda: node.heard)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert await source.read() is None
            await source.close()
            await works(session)
            assert len(node.cancelled) == 1
            assert len(funding.opened) == 1

    async def test_cancelled_in_the_queue_it_leaves_the_queue(self):
        async with session_with() as (session, node, _):
            node.play(Scene(tuple("abcdef"), pause=0.03))
            first = session.answer(prompt("1"))
            assert await first.read()
            second = session.answer(prompt("2"))
            reading = asyncio.create_task(second.read())
            await until(lambda: session.waiting == 2)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert session.waiting == 1
            assert await second.read() is None
            await first.close()
            await works(session)
        assert "2" not in [heard.prompt["prompt"] for heard in node.heard]

    async def test_cancelled_while_a_job_is_paid_it_leaves_the_job_to_the_next(self):
        async with session_with() as (session, node, funding):
            funding.paid.clear()
            source = session.answer(prompt("1"))
            reading = asyncio.create_task(source.read())
            await until(lambda: funding.asked)
            reading.cancel()
            funding.paid.set()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await source.close()
            await works(session)
            assert len(funding.opened) == 1
        assert len(node.heard) == 1
