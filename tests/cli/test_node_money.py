"""`toolbridge node` and the user's money, with real processes: consent, caps, kills and books."""

import asyncio
import csv
import io
import json
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cli.test_node import started
from tests.commands import run_beside as run
from tests.node.accounts import truth
from tests.node.deployed import MODEL, PAYER, account, deployed
from tests.node.gateways import ask, works
from tests.node.local_chain import local_chain
from tests.node.server import HOST, running

from toolbridge.cli.node import history
from toolbridge.node.chain.amounts import ETH
from toolbridge.node.funding.books import BookEntry
from toolbridge.node.provider import LEDGER

ETHER = 10**18


def toml(network, **more) -> str:
    given = {
        "model": MODEL, "network": "", "chain_id": network.chain_id, "rpc_url": network.rpc_url,
        "marketplace": network.marketplace, "registry": network.registry, "token": network.token,
        "multicall": network.multicall,
    } | more  # fmt: skip
    lines = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
    return "\n".join(['[providers.mine]\napi = "node"\n[providers.mine.node]', *lines, ""])


@asynccontextmanager
async def money(env, *, own: bool = True):
    """Yield the environment of a user with a key, a chain and a host."""
    async with local_chain() as chain, deployed(chain.url) as home, running() as node:
        await home.register(HOST, node.url)
        if own:
            folder = Path(env["XDG_CONFIG_HOME"]) / "toolbridge"
            folder.mkdir(parents=True)
            (folder / "toolbridge.toml").write_text(toml(home.network) + "waits = { pay = 2.0 }\n")
        yield env | {"CLAUDE_BRIDGE_PRIVATE_KEY": PAYER.reveal().hex()}, home, chain


class TestConsent:
    async def test_a_file_of_the_working_directory_spends_nothing(self, env, tmp_path, monkeypatch):
        async with money(env) as (env, home, _):
            repository = tmp_path / "repository"
            repository.mkdir()
            hostile = toml(home.network, deposit="1", daily_limit="100", price=10**18)
            (repository / "toolbridge.toml").write_text(hostile)
            monkeypatch.chdir(repository)
            async with started(env, "node", "serve", "--port", "0") as (_, url, said):
                assert "0.0002 ETH per session, at most 0.002 ETH in 24 hours" in said
                assert "you have not allowed it" in said
                assert f"Configuration:  {env['XDG_CONFIG_HOME']}" in said
                await works(url)
            assert (await truth(home)).deposits == 2 * 10**14

    @pytest.mark.parametrize("way", ["flag", "variable"])
    async def test_nor_does_a_file_that_was_given_and_not_allowed(self, env, tmp_path, way):
        async with money(env, own=False) as (env, home, _):
            file = tmp_path / "repository.toml"
            file.write_text(toml(home.network, deposit="1", daily_limit="100"))
            given = ["--config", str(file)] if way == "flag" else []
            more = {"TOOLBRIDGE_CONFIG": str(file)} if way == "variable" else {}
            for command in (["node", "serve"], ["node", "settle"], ["serve"]):
                status, _, err = await run(env | more, *command, *given)
                assert (status, f"toolbridge allow {file}" in err) == (1, True), err
            assert (await truth(home)).deposits == 0

    async def test_the_hard_cap_holds_over_an_allowed_file_flags_and_variables(self, env, tmp_path):
        async with money(env, own=False) as (env, home, _):
            await home.give(PAYER, 10 * ETHER)
            file = tmp_path / "repository.toml"
            file.write_text(toml(home.network, deposit="1", daily_limit="100", daily_gas="1"))
            assert (await run(env, "allow", str(file)))[0] == 0
            env["CLAUDE_BRIDGE_DEPOSIT"] = "0.5"
            given = ["--config", str(file), "--daily-limit", "50", "--port", "0"]
            async with started(env, "node", "serve", *given) as (_, url, said):
                assert "0.01 ETH per day, 0.002 ETH per job" in said
                reply = await ask(url)
                assert (reply.status, "hard cap" in str(reply.body)) == (429, True)
            assert (await truth(home)).deposits == 0

    async def test_an_env_file_cannot_move_the_ledger(self, env, tmp_path):
        file = tmp_path / "node.env"
        file.write_text(f"XDG_STATE_HOME={tmp_path / 'elsewhere'}\n")
        status, _, err = await run(env, "node", "balance", "--env-file", str(file))
        assert (status, "must not set XDG_STATE_HOME" in err) == (1, True)


class TestLimit:
    async def test_it_is_shown_set_and_kept_in_private(self, env):
        async with money(env) as (env, home, _):
            status, out, err = await run(env, "node", "limit")
            assert status == 0, err
            assert "ETH    0.01 ETH per day, 0.002 ETH per job (default)" in out
            assert home.network.marketplace in err
            assert "settings from" in err
            await run(env, "node", "limit", "--day", "0.0003", "--job", "0.0002")
            _, out, _ = await run(env, "node", "limit", "--pay", "token", "--day", "3")
            assert "0.0003 ETH per day, 0.0002 ETH per job (set by you)" in out
            assert " 3 token " in out
            assert "5 token" in out
            file = Path(env["XDG_STATE_HOME"]) / "toolbridge" / LEDGER
            assert file.stat().st_mode & 0o777 == 0o600
            async with started(env, "node", "serve", "--port", "0") as (_, url, said):
                assert "hard cap of the account: 0.0003 ETH per day" in said
                await works(url)
            async with started(env, "node", "serve", "--port", "0") as (_, url, _):
                assert (await ask(url)).status == 429
            assert await home.jobs() == 1

    async def test_a_wrong_amount_is_said(self, env):
        async with money(env) as (env, _, _):
            status, _, err = await run(env, "node", "limit", "--day", "much")
            assert (status, "--day must be a decimal number" in err) == (2, True)


@asynccontextmanager
async def killed_in_the_deposit(env):
    """Kill a gateway while its payment waits for a block."""
    async with money(env) as (env, home, chain):
        chain.mining = False
        async with started(env, "node", "serve", "--port", "0") as (process, url, _):
            asking = asyncio.ensure_future(ask(url))
            async with asyncio.timeout(30):
                while not chain.waiting:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            await process.wait()
            await asyncio.gather(asking, return_exceptions=True)
        yield env, home, chain


class TestRecovery:
    async def test_a_payment_that_a_kill_interrupted_comes_back(self, env):
        async with killed_in_the_deposit(env) as (env, home, chain):
            before = (await truth(home)).wallet
            status, out, _ = await run(env, "node", "settle")
            assert (status, "NOT settled: no block includes it yet" in out) == (1, True)
            chain.mining = True
            chain.mine()
            status, out, err = await run(env, "node", "settle")
            assert (status, out.startswith("job 1: settled in transaction 0x")) == (0, True), err
            assert "0.0001999999997 ETH refunded" in out
            assert (await run(env, "node", "settle"))[1] == "no open jobs\n"
            now = await truth(home)
            assert now.wallet + now.gas + now.billed == before

    async def test_or_is_cancelled(self, env):
        async with killed_in_the_deposit(env) as (env, home, chain):
            _, out, _ = await run(env, "node", "transactions")
            hash = out.split()[0]
            assert "createSessionJobForModel: waits for a block" in out
            status, out, err = await run(env, "node", "transactions", "--raise", hash)
            assert (status, "higher fee" in out) == (0, True), err
            status, out, err = await run(env, "node", "transactions", "--cancel", out.split()[-1])
            assert (status, "cancellation sent" in out) == (0, True), err
            chain.mining = True
            chain.mine()
            status, out, err = await run(env, "node", "settle")
            assert (status, "was not made, 0.0002 ETH is free again" in out) == (0, True), err
            assert (await run(env, "node", "transactions"))[1] == "no transaction is pending\n"
            assert (await truth(home)).deposits == 0

    async def test_balances_are_withdrawn(self, env):
        async with money(env) as (env, home, _):
            assert (await run(env, "node", "withdraw"))[1].startswith("the marketplace holds no")
            await home.act(PAYER, home.network.marketplace, "depositNative()", value=10**15)
            _, out, _ = await run(env, "node", "balance")
            assert "run `toolbridge node withdraw`" in out
            status, out, err = await run(env, "node", "withdraw")
            assert (status, out.startswith("0.001 ETH: withdrawn in transaction 0x")) == (
                0,
                True,
            ), err
            assert (await truth(home)).credited == 0


class TestHistory:
    async def test_the_books_are_printed_in_three_forms(self, env):
        async with money(env) as (env, home, _):
            assert (await run(env, "node", "history"))[1] == "no payment is recorded\n"
            async with started(env, "node", "serve", "--port", "0") as (process, url, _):
                await works(url)
                process.send_signal(signal.SIGTERM)
                await process.wait()
            await run(env, "node", "settle")
            _, out, _ = await run(env, "node", "history")
            assert "0.0002 ETH paid for 1 jobs, 0.0001999999997 ETH refunded" in out
            assert "#" * 40 in out
            _, out, _ = await run(env, "node", "history", "--csv", "--days", "2")
            rows = list(csv.DictReader(io.StringIO(out)))
            assert [row["kind"] for row in rows] == ["payment", "gas", "gas", "claim", "refund"]
            assert {row["currency"] for row in rows} == {"ETH"}
            _, out, _ = await run(env, "node", "history", "--json")
            (total,) = json.loads(out)["totals"]
            now = await truth(home)
            assert (total["paid"], total["gas"]) == (str(now.deposits), str(now.gas))
            assert account(HOST) in out

    def test_escapes_of_hosts_are_never_printed(self):
        evil = "\x1b[2J\x9b31m\u202e"
        row = BookEntry("claim", ETH.address, 18, 5, evil, evil, evil, evil, 3, evil, at=1e9)
        text = "\n".join(history.lines([row], lambda _: ETH))
        assert not set(text) & {"\x1b", "\x9b", "\u202e"}
        assert "2J" in text  # the rest of it is
