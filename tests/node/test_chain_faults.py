"""A chain that is away, slow, wrong or forgetful: nothing is paid twice, and nothing is lost."""

import sqlite3
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.node.deployed import HOSTS, MODEL_ID, NATIVE_PRICE, OWNER, PAYER, account
from tests.node.local_chain import CHAIN_ID, LocalChain
from tests.node.sessions import TEXT, told
from tests.node.stories import three_hosts, used
from tests.waiting import until

from toolbridge.core.errors import (
    ConfigError,
    Unreachable,
)
from toolbridge.node.chain import abi
from toolbridge.node.chain.client import Log, Receipt, hexed, word
from toolbridge.node.chain.contracts import SESSION_CREATED
from toolbridge.node.chain.reverts import Reverted
from toolbridge.node.chain.transaction import Transaction
from toolbridge.node.funding.context import job_of
from toolbridge.node.funding.jobs import FundingUnresolved
from toolbridge.node.provider import LEDGER

SEND = "eth_sendRawTransaction"
pytestmark = pytest.mark.usefixtures("quick_lag")


@pytest.fixture
def quick_lag(monkeypatch):
    monkeypatch.setattr("toolbridge.node.funding.resolving.LAG", 0.2)


@asynccontextmanager
async def stuck(home, chain: LocalChain, tmp_path, fault: str | None = None):
    """Yield a place whose payment was sent and is not part of the chain."""
    async with (
        three_hosts(home),
        home.provider(tmp_path, pay_wait=0.3, settle_after=60) as provider,
    ):
        chain.mining = False
        chain.faults[SEND] = [fault] if fault else []
        with pytest.raises(FundingUnresolved, match="0x"):
            await told(provider)
        yield provider


class TestUnresolved:
    """The fate of a payment is unknown; the next request finds out before anything is paid."""

    async def test_a_lost_answer_to_a_payment_that_was_made_costs_one_session(
        self, home, chain, tmp_path
    ):
        async with three_hosts(home), home.provider(tmp_path) as provider:
            chain.faults[SEND] = ["taken_in_silence"]
            assert (await told(provider)).text == TEXT
        assert await home.jobs() == 1

    @pytest.mark.parametrize("fault", [None, "taken_in_silence"])
    async def test_no_second_payment_follows_until_the_chain_has_told(
        self, home, chain, tmp_path, fault
    ):
        async with stuck(home, chain, tmp_path, fault) as provider:
            sent = len(chain.sent)
            for _ in range(2):
                with pytest.raises(FundingUnresolved):
                    await told(provider)
            assert len(chain.sent) == sent
            assert (await provider.balance()).unresolved == (chain.waiting[0].hash,)
            chain.mine()
            assert (await told(provider)).text == TEXT
            assert (await provider.balance()).unresolved == ()
        assert await home.jobs() == 1

    async def test_a_restart_knows_of_the_payment_and_uses_it(self, home, chain, tmp_path):
        async with three_hosts(home) as nodes:
            async with home.provider(tmp_path, pay_wait=0.3) as provider:
                chain.mining = False
                with pytest.raises(FundingUnresolved):
                    await told(provider)
            async with home.provider(tmp_path, pay_wait=0.3) as provider:
                with pytest.raises(FundingUnresolved):
                    await told(provider)
                chain.mine()
                assert (await told(provider)).text == TEXT
            assert used(nodes).inits[0]["inside"]["jobId"] == "1"
        assert await home.jobs() == 1

    async def test_a_payment_that_servers_forgot_is_sent_again_and_made_once(
        self, home, chain, tmp_path
    ):
        async with stuck(home, chain, tmp_path) as provider:
            chain.drop()
            chain.mining = True
            assert (await told(provider)).text == TEXT
        assert await home.jobs() == 1

    async def test_a_payment_whose_number_went_to_another_is_over_and_a_new_one_is_made(
        self, home, chain, tmp_path
    ):
        async with stuck(home, chain, tmp_path) as provider:
            chain.drop()
            chain.mining = True
            await home.act(PAYER, home.network.registry, "approveModel(bytes32)", MODEL_ID)
            assert (await told(provider)).text == TEXT
            assert (await provider.balance()).spent == 2 * 10**14
        assert await home.jobs() == 1

    async def test_an_unreachable_chain_frees_no_money(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path) as provider:
            chain.faults["*"] = ["down"] * 50
            with pytest.raises(Unreachable):
                await told(provider)
            chain.faults.clear()
            assert (await provider.balance()).spent == 2 * 10**14

    async def test_a_server_that_cannot_show_a_receipt_frees_no_money(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path) as provider:
            chain.drop()
            chain.mining = True
            await home.act(PAYER, home.network.registry, "approveModel(bytes32)", MODEL_ID)
            chain.faults["eth_getTransactionReceipt"] = ["null"]  # the first look finds nothing
            chain.faults["eth_getTransactionReceipt"] += ["down"] * 20
            sent = len(chain.sent)
            with pytest.raises(Unreachable):
                await told(provider)
            assert len(chain.sent) == sent
            chain.faults.clear()
            assert (await provider.balance()).spent == 2 * 10**14

    async def test_a_payment_that_failed_on_the_chain_is_free_again(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path) as provider:
            await self.pause(home, chain)
            with pytest.raises(Reverted, match="paused"):
                await told(provider)
            assert (await provider.balance()).spent == 0
        assert await home.jobs() == 0

    async def pause(self, home, chain):
        """Let the marketplace stop in the same block, before our payment comes."""
        waiting, chain.waiting = chain.waiting, []
        chain.mining = True
        await home.pause(True)
        chain.waiting = waiting
        chain.mine()

    async def test_a_payment_whose_job_is_over_by_then_is_not_used(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path) as provider:
            chain.mine()
            chain.mining = True
            await home.complete(PAYER, "1")
            assert (await told(provider)).text == TEXT
            assert await home.jobs() == 2

    async def test_a_job_that_was_paid_earlier_counts_by_what_was_paid(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path):
            pass
        chain.mine()
        chain.mining = True
        async with home.provider(tmp_path, deposit="0.001") as provider:
            job = await provider._paid.open()
        assert job.max_tokens == 2 * 10**14 * 1000 // NATIVE_PRICE

    async def test_a_payment_for_another_model_is_given_back_and_not_used(
        self, home, chain, tmp_path
    ):
        async with stuck(home, chain, tmp_path):
            pass
        chain.mine()
        chain.mining = True
        path = tmp_path / LEDGER
        with sqlite3.connect(path) as db:
            db.execute("update payments set model = 'ff'")
        db.close()
        async with three_hosts(home), home.provider(tmp_path) as provider:
            await home.register(HOSTS[0], "http://127.0.0.1:9")
            await provider._paid._resolve()
            await until(lambda: not provider._paid._tasks)
            assert (await home.session("1"))[12] == 1

    async def test_a_session_that_a_dead_process_left_is_settled_by_the_next(self, home, tmp_path):
        async with three_hosts(home):
            async with home.provider(tmp_path) as provider:
                await told(provider)
            with sqlite3.connect(tmp_path / LEDGER) as db:  # as if it had not even hung up
                db.execute("update payments set state = 'open'")
            db.close()
            async with home.provider(tmp_path) as provider:
                await told(provider)
                await until(lambda: not provider._paid._tasks)
                assert (await home.session("1"))[12] == 1
                assert (await provider.balance()).open_jobs == ("2",)

    async def test_what_another_process_works_on_is_left_alone(self, home, chain, tmp_path):
        async with stuck(home, chain, tmp_path) as first:
            chain.mining = True
            async with home.provider(tmp_path) as second:
                assert await second._paid._resolve() is None
                (left,) = await second.settle()
                assert "a running process uses it" in left.why
            assert (await first.balance()).unresolved

    async def test_a_job_that_another_process_works_on_is_not_ended(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path) as first:
            await told(first)
            async with home.provider(tmp_path) as second:
                (left,) = await second.settle()
                assert (left.job, "a running process uses it" in left.why) == ("1", True)
            assert (await home.session("1"))[12] == 0
            assert (await told(first)).text == TEXT

    async def test_a_receipt_without_our_job_is_unresolved(self, home, tmp_path, monkeypatch):
        async with three_hosts(home), home.provider(tmp_path) as provider:
            monkeypatch.setattr("toolbridge.node.funding.context.SESSION_CREATED", "Other()")
            with pytest.raises(FundingUnresolved, match="no SessionJobCreated log"):
                await told(provider)
            with pytest.raises(FundingUnresolved, match="no SessionJobCreated log"):
                await told(provider)
        assert await home.jobs() == 1

    async def test_only_our_own_log_names_the_job(self, home, tmp_path):
        async with home.provider(tmp_path) as provider:
            market, topic = home.network.marketplace, hexed(abi.topic(SESSION_CREATED))

            def log(job, who, provider=market, first=topic):
                topics = (first, word(job), word(account(who)), word(account(HOSTS[0])))
                return Log(provider, topics, b"", "0x")

            logs = [
                log(7, OWNER),
                log(8, PAYER, provider=home.network.registry),
                log(9, PAYER, first=hexed(abi.topic("Other()"))),
                Log(market, (topic, word(1)), b"", "0x"),
                log(12, PAYER),
            ]
            assert job_of(provider._context, Receipt("0x", True, tuple(logs), 0, 1)) == "12"
            with pytest.raises(FundingUnresolved):
                job_of(provider._context, Receipt("0x", True, tuple(logs[:-1]), 0, 1))


class TestSending:
    async def test_a_number_that_another_program_took_is_replaced(self, home, chain, tmp_path):
        async with three_hosts(home), home.provider(tmp_path) as provider:
            chain.faults[SEND] = ["nonce too low", "replacement transaction underpriced"]
            assert (await told(provider)).text == TEXT
            assert (await provider.balance()).spent == 2 * 10**14
        assert await home.jobs() == 1

    @pytest.mark.parametrize(
        ("words", "advice"),
        [
            ("insufficient funds for gas * price + value", "send ETH"),
            ("max fee per gas less than block base fee", "base fee has risen"),
            ("invalid chain id for signer", "check `rpc_url`"),
            ("nobody knows this word", "nobody knows this word"),
        ],
    )
    async def test_a_refusal_says_what_to_do_and_costs_nothing(
        self, home, chain, tmp_path, words, advice
    ):
        async with three_hosts(home), home.provider(tmp_path) as provider:
            chain.faults[SEND] = [words]
            with pytest.raises(Reverted, match=advice.replace("*", ".")):
                await told(provider)
            balance = await provider.balance()
            assert (balance.spent, balance.gas_spent, balance.unresolved) == (0, 0, ())
            assert (await told(provider)).text == TEXT
        assert await home.jobs() == 1

    async def test_a_number_that_is_always_taken_is_an_error(self, home, chain, tmp_path):
        async with three_hosts(home), home.provider(tmp_path) as provider:
            chain.faults[SEND] = ["nonce too low"] * 5
            with pytest.raises(Reverted, match="another program uses"):
                await told(provider)
            assert (await provider.balance()).spent == 0

    async def test_a_transaction_that_is_known_already_is_waited_for(self, home, chain, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, pay_wait=0.2) as provider:
            chain.faults[SEND] = ["already known"]
            with pytest.raises(FundingUnresolved):
                await told(provider)
            assert (await told(provider)).text == TEXT
        assert await home.jobs() == 1

    async def test_a_chain_that_goes_away_before_the_payment_keeps_no_money(
        self, home, chain, tmp_path
    ):
        async with three_hosts(home), home.provider(tmp_path) as provider:
            chain.faults["eth_estimateGas"] = ["down"]
            with pytest.raises(Unreachable, match="503"):
                await told(provider)
            assert (await provider.balance()).spent == 0
            assert (await told(provider)).text == TEXT

    async def test_a_disk_that_fails_stops_the_payment(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path / "state") as provider:
            (tmp_path / "state").write_text("a file where the directory should be")
            with pytest.raises(ConfigError, match="nothing is paid without it"):
                await told(provider)
        assert await home.jobs() == 0

    async def test_a_first_layer_takes_its_share(self, home, tmp_path):
        # code that answers every question with 1000: PUSH2 1000 PUSH1 0 MSTORE PUSH1 32 PUSH1 0 RETURN
        code = bytes.fromhex("6103e860005260206000f3")
        oracle = await home.deploy("600b80600b6000396000f3" + code.hex())
        async with home.provider(tmp_path) as provider:
            transaction = Transaction(CHAIN_ID, 0, oracle, b"", 0, 21_000, 10, 1)
            assert await provider._context.account.cost(transaction) == 210_000
            network = provider._context.chain.network
            provider._context.chain.network = msgspec.structs.replace(network, fee_oracle=oracle)
            assert await provider._context.account.cost(transaction) == 212_000
