"""The contract of the store on a real Redis or Valkey server, and what only a server does."""

import asyncio
import secrets

import pytest
from redis.asyncio import Redis
from tests.store.test_store import *  # noqa: F403  the contract of every engine
from tests.store.test_store import MASKED, SECRET

from toolbridge.core.redaction import Redactor
from toolbridge.store.redis_scripts import PREFIX
from toolbridge.store.redis_server import RedisServer
from toolbridge.store.redis_store import RedisStore


def redis_store(url, **given):
    return RedisStore(RedisServer(url), redactor=Redactor(["open-sesame"]), **given)


@pytest.fixture
async def clean(redis_url):
    client = Redis.from_url(redis_url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def store(redis_url, clean, stack):
    store = redis_store(redis_url)
    stack.push_async_callback(store.close)
    return store


@pytest.fixture
async def stores(redis_url, clean, stack):
    both = redis_store(redis_url), redis_store(redis_url)
    for store in both:
        stack.push_async_callback(store.close)
    return both


async def test_the_server_has_no_secrets_and_every_key_ends(store, clean):
    key = secrets.token_hex(8)
    await store.put("responses/ada", key, SECRET, seconds=60)
    await store.claim("idempotency/ada", key, SECRET, seconds=60)
    await store.append("stream/ada", key, 1, [SECRET, b"x"], seconds=60)
    names = [name async for name in clean.scan_iter()]
    assert names
    assert all(name.startswith(PREFIX.encode()) for name in names)
    for name in names:
        assert await clean.pttl(name) > 0, name
        assert key.encode() not in name
        assert b"sesame" not in await clean.dump(name)
    assert await store.get("responses/ada", key) == SECRET
    assert MASKED in await clean.get(next(n for n in names if b":v:responses" in n))


async def test_a_log_has_one_entry_for_each_batch(store, clean):
    for first in (1, 33):
        await store.append("stream/ada", "log", first, [b"x"] * 32, seconds=60)
    [name] = [name async for name in clean.scan_iter(f"{PREFIX}:l:*")]
    assert await clean.xlen(name) == 2


async def test_a_kind_is_bounded_in_bytes_and_others_stay(redis_url, clean, stack):
    store = redis_store(redis_url, size=80_000)
    stack.push_async_callback(store.close)
    await store.put("claim/x", "k", b"1", seconds=30)
    for n in range(100):
        await store.put("stream/x", str(n), b"x" * 1000, seconds=60 + n)
        await store.append("stream/x", f"log{n}", 1, [b"x" * 1000], seconds=60 + n)
    other = redis_store(redis_url)
    stack.push_async_callback(other.close)
    assert await other.get("stream/x", "0") is None
    assert await other.get("stream/x", "99") == b"x" * 1000
    assert await other.read("stream/x", "log0", 0) == []
    assert await other.get("claim/x", "k") == b"1"
    kept = [n async for n in clean.scan_iter(f"{PREFIX}:[vl]:stream:*")]
    assert 30 <= len(kept) <= 40
    await store.put("stream/x", "large", b"x" * 30_000, seconds=60)
    assert await other.get("stream/x", "large") is None


async def test_expired_values_leave_the_index(store, clean):
    for n in range(20):
        await store.put("a", str(n), b"x", seconds=0.05)
    await asyncio.sleep(0.1)
    for n in range(3):
        await store.put("a", f"new{n}", b"x", seconds=60)
    assert await clean.zcard(f"{PREFIX}:ends:a") == 3
    assert await clean.hget(f"{PREFIX}:sizes:a", "") == b"3"


async def test_sixty_readers_wait_at_the_same_time(stores):
    one, two = stores
    reading = [asyncio.create_task(two.read("a", f"log{n}", 0, wait=30)) for n in range(60)]
    await asyncio.wait(reading, timeout=0.2)
    for n in range(60):
        await one.append("a", f"log{n}", 1, [b"x"], seconds=60)
    async with asyncio.timeout(20):
        assert await asyncio.gather(*reading) == [[(1, b"x")]] * 60


async def test_a_unix_socket_works(redis_process, stack):
    store = redis_store(f"unix://:a-pass%2Fword%3A1@{redis_process.socket}?db=1")
    stack.push_async_callback(store.close)
    await store.put("a", "k", b"1", seconds=60)
    assert (await store.check(), await store.get("a", "k")) == ("", b"1")
