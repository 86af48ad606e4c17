"""The limit of a day: held across time, restarts and processes."""

import asyncio
import multiprocessing
import os
import sqlite3
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from toolbridge.core.errors import ConfigError
from toolbridge.node.chain.amounts import Currency
from toolbridge.node.chain.transaction import Transaction, sign
from toolbridge.node.funding import leases
from toolbridge.node.funding.caps import HardCap
from toolbridge.node.funding.journal import Journal, NonceTaken, Sending
from toolbridge.node.funding.ledger import DAY, Budget, Ledger, LimitReached
from toolbridge.node.protocol.encryption import Secret

ACCOUNT = "0x" + "ab" * 20
COIN = Budget("deposit", Currency("0x" + "11" * 20, 4, "COIN"), 1000, "daily_limit")
OTHER = Currency("0x" + "AA" * 20, 6, "OTHER")
GAS = Budget("gas", COIN.currency, 50, "daily_gas")


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
        LimitReached,
        match=r"^a payment of 0.05 COIN would exceed `daily_limit`: 0.1 COIN .*0.06 COIN is spent",
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
    await book.reserve(Budget("deposit", OTHER, 1000, "daily_limit"), 1000)
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
    assert payment.held_until > time.time()
    await first.leave()
    (payment,) = await second.find("sent")
    assert not payment.held_until
    await second.take(line)
    (payment,) = await first.find("sent")
    assert payment.held_until > time.time()
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
        worker.join(20)
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


class TestLeases:
    """A process that has crashed loses its payments; one that runs keeps them, wherever it is."""

    async def held(self, other):
        (payment,) = await other.find("sent")
        return payment.held_until

    async def sent(self, tmp_path, clock):
        book = make(tmp_path, clock)
        await book.change(await book.reserve(COIN, 1), "sent")
        return book

    async def test_a_lease_ends_unless_it_is_extended(self, tmp_path):
        clock = Clock()
        book, other = await self.sent(tmp_path, clock), make(tmp_path, clock)
        for _ in range(3):
            clock.now += leases.LEASE - 1
            assert await self.held(other)
            await book.beat()
        clock.now += leases.LEASE + 1
        assert not await self.held(other)

    async def test_a_process_of_another_machine_is_known_by_its_lease_alone(self, tmp_path):
        clock = Clock()
        _book, other = await self.sent(tmp_path, clock), make(tmp_path, clock)
        for process in ("4194999 1 another kernel", "", "what"):
            self.rename(tmp_path, process)
            assert await self.held(other)
        clock.now += leases.LEASE + 1
        assert not await self.held(other)

    async def test_a_process_of_this_machine_that_has_ended_loses_its_lease_at_once(self, tmp_path):
        _book, other = await self.sent(tmp_path, Clock()), make(tmp_path, Clock())
        place = leases._place()
        self.rename(tmp_path, f"4194999 1 {place}")
        assert not await self.held(other)
        self.rename(tmp_path, f"{os.getpid()} 1 {place}")  # the number was used before
        assert not await self.held(other)
        self.rename(tmp_path, leases._process())
        assert await self.held(other)

    async def test_a_clock_that_is_set_back_does_not_lengthen_a_lease(self, tmp_path):
        clock = Clock()
        _book, other = await self.sent(tmp_path, clock), make(tmp_path, clock)
        clock.now -= DAY
        assert not await self.held(other)

    def rename(self, tmp_path, process):
        db = sqlite3.connect(tmp_path / "ledger.sqlite")
        db.execute("update leases set process = ?", (process,))
        db.commit()
        db.close()


class TestCaps:
    """What no file, flag or variable can raise."""

    async def test_a_job_above_the_cap_is_refused(self, tmp_path):
        book = make(tmp_path)
        rich = Budget("deposit", COIN.currency, 10**9, "daily_limit")
        with pytest.raises(
            LimitReached, match=r"5\.0001 COIN exceeds the hard cap .* 5 COIN per job"
        ):
            await book.reserve(rich, 50_001)
        await book.set_cap(COIN.currency, HardCap(10**9, 60_000))
        await book.reserve(rich, 50_001)

    async def test_the_cap_counts_deposits_and_gas_of_all_chains(self, tmp_path):
        book = make(tmp_path)
        await book.set_cap(COIN.currency, HardCap(500, 400))
        rich = Budget("deposit", COIN.currency, 10**9, "daily_limit")
        await book.reserve(rich, 300)
        await make(tmp_path, chain=2).reserve(GAS, 50)
        with pytest.raises(LimitReached, match="hard cap of `toolbridge node limit`"):
            await make(tmp_path, chain=3).reserve(rich, 151)
        await make(tmp_path, chain=3).reserve(rich, 150)
        other = make(tmp_path, account="0x" + "cd" * 20)
        await other.reserve(rich, 300)  # another key has its own cap

    async def test_what_was_signed_counts_even_if_it_is_reported_to_have_come_back(self, tmp_path):
        book = make(tmp_path)
        await book.set_cap(COIN.currency, HardCap(500, 400))
        line = await book.reserve(COIN, 300)
        await Journal(book).write(signed(), Sending("create", line))
        await book.release(line, 0)
        assert (await book.spent(COIN), await book.capped(COIN.currency)) == (0, 300)
        with pytest.raises(LimitReached, match="hard cap"):
            await book.reserve(COIN, 201)

    async def test_what_was_never_signed_does_not_count(self, tmp_path):
        book = make(tmp_path)
        await book.release(await book.reserve(COIN, 300), 0)
        assert await book.capped(COIN.currency) == 0

    async def test_money_comes_back_whatever_the_limits_are(self, tmp_path):
        book = make(tmp_path)
        await book.set_cap(COIN.currency, HardCap(0, 0))
        with pytest.raises(LimitReached):
            await book.reserve(GAS, 1)
        await book.reserve(GAS, 10**6, limited=False)


def signed(nonce=1):
    return sign(Transaction(1, nonce, ACCOUNT, b"", 0, 21_000, 10, 1), Secret.from_hex("33" * 32))


async def test_what_a_dead_process_set_aside_and_did_not_sign_is_free(tmp_path):
    clock = Clock()
    book, other = make(tmp_path, clock), make(tmp_path, clock)
    await book.reserve(COIN, 100)
    gas = await book.reserve(GAS, 7)
    await Journal(book).write(signed(), Sending("approve", 0, gas))
    await other.release_unsigned()
    assert await other.spent(COIN) == 100
    clock.now += leases.LEASE + 1
    await other.release_unsigned()
    assert (await other.spent(COIN), await other.spent(GAS)) == (0, 7)


async def test_delivered_tokens_are_counted_per_job(tmp_path):
    book = make(tmp_path)
    for job in ("1", "2"):
        await book.change(await book.reserve(COIN, 1), "open", job=job)
    await book.delivered("1", 5)
    await book.delivered("1", 7)
    await book.delivered("2", -3)
    assert [one.delivered for one in await book.find("open")] == [12, 0]


async def test_a_ledger_of_the_first_version_is_used_on(tmp_path):
    db = sqlite3.connect(tmp_path / "ledger.sqlite")
    db.execute(
        "create table payments (id integer primary key, at real not null, chain integer not null, "
        "account text not null, market text not null, purpose text not null, currency text not null, "
        "amount text not null, state text not null, nonce integer not null default -1, "
        "raw text not null default '', hash text not null default '', job text not null default '', "
        "model text not null default '', host text not null default '', url text not null default '', "
        "public text not null default '', price text not null default '0', "
        "owner text not null default '', touched real not null)"
    )
    db.execute(
        "insert into payments (at, chain, account, market, purpose, currency, amount, state, job, "
        "owner, touched) values (?, 1, ?, '', 'deposit', ?, '400', 'open', '9', '77:host:x:1', ?)",
        (time.time(), ACCOUNT, COIN.currency.address, time.time()),
    )
    db.commit()
    db.close()
    book = make(tmp_path)
    (payment,) = await book.find("open")
    assert (payment.job, payment.amount, payment.held_until, payment.delivered) == ("9", 400, 0, 0)
    assert await book.spent(COIN) == 400


@pytest.mark.parametrize("outcome", ["pending", "included"])
async def test_the_same_transaction_is_not_two_payments(tmp_path, outcome):
    one, other = make(tmp_path), make(tmp_path)
    first, second = await one.reserve(COIN, 1), await other.reserve(COIN, 1)
    await Journal(one).write(signed(), Sending("create", first))
    await Journal(one).close(signed().hash, outcome)
    with pytest.raises(NonceTaken):
        await Journal(other).write(signed(), Sending("create", second))
    await Journal(other).write(signed(nonce=2), Sending("create", second))
