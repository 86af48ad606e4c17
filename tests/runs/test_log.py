"""Events are numbered, bounded, and the same for every reader, whenever they come."""

import asyncio

import pytest

from toolbridge.core.errors import Truncated
from toolbridge.framed.events import Done, TextDelta
from toolbridge.runs.log import AHEAD, CHUNK, EventLog, Record, stored_after
from toolbridge.store.sqlite import SqliteStore


@pytest.fixture
async def store():
    kept = SqliteStore()
    yield kept
    await kept.close()


async def read(log: EventLog, after: int = 0) -> list[Record]:
    with log.follow(after) as reader:
        return [record async for batch in reader.batches() for record in batch]


async def reach(log: EventLog, last: int) -> None:
    """Wait until `last` events stand, then a little more: no further one may come."""
    while log.last < last:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.02)


async def write(log: EventLog, count: int) -> None:
    for n in range(1, count):
        await log.put(TextDelta(str(n)))
    await log.put(Done())


@pytest.mark.parametrize(
    "count", [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, AHEAD, AHEAD + CHUNK + 1, 1000]
)
async def test_a_reader_gets_every_event_once_in_order(store, count):
    log = EventLog("s", store)
    _, records = await asyncio.gather(write(log, count), read(log))
    assert [record.n for record in records] == list(range(1, count + 1))
    assert records[-1].name == "done"
    assert [record.data for record in records[:3][: count - 1]] == [
        f'{{"text":"{n}"}}'.encode() for n in range(1, min(count, 4))
    ]


@pytest.mark.req("TF-33")
async def test_a_writer_waits_when_128_events_are_unread(store):
    log = EventLog("s", store)
    writing = asyncio.create_task(write(log, 400))
    await reach(log, AHEAD)
    assert log.last == AHEAD
    with log.follow() as reader:
        batches = reader.batches()
        first = await anext(batches)
        await reach(log, AHEAD)
        assert log.last == AHEAD, "a batch that was not taken yet makes no room"
        await anext(batches)
        await reach(log, AHEAD + len(first))
        assert log.last == AHEAD + len(first)
    records = await read(log, after=3)
    await writing
    assert [record.n for record in records] == list(range(4, 401))


async def test_a_late_reader_gets_from_the_store_what_memory_has_forgotten(store):
    log = EventLog("s", store)
    await asyncio.gather(write(log, 2000), read(log))
    assert [record.n for record in await read(log, after=7)] == list(range(8, 2001))


async def test_a_slow_second_reader_does_not_stop_a_fast_one(store):
    log = EventLog("s", store)
    with log.follow() as slow:
        batches = slow.batches()
        writing = asyncio.create_task(write(log, 1500))
        first = await anext(batches)
        fast = await read(log)
        await writing
        rest = [record async for batch in batches for record in batch]
    assert len(fast) == 1500
    assert [*first, *rest] == fast


async def test_what_was_flushed_is_there_after_a_crash(store):
    log = EventLog("s", store)
    for n in range(CHUNK + 5):
        await log.put(TextDelta(str(n)))
    await log.flush()
    await log.put(TextDelta("never flushed"))
    records = [record async for batch in stored_after(store, "s", 2) for record in batch]
    assert [record.n for record in records] == list(range(3, CHUNK + 6))


async def test_the_end_of_a_run_needs_no_reader(store):
    log = EventLog("s", store)
    writing = asyncio.create_task(write(log, 400))
    await reach(log, AHEAD)
    log.unbind()
    await writing
    assert log.ended


async def test_events_that_the_store_has_lost_are_an_error_and_not_a_gap(store):
    log = EventLog("s", store)
    await asyncio.gather(write(log, 2000), read(log))
    await store.drop("s", "3")
    with pytest.raises(Truncated, match="no longer kept"):
        await read(log)


async def test_a_log_counts_who_follows(store):
    log = EventLog("s", store)
    with log.follow(), log.follow():
        assert log.readers == 2
    assert log.readers == 0
