"""Who is alive: by the lease, wherever the process is, and at once on the same machine."""

import asyncio
import subprocess
import sys

import msgspec
import pytest

from toolbridge.store import presence
from toolbridge.store.presence import Presence
from toolbridge.store.sqlite import SqliteStore


@pytest.fixture
async def stores(tmp_path):
    made = [SqliteStore(tmp_path / "x.sqlite") for _ in range(2)]
    yield made
    for one in made:
        await one.close()


async def test_a_process_is_alive_while_it_has_work_and_a_moment_longer(stores, monkeypatch):
    monkeypatch.setattr(presence, "LEASE", 2.0)
    one, two = (Presence(store) for store in stores)
    assert not await two.is_alive(one.id)
    await one.begin()
    for _ in range(6):  # longer than a lease
        assert await two.is_alive(one.id)
        await asyncio.sleep(0.4)
    one.end()
    while await two.is_alive(one.id):  # noqa: ASYNC110  the store tells nobody
        await asyncio.sleep(0.02)
    await one.begin()
    assert await two.is_alive(one.id)
    await one.close()
    assert not await two.is_alive(one.id)
    await two.close()


async def test_a_killed_process_of_the_same_machine_is_dead_before_its_lease_ends(stores):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)  # noqa: ASYNC220
    two = Presence(stores[1])
    held = msgspec.msgpack.encode(presence._Lease(presence._machine(), process.pid))
    await stores[0].put("processes", "there", held, seconds=60.0)
    assert await two.is_alive("there")
    process.kill()
    for _ in range(1000):  # its parent has not asked how it ended
        if not await two.is_alive("there"):
            break
        await asyncio.sleep(0.01)
    assert not await two.is_alive("there")
    process.wait()
    process.stdin.close()
    assert not await two.is_alive("there")
    elsewhere = msgspec.msgpack.encode(presence._Lease("another machine", process.pid))
    await stores[0].put("processes", "far", elsewhere, seconds=60.0)
    assert await two.is_alive("far")
    await two.close()
