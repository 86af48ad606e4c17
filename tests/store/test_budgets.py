"""What every engine of budgets does: exact over processes, leases that end, clocks that jump."""

import asyncio
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables import every_row

from toolbridge.accounting.limits_of_keys import Amounts, KeyLimit, KeyLimitReached, dollars
from toolbridge.store import StoreUnavailable
from toolbridge.store.budgets import LEASE, Reservation
from toolbridge.store.keys import new_key
from toolbridge.store.sqlite_budgets import SqliteBudgets

NOON = 1_794_830_400.0
ONE = Amounts(1, 100)
LEAST = Amounts(1, 30)


def key_with(*limits: KeyLimit, concurrency: int = 0):
    import msgspec

    record, _ = new_key("alice", 0.0)
    return msgspec.structs.replace(record, limits=limits, concurrency=concurrency)


DAILY = KeyLimit("tokens", 400, "day")

PROGRAM = """
import asyncio, sys
from pathlib import Path
import msgspec
from toolbridge.accounting.limits_of_keys import Amounts
from toolbridge.store.budgets import Reservation
from toolbridge.store.keys import KeyRecord

async def main():
    key = msgspec.msgpack.decode(bytes.fromhex(sys.argv[2]), type=KeyRecord)
    if "://" in sys.argv[1]:
        from toolbridge.store.redis_budgets import RedisBudgets
        from toolbridge.store.redis_server import RedisServer
        budgets = RedisBudgets(RedisServer(sys.argv[1]))
    else:
        from toolbridge.store.sqlite_budgets import SqliteBudgets
        budgets = SqliteBudgets(Path(sys.argv[1]))
    most, least = Amounts(1, 100), Amounts(1, 30)
    found = await asyncio.gather(*(budgets.reserve(key, most, least, 1794830400.0) for _ in range(20)))
    print(sum(isinstance(each, Reservation) for each in found), flush=True)
    sys.stdin.read()  # killed here

asyncio.run(main())
"""


@pytest.fixture
def place(tmp_path):
    """Where the budgets are: a file, or the URL of a server."""
    return tmp_path / "keys.sqlite"


@pytest.fixture
async def budgets(place):
    budgets = SqliteBudgets(place)
    yield budgets
    await budgets.close()


def _start(command: list[str]) -> subprocess.Popen:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


async def test_two_processes_admit_exactly_what_the_budget_has(place, budgets):
    import msgspec

    key = key_with(DAILY)
    given = [sys.executable, "-c", PROGRAM, str(place), msgspec.msgpack.encode(key).hex()]
    running = [_start(given) for _ in range(2)]
    try:
        admitted = [int(each.stdout.readline()) for each in running]
        assert sum(admitted) == 4
    finally:
        for each in running:
            each.kill()
            each.communicate()
    assert isinstance(await budgets.reserve(key, ONE, LEAST, NOON + LEASE - 1), KeyLimitReached)
    # The processes were killed: their leases end, and what is certain stays charged.
    (state,) = await budgets.states(key, NOON + LEASE + 1)
    assert (state.used, state.held) == (4 * 30, 0)


async def test_a_request_that_settles_after_its_lease_is_charged_once(budgets):
    key = key_with(DAILY)
    held = await budgets.reserve(key, ONE, LEAST, NOON)
    (state,) = await budgets.states(key, NOON + LEASE + 1)
    assert (state.used, state.held) == (30, 0)
    await budgets.settle(held, Amounts(0, 80), NOON + LEASE + 2)
    (state,) = await budgets.states(key, NOON + LEASE + 2)
    assert state.used == 80


async def test_what_costs_nothing_needs_no_dollars(budgets):
    key = key_with(KeyLimit("dollars", 10, "day"))
    paid = Amounts(1, 100, 10)
    held = await budgets.reserve(key, paid, LEAST, NOON)
    await budgets.settle(held, Amounts(0, 100, 12), NOON + 1)
    assert isinstance(await budgets.reserve(key, paid, LEAST, NOON + 2), KeyLimitReached)
    assert isinstance(await budgets.reserve(key, Amounts(1, 100, 0), LEAST, NOON + 2), Reservation)


async def test_a_renewed_lease_does_not_end(budgets):
    key = key_with(DAILY, concurrency=1)
    held = await budgets.reserve(key, ONE, LEAST, NOON)
    for seconds in range(20, 200, 20):
        await budgets.renew([held], NOON + seconds)
        (state,) = await budgets.states(key, NOON + seconds + 19)
        assert state.held == 100
        refused = await budgets.reserve(key, ONE, LEAST, NOON + seconds + 19)
        assert isinstance(refused, KeyLimitReached)
        assert refused.running == 1


async def test_a_jump_back_does_not_hold_a_dead_reservation_for_longer_than_a_lease(budgets):
    key = key_with(concurrency=1)
    year = 365 * 86_400
    assert isinstance(await budgets.reserve(key, ONE, LEAST, NOON + year), Reservation)
    assert isinstance(await budgets.reserve(key, ONE, LEAST, NOON), KeyLimitReached)
    assert isinstance(await budgets.reserve(key, ONE, LEAST, NOON + LEASE + 1), Reservation)


async def test_a_jump_back_gives_no_second_budget(budgets):
    key = key_with(KeyLimit("requests", 4, "day"))
    found = [await budgets.reserve(key, ONE, LEAST, NOON) for _ in range(4)]
    assert all(isinstance(each, Reservation) for each in found)
    for back in (1.0, 86_400.0, 40 * 86_400.0):
        refused = await budgets.reserve(key, ONE, LEAST, NOON - back)
        assert isinstance(refused, KeyLimitReached)
        assert refused.state.resets - (NOON - back) <= 86_400


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 150), st.integers(0, 150), st.booleans()), max_size=30))
def test_used_and_held_never_exceed_the_limit_unless_a_request_uses_more_than_it_reserved(steps):
    import tempfile
    from pathlib import Path

    async def play():
        with tempfile.TemporaryDirectory() as folder:
            budgets, key = SqliteBudgets(Path(folder) / "k"), key_with(DAILY)
            running: list[Reservation] = []
            charged = 0
            for most, used, ends in steps:
                found = await budgets.reserve(key, Amounts(1, most), Amounts(1, 0), NOON)
                held = sum(each.most.tokens for each in running)
                assert isinstance(found, Reservation) == (charged + held + most <= 400)
                if isinstance(found, Reservation):
                    running.append(found)
                if ends and running:
                    settled = running.pop(0)
                    real = min(used, settled.most.tokens)
                    await budgets.settle(settled, Amounts(0, real), NOON)
                    charged += real
                (state,) = await budgets.states(key, NOON)
                assert (state.used, state.held) == (charged, sum(r.most.tokens for r in running))
            await budgets.close()

    asyncio.run(play())


async def test_a_file_that_cannot_be_used_is_an_error_and_not_an_empty_budget(tmp_path):
    file = tmp_path / "k.sqlite"
    file.write_bytes(b"no database" * 999)
    budgets = SqliteBudgets(file)
    with pytest.raises(StoreUnavailable, match=r"k\.sqlite"):
        await budgets.reserve(key_with(DAILY), ONE, LEAST, NOON)
    await budgets.close()


@every_row(
    ("nanos", "text"),
    [(0, "$0.00"), (1, "$0.000000001"), (2_500_000_000, "$2.50"), (1_234_000_000_000, "$1,234.00")],
)
def test_money_is_shown_exactly(nanos, text):
    assert dollars(nanos) == text


@pytest.mark.parametrize("settled", ["not", "before", "after the lease"])
async def test_what_a_killed_process_held_is_settled_once(budgets, settled):
    """Another process settles it, and cannot know whether the killed one has done so."""
    key = key_with(DAILY)
    held = await budgets.reserve(key, ONE, LEAST, NOON)
    assert isinstance(held, Reservation)
    now = NOON
    if settled == "before":
        await budgets.settle(held, Amounts(0, 55), now)
    elif settled == "after the lease":
        now = NOON + LEASE + 1
        await budgets.states(key, now)
    for _ in range(2):
        await budgets.settle(held, Amounts(0, 50), now, only_held=True)
    (state,) = await budgets.states(key, now)
    assert (state.used, state.held) == (
        {"not": 50, "before": 55, "after the lease": LEAST.tokens}[settled],
        0,
    )
