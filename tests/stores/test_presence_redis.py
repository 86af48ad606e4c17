"""Processes of other machines: dead as soon as their connection ends, alive while they connect again."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
from redis.asyncio import Redis

from toolbridge.store import presence
from toolbridge.store.presence import Presence
from toolbridge.store.redis_server import RedisServer
from toolbridge.store.redis_store import RedisStore

FAR = """
import asyncio, sys
from toolbridge.store import presence
from toolbridge.store.redis_server import RedisServer
from toolbridge.store.redis_store import RedisStore
presence._machine = lambda: "another machine"
async def main():
    one = presence.Presence(RedisStore(RedisServer(sys.argv[1])))
    await one.begin()
    print(one.id, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture
def far(redis_url):
    process = subprocess.Popen(
        [sys.executable, "-c", FAR, redis_url], stdout=subprocess.PIPE, cwd=Path.cwd(), text=True
    )
    yield process, process.stdout.readline().strip()
    process.kill()
    process.wait()
    process.stdout.close()


async def test_a_process_of_another_machine_is_dead_when_its_connection_has_ended(far, redis_url):
    process, name = far
    store = RedisStore(RedisServer(redis_url))
    here = Presence(store)
    assert await here.is_alive(name)
    began = time.monotonic()
    process.kill()
    while await here.is_alive(name):  # noqa: ASYNC110  the server tells nobody
        await asyncio.sleep(0.01)
    # The lease alone would take at least 8 seconds.
    assert time.monotonic() - began < presence.LEASE / 2
    await store.close()


async def test_a_process_that_connects_again_is_alive_all_the_time(far, redis_url):
    _, name = far
    store = RedisStore(RedisServer(redis_url))
    here = Presence(store)
    async with Redis.from_url(redis_url) as client:
        for _ in range(3):
            while not (lease := await here._lease_of(name)).connection:  # it is being opened
                assert await here.is_alive(name)
            await client.client_kill_filter(_id=lease.connection)
            while await here._lease_of(name) == lease:
                assert await here.is_alive(name)
            assert await here.is_alive(name)
    await store.close()


async def test_without_the_right_to_list_connections_the_lease_decides(far, redis_url):
    process, name = far
    async with Redis.from_url(redis_url) as client:
        await client.execute_command("ACL", "SETUSER", "default", "-client|list", "-client")
        store = RedisStore(RedisServer(redis_url))
        here = Presence(store)
        process.kill()
        process.wait()
        assert await here.is_alive(name)
        await client.execute_command("ACL", "SETUSER", "default", "+client")
        assert not store.trouble
        await store.close()
