"""The gateway finds its host on a chain, pays it and gets the rest back; nothing is paid twice."""

import asyncio

import pytest
from tests.node.deployed import PAYER, account
from tests.node.gateways import SHORT, WRITE, ask, body, paid, works
from tests.node.server import HOST, Scene

from toolbridge.node.provider import NodeProvider
from toolbridge.node.settings import read_settings

CALL = '<tool_call>{"name": "Write", "arguments": {"file_path": "a", "content": "b"}}</tool_call>'


def status_of(session: list) -> int:
    return session[12]


@pytest.mark.req("CB-15", "CB-18", "CB-19")
async def test_a_host_is_found_and_paid_with_the_first_request_and_used_for_all(tmp_path):
    async with paid(tmp_path) as it:
        assert await it.world.jobs() == 0
        await works(it.url)
        it.node.play(Scene((CALL,)))
        called = await ask(it.url, body(tools=[WRITE]))
        assert called.stop == "tool_use"
        await works(it.url)
        assert await it.world.jobs() == 1
        (init, *_), (job, *rest) = it.node.inits, await it.world.session("1")
        assert (init["inside"]["jobId"], init["outside"]["chain_id"]) == ("1", 84532)
        assert init["inside"]["recoveryPublicKey"]
        depositor, host, _, deposit, price, _, duration, _, _, interval, timeout = rest[:11]
        assert (depositor.lower(), host.lower()) == (account(PAYER).lower(), account(HOST).lower())
        assert (deposit, price) == (2 * 10**14, 3_000_000)
        assert (duration, interval, timeout, job) == (86400, 100, 3600, 1)


async def test_a_host_that_is_named_is_asked_where_the_user_says_that_it_is(tmp_path):
    async with paid(tmp_path, hosts=False, host=account(HOST)) as it:
        await it.world.register(HOST, "http://127.0.0.1:1")
        reply = await ask(it.url)
        assert reply.error["message"].startswith("NO_HOSTS_AVAILABLE")
        assert await it.world.jobs() == 0
    async with paid(tmp_path / "2", hosts=False, host=account(HOST), host_url="HERE") as it:
        await it.world.register(HOST, "http://127.0.0.1:1")
        await works(it.url)
        assert await it.world.jobs() == 1


@pytest.mark.req("CB-19")
async def test_without_a_host_nothing_is_paid_and_the_client_reads_why(tmp_path):
    async with paid(tmp_path, hosts=False) as it:
        reply = await ask(it.url)
        assert (reply.status, reply.error["type"]) == (502, "api_error")
        assert reply.error["message"].startswith("NO_HOSTS_AVAILABLE")
        assert await it.world.jobs() == 0


async def test_a_chain_that_cannot_be_reached_is_told_and_asked_again_with_the_next_request(
    tmp_path,
):
    async with paid(tmp_path) as it:
        it.chain.faults["*"] = ["down"] * 50
        reply = await ask(it.url, wait=20)
        assert (reply.status, reply.error["type"]) == (502, "api_error")
        it.chain.faults.clear()
        await works(it.url)
        assert await it.world.jobs() == 1


async def test_a_payment_of_which_nobody_hears_is_found_again_and_not_made_twice(tmp_path):
    async with paid(tmp_path) as it:
        it.chain.faults["eth_sendRawTransaction"] = ["taken_in_silence"]
        it.chain.faults["eth_getTransactionReceipt"] = ["down"] * 500
        reply = await ask(it.url, wait=20)
        assert reply.status in {500, 502, 504} or reply.kinds[-1] == "error"
        it.chain.faults.clear()
        await works(it.url)
        assert await it.world.jobs() == 1


async def test_a_node_killed_in_mid_answer_costs_one_new_session_and_no_more(tmp_path):
    async with paid(tmp_path) as it:
        it.node.play(Scene(wrong="cut", pause=0.01))
        reply = await ask(it.url)
        assert (reply.kinds[-1], reply.clean) == ("error", False)
        await asyncio.gather(*(works(it.url) for _ in range(3)))
        assert await it.world.jobs() == 2


@pytest.mark.parametrize("wrong", ["flip", "replay", "stall", "other_key"])
async def test_a_fault_of_the_answer_costs_no_new_session(tmp_path, wrong):
    async with paid(tmp_path, waits=SHORT if wrong == "stall" else None) as it:
        it.node.play(Scene(wrong=wrong, pause=0.01))
        await ask(it.url)
        await works(it.url)
        assert await it.world.jobs() == 1


async def test_a_deposit_that_is_used_up_is_followed_by_a_new_session(tmp_path):
    async with paid(tmp_path, price=10**15, deposit="0.0001") as it:  # a hundred tokens
        it.node.play(*[Scene(("word ",) * 60) for _ in range(3)])
        for _ in range(3):
            reply = await ask(it.url, body(max_tokens=64))
            assert (reply.status, reply.stop) == (200, "end_turn")
        assert await it.world.jobs() == 3
        assert [init["inside"]["jobId"] for init in it.node.inits] == ["1", "2", "3"]


async def test_more_than_the_daily_limit_is_never_paid(tmp_path):
    async with paid(tmp_path, deposit="0.0002", daily_limit="0.0004") as it:
        for _ in range(2):
            await works(it.url)
            it.node.restart()
        for _ in range(3):
            reply = await ask(it.url)
            assert (reply.status, reply.error["type"]) == (429, "rate_limit_error")
        assert "daily_limit" in reply.error["message"]
        assert int(reply.headers["retry-after"]) > 3600
        assert await it.world.jobs() == 2


async def test_jobs_are_handed_back_at_the_end_and_settled_by_whoever_asks_next(tmp_path):
    async with paid(tmp_path) as it:
        await works(it.url)
        await it.app.stop()
        assert it.node.closed == [1000]
        provider = it.app.config.providers["mynode"]
        table = {k: v for k, v in provider.node.items() if k != "waits"}
        settings = read_settings(table, "test")
        async with NodeProvider(settings, PAYER, state=tmp_path / "toolbridge") as mine:
            assert (await mine.balance()).open_jobs == ("1",)
            (done,) = await mine.settle()
            assert (done.job, done.cost + done.refund) == ("1", 2 * 10**14)
            assert (await mine.balance()).open_jobs == ()
        assert status_of(await it.world.session("1")) == 1


@pytest.mark.req("CB-07", "CB-18")
async def test_another_chain_than_the_one_named_is_refused_before_anything_is_paid(tmp_path):
    async with paid(tmp_path, chain_id=5) as it:
        reply = await ask(it.url)
        assert reply.status == 500
        assert "84532" in reply.error["message"]
        assert await it.world.jobs() == 0
