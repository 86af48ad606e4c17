"""Budgets on a real Redis or Valkey server: the contract, and the same decisions as in SQLite."""

import asyncio
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.test_budgets import *  # noqa: F403  the contract of every engine
from tests.store.test_budgets import NOON, key_with

from toolbridge.accounting.limits_of_keys import Amounts, KeyLimit
from toolbridge.store.budgets import LEASE, Reservation
from toolbridge.store.redis_budgets import RedisBudgets
from toolbridge.store.redis_server import RedisServer
from toolbridge.store.sqlite_budgets import SqliteBudgets


@pytest.fixture
def place(redis_url):
    return redis_url


@pytest.fixture
async def budgets(redis_url):
    server = RedisServer(redis_url)
    yield RedisBudgets(server)
    await server.close()


LIMITS = st.lists(
    st.builds(
        KeyLimit,
        st.sampled_from(["requests", "tokens", "dollars"]),
        st.integers(1, 400),
        st.sampled_from(["minute", "day", "month"]),
    ),
    max_size=4,
    unique_by=lambda limit: (limit.what, limit.per),
)
AMOUNTS = st.builds(Amounts, st.just(1), st.integers(0, 150), st.integers(0, 10**13))
STEPS = st.tuples(
    st.sampled_from(["reserve", "settle", "renew", "states"]),
    st.one_of(st.floats(-100, 100), st.sampled_from([LEASE, 40 * 86_400.0, -3 * 86_400.0, 60.0])),
    AMOUNTS,
    AMOUNTS,
)


@settings(max_examples=80, deadline=None)
@given(LIMITS, st.integers(0, 2), st.lists(STEPS, max_size=25))
def test_the_same_steps_have_the_same_outcome_as_in_sqlite(redis_url, limits, concurrency, steps):
    limits = [
        msgspec.structs.replace(each, amount=each.amount * 10**10)
        if each.what == "dollars"
        else each
        for each in limits
    ]

    async def play():
        server, key = RedisServer(redis_url), key_with(*limits, concurrency=concurrency)
        with tempfile.TemporaryDirectory() as folder:
            engines = SqliteBudgets(Path(folder) / "k"), RedisBudgets(server)
            running: list[tuple[Reservation, ...]] = []
            now = NOON
            for what, later, most, used in steps:
                now += later
                least = Amounts(1, most.tokens // 2, most.dollars // 2)
                if what == "reserve":
                    found = [await each.reserve(key, most, least, now) for each in engines]
                    admitted = [isinstance(each, Reservation) for each in found]
                    assert admitted[0] == admitted[1], found
                    if admitted[0]:
                        running.append(tuple(found))
                    else:
                        assert found[0] == found[1]
                elif what == "settle" and running:
                    for engine, held in zip(engines, running.pop(0), strict=True):
                        await engine.settle(held, msgspec.structs.replace(used, requests=0), now)
                elif what == "renew":
                    for engine, held in zip(engines, zip(*running, strict=True), strict=False):
                        await engine.renew(list(held), now)
                states = [await each.states(key, now) for each in engines]
                assert states[0] == states[1]
            await engines[0].close()
        await server.close()

    asyncio.run(play())
