"""The stories of a chain, on a real one: anvil, installed from npm on first use."""

import asyncio
import os
import signal
import subprocess

import pytest
from tests.node import malicious_stories, stories
from tests.node.deployed import deployed
from tests.node.local_chain import CHAIN_ID
from tests.node.random_stories import play_all
from tests.ports import HeldPort
from tests.real.clients import clean_environment, npm_install

from toolbridge.core.errors import ToolbridgeError
from toolbridge.node.chain.rpc import Rpc

pytestmark = pytest.mark.real

ANVIL = "@foundry-rs/anvil@1.7.1"
STORIES = int(os.environ.get("NODE_STORIES", "60"))
_EACH = 20


@pytest.fixture(scope="session")
def anvil(tmp_path_factory):
    """Return the URL of a chain of our own; skip where it cannot be installed or started."""
    command = npm_install("anvil", ANVIL) / "node_modules" / ".bin" / "anvil"
    held = HeldPort()
    flags = ["--chain-id", str(CHAIN_ID), "--port", str(held.number), "--silent"]
    flags += ["--block-base-fee-per-gas", "1000000"]  # about what it is on Base
    home = tmp_path_factory.mktemp("anvil")
    log = (home / "log").open("w+")
    process = subprocess.Popen(
        [str(command), *flags], env=clean_environment(str(home)), cwd=home,
        stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{held.number}"
    try:
        if not asyncio.run(_started(url)):
            log.seek(0)
            pytest.skip(f"anvil does not start: {log.read()[-300:]}")
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # npm's command starts the chain as its child
        process.wait()
        held.close()
        log.close()


async def _started(url: str) -> bool:
    async with Rpc(url, wait=2) as rpc:
        for _ in range(100):
            try:
                return int(str(await rpc.ask("eth_chainId")), 16) == CHAIN_ID
            except ToolbridgeError:
                await asyncio.sleep(0.1)
    return False


@pytest.fixture
async def home(anvil):
    async with deployed(anvil) as found:
        yield found


class TestDiscovery(stories.Discovery):
    pass


class TestMoney(stories.Money):
    pass


class TestRefusals(stories.Refusals):
    pass


class TestDoubt(stories.Doubt):
    pass


class TestTalk(stories.Talk):
    pass


class TestMalicious(malicious_stories.Malicious):
    pass


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(0, STORIES, _EACH))
async def test_every_coin_of_a_random_story_is_accounted_for(anvil, tmp_path, monkeypatch, first):
    monkeypatch.setattr("toolbridge.node.funding.resolving.LAG", 2.0)
    await play_all(anvil, range(first, first + _EACH), tmp_path)
