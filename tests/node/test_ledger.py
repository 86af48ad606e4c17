"""The limit of a day: held across time, restarts and processes."""

import asyncio
import multiprocessing
import os
import platform
import sqlite3
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from toolbridge.core.errors import ConfigError
from toolbridge.node.funding import ledger as ledger_module
from toolbridge.node.funding.ledger import DAY, Budget, Ledger, LimitReached, is_alive

ACCOUNT = "0x" + "ab" * 20
COIN = Budget("deposit", "0x" + "00" * 20, 1000, 2, "daily_limit")
GAS = Budget("gas", "0x" + "00" * 20, 50, 18, "daily_gas")


class Clock:
    def __init__(self, now=1_000_000.0):
        self.now = now

    def __call__(self):
        return self.now


def make(path: Path, clock=time.time, account=ACCOUNT, chain=1, **more):
    return Ledger(path / "ledger.sqlite", chain, account, clock=clock, **more)


async def test_no_more_is_set_aside_than_the_limit(tmp_path):
    book = make(tmp_path)
    await book.reserve(COIN, 600)
    with pytest.raises(
        LimitReached, match=r"^a payment of 5 would exceed `daily_limit`: 10 .*6 is spent"
    ):
        await book.reserve(COIN, 500)
    await book.reserve(COIN, 400)
    assert await book.spent(COIN) == 1000


async def test_the_limit_is_that_of_any_day_and_says_when_there_is_more(tmp_path):
    clock = Clock()
    book = make(tmp_path, clock)
    await book.reserve(COIN, 300)
    clock.now += 3600
    await book.reserve(COIN, 700)
    with pytest.raises(LimitReached) as caught:
        await book.reserve(COIN, 500)
    assert caught.value.problem.retry_after == DAY
    with pytest.raises(LimitReached) as caught:
        await book.reserve(COIN, 300)
    assert caught.value.problem.retry_after == DAY - 3600
    clock.now += DAY - 3600
    await book.reserve(COIN, 300)


async def test_more_than_the_limit_never_fits(tmp_path):
    with pytest.raises(LimitReached) as caught:
        await make(tmp_path).reserve(COIN, 1001)
    assert caught.value.problem.retry_after is None


async def test_a_clock_that_is_set_back_frees_nothing(tmp_path):
    clock = Clock()
    book = make(tmp_path, clock)
    await book.reserve(COIN, 1000)
    clock.now -= 10 * DAY
    with pytest.raises(LimitReached):
        await book.reserve(COIN, 1)


async def test_nothing_is_given_for_less_than_nothing(tmp_path):
    with pytest.raises(LimitReached):
        await make(tmp_path).reserve(COIN, -5)


async def test_what_came_back_may_be_spent_again(tmp_path):
    book = make(tmp_path)
    line = await book.reserve(COIN, 1000)
    await book.release(line, 30)
    assert await book.spent(COIN) == 30
    await book.reserve(COIN, 970)


async def test_purposes_chains_and_currencies_do_not_mix_but_accounts_do(tmp_path):
    book = make(tmp_path)
    await book.reserve(COIN, 1000)
    await book.reserve(GAS, 50)
    await make(tmp_path, chain=2).reserve(COIN, 1000)
    await book.reserve(Budget("deposit", "0x" + "AA" * 20, 1000, 6, "daily_limit"), 1000)
    with pytest.raises(LimitReached):
        await make(tmp_path, account="0x" + "cd" * 20).reserve(COIN, 1)


async def test_a_restart_forgets_nothing(tmp_path):
    first = make(tmp_path)
    line = await first.reserve(COIN, 900)
    await first.change(line, "sent", hash="0xaa", nonce=4, raw="02", host="0xbb", url="u",
                       public="03", price=str(2**100), model="ff")  # fmt: skip
    second = make(tmp_path)
    with pytest.raises(LimitReached):
        await second.reserve(COIN, 200)
    (payment,) = await second.find("sent")
    assert (payment.id, payment.amount, payment.hash, payment.nonce) == (line, 900, "0xaa", 4)
    assert (payment.price, payment.host, payment.url, payment.model) == (2**100, "0xbb", "u", "ff")
    assert not second.is_ours(payment)
    await first.leave()
    (payment,) = await second.find("sent")
    assert second.is_ours(payment)
    await second.take(line)
    (payment,) = await first.find("sent")
    assert not first.is_ours(payment)
    assert await make(tmp_path, account="0x" + "cd" * 20).find("sent") == []


async def test_who_never_paid_leaves_no_file(tmp_path):
    await make(tmp_path).leave()
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 700), st.booleans(), st.integers(0, 700)), max_size=12))
def test_whatever_is_asked_the_sum_stays_below_the_limit(tmp_path_factory, asked):
    async def story():
        book = make(tmp_path_factory.mktemp("ledger"))
        kept = 0
        for amount, over, cost in asked:
            try:
                line = await book.reserve(COIN, amount)
            except LimitReached:
                assert kept + amount > COIN.limit
                continue
            kept += amount
            if over:
                await book.release(line, min(cost, amount))
                kept += min(cost, amount) - amount
            assert await book.spent(COIN) == kept <= COIN.limit

    asyncio.run(story())


def _spend(path: str, results) -> None:
    async def all_of_it():
        book, taken = Ledger(Path(path), 1, ACCOUNT, wait=60), 0
        for _ in range(40):
            try:
                await book.reserve(COIN, 30)
            except LimitReached:
                break
            taken += 30
        return taken

    results.put(asyncio.run(all_of_it()))


def test_processes_that_spend_at_once_do_not_pass_the_limit_together(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    path = str(tmp_path / "ledger.sqlite")
    workers = [context.Process(target=_spend, args=(path, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    taken = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(10)
    results.close()
    assert sum(taken) == 990
    assert sum(share > 0 for share in taken) >= 1


@pytest.mark.parametrize("damage", ["directory", "garbage"])
async def test_a_ledger_that_cannot_be_used_stops_every_payment(tmp_path, damage):
    path = tmp_path / "ledger.sqlite"
    if damage == "directory":
        path.mkdir()
    else:
        path.write_bytes(b"this is no database, and it is long enough to be noticed" * 20)
    with pytest.raises(ConfigError, match="nothing is paid without it"):
        await make(tmp_path).reserve(COIN, 1)


async def test_a_lock_that_is_not_given_up_stops_the_payment(tmp_path):
    book = make(tmp_path, wait=0.05)
    await book.spent(COIN)
    other = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(ConfigError, match="locked"):
        await book.reserve(COIN, 1)
    other.close()


def test_only_the_owner_can_read_the_ledger(tmp_path):
    asyncio.run(make(tmp_path).spent(COIN))
    assert (tmp_path / "ledger.sqlite").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("owner", "alive"),
    [
        ("", False), (f"{ledger_module._PROCESS}:1", True), (f"{os.getpid()}:HERE:earlier:1", False),
        (f"{os.getppid()}:HERE:x:1", True), ("4194999:HERE:x:1", False), ("1:HERE:x:1", True),
        ("4194999:elsewhere:x:1", True), ("what", True),
    ],
    # Process numbers differ between the workers of one run, and names must not.
    ids=["nobody", "this process", "this number before", "the parent", "a number nobody has",
         "the first process", "elsewhere", "not an owner"],
)  # fmt: skip
def test_a_line_is_left_alone_while_somebody_looks_after_it(owner, alive):
    assert is_alive(owner.replace("HERE", platform.node()), time.time()) is alive


def test_nobody_looks_after_a_line_of_another_machine_for_longer_than_a_session():
    assert is_alive("4194999:elsewhere:x:1", time.time() - DAY + 60)
    assert not is_alive("4194999:elsewhere:x:1", time.time() - DAY - 60)
