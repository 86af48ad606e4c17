"""What must hold on every chain: told once, run on the one in this process and on a real one."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from tests.node.deployed import (
    FAB,
    HOSTS,
    MODEL,
    MODEL_ID,
    NATIVE_PRICE,
    PAYER,
    STABLE_PRICE,
    Deployed,
    account,
)
from tests.node.server import Node, running
from tests.node.sessions import QUICK, TEXT, prompt, reading, told

from toolbridge.core.errors import ConfigError, Unreachable
from toolbridge.node.chain import abi
from toolbridge.node.chain.calls import SessionTerms
from toolbridge.node.chain.client import ReadCall
from toolbridge.node.chain.contracts import FUNCTIONS, NATIVE
from toolbridge.node.chain.reverts import Reverted, table
from toolbridge.node.funding.jobs import FundingUnresolved
from toolbridge.node.funding.ledger import LimitReached
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret

ETHER = 10**18
DEPOSIT = 2 * 10**14


@asynccontextmanager
async def three_hosts(home: Deployed):
    """Run three nodes and enter them into the registry, the later ones with more at stake."""
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(running(key=key)) for key in HOSTS]
        for n, (key, node) in enumerate(zip(HOSTS, nodes, strict=True)):
            await home.register(key, node.url, stake=(n + 1) * 1000 * FAB)
        yield nodes


def used(nodes: list[Node]) -> Node:
    (node,) = [node for node in nodes if node.inits]
    return node


async def created(home: Deployed, job: str) -> dict[str, abi.Value]:
    """Return a session as the marketplace keeps it, by name."""
    names = (
        "id", "depositor", "host", "token", "deposit", "price", "used", "duration", "started",
        "proved", "interval", "timeout", "status", "paid", "refunded",
    )  # fmt: skip
    return dict(zip(names, await home.session(job), strict=False))


class Discovery:
    @pytest.mark.req("CB-19")
    async def test_hosts_of_a_model_are_found_and_ranked(self, home, tmp_path):
        async with three_hosts(home) as nodes, home.provider(tmp_path) as provider:
            found = await provider.hosts()
            measured = await provider.hosts(measure=True)
        assert [one.address for one in found.candidates] == [account(key) for key in HOSTS[::-1]]
        assert [one.url for one in found.candidates] == [node.url for node in nodes[::-1]]
        assert [one.public for one in found.candidates] == [
            encryption.public_key(key) for key in HOSTS[::-1]
        ]
        # The time of an answer counts too, so a busy machine may rank them in another order.
        assert {one.address for one in measured.candidates} == {account(key) for key in HOSTS}
        assert all(0 < one.latency < 5 for one in measured.candidates)
        assert found.candidates[0].price == NATIVE_PRICE
        assert found.excluded == ()

    @pytest.mark.req("CB-19")
    async def test_a_model_that_nobody_serves_has_no_hosts(self, home, tmp_path):
        async with home.provider(tmp_path) as provider:
            with pytest.raises(Unreachable, match=r"^NO_HOSTS_AVAILABLE.*tiny-model"):
                await told(provider)

    async def test_a_host_that_cannot_be_used_is_named_with_the_reason(self, home, tmp_path):
        idle, poor, dear, elsewhere = HOSTS[0], HOSTS[1], HOSTS[2], Secret.from_hex("77" * 32)
        await home.register(idle, "http://127.0.0.1:9001")
        await home.set_active(idle, False)
        await home.register(poor, "http://127.0.0.1:9002", price=0)
        await home.register(dear, "http://127.0.0.1:9003", price=10**9)
        await home.register(elsewhere, "ftp://127.0.0.1")
        async with home.provider(tmp_path, price=10**8) as provider:
            found = await provider.hosts()
        why = {one.address: one.why for one in found.excluded}
        assert found.candidates == ()
        assert "not active" in why[account(idle)]
        assert "no price" in why[account(poor)]
        assert "exceeds `price`" in why[account(dear)]
        assert "URL" in why[account(elsewhere)]

    @pytest.mark.parametrize(
        "metadata",
        ["", "{}", "no json", "[1]", '{"publicKey": 5}', '{"publicKey": "0xzz"}',
         json.dumps({"publicKey": encryption.public_key(PAYER).hex()})],
        ids=["none", "empty", "garbage", "list", "number", "no hex", "somebody else's"],
    )  # fmt: skip
    async def test_a_key_that_is_missing_or_false_is_taken_from_a_transaction(
        self, home, tmp_path, metadata
    ):
        await home.register(HOSTS[0], "http://127.0.0.1:9000", metadata=metadata)
        async with home.provider(tmp_path) as provider:
            (found,) = (await provider.hosts()).candidates
        assert found.public == encryption.public_key(HOSTS[0])
        assert found.key_from == "transaction"

    async def test_one_host_is_asked_for_by_its_address(self, home, tmp_path):
        async with (
            three_hosts(home),
            home.provider(tmp_path, host=account(HOSTS[0]).lower()) as provider,
        ):
            (found,) = (await provider.hosts()).candidates
        assert found.public == encryption.public_key(HOSTS[0])

    async def test_a_host_that_is_not_registered_is_named(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, host=account(PAYER)) as provider:
            with pytest.raises(Unreachable, match=r"NO_HOSTS_AVAILABLE.*not registered"):
                await told(provider)

    async def test_many_questions_in_one_get_the_same_answers_as_one_by_one(self, home):
        for n, key in enumerate(HOSTS):
            await home.register(key, f"http://127.0.0.1:{n + 1}", stake=n * FAB, price=n * 1000)
        questions = [
            ReadCall(home.network.registry, "getModelPricing", (account(key), MODEL_ID, NATIVE))
            for key in HOSTS
        ]
        questions.append(ReadCall(home.network.registry, "getNodeFullInfo", (account(HOSTS[0]),)))
        together = await home.chain.read_many(questions)
        single = [await home.chain._read_one(question) for question in questions]
        assert isinstance(together[0], Reverted)
        assert str(together[0]) == str(single[0])
        assert together[1:] == single[1:]


class Money:
    @pytest.mark.req("CB-18")
    async def test_a_session_is_paid_used_ended_and_its_rest_comes_back(self, home, tmp_path):
        async with three_hosts(home) as nodes:
            before = await home.chain.balance(account(PAYER))
            async with home.provider(tmp_path, waits=QUICK) as provider:
                assert (await told(provider)).text == TEXT
                assert (await told(provider)).text == TEXT
                node = used(nodes)
                job = await created(home, "1")
                assert await home.jobs() == 1
            assert job == job | {
                "depositor": account(PAYER), "host": account(node.key), "token": NATIVE,
                "deposit": DEPOSIT, "price": NATIVE_PRICE, "duration": 86400, "interval": 100,
                "timeout": 3600, "status": 0,
            }  # fmt: skip
            assert await home.chain.read(home.network.marketplace, "sessionModel", 1) == [MODEL_ID]
            assert node.inits[0]["inside"]["jobId"] == "1"
            assert node.inits[0]["inside"]["modelName"] == MODEL
            assert node.inits[0]["outside"]["chain_id"] == 84532
            await home.prove(node.key, "1", 500)
            async with home.provider(tmp_path) as provider:
                (settled,) = await provider.settle()
                bill = 500 * NATIVE_PRICE // 1000
                assert (settled.job, settled.cost) == ("1", bill)
                assert settled.refund == DEPOSIT - bill
                assert (await provider.balance()).spent == bill
                gas = (await provider.balance()).gas_spent
                assert await provider.settle() == []
            assert await home.chain.balance(account(PAYER)) == before - bill - gas

    async def test_a_session_is_paid_with_a_token_and_no_more_is_allowed_than_that(
        self, home, tmp_path
    ):
        await home.mint(PAYER, 5_000_000)
        async with three_hosts(home) as nodes, home.provider(tmp_path, pay="token") as provider:
            for _ in range(2):
                assert (await told(provider)).text == TEXT
            job = await created(home, "1")
            assert (job["token"], job["deposit"]) == (abi_address(home.network.token), 500_000)
            assert job["price"] == STABLE_PRICE
            ours, market = account(PAYER), home.network.marketplace
            assert await home.chain.read(home.network.token, "allowance", ours, market) == [0]
            assert await home.chain.read(home.network.token, "balanceOf", ours) == [4_500_000]
            node = used(nodes)
        await home.prove(node.key, "1", 1000)
        await home.later(31)
        await home.complete(node.key, "1")
        async with home.provider(tmp_path, pay="token") as provider:
            (settled,) = await provider.settle()
            assert settled.transaction == ""  # the host was quicker
            assert settled.cost == 2000
            assert (await provider.balance()).token == 5_000_000 - 2000

    async def test_an_idle_session_costs_the_least_bill_when_we_end_it(self, home, tmp_path):
        async with three_hosts(home):
            async with home.provider(tmp_path) as provider:
                await told(provider)
            async with home.provider(tmp_path) as provider:
                (settled,) = await provider.settle()
        assert settled.transaction.startswith("0x")
        assert settled.cost == 100 * NATIVE_PRICE // 1000

    async def test_a_silent_host_is_passed_over_before_it_is_paid(self, home, tmp_path):
        async with running(key=HOSTS[0]) as node:
            await home.register(HOSTS[0], node.url, stake=FAB)
            await home.register(HOSTS[1], "http://127.0.0.1:9", stake=9000 * FAB)
            await home.register(HOSTS[2], "http://127.0.0.1:9", stake=9000 * FAB)
            async with home.provider(tmp_path) as provider:
                assert (await told(provider)).text == TEXT
            assert await home.jobs() == 1

    async def test_hosts_that_are_all_silent_cost_nothing(self, home, tmp_path):
        await home.register(HOSTS[0], "http://127.0.0.1:9")
        async with home.provider(tmp_path) as provider:
            with pytest.raises(Unreachable, match="NO_HOSTS_AVAILABLE"):
                await told(provider)
            assert (await provider.balance()).spent == 0
        assert await home.jobs() == 0

    async def test_a_plan_shows_what_would_be_sent_and_sends_nothing(self, home, tmp_path):
        await home.mint(PAYER, 5_000_000)
        async with three_hosts(home), home.provider(tmp_path, pay="token") as provider:
            before = await home.chain.nonce(account(PAYER))
            plan = await provider.plan()
            assert await home.chain.nonce(account(PAYER)) == before
        assert [call.function for call in plan.calls] == [
            "approve", "createSessionJobForModelWithToken",
        ]  # fmt: skip
        assert plan.calls[0].arguments == (home.network.marketplace, 500_000)
        signature, _ = FUNCTIONS[plan.calls[1].function]
        assert (
            plan.calls[1].data == "0x" + abi.encode_call(signature, plan.calls[1].arguments).hex()
        )
        assert plan.host.address in {account(key) for key in HOSTS}
        assert (plan.price, plan.deposit, plan.max_tokens) == (STABLE_PRICE, 500_000, 250_000)
        assert plan.gas > 0
        assert plan.warnings == ()

    async def test_a_plan_warns_of_everything_that_would_stop_it(self, home, tmp_path):
        await home.register(HOSTS[0], "http://127.0.0.1:9")
        await home.pause(True)
        await home.give(PAYER, 1000)
        async with home.provider(tmp_path) as provider:
            text = "\n".join((await provider.plan()).lines())
        for words in ("does not answer", "paused", "holds only 0.000000000000001 ETH"):
            assert words in text

    async def test_several_sessions_are_paid_side_by_side(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, sessions=3) as provider:
            told_all = await asyncio.gather(*(told(provider) for _ in range(3)))
            assert [message.text for message in told_all] == [TEXT] * 3
            assert await home.jobs() == 3
            assert len((await provider.balance()).open_jobs) == 3

    async def test_the_limit_of_a_day_is_not_passed(self, home, tmp_path):
        async with three_hosts(home):
            for expected in (1, 2):
                async with home.provider(
                    tmp_path, daily_limit="0.0005", settle_after=60
                ) as provider:
                    await told(provider)
                assert await home.jobs() == expected
            async with home.provider(tmp_path, daily_limit="0.0005", settle_after=60) as provider:
                with pytest.raises(LimitReached, match="`daily_limit`") as caught:
                    await told(provider)
                assert caught.value.problem.retry_after > 80_000
        assert await home.jobs() == 2

    async def test_gas_has_a_limit_too(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, daily_gas="0.00000001") as provider:
            with pytest.raises(LimitReached, match="`daily_gas`"):
                await told(provider)
            balance = await provider.balance()
        assert (balance.spent, balance.gas_spent) == (0, 0)
        assert await home.jobs() == 0

    async def test_a_host_that_raised_its_price_is_asked_again_at_the_new_one(self, home, tmp_path):
        async with three_hosts(home) as nodes, home.provider(tmp_path) as provider:
            funding = provider._paid
            order = await provider._finder.order()
            key = next(key for key in HOSTS if account(key) == order[0].address)
            await home.price(key, NATIVE, 2 * NATIVE_PRICE)
            job = await funding._pay_one(order)
            assert (await created(home, job.id))["host"] == order[1].address
        assert len(nodes) == 3


def abi_address(address: str) -> abi.Value:
    return abi.decode(["address"], abi.encode(["address"], [address]))[0]


WRONG = {
    "Low deposit": {"deposit": 10**13},
    "Over max": {"deposit": 1001 * ETHER},
    "Bad dur": {"duration": 366 * 86400},
    "Low interval": {"interval": 99},
    "Bad timeout": {"timeout": 59},
    "No model": {"model": bytes(32)},
}


class Refusals:
    @pytest.mark.parametrize("reason", WRONG)
    async def test_a_reason_comes_with_what_to_do(self, home, reason):
        await home.register(HOSTS[0], "http://127.0.0.1:9")
        await home.give(PAYER, 2000 * ETHER)
        await self.refused(home, reason, **WRONG[reason])

    async def test_a_host_that_cannot_work_is_explained(self, home):
        key = HOSTS[0]
        await self.refused(home, "No host reg")
        await home.register(key, "http://127.0.0.1:9", price=0)
        await self.refused(home, "No model pricing")
        await home.price(key, NATIVE, 2 * NATIVE_PRICE)
        await self.refused(home, "Low price")
        other = b"\1" * 32
        await home.act(key, home.network.registry, "approveModel(bytes32)", other)
        await self.refused(home, "Bad model", model=other)
        await home.set_active(key, False)
        await self.refused(home, "Host not active")
        await home.pause(True)
        await self.refused(home, "EnforcedPause")

    async def test_a_token_that_is_not_taken_or_not_there_is_explained(self, home):
        await home.register(HOSTS[0], "http://127.0.0.1:9")
        token = {"token": home.network.token, "deposit": 500_000}
        price = {"price": STABLE_PRICE}
        await self.refused(home, "Bad token", token=account(PAYER), deposit=1, **price)
        await self.refused(home, "Low deposit", token=home.network.token, deposit=1, **price)
        await self.refused(home, "ERC20: insufficient allowance", **token, **price)
        market = home.network.marketplace
        await home.act(PAYER, home.network.token, "approve(address,uint256)", market, 500_000)
        await self.refused(home, "ERC20: transfer amount exceeds balance", **token, **price)

    async def test_an_end_that_is_refused_is_explained(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, settle_after=60) as provider:
            await told(provider)
        await self.ending_refused(home, "Bad session", "9", PAYER)
        await self.ending_refused(home, "Not auth", "1", Secret.from_hex("99" * 32))
        address = (await home.session("1"))[2]
        host = next(key for key in HOSTS if account(key) == address)
        await self.ending_refused(home, "Wait dispute", "1", host)
        await home.complete(PAYER, "1")
        await self.ending_refused(home, "Not active", "1", PAYER)

    async def test_the_same_reasons_reach_the_client(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, deposit="0.00005") as provider:
            with pytest.raises(
                ConfigError, match=r"`deposit` is 0\.00005 ETH, below .* minimum of 0\.0001 ETH"
            ):
                await told(provider)
            await home.pause(True)
            with pytest.raises(Reverted, match="paused by its owners"):
                await told(provider)
            assert (await provider.balance()).spent == 0

    async def test_an_account_without_money_is_told_so(self, home, tmp_path):
        await home.give(PAYER, 1000)
        async with three_hosts(home), home.provider(tmp_path) as provider:
            with pytest.raises(Reverted, match="send ETH"):
                await told(provider)
            assert (await provider.balance()).spent == 0

    async def ending_refused(self, home, reason, job, key):
        call = SessionTerms(home.network.marketplace, MODEL_ID, "", 0, 18, 0, 0, 0).complete(job)
        with pytest.raises(Reverted) as caught:
            await home.chain.simulate(call.as_request(account(key)), call.function)
        assert caught.value.reason == reason
        assert caught.value.advice == table().reasons[reason]

    async def refused(self, home, reason, *, price=NATIVE_PRICE, **changes):
        given = {
            "model": MODEL_ID, "token": "", "deposit": DEPOSIT, "decimals": 18, "interval": 100,
            "duration": 86400, "timeout": 3600,
        } | changes  # fmt: skip
        terms = SessionTerms(home.network.marketplace, **given)
        call = terms.create(account(HOSTS[0]), price)
        with pytest.raises(Reverted) as caught:
            await home.chain.simulate(call.as_request(account(PAYER)), call.function)
        assert caught.value.reason == reason
        advice = table().reasons | {name.partition("(")[0]: t for name, t in table().errors.items()}
        assert caught.value.advice == advice[reason]
        assert advice[reason] in str(caught.value)


class Doubt:
    """A payment was sent, and nobody knows what became of it."""

    async def test_nothing_more_is_paid_until_the_chain_has_told(self, home, tmp_path):
        async with three_hosts(home), home.no_blocks():
            async with home.provider(tmp_path, pay_wait=0.6) as provider:
                for _ in range(2):
                    with pytest.raises(FundingUnresolved, match="0x"):
                        await told(provider)
                assert len((await provider.balance()).unresolved) == 1
            async with home.provider(tmp_path, pay_wait=0.6) as provider:  # after a restart
                with pytest.raises(FundingUnresolved):
                    await told(provider)
                await home.mine()
                assert (await _told_in_time(provider)).text == TEXT
                assert (await provider.balance()).spent == DEPOSIT
            assert await home.jobs() == 1

    async def test_what_the_chain_has_lost_is_sent_again_and_paid_once(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, pay_wait=0.6) as provider:
            async with home.no_blocks():
                with pytest.raises(FundingUnresolved):
                    await told(provider)
                await home.forget()
            assert await home.jobs() == 0
            assert (await _told_in_time(provider)).text == TEXT
            assert await home.jobs() == 1

    async def test_what_can_never_be_made_frees_its_money(self, home, tmp_path, monkeypatch):
        monkeypatch.setattr("toolbridge.node.funding.resolving.LAG", 0.2)
        async with three_hosts(home), home.provider(tmp_path, pay_wait=0.6) as provider:
            async with home.no_blocks():
                with pytest.raises(FundingUnresolved):
                    await told(provider)
                await home.forget()
            await home.act(PAYER, home.network.registry, "approveModel(bytes32)", MODEL_ID)
            assert (await _told_in_time(provider)).text == TEXT
            assert (await provider.balance()).spent == DEPOSIT
            assert await home.jobs() == 1


async def _told_in_time(provider):
    """Ask until the payment is resolved, as its error advises: a busy chain makes its block late."""
    async with asyncio.timeout(60):
        while True:
            with suppress(FundingUnresolved):
                return await told(provider)


class Talk:
    async def test_an_answer_can_be_left_in_the_middle(self, home, tmp_path):
        async with three_hosts(home) as nodes, home.provider(tmp_path, waits=QUICK) as provider:
            async with reading(provider.answer(prompt())) as batches:
                async for _ in batches:
                    break
            assert (await told(provider)).text == TEXT
            assert len(used(nodes).heard) == 2
            assert await home.jobs() == 1
