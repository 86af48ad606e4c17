"""A life on a real chain: three hosts registered, one found and paid, asked through the gateway."""

import asyncio
import os
import re
import signal
from pathlib import Path

import anthropic
import pytest
from tests.node.deployed import MODEL, PAYER, Deployed, account
from tests.node.gateways import WRITE
from tests.node.server import Scene
from tests.node.stories import DEPOSIT, created, three_hosts, used
from tests.real.conftest import COMMAND
from tests.real.test_chain import anvil, home

__all__ = ["anvil", "home"]

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

CALL = '<tool_call>{"name": "Write", "arguments": {"file_path": "a", "content": "b"}}</tool_call>'


def configure(place: Path, home: Deployed) -> dict[str, str]:
    """Write a configuration and return an environment in which commands find it."""
    network = home.network
    file = place / ".config" / "toolbridge" / "toolbridge.toml"  # the user's own: it may pay
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"""
[providers.mine]
api = "node"
[providers.mine.node]
model = "{MODEL}"
network = ""
chain_id = {network.chain_id}
rpc_url = "{network.rpc_url}"
marketplace = "{network.marketplace}"
registry = "{network.registry}"
multicall = "{network.multicall}"
""")
    return {
        "PATH": os.environ["PATH"], "HOME": str(place), "XDG_STATE_HOME": str(place / "state"),
        "CLAUDE_BRIDGE_PRIVATE_KEY": PAYER.reveal().hex(),
    }  # fmt: skip


async def run(env: dict[str, str], *given: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(COMMAND), "node", *given, env=env, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def talk(url: str) -> tuple[list[str], str]:
    """Return the blocks of a streamed answer with a call, and the text of the next one."""
    turns = [{"role": "user", "content": "write a"}]
    about = {"model": "claude-sonnet-5-5", "max_tokens": 500, "tools": [WRITE]}
    async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as sdk:
        async with sdk.messages.stream(messages=turns, **about) as stream:
            first = await stream.get_final_message()
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "done"}
            for block in first.content
            if block.type == "tool_use"
        ]
        turns += [
            {"role": "assistant", "content": [block.model_dump() for block in first.content]},
            {"role": "user", "content": results},
        ]
        second = await sdk.messages.create(messages=turns, **about)
    return [block.type for block in first.content], second.content[0].text


@pytest.mark.req("CB-15", "CB-18", "CB-19", "CB-32")
async def test_a_model_is_found_paid_asked_and_settled_through_the_gateway(home, tmp_path):
    env = configure(tmp_path, home)
    async with three_hosts(home) as nodes:
        for node in nodes:
            node.play(Scene((f"I do.\n{CALL}",)))
        assert len((await run(env, "hosts")).splitlines()) == 4
        assert "createSessionJobForModel" in await run(env, "serve", "--dry-run")
        before = await home.jobs()
        process = await asyncio.create_subprocess_exec(
            str(COMMAND), "node", "serve", "--port", "0", "--log", "off", env=env,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(30):
                while not (found := re.search(rb" at (http\S+)", await process.stdout.readline())):
                    pass
            said = await talk(found[1].decode())
        finally:
            process.send_signal(signal.SIGTERM)
            await process.communicate()
        assert (said, process.returncode) == ((["text", "tool_use"], "Hello, world"), 0)
        assert await home.jobs() == before + 1
        assert used(nodes).closed == [1000]
        job = used(nodes).inits[0]["inside"]["jobId"]
        session = await created(home, job)
        assert (session["deposit"], session["status"]) == (DEPOSIT, 0)
        assert session["depositor"].lower() == account(PAYER).lower()
        assert f"open job     {job}" in await run(env, "balance")
        assert (await run(env, "settle")).startswith(f"job {job}: settled in transaction 0x")
        session = await created(home, job)
        assert session["status"] == 1
        assert 0 < session["refunded"] <= DEPOSIT
