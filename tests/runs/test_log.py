"""Events are numbered, bounded, and the same for every reader, whenever they come."""

import asyncio

import pytest

from toolbridge.core.errors import Truncated
from toolbridge.core.json import loads
from toolbridge.core.redaction import MASK, Redactor
from toolbridge.runs.kept_events import Record, RunEventForm
from toolbridge.runs.log import EventLog, run_place
from toolbridge.store.interface import MOST_ENTRIES
from toolbridge.store.shared_log import AHEAD, BATCH_BYTES, stored_items
from toolbridge.store.sqlite import SqliteStore
from toolbridge.structured.events import RunDone, RunTextDelta


@pytest.fixture
async def store():
    kept = SqliteStore()
    yield kept
    await kept.close()


async def read(log: EventLog, after: int = 0) -> list[Record]:
    with log.follow(after) as reader:
        return [record async for batch in reader.batches() for _, record in batch]


async def reach(log: EventLog, last: int) -> None:
    """Wait until `last` events stand, then a little more: no further one may come."""
    while log.last < last:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.02)


async def write(log: EventLog, count: int) -> None:
    for n in range(1, count):
        await log.put(RunTextDelta(str(n)))
    await log.put(RunDone())


@pytest.mark.parametrize(
    "count",
    [1, 2, MOST_ENTRIES - 1, MOST_ENTRIES, MOST_ENTRIES + 1, AHEAD, AHEAD + MOST_ENTRIES + 1, 1000],
)
async def test_a_reader_gets_every_event_once_in_order(store, count):
    log = EventLog(run_place(store, "s", "r"))
    _, records = await asyncio.gather(write(log, count), read(log))
    assert [record.n for record in records] == list(range(1, count + 1))
    assert records[-1].name == "done"
    assert [record.data for record in records[:3][: count - 1]] == [
        f'{{"text":"{n}"}}'.encode() for n in range(1, min(count, 4))
    ]


@pytest.mark.req("TF-33")
async def test_a_writer_waits_when_128_events_are_unread(store):
    log = EventLog(run_place(store, "s", "r"))
    writing = asyncio.create_task(write(log, 400))
    await reach(log, 128)
    assert log.last == 128
    with log.follow() as reader:
        batches = reader.batches()
        first = await anext(batches)
        await reach(log, 128)
        assert log.last == 128, "a batch that was not taken yet makes no room"
        await anext(batches)
        await reach(log, 128 + len(first))
        assert log.last == 128 + len(first)
    records = await read(log, after=3)
    await writing
    assert [record.n for record in records] == list(range(4, 401))


async def test_a_late_reader_gets_from_the_store_what_memory_has_forgotten(store):
    log = EventLog(run_place(store, "s", "r"))
    await asyncio.gather(write(log, 2000), read(log))
    assert [record.n for record in await read(log, after=7)] == list(range(8, 2001))


async def test_a_slow_second_reader_does_not_stop_a_fast_one(store):
    log = EventLog(run_place(store, "s", "r"))
    with log.follow() as slow:
        batches = slow.batches()
        writing = asyncio.create_task(write(log, 1500))
        first = await anext(batches)
        fast = await read(log)
        await writing
        rest = [record async for batch in batches for _, record in batch]
    assert len(fast) == 1500
    assert [*(record for _, record in first), *rest] == fast


async def test_what_was_flushed_is_there_after_a_crash(store):
    log = EventLog(run_place(store, "s", "r"))
    for n in range(MOST_ENTRIES + 5):
        await log.put(RunTextDelta(str(n)))
    await log.flush()
    await log.put(RunTextDelta("never flushed"))
    records = await told(store, 2)
    assert [record.n for record in records] == list(range(3, MOST_ENTRIES + 6))


async def test_large_events_are_stored_in_batches_of_a_bounded_size(store, monkeypatch):
    sizes = []
    append = store.append

    async def noted(scope, key, first, entries, **more):
        sizes.append([len(entry) for entry in entries])
        await append(scope, key, first, entries, **more)

    monkeypatch.setattr(store, "append", noted)
    log = EventLog(run_place(store, "s", "r"))
    log.unbind()
    for count in range(1, 21):
        log.add(RunTextDelta("x" * 50_000))
        assert log.is_due == (count * 50_000 >= BATCH_BYTES)
    await log.put(RunDone())
    assert [record.n for record in await told(store, 0)] == list(range(1, 22))
    assert len(sizes) >= 20 * 50_000 // BATCH_BYTES
    assert all(sum(batch[:-1]) < BATCH_BYTES for batch in sizes)


async def test_the_end_of_a_run_needs_no_reader(store):
    log = EventLog(run_place(store, "s", "r"))
    writing = asyncio.create_task(write(log, 400))
    await reach(log, AHEAD)
    log.unbind()
    await writing
    assert log.ended


async def test_events_that_the_store_has_lost_are_an_error_and_not_a_gap(store):
    log = EventLog(run_place(store, "s", "r"))
    await asyncio.gather(write(log, 2000), read(log))
    await store.drop("stream/s", "r")
    with pytest.raises(Truncated, match="no longer kept"):
        await read(log)


async def test_a_log_counts_who_follows(store):
    log = EventLog(run_place(store, "s", "r"))
    with log.follow(), log.follow():
        assert log.readers == 2
    assert log.readers == 0


async def told(store, after=0):
    place, form = run_place(store, "s", "r"), RunEventForm(store.redactor)
    return [r async for batch in stored_items(place, form, after) for _, r in batch]


@pytest.mark.req("TF-50")
@pytest.mark.parametrize("size", [1, 3, 7, 50])
async def test_a_secret_that_was_cut_is_exact_in_memory_and_masked_in_the_file(tmp_path, size):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path, redactor=Redactor(["open-sesame"]))
    log = EventLog(run_place(store, "s", "r"))
    text = "first\n" * 20 + "the key sk_live_1234567890 opens open-sesame\nand more"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    exact = []
    with log.follow() as reader:
        for piece in pieces:
            log.advance(log.last)
            exact.append(await log.put(RunTextDelta(piece)))
            if len(exact) % 10 == 0:
                await log.flush()  # as before each tool
        log.advance(log.last)
        exact.append(await log.put(RunDone()))
        assert reader.cursor == 0
    assert await told(store) == exact
    await store.close()
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"1234567890" not in written
    again = SqliteStore(path)
    masked = await told(again)
    await again.close()
    assert [(record.n, record.name) for record in masked] == [(r.n, r.name) for r in exact]
    joined = "".join(loads(record.data)["text"] for record in masked[:-1])
    assert joined == text.replace("sk_live_1234567890", MASK).replace("open-sesame", MASK)


async def test_the_events_of_one_run_are_bounded_and_a_replay_says_so(tmp_path):
    path = tmp_path / "x.sqlite"
    store = SqliteStore(path)
    log = EventLog(run_place(store, "s", "r", 10_000))
    _, live = await asyncio.gather(write_wide(log), read(log))
    assert [record.n for record in live] == list(range(1, 301))
    for kept in (store, again := SqliteStore(path)):
        replay = await told(kept)
        assert [record.n for record in replay] == list(range(1, len(replay) + 1))
        assert 80 < len(replay) < 110
        assert [record.name for record in replay[-2:]] == ["error", "done"]
        assert loads(replay[-2].data)["code"] == "replay_truncated"
    with pytest.raises(Truncated):
        await read(log, after=len(replay))
    await store.close()
    await again.close()
    assert path.stat().st_size < 200_000


async def write_wide(log: EventLog) -> None:
    for _ in range(299):
        await log.put(RunTextDelta("x" * 90 + "\n"))
    await log.put(RunDone())


@pytest.mark.parametrize("count", [AHEAD + 65, 1000, 5000])
@pytest.mark.parametrize("pause", [False, True])
async def test_events_that_come_at_once_are_read_whether_they_are_stored_or_not(
    store, count, pause
):
    """A delivery of a provider may have more events than memory holds of read ones."""
    log = EventLog(run_place(store, "s", "r"))
    reading = asyncio.create_task(read(log))
    for n in range(1, count):
        log.add(RunTextDelta(str(n)))
        if pause and n % 300 == 0:
            await log.settle()
            await asyncio.sleep(0.005)
    await log.put(RunDone()) if pause else log.add(RunDone())
    late = await read(log)
    for records in (await reading, late):
        assert [record.n for record in records] == list(range(1, count + 1))
    await log.flush()
    assert [record.n for record in await read(log)] == list(range(1, count + 1))
    assert len(log._recent) <= AHEAD + 64, "what is stored leaves the memory"


async def test_a_slow_reader_of_a_log_that_is_too_long_does_not_fill_the_memory(store):
    log = EventLog(run_place(store, "s", "r", 10_000))
    with log.follow() as slow:
        batches = slow.batches()
        await asyncio.gather(write_wide(log), anext(batches), read(log))
        await log.flush()
        assert len(log._recent) <= AHEAD + 64
        with pytest.raises(Truncated):
            _ = [batch async for batch in batches]
