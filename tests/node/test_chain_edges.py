"""The rarer turns of finding, paying and settling."""

import asyncio
import logging

import msgspec
import pytest
from aiohttp import web
from tests.node.deployed import HOSTS, MODEL_ID, PAYER, account, deployed
from tests.node.server import HOST, running
from tests.node.sessions import LOCAL, QUICK, TEXT, told
from tests.node.stories import DEPOSIT, three_hosts
from tests.tables import every_row
from tests.waiting import until

from toolbridge.core.errors import BrokenWire, ConfigError, ToolbridgeError, Unreachable
from toolbridge.node.chain import abi
from toolbridge.node.chain.calls import SessionTerms
from toolbridge.node.chain.client import number, unhexed
from toolbridge.node.chain.reverts import Reverted
from toolbridge.node.chain.rpc import Rpc, RpcRejected, _rejection
from toolbridge.node.funding.jobs import FundingUnresolved, Host, Job
from toolbridge.node.funding.settling import _state
from toolbridge.node.hosts.candidates import ExcludedHost
from toolbridge.node.hosts.probing import HostProber, HostSilent
from toolbridge.node.hosts.registry import _read
from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret
from toolbridge.node.provider import NodeProvider
from toolbridge.node.settings import read_settings

OWN_CHAIN = {
    "network": "", "rpc_url": "http://127.0.0.1:8545", "chain_id": 1,
    "marketplace": "0x" + "11" * 20, "registry": "0x" + "22" * 20,
}  # fmt: skip

SEND = "eth_sendRawTransaction"


class TestPaying:
    async def test_a_payment_that_fails_while_it_is_waited_for_is_explained(
        self, home, chain, tmp_path
    ):
        async with three_hosts(home), home.provider(tmp_path, waits=QUICK) as provider:
            asked = asyncio.create_task(self.paid_in_a_paused_market(home, chain, provider))
            with pytest.raises(Reverted, match="paused by its owners"):
                await asked
            balance = await provider.balance()
            assert balance.spent == 0
            assert balance.gas_spent > 0
        assert await home.jobs() == 0

    async def paid_in_a_paused_market(self, home, chain, provider):
        chain.mining = False
        task = asyncio.create_task(told(provider))
        await until(lambda: chain.waiting)
        waiting, chain.waiting = chain.waiting, []
        chain.mining = True
        await home.pause(True)
        chain.waiting = waiting
        chain.mine()
        return await task

    async def test_a_failure_that_cannot_be_explained_is_told_all_the_same(
        self, home, chain, tmp_path
    ):
        async with three_hosts(home), home.provider(tmp_path) as provider:
            call = provider._context.terms.complete("1")
            chain.faults["eth_call"] = ["down"]
            assert "try again" in str(await provider._context.account._why(call))

    @pytest.mark.parametrize("fault", ["insufficient funds", "down", "already known"])
    async def test_sending_again_decides_nothing_by_itself(self, home, chain, tmp_path, fault):
        async with three_hosts(home), home.provider(tmp_path, pay_wait=0.2) as provider:
            chain.mining = False
            with pytest.raises(FundingUnresolved):
                await told(provider)
            chain.faults[SEND] = [fault]
            with pytest.raises(FundingUnresolved):
                await told(provider)
            assert (await provider.balance()).spent == DEPOSIT
            chain.mine()
            assert (await told(provider)).text == TEXT
        assert await home.jobs() == 1

    async def test_a_server_that_stumbles_while_a_payment_is_awaited_is_asked_again(
        self, home, chain, tmp_path
    ):
        async with three_hosts(home), home.provider(tmp_path) as provider:
            chain.faults["eth_getTransactionReceipt"] = ["down", "garbage", "busy"]
            assert (await told(provider)).text == TEXT
        assert await home.jobs() == 1

    async def test_an_approval_that_fails_costs_no_deposit(self, home, chain, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, pay="token") as provider:
            chain.faults[SEND] = ["max fee per gas less than block base fee"]
            with pytest.raises(Reverted, match=r"^the call approve was rejected"):
                await told(provider)
            assert (await provider.balance()).spent == 0

    async def test_too_little_of_a_token_is_said_in_the_plan_and_in_the_payment(
        self, home, tmp_path
    ):
        await home.mint(PAYER, 1000)
        async with three_hosts(home), home.provider(tmp_path, pay="token") as provider:
            assert any(
                "holds only 0.001 token 0x" in text for text in (await provider.plan()).warnings
            )
            with pytest.raises(Reverted, match="too little of the token"):
                await told(provider)
            assert (await provider.balance()).spent == 0

    async def test_a_plan_says_that_the_limit_would_be_passed(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, daily_limit="0.0003") as provider:
            await told(provider)
            assert "the deposit would exceed `daily_limit`" in (await provider.plan()).warnings

    async def test_hosts_that_all_raised_their_prices_are_named(self, home, tmp_path):
        async with running(key=HOSTS[0]) as node:
            await home.register(HOSTS[0], node.url)
            async with home.provider(tmp_path) as provider:
                order = await provider._finder.order()
                await home.set_active(HOSTS[0], False)
                with pytest.raises(Reverted, match="Host not active"):
                    await provider._paid._pay_one(order)
                assert (await provider.balance()).spent == 0

    @pytest.mark.parametrize(
        ("terms", "least", "words"),
        [
            ({"token": account(PAYER)}, 0, "accepts no deposits in the token"),
            ({"deposit": 99}, 100, "minimum of 0.0000000000000001"),
            ({"deposit": 10**6, "interval": 10**6}, 1, "of 1000000 tokens costs"),
        ],
    )
    def test_a_deposit_that_would_be_refused_is_not_sent(self, terms, least, words):
        given = {
            "marketplace": "", "model": MODEL_ID, "token": "", "deposit": 10**15, "decimals": 18,
            "interval": 100, "duration": 1, "timeout": 60,
        } | terms  # fmt: skip
        with pytest.raises(ConfigError, match=words):
            SessionTerms(**given).check(least, 3_000_000)


class TestSettling:
    async def test_a_job_of_another_marketplace_is_left_alone(self, home, chain, tmp_path):
        async with three_hosts(home):
            async with home.provider(tmp_path) as provider:
                await told(provider)
            async with deployed(chain.url) as other, three_hosts(other):
                async with other.provider(tmp_path) as provider:
                    await told(provider)
                async with other.provider(tmp_path) as provider:
                    assert [done.job for done in await provider.settle()] == ["1"]
            assert (await home.session("1"))[12] == 0
            async with home.provider(tmp_path) as provider:
                assert [done.job for done in await provider.settle()] == ["1"]
            assert (await home.session("1"))[12] == 1

    async def test_a_host_that_settles_in_the_same_moment_is_no_failure(self, home, tmp_path):
        async with three_hosts(home):
            async with home.provider(tmp_path) as provider:
                await told(provider)
            async with home.provider(tmp_path) as provider:
                (payment,) = await provider._paid.settler.left_behind()
                await home.complete(PAYER, "1")
                assert await provider._paid.settler._complete(payment.job) == ""
                (done,) = await provider.settle()
                assert done.transaction == ""

    async def test_an_end_that_fails_is_told_and_tried_again(self, home, chain, tmp_path, caplog):
        caplog.set_level(logging.INFO, "toolbridge.node")
        async with three_hosts(home), home.provider(tmp_path) as provider:
            await told(provider)
            (session,) = provider._pool._sessions
            chain.faults[SEND] = ["insufficient funds"]
            await provider._paid.close(session._job)
            await self.quiet(provider)
            assert "job 1 is not settled yet" in caplog.text
            assert "refund of 0.00019" in caplog.text
            assert await provider.settle() == []
            await provider._paid.close(Job("99", Host("", b""), "m"))  # of which it knows nothing

    async def test_a_payment_of_another_account_is_named_with_the_next_command(
        self, home, tmp_path
    ):
        async with three_hosts(home):
            async with home.provider(tmp_path) as provider:
                await told(provider)
            async with home.provider(tmp_path) as provider:
                provider._context.account.address = account(HOSTS[0])  # somebody who may not end it
                (left,) = await provider.settle()
                assert "has no SessionJobCreated log" in left.why
                assert "`toolbridge node transactions`" in left.why

    async def test_a_disk_that_fails_at_the_end_is_a_warning(self, home, tmp_path, caplog):
        async with three_hosts(home), home.provider(tmp_path / "s") as provider:
            await told(provider)
            (session,) = provider._pool._sessions
            (tmp_path / "s").rename(tmp_path / "gone")
            (tmp_path / "s").write_text("no directory")
            await provider._paid.close(session._job)
            await self.quiet(provider)
        assert "is not recorded in the ledger" in caplog.text

    async def quiet(self, provider):
        await until(lambda: not provider._paid._tasks)


class TestPlaces:
    async def test_a_host_that_is_known_in_full_needs_no_chain(self, tmp_path):
        async with running() as node:
            given = {
                "model": "a:b",
                "host_url": node.url,
                "host_key": encryption.public_key(HOST).hex(),
            }
            async with NodeProvider(read_settings(given), state=tmp_path, waits=QUICK) as provider:
                assert (await told(provider)).text == TEXT
                with pytest.raises(ConfigError, match="needs a chain"):
                    await provider.hosts()
        assert list(tmp_path.iterdir()) == []
        assert node.inits[0]["outside"]["chain_id"] == 84532

    async def test_without_a_key_hosts_can_be_looked_at_and_nothing_else(self, home, tmp_path):
        async with three_hosts(home), home.provider(tmp_path, wallet=None) as provider:
            assert len((await provider.hosts()).candidates) == 3
            for refused in (told(provider), provider.plan(), provider.balance(), provider.settle()):
                with pytest.raises(ConfigError, match="private key"):
                    await refused
        assert list(tmp_path.iterdir()) == []

    async def test_a_place_that_is_not_open_answers_nothing(self, home, tmp_path):
        with pytest.raises(RuntimeError, match="not open"):
            await told(home.provider(tmp_path))
        with pytest.raises(RuntimeError, match="not open"):
            await HostProber(LOCAL).latency("http://127.0.0.1:9")
        with pytest.raises(RuntimeError, match="not open"):
            await Rpc("http://127.0.0.1:9").ask("eth_chainId")

    @pytest.mark.parametrize(
        ("more", "allowed"),
        [
            ({}, False),
            ({"private_hosts": True}, True),
            ({"rpc_url": "http://127.0.0.1:8545"}, False),  # the registry is everyone's
            (OWN_CHAIN, True),
        ],
    )
    def test_hosts_in_the_users_own_network_are_called_only_when_that_is_meant(
        self, tmp_path, more, allowed
    ):
        provider = NodeProvider(read_settings({"model": "a:b"} | more), state=tmp_path)
        assert provider._search().requirements.access.private is allowed

    async def test_the_fastest_host_is_one_that_answers(self, home, tmp_path):
        async with running(key=HOSTS[0]) as node:
            await home.register(HOSTS[0], node.url)
            await home.register(HOSTS[1], "http://127.0.0.1:9", stake=10**22)
            async with home.provider(tmp_path, mode="fastest") as provider:
                (only,) = await provider._finder.order()
                assert only.url == node.url
                found = await provider.hosts(measure=True)
        (silent,) = found.excluded
        assert silent.address == account(HOSTS[1])
        assert "cannot be reached" in silent.why

    async def test_a_key_that_the_user_gives_is_used(self, home, chain, tmp_path):
        await home.register(HOSTS[0], "http://127.0.0.1:9", metadata="{}")
        key = encryption.public_key(HOSTS[0]).hex()
        chosen = {"host": account(HOSTS[0]), "host_key": key}
        async with home.provider(tmp_path, **chosen) as provider:
            (found,) = (await provider.hosts()).candidates
        assert found.key_from == "settings"
        assert "eth_getLogs" not in chain.asked

    async def test_ten_hosts_are_enough_and_few_keys_are_searched_for(self, home, chain, tmp_path):
        known = [Secret.from_hex(f"{n:02x}" * 32) for n in range(1, 13)]
        for n, key in enumerate(known):
            await home.register(key, "http://127.0.0.1:9", stake=10**18 * n)
        unknown = [Secret.from_hex(f"{n:02x}" * 32) for n in range(32, 44)]
        for key in unknown:
            await home.register(key, "http://127.0.0.1:9", stake=10**22, metadata="{}")
        chain.logs.clear()
        async with home.provider(tmp_path) as provider:
            found = await provider.hosts()
            searches = chain.asked.count("eth_getLogs")
            again = await provider.hosts()
        assert [one.address for one in found.candidates] == [account(k) for k in known[:1:-1]]
        assert {one.address for one in found.excluded} == {account(key) for key in unknown}
        assert searches == 2 * 10
        assert again == found

    async def test_a_host_without_any_transaction_has_no_key(self, home, chain, tmp_path):
        await home.register(HOSTS[0], "http://127.0.0.1:9", metadata="{}")
        chain.logs.clear()
        async with home.provider(tmp_path) as provider:
            assert (await provider.hosts()).candidates == ()
            chain.faults["eth_getLogs"] = ["too many blocks"]
            assert "cannot be verified" in (await provider.hosts()).excluded[0].why
            with pytest.raises(Unreachable, match=r"NO_HOSTS_AVAILABLE.*cannot be verified"):
                await told(provider)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": "healthy"}, ""),
        ({"status": "degraded"}, ""),
        ({"status": "unhealthy"}, "unhealthy"),
        (["odd"], ""),
        (None, "did not answer within"),
    ],
)
async def test_a_host_is_as_healthy_as_it_says(answer, words):
    async def health(_):
        if answer is None:
            await asyncio.sleep(0.5)
        return web.json_response(answer, status=404)

    app = web.Application()
    app.router.add_get("/health", health)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    async with HostProber(LOCAL, wait=0.1 if answer is None else 20) as prober:
        if words:
            with pytest.raises(HostSilent, match=words):
                await prober.latency(url)
        else:
            assert 0 < await prober.latency(url) < 20
    await runner.cleanup()


async def test_an_error_of_our_own_is_not_taken_for_a_silent_host():
    async with HostProber(LOCAL) as prober:
        with pytest.raises(AttributeError):
            await prober.latencies([5])


class TestForms:
    @every_row("value", ["0xzz", None, {}, ""])
    def test_an_answer_that_is_no_number_is_refused(self, value):
        with pytest.raises(BrokenWire):
            number(value)

    @pytest.mark.parametrize("value", ["0xzz", "0x1", None])
    def test_an_answer_that_is_no_hex_is_refused(self, value):
        with pytest.raises(BrokenWire):
            unhexed(value)

    @every_row(
        ("error", "data"),
        [
            ({"code": 3, "message": "m", "data": "0xab"}, "0xab"),
            ({"code": 3, "message": "m", "data": {"data": "0xcd"}}, "0xcd"),
            ({"code": 3, "message": "m", "data": {"result": "0xef"}}, "0xef"),
            ({"message": "m", "data": ["odd"]}, ""),
            ("m", ""),
        ],
    )
    def test_what_a_contract_said_is_found_wherever_a_server_puts_it(self, error, data):
        refusal = _rejection("eth_call", error)
        assert isinstance(refusal, RpcRejected)
        assert (refusal.message, refusal.data) == ("m", data)

    def test_a_registry_of_another_form_is_refused(self):
        address = account(HOSTS[0])
        with pytest.raises(abi.MalformedAnswer):
            _read(address, [address, 1], [])
        unknown = _read(address, Reverted("x", "No node"), [])
        assert isinstance(unknown, ExcludedHost)
        assert "No node" in unknown.why

    def test_a_session_of_another_form_is_refused(self):
        with pytest.raises(abi.MalformedAnswer):
            _state([1, 2, 3])

    async def test_answers_that_are_cut_are_no_missing_contract(self, home, chain, monkeypatch):
        monkeypatch.setattr(chain, "eth_call", lambda *_: "0x" + "00" * 40, raising=False)
        with pytest.raises(abi.MalformedAnswer):
            await home.session("1")

    @pytest.mark.parametrize("body", ['{"jsonrpc":"2.0","id":1}', '{"id":77,"result":1}', "[]"])
    async def test_an_answer_to_another_question_is_none(self, body):
        async def answer(_):
            return web.Response(text=body)

        app = web.Application()
        app.router.add_post("/", answer)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with Rpc(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}") as rpc:
            with pytest.raises(ToolbridgeError, match="without JSON-RPC"):
                await rpc.ask("eth_chainId")
        await runner.cleanup()

    def test_base_sepolia_is_data(self):
        found = read_settings({"model": "a:b"}).chain
        assert msgspec.structs.replace(found, rpc_url="").chain_id == 84532
