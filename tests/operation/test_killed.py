"""The ledger and the budgets of a gateway that is killed while it answers."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import aiohttp
import pytest
from tests.operating import config_for, is_gone, until
from tests.peers import model_server
from tests.processes import GatewayProcess, gateway_process
from tests.resuming import PacedModel

pytestmark = pytest.mark.operation
WORDS = [f"word{n:04d}\n" for n in range(200)]
PROMPT = "please write a long text about ledgers " * 20


def command(home, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "toolbridge", args[0], "--config", str(home / "toolbridge.toml"),
         *args[1:]],
        capture_output=True, text=True, check=True, cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "XDG_STATE_HOME": str(home / "state")},
    )  # fmt: skip
    return done.stdout


async def read_words(url: str, key: str, session: str, words: int) -> None:
    """Ask for an answer and read `words` words of it; with 0 read it to its end."""
    body = {
        "model": "m", "stream": True, "max_tokens": 5000,
        "messages": [{"role": "user", "content": PROMPT}],
    }  # fmt: skip
    headers = {"authorization": f"Bearer {key}", "session-id": session}
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        seen = 0
        async for line in answer.content:
            seen += b"word" in line
            if words and seen == words:
                return
        assert not words


def journal_of(process: GatewayProcess) -> str:
    return "".join(path.read_text() for path in (process.state / "journal").glob("*.journal"))


@pytest.mark.parametrize("workers", [1, 2])
async def test_the_rows_and_the_budget_of_killed_requests_are_exact(tmp_path, workers):
    model = PacedModel(WORDS)
    async with model_server(model) as server:
        config = config_for(server, f"workers = {workers}")
        (tmp_path / "toolbridge.toml").write_text(config)
        key = (await asyncio.to_thread(
            command, tmp_path, "key", "create", "alice", "--tokens", "100K/month"
        )).split()[0]  # fmt: skip
        async with gateway_process(tmp_path, config) as process:
            await model.allow()
            await read_words(process.url, key, "whole", 0)
            await model.allow(101)  # a title and 100 words
            running = asyncio.create_task(read_words(process.url, key, "cut", 0))
            # 100 words of 9 characters, and the title, are some 228 tokens.
            await until(lambda: '"output":22' in journal_of(process))
            for pid in _serving(process.pid, workers):
                os.kill(pid, signal.SIGKILL)
            await until(lambda: is_gone(process.pid) or workers > 1)
            with pytest.raises(aiohttp.ClientError):
                await running
        async with gateway_process(tmp_path, config) as process:
            await until(lambda: not [*(process.state / "journal").glob("*.journal")])
            text = await asyncio.to_thread(command, tmp_path, "usage", "--json", "--by", "session")
            rows = {row["session"]: row for row in map(json.loads, text.splitlines())}
            shown = await asyncio.to_thread(command, tmp_path, "key", "show", "alice")
    whole, cut = rows["whole"], rows["cut"]
    assert (whole["requests"], whole["errors"], whole["input"], whole["output"]) == (1, 0, 100, 10)
    assert (cut["requests"], cut["errors"], cut["estimated"]) == (1, 1, 1)
    assert 220 <= cut["output"] <= 235
    assert cut["input"] > 50
    # The tokens of both, and nothing of the 5,000 that the killed request had reserved.
    used = whole["input"] + whole["output"] + cut["input"] + cut["output"]
    assert f"{used:,} tokens of 100,000" in shown
    assert "reserved" not in shown
    assert model.requests == 2


def _serving(pid: int, workers: int) -> list[int]:
    from tests.operating import children

    return children(pid) if workers > 1 else [pid]
