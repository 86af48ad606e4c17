"""How money comes back: one test per promise, and after each every coin is accounted for."""

import asyncio
import logging
import shutil
import sqlite3
from contextlib import asynccontextmanager, suppress

import pytest
from tests.node.accounts import truth
from tests.node.deployed import HOSTS, MODEL_ID, NATIVE_PRICE, PAYER, account
from tests.node.lying_rpc import lying_rpc
from tests.node.sessions import QUICK, TEXT, prompt, told
from tests.node.stories import DEPOSIT, three_hosts

from toolbridge.core.errors import ConfigError, Rejected, ToolbridgeError
from toolbridge.node.chain.amounts import ETH
from toolbridge.node.funding import book_totals
from toolbridge.node.funding.account import NonceRefused
from toolbridge.node.funding.caps import HardCap
from toolbridge.node.funding.jobs import FundingUnresolved
from toolbridge.node.funding.ledger import LimitReached
from toolbridge.node.provider import LEDGER

SEND = "eth_sendRawTransaction"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("toolbridge.node.funding.resolving.LAG", 0.1)


@pytest.fixture
async def whole(home):
    """Count every coin before and after."""
    since = await home.chain.block_number()
    before = await truth(home, since)
    yield
    assert (await truth(home, since)).total == before.total


pytestmark = pytest.mark.usefixtures("whole")


@asynccontextmanager
async def open_jobs(home, state, count):
    """Leave jobs behind that no process uses."""
    async with three_hosts(home) as nodes:
        for _ in range(count):
            async with home.provider(state, settle_after=60) as provider:
                await told(provider)
        yield nodes


async def settled(home, state, **more):
    async with home.provider(state, **more) as provider:
        return await provider.settle()


class TestSettle:
    @pytest.mark.parametrize("end", ["killed", "interrupted"])
    async def test_a_payment_of_a_process_that_ended_in_it_is_found_and_comes_back(
        self, home, chain, tmp_path, end
    ):
        async with three_hosts(home):
            chain.mining = False
            async with home.provider(tmp_path, pay_wait=5, waits=QUICK) as provider:
                asking = asyncio.ensure_future(told(provider))
                while not chain.waiting:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                asking.cancel()
                if end == "killed":  # nothing of it is recorded any more
                    shutil.copy(tmp_path / LEDGER, tmp_path / "copy")
            if end == "killed":
                shutil.move(tmp_path / "copy", tmp_path / LEDGER)
                release(tmp_path)
            (left,) = await settled(home, tmp_path)
            assert "no block includes it yet" in left.why
            assert "toolbridge node transactions --cancel 0x" in left.why
            chain.mining = True
            chain.mine()
            (done,) = await settled(home, tmp_path)
            assert (done.job, done.why, done.refund) == (
                "1",
                "",
                DEPOSIT - 100 * NATIVE_PRICE // 1000,
            )
            assert await settled(home, tmp_path) == []

    async def test_a_job_that_fails_does_not_stop_the_others(self, home, chain, tmp_path):
        async with open_jobs(home, tmp_path, 3):
            chain.faults[SEND] = ["insufficient funds"]
            first, *others = await settled(home, tmp_path)
            assert "insufficient funds" in first.why
            assert [one.why for one in others] == ["", ""]
            (done,) = await settled(home, tmp_path)
            assert (done.job, done.why) == (first.job, "")

    async def test_no_limit_stops_it(self, home, tmp_path):
        async with open_jobs(home, tmp_path, 1):
            async with home.provider(tmp_path) as provider:
                await provider.ledger().set_cap(ETH, HardCap(0, 0))
            tight = {"daily_gas": "0.000000000000000001"}
            (done,) = await settled(home, tmp_path, **tight)
            assert done.why == ""
            async with home.provider(tmp_path, **tight) as provider:
                with pytest.raises(LimitReached):
                    await told(provider)

    async def test_a_job_is_shown_in_its_own_currency(self, home, tmp_path):
        await home.mint(PAYER, 5_000_000)
        async with three_hosts(home):
            async with home.provider(tmp_path, pay="token", settle_after=60) as provider:
                await told(provider)
            (done,) = await settled(home, tmp_path)  # which pays in the chain's coin
        assert done.currency.address.lower() == home.network.token.lower()
        assert done.currency.format(done.refund).startswith("0.4998 ")

    @pytest.mark.parametrize("lie", ["", "short ranges"])
    async def test_a_lost_state_directory_loses_no_job(self, home, chain, tmp_path, lie):
        async with open_jobs(home, tmp_path / "lost", 3), lying_rpc(chain.url) as liar:
            liar.lies = {lie}
            found = await settled(home, tmp_path / "new", rpc_url=liar.url)
            assert sorted(one.job for one in found) == ["1", "2", "3"]
            assert [one.why for one in found] == ["", "", ""]
            assert await settled(home, tmp_path / "new") == []
        async with home.provider(tmp_path / "new") as provider:
            (total,) = book_totals.totals(await provider.ledger().entries())
        assert (total.paid, total.jobs, total.open) == (3 * DEPOSIT, 3, 0)

    async def test_logs_that_cannot_be_read_are_said(self, home, chain, tmp_path):
        async with open_jobs(home, tmp_path, 1):
            chain.faults["eth_getLogs"] = ["no logs for you"] * 40
            found = await settled(home, tmp_path)
        assert [one.job for one in found] == ["", "1"]
        assert "jobs that the ledger lacks cannot be found" in found[0].why

    async def test_jobs_of_another_machine_are_taken_over_when_its_lease_ends(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, settle_after=60) as provider:
            await told(provider)
            (held,) = await settled(home, tmp_path)
            assert "a running process uses it" in held.why
            execute(tmp_path, "update leases set until = 0, process = 'another machine'")
            (done,) = await settled(home, tmp_path)
            assert (done.job, done.why) == ("1", "")

    async def test_what_was_billed_is_compared_with_what_was_delivered(self, home, tmp_path):
        async with three_hosts(home) as nodes:
            async with home.provider(tmp_path, settle_after=60) as provider:
                assert (await told(provider)).text == TEXT
            node = next(node for node in nodes if node.inits)
            await home.prove(node.key, "1", 5000)
            (done,) = await settled(home, tmp_path)
            assert (done.billed, done.delivered, done.overbilled) == (5000, 3, True)
            async with home.provider(tmp_path) as provider:
                found = await provider.hosts()
            (why,) = [one.why for one in found.excluded if one.address == account(node.key)]
            assert "it billed 5000 tokens for job 1 and delivered 3" in why

    async def test_a_usual_bill_is_accepted(self, home, tmp_path):
        async with three_hosts(home) as nodes:
            async with home.provider(tmp_path, settle_after=60) as provider:
                await told(provider)
            node = next(node for node in nodes if node.inits)
            await home.prove(node.key, "1", 100)
            (done,) = await settled(home, tmp_path)
        assert (done.billed, done.overbilled) == (100, False)


def execute(state, statement):
    db = sqlite3.connect(state / LEDGER)
    with db:
        db.execute(statement)
    db.close()


def release(state):
    """Let a process be over whose ledger was copied."""
    execute(state, "delete from leases")


class TestWithdraw:
    async def test_balances_in_the_marketplace_come_back(self, home, tmp_path):
        market, token = home.network.marketplace, home.network.token
        await home.mint(PAYER, 700_000)
        await home.act(PAYER, market, "depositNative()", value=10**15)
        await home.act(PAYER, token, "approve(address,uint256)", market, 700_000)
        await home.act(PAYER, market, "depositToken(address,uint256)", token, 700_000)
        async with home.provider(tmp_path, daily_gas="0.000000000000000001") as provider:
            assert (await provider.balance()).deposited == 10**15
            found = [one async for one in (await provider.recovery()).withdraw()]
            assert [(one.amount, one.why) for one in found] == [(10**15, ""), (700_000, "")]
            assert [one async for one in (await provider.recovery()).withdraw()] == []
            rows = await provider.ledger().entries()
        assert [row.amount for row in rows if row.kind == "withdrawal"] == [10**15, 700_000]
        assert await home.chain.read(token, "balanceOf", account(PAYER)) == [700_000]

    async def test_one_that_fails_does_not_stop_the_other(self, home, chain, tmp_path):
        market, token = home.network.marketplace, home.network.token
        await home.mint(PAYER, 700_000)
        await home.act(PAYER, market, "depositNative()", value=10**15)
        await home.act(PAYER, token, "approve(address,uint256)", market, 700_000)
        await home.act(PAYER, market, "depositToken(address,uint256)", token, 700_000)
        async with home.provider(tmp_path) as provider:
            chain.faults[SEND] = ["max fee per gas less than block base fee"]
            first, second = [one async for one in (await provider.recovery()).withdraw()]
        assert "base fee has risen" in first.why
        assert second.why == ""


@asynccontextmanager
async def stuck(home, chain, state):
    """Yield the hash of a payment that no block includes."""
    async with three_hosts(home), home.provider(state, pay_wait=0.2, settle_after=60) as provider:
        chain.mining = False
        with pytest.raises(FundingUnresolved):
            await told(provider)
        (one,) = await (await provider.recovery()).transactions()
        yield provider, one.row.hash


class TestStuckTransactions:
    async def test_its_fee_is_raised_and_it_is_paid_once(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path) as (provider, hash):
            recovery = await provider.recovery()
            raised = await recovery.raise_fee(hash)
            chain.mine()
            chain.mining = True
            assert chain.sent[raised].receipt["status"] == "0x1"
            assert (await told(provider)).text == TEXT
            assert await recovery.transactions() == []
            rows = await provider.ledger().entries()
        assert await home.jobs() == 1
        assert [row.hash for row in rows if row.kind in {"payment", "gas"}] == [raised, raised]

    async def test_a_fee_is_raised_tenfold_at_most(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path) as (provider, first):
            recovery, hash = await provider.recovery(), first
            for _ in range(10):  # each time a quarter more
                hash = await recovery.raise_fee(hash)
            with pytest.raises(ConfigError, match="10 times"):
                await recovery.raise_fee(hash)
            fees = [int.from_bytes(one.fields[3], "big") for one in chain.waiting]
            assert fees[0] <= 10 * 2_100_000
            chain.mine()
            chain.mining = True
            assert (await told(provider)).text == TEXT

    async def test_it_is_cancelled_and_its_money_is_free(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path) as (provider, hash):
            recovery = await provider.recovery()
            cancelled = await recovery.cancel(hash)
            chain.mine()
            chain.mining = True
            assert chain.sent[cancelled].receipt["status"] == "0x1"
            (freed,) = await provider.settle()
            assert (freed.job, freed.why, freed.refund) == ("", "", DEPOSIT)
            assert (await provider.balance()).spent == 0
            assert await recovery.transactions() == []
        assert await home.jobs() == 0

    async def test_one_whose_nonce_was_used_elsewhere_is_forgotten(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path) as (provider, hash):
            recovery = await provider.recovery()
            with pytest.raises(ConfigError, match="can still be included"):
                await recovery.forget(hash)
            chain.drop()
            chain.mining = True
            await home.act(PAYER, home.network.registry, "approveModel(bytes32)", MODEL_ID)
            assert "another transaction has used its nonce" in await recovery.forget(hash)
            assert (await provider.balance()).spent == 0
            with pytest.raises(ConfigError, match="no transaction"):
                await recovery.forget(hash)

    async def test_a_missing_one_before_it_is_filled(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path) as (provider, hash):
            chain.mine()
            chain.mining = True
            await home.act(PAYER, home.network.registry, "approveModel(bytes32)", MODEL_ID)
            chain.mining = False
            with pytest.raises(FundingUnresolved):
                await provider._paid._pay_one(await provider._finder.order())
            chain.rollback(1)  # the one before it is lost
            recovery = await provider.recovery()
            second = next(row for row in await recovery.transactions() if row.row.hash != hash)
            assert "before it" in second.state
            await recovery.cancel(second.row.hash)
            chain.mine()
            chain.mining = True
            assert [one.why for one in await provider.settle() if one.why] == []
            assert await recovery.transactions() == []


class TestNonces:
    async def test_a_nonce_far_above_the_chains_is_refused(self, home, chain, tmp_path):
        async with three_hosts(home), lying_rpc(chain.url) as liar:
            async with home.provider(tmp_path, rpc_url=liar.url) as provider:
                liar.lies = {"nonce far ahead"}
                with pytest.raises(NonceRefused, match="far above"):
                    await told(provider)
                assert (await provider.balance()).spent == 0
                liar.lies = set()
                assert (await told(provider)).text == TEXT
            assert len((await truth(home)).open_jobs) == 1

    async def test_one_lie_does_not_brick_the_wallet(self, home, chain, tmp_path):
        async with (
            three_hosts(home),
            lying_rpc(chain.url) as liar,
            home.provider(tmp_path, rpc_url=liar.url, pay_wait=0.2) as provider,
        ):
            liar.lies = {"every nonce far ahead"}
            with pytest.raises((FundingUnresolved, Rejected)):
                await told(provider)
            liar.lies = set()
            assert (await told(provider)).text == TEXT
            assert (await provider.balance()).spent == DEPOSIT
        assert await home.jobs() == 1

    async def test_a_jump_beyond_what_is_known_is_refused(self, home, chain, tmp_path):
        async with (
            three_hosts(home),
            lying_rpc(chain.url) as liar,
            home.provider(tmp_path, rpc_url=liar.url, pay_wait=0.2) as provider,
        ):
            await told(provider)
            liar.lies = {"every nonce far ahead"}
            with pytest.raises(NonceRefused):
                await provider._paid._pay_one(await provider._finder.order())


class TestReorganisations:
    async def test_a_session_whose_payment_vanished_stops(self, home, chain, tmp_path, caplog):
        async with three_hosts(home), home.provider(tmp_path, settle_after=60) as provider:
            await told(provider)
            before = [one.job for one in await provider.ledger().find("open")]
            chain.rollback(1)
            assert await home.jobs() == 0
            await provider._paid.check_payments()
            assert "has vanished from the chain; its session stops" in caplog.text
            assert (await told(provider)).text == TEXT  # the same payment is sent again
            assert [one.job for one in await provider.ledger().find("open")] == before
            assert await home.jobs() == 1

    async def test_a_payment_counts_after_its_confirmations(self, home, chain, tmp_path):
        more = {"confirmations": 3, "pay_wait": 0.2, "settle_after": 60}
        async with three_hosts(home), home.provider(tmp_path, **more) as provider:
            for _ in range(2):  # its own block is the first
                with pytest.raises(FundingUnresolved, match=r"3 confirmations|no block includes"):
                    await told(provider)
                chain.mine()
            assert (await told(provider)).text == TEXT
        assert await home.jobs() == 1

    async def test_a_job_that_vanished_before_it_was_settled_frees_its_money(
        self, home, chain, tmp_path
    ):
        async with open_jobs(home, tmp_path, 1):
            chain.rollback(1)
            await home.act(PAYER, home.network.registry, "approveModel(bytes32)", MODEL_ID)
            (freed,) = await settled(home, tmp_path)
            assert (freed.why, freed.refund) == ("", DEPOSIT)
            async with home.provider(tmp_path) as provider:
                assert (await provider.balance()).spent == 0


class TestPrices:
    async def test_a_host_at_a_huge_price_is_refused_and_the_next_is_paid(self, home, tmp_path):
        async with three_hosts(home) as nodes:
            dear = HOSTS[2]  # it has the highest stake
            await home.price(dear, "0x" + "00" * 20, 4 * 10**8 * NATIVE_PRICE)
            async with home.provider(tmp_path) as provider:
                found = await provider.hosts()
                assert [one.address for one in found.excluded] == [account(dear)]
                assert (await told(provider)).text == TEXT
            assert not nodes[2].inits

    async def test_denied_hosts_are_not_paid(self, home, tmp_path):
        denied = [account(key) for key in HOSTS[1:]]
        async with three_hosts(home) as nodes, home.provider(tmp_path, deny=denied) as provider:
            await told(provider)
            assert [bool(node.inits) for node in nodes] == [True, False, False]

    async def test_gas_above_the_deposit_is_warned_of(self, home, chain, tmp_path, caplog):
        chain.base_fee = 10**9
        async with three_hosts(home), home.provider(tmp_path, settle_after=60) as provider:
            plan = await provider.plan()
            assert any("more than the deposit" in text for text in plan.warnings)
            await told(provider)
        assert "more than the deposit of 0.0002 ETH" in caplog.text
        chain.base_fee = 10**6


class TestHardCap:
    async def test_a_lying_server_cannot_make_us_exceed_it(self, home, chain, tmp_path):
        async with three_hosts(home), lying_rpc(chain.url) as liar:
            more = {"rpc_url": liar.url, "pay_wait": 0.2, "daily_limit": "1", "settle_after": 60}
            async with home.provider(tmp_path, **more) as provider:
                await provider.ledger().set_cap(ETH, HardCap(3 * DEPOSIT + 10**13, DEPOSIT))
            for lie in ("payments failed", "no receipts", "payments refused") * 3:
                liar.lies = {lie}
                async with home.provider(tmp_path, waits=QUICK, **more) as provider:
                    with suppress(ToolbridgeError):
                        await told(provider, prompt())
            assert 1 <= await home.jobs() <= 3
            liar.lies = set()
            found = await settled(home, tmp_path)
            assert [one.why for one in found] == [""] * len(found)
            assert (await truth(home)).open_jobs == ()


class TestBooks:
    async def test_every_movement_is_one_row_and_one_line(self, home, tmp_path, caplog):
        caplog.set_level(logging.INFO, "toolbridge.node")
        async with open_jobs(home, tmp_path, 2):
            await settled(home, tmp_path)
        async with home.provider(tmp_path) as provider:
            rows = await provider.ledger().entries()
        kinds = [row.kind for row in rows]
        assert {kind: kinds.count(kind) for kind in kinds} == {
            "payment": 2, "gas": 4, "claim": 2, "refund": 2,
        }  # fmt: skip
        for row in rows:
            assert row.hash.startswith("0x")
            if row.kind != "gas":
                assert (row.host.startswith("0x"), row.job) == (True, row.job)
                assert row.job in {"1", "2"}
        lines = [line for line in caplog.messages if " of 0." in line]
        assert len(lines) == len(rows)
        assert all(" ETH" in line for line in lines)
        (total,) = book_totals.totals(rows)
        now = await truth(home)
        assert (total.paid, total.refunded, total.claimed) == (
            now.deposits, now.refunded, now.billed,
        )  # fmt: skip
        assert (total.open, total.withdrawn) == (0, 0)
