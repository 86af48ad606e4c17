"""Servers of a chain that do not work, and hosts that do not: told apart, passed over, named."""

import asyncio
import logging
import random
import time
from contextlib import asynccontextmanager

import pytest
from tests.node.deployed import HOSTS, MODEL_ID, PAYER, account
from tests.node.server import running
from tests.node.sessions import QUICK, TEXT, told
from tests.node.stories import three_hosts, used

from toolbridge.core.errors import (
    BrokenWire,
    ConfigError,
    RateLimited,
    TimedOut,
    Unreachable,
)
from toolbridge.node.chain import rpc
from toolbridge.node.chain.rpc import Rpc
from toolbridge.node.provider import LEDGER

SEND = "eth_sendRawTransaction"


class TestServers:
    @pytest.mark.parametrize(
        ("fault", "kind", "words"),
        [
            ("down", Unreachable, "503"),
            ("garbage", BrokenWire, "without JSON-RPC"),
            ("busy", RateLimited, "`rpc_url`"),
        ],
    )
    async def test_a_server_that_does_not_work_is_told_apart(
        self, home, chain, tmp_path, fault, kind, words
    ):
        async with three_hosts(home), home.provider(tmp_path) as provider:
            chain.faults["eth_chainId"] = [fault]
            with pytest.raises(kind, match=words):
                await told(provider)
            assert (await told(provider)).text == TEXT

    async def test_a_server_that_is_not_there_is_named_without_its_path(self, home, tmp_path):
        url = "http://127.0.0.1:9/v2/secret-key"
        async with home.provider(tmp_path, rpc_url=url) as provider:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 ") as caught:
                await told(provider)
        assert "secret-key" not in str(caught.value)

    async def test_a_server_that_is_silent_is_given_up(self):
        async def ignore(reader, writer):
            await reader.read()
            writer.close()
            await writer.wait_closed()

        async with await asyncio.start_server(ignore, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with Rpc(url, wait=0.1) as silent:
                before = time.monotonic()
                with pytest.raises(TimedOut, match=r"within 0\.1 s"):
                    await silent.ask("eth_chainId")
                assert time.monotonic() - before < 20
            await asyncio.sleep(0.05)

    async def test_another_chain_is_noticed_before_anything_is_paid(self, home, tmp_path):
        async with home.provider(tmp_path, chain_id=8453) as provider:
            with pytest.raises(ConfigError, match="on chain 84532, not on 8453"):
                await told(provider)

    async def test_an_address_without_a_contract_is_noticed(self, home, tmp_path):
        async with home.provider(tmp_path, registry=account(PAYER)) as provider:
            with pytest.raises(ConfigError, match="no contract with"):
                await told(provider)

    async def test_a_server_that_searches_few_blocks_is_asked_in_pieces(
        self, home, chain, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("toolbridge.node.hosts.registry._WINDOW", 3)
        await home.register(HOSTS[0], "http://127.0.0.1:9", metadata="{}")
        for _ in range(7):
            chain.mine()
        chain.faults["eth_getLogs"] = ["query exceeds max block range"]
        async with home.provider(tmp_path) as provider:
            (found,) = (await provider.hosts()).candidates
        assert found.key_from == "transaction"
        assert chain.asked.count("eth_getLogs") > 3

    async def test_a_transaction_that_somebody_else_signed_gives_no_key(
        self, home, chain, tmp_path
    ):
        await home.register(HOSTS[0], "http://127.0.0.1:9", metadata="{}")
        other = await home.act(PAYER, home.network.registry, "approveModel(bytes32)", MODEL_ID)
        for log in chain.logs:
            log["transactionHash"] = other.hash
        async with home.provider(tmp_path) as provider:
            found = await provider.hosts()
        assert found.candidates == ()
        assert "cannot be verified" in found.excluded[0].why

    async def test_a_host_whose_key_cannot_be_found_is_left_out_and_the_others_are_not(
        self, home, chain, tmp_path
    ):
        await home.register(HOSTS[0], "http://127.0.0.1:9", metadata="{}")
        await home.register(HOSTS[1], "http://127.0.0.1:9")
        chain.faults["eth_getLogs"] = ["down"]
        async with home.provider(tmp_path) as provider:
            found = await provider.hosts()
            assert [one.address for one in found.candidates] == [account(HOSTS[1])]
            assert "cannot be verified" in found.excluded[0].why
            assert len((await provider.hosts()).candidates) == 2

    async def test_without_multicall_hosts_are_found_one_by_one(self, home, chain, tmp_path):
        async with three_hosts(home):
            async with home.provider(tmp_path) as provider:
                together = await provider.hosts()
            before = len(chain.asked)
            async with home.provider(tmp_path, multicall=account(PAYER)) as provider:
                assert await provider.hosts() == together
        assert chain.asked[before:].count("eth_call") == 1 + 3 * 2

    async def test_an_answer_without_end_is_refused(self, chain, monkeypatch):
        monkeypatch.setattr(rpc, "_MAX_ANSWER", 10)
        async with Rpc(chain.url) as small:
            with pytest.raises(BrokenWire, match="more than 10 bytes"):
                await small.ask("eth_chainId")

    async def test_an_old_server_without_tips_will_do(self, home, chain):
        chain.faults["eth_maxPriorityFeePerGas"] = ["the method does not exist"]
        assert await home.chain.fees() == (2 * 10**6 + 10**6, 10**6)


class TestHosts:
    async def test_a_host_that_dies_is_left_for_the_next_one(self, home, tmp_path):
        async with three_hosts(home) as nodes, home.provider(tmp_path, waits=QUICK) as provider:
            await told(provider)
            first = used(nodes)
            for socket in list(first.sockets):
                socket.transport.abort()
            await asyncio.sleep(0.05)
            for node in nodes:
                node.inits.clear()
            assert (await told(provider)).text == TEXT
            assert await home.jobs() == 2

    async def test_a_host_that_refuses_sockets_is_given_up_for_another(self, home, tmp_path):
        async with running(key=HOSTS[0]) as node, _only_http() as url:
            await home.register(HOSTS[0], node.url, stake=1)
            await home.register(HOSTS[1], url, stake=10**23, stable=100)
            async with home.provider(tmp_path, seed=3, waits=QUICK) as provider:
                order = await provider._finder.order()
                for _ in range(20):
                    if order[0].url == url:
                        break
                    order = await provider._finder.order()
                provider._finder._randomness.seed(_seed_for(provider, order))
                assert (await told(provider)).text == TEXT
                again = await provider._finder.order()
            assert again[0].url == node.url


def _seed_for(provider, order):
    """Return a seed with which the dice fall on the first of `order`."""
    scores = [one.score for one in sorted(order, key=lambda one: -one.score)]
    best = scores[0] / sum(scores)
    return next(n for n in range(100) if random.Random(n).random() < best)


@asynccontextmanager
async def _only_http():
    """Answer every request, and never with a socket."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_no_key_is_written_logged_or_shown(home, chain, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    secret = PAYER.reveal().hex()
    shown = []
    async with three_hosts(home), home.provider(tmp_path) as provider:
        await told(provider)
        chain.faults[SEND] = ["insufficient funds"]
        await provider._paid.close(_job(provider))
        shown += [
            repr(provider),
            repr(provider._context),
            repr(vars(provider)),
            str(await provider.balance()),
        ]
        shown += (await provider.plan()).lines()
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    sent = "".join(one.raw.hex() for one in chain.sent.values())
    text = caplog.text + "".join(shown) + sent + files.decode("latin-1")
    assert secret not in text.lower()
    assert PAYER.reveal() not in files
    assert (tmp_path / LEDGER).stat().st_mode & 0o077 == 0


def _job(provider):
    (session,) = provider._pool._sessions
    return session._job
