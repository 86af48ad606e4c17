"""What every engine of the store does: values, claims and logs, over several processes."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from toolbridge.core.redaction import Redactor
from toolbridge.store.interface import READ_BYTES
from toolbridge.store.sqlite import SqliteStore

SECRET = b'{"said":"open-sesame"}'
MASKED = b'{"said":"[redacted]"}'


def memory(_):
    return lambda: SqliteStore(redactor=Redactor(["open-sesame"]))


def sqlite_file(path):
    return lambda: SqliteStore(path / "x.sqlite", redactor=Redactor(["open-sesame"]))


@pytest.fixture
async def stack():
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture(params=[memory, sqlite_file])
async def store(request, tmp_path, stack):
    store = request.param(tmp_path)()
    stack.push_async_callback(store.close)
    return store


@pytest.fixture(params=[sqlite_file])
async def stores(request, tmp_path, stack):
    """Two processes on one store."""
    make = request.param(tmp_path)
    both = make(), make()
    for store in both:
        stack.push_async_callback(store.close)
    return both


async def test_a_value_is_kept_replaced_and_dropped(store):
    assert await store.get("a", "k") is None
    await store.put("a", "k", b"1", seconds=60)
    await store.put("a", "k", b"2", seconds=60)
    await store.put("b", "k", b"3", seconds=60)
    assert (await store.get("a", "k"), await store.get("b", "k")) == (b"2", b"3")
    assert await store.drop("a", "k")
    assert not await store.drop("a", "k")
    assert await store.get("a", "k") is None


async def test_a_value_ends(store):
    await store.put("a", "k", b"1", seconds=0.01)
    assert await store.claim("a", "l", b"1", seconds=0.01) == (b"1", True)
    await store.append("a", "log", 1, [b"1"], seconds=0.01)
    await asyncio.sleep(0.05)
    assert await store.get("a", "k") is None
    assert not await store.replace("a", "l", b"1", b"3", seconds=60)
    assert await store.claim("a", "l", b"2", seconds=60) == (b"2", True)
    assert await store.read("a", "log", 0) == []


async def test_a_key_is_claimed_once(store):
    assert await store.claim("a", "k", b"1", seconds=60) == (b"1", True)
    assert await store.claim("a", "k", b"2", seconds=60) == (b"1", False)
    assert await store.claim("b", "k", b"2", seconds=60) == (b"2", True)
    assert await store.get("a", "k") == b"1"
    assert await store.drop("a", "k")
    assert await store.claim("a", "k", b"3", seconds=60) == (b"3", True)


async def test_a_value_is_replaced_only_if_it_is_the_expected_one(store):
    assert not await store.replace("a", "k", b"1", b"2", seconds=60)
    await store.claim("a", "k", b"1", seconds=60)
    assert not await store.replace("a", "k", b"0", b"2", seconds=60)
    assert await store.replace("a", "k", b"1", b"2", seconds=60)
    assert not await store.replace("a", "k", b"1", b"3", seconds=60)
    assert await store.get("a", "k") == b"2"


async def test_a_claim_with_a_secret_can_be_renewed_by_its_holder(store):
    await store.claim("a", "k", SECRET, seconds=60)
    assert await store.replace("a", "k", SECRET, SECRET, seconds=60)
    assert await store.get("a", "k") == SECRET


async def test_exactly_one_of_many_claims_and_takes_over(stores):
    claims = [stores[n % 2].claim("a", "k", b"%d" % n, seconds=60) for n in range(20)]
    done = await asyncio.gather(*claims)
    assert sum(new for _, new in done) == 1
    [held] = {value for value, _ in done}
    takes = [stores[n % 2].replace("a", "k", held, b"n%d" % n, seconds=60) for n in range(20)]
    assert sum(await asyncio.gather(*takes)) == 1
    assert await stores[0].get("a", "k") == await stores[1].get("a", "k") != held


async def test_what_another_process_changes_is_seen(stores):
    one, two = stores
    await one.put("a", "k", SECRET, seconds=60)
    assert (await one.get("a", "k"), await two.get("a", "k")) == (SECRET, MASKED)
    await two.put("a", "k", b"2", seconds=60)
    assert await one.get("a", "k") == b"2"
    await one.claim("b", "k", b"1", seconds=60)
    assert await two.drop("b", "k")
    assert await one.get("b", "k") is None
    assert await one.claim("b", "k", b"3", seconds=60) == (b"3", True)


async def test_a_log_is_read_from_any_number(store):
    await store.append("a", "log", 1, [b"1", b"2", b"3"], seconds=60)
    await store.append("a", "log", 4, [b"4"], seconds=60)
    assert await store.read("a", "log", 0) == [(1, b"1"), (2, b"2"), (3, b"3"), (4, b"4")]
    assert await store.read("a", "log", 2) == [(3, b"3"), (4, b"4")]
    assert await store.read("a", "log", 4) == await store.read("b", "log", 0) == []
    assert await store.drop("a", "log")
    assert await store.read("a", "log", 0) == []


async def test_entries_that_a_log_has_are_left_out(stores):
    one, two = stores
    await one.append("a", "log", 1, [b"1", b"2"], seconds=60)
    await one.append("a", "log", 1, [b"x", b"x"], seconds=60)
    await two.append("a", "log", 2, [b"x", b"3"], seconds=60)
    for store in stores:
        found = await store.read("a", "log", 0)
        found += await store.read("a", "log", found[-1][0])
        assert found == [(1, b"1"), (2, b"2"), (3, b"3")]


async def test_a_log_leaves_the_process_without_secrets_and_otherwise_as_it_is(stores):
    one, two = stores
    lines = [
        b'{ "a":1.0,\n"b": [] }',
        SECRET,
        b"data: {}\n\n",
        b"\xff\x00 open-sesame",
        b"",
        b"\xff",
    ]
    await one.append("a", "log", 1, lines, seconds=60)
    assert [entry for _, entry in await one.read("a", "log", 0)] == lines
    elsewhere = [entry for _, entry in await two.read("a", "log", 0)]
    assert elsewhere[:3] == [lines[0], MASKED, lines[2]]
    assert b"sesame" not in b"".join(elsewhere)
    assert elsewhere[4:] == lines[4:]


async def test_a_caller_redacts_a_log_as_a_whole(stores):
    one, two = stores
    await one.append("a", "log", 1, [b"open-", b"sesame"], seconds=60, redacted=list)
    assert await two.read("a", "log", 0) == []
    whole = [(1, b"[redacted]"), (2, b""), (3, b"!")]
    await one.append("a", "log", 3, [b"!"], seconds=60, redacted=lambda: whole)
    assert await two.read("a", "log", 0) == whole
    assert await one.read("a", "log", 0) == [(1, b"open-"), (2, b"sesame"), (3, b"!")]


async def test_a_reader_waits_for_an_entry_of_any_process(stores):
    one, two = stores
    for n, writer in enumerate((one, two), 1):
        waiting = [
            asyncio.create_task(reader.read("a", "log", n - 1, wait=30)) for reader in stores
        ]
        await asyncio.wait(waiting, timeout=0.1)
        assert not any(task.done() for task in waiting)
        await writer.append("a", "log", n, [b"x"], seconds=60)
        async with asyncio.timeout(20):
            assert await asyncio.gather(*waiting) == [[(n, b"x")]] * 2


async def test_a_reader_waits_no_longer_than_it_asks_for(store):
    async with asyncio.timeout(20):
        assert await store.read("a", "log", 0, wait=0.05) == []


async def test_a_long_log_is_read_in_parts(stores):
    one, _two = stores
    entry = b"x" * (READ_BYTES // 40)
    for first in range(1, 97, 32):
        await one.append("a", "log", first, [entry] * 32, seconds=60)
    for store in stores:
        first = await store.read("a", "log", 0)
        assert 32 <= len(first) < 96
        rest = await store.read("a", "log", first[-1][0])
        while rest[-1][0] < 96:
            rest += await store.read("a", "log", rest[-1][0])
        assert [n for n, _ in first + rest] == list(range(1, 97))


async def test_the_values_of_a_kind_are_those_of_all_processes(stores):
    one, two = stores
    assert await one.values("kind") == []
    await one.put("kind", "a", b"1", seconds=60)
    await two.put("kind", "b", SECRET, seconds=60)
    await two.put("kind", "c", b"3", seconds=60)
    await two.put("other", "d", b"4", seconds=60)
    await one.put("kind", "e", b"5", seconds=0.01)
    await two.drop("kind", "c")
    await asyncio.sleep(0.02)  # twice the life of the last value
    assert sorted(await one.values("kind")) == sorted(await two.values("kind")) == [b"1", MASKED]


async def test_a_store_in_memory_has_no_values_of_others(stack):
    store = SqliteStore()
    stack.push_async_callback(store.close)
    await store.put("kind", "a", b"1", seconds=60)
    assert await store.values("kind") == []
