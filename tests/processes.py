"""Gateways as a user starts them: a process of their own, with a home of their own."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass
class GatewayProcess:
    url: str
    pid: int
    state: Path
    """`XDG_STATE_HOME/toolbridge`."""
    log: Path
    """What it wrote to standard error."""


@asynccontextmanager
async def gateway_process(
    home: Path,
    config: str = "",
    *,
    env: dict[str, str] | None = None,
    script: str = 'exec "$@"',
    log: Path | None = None,
) -> AsyncIterator[GatewayProcess]:
    """Run `toolbridge serve` on a free port; `script` is the shell that starts it."""
    _write_config(home, config)
    log = log or home / "stderr.log"
    command = [sys.executable, "-m", "toolbridge", "serve", "--port", "0", "--log", "json"]
    command += ["--config", str(home / "toolbridge.toml")]
    state = home / "state"
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", script, "bash", *command, cwd=home, stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "XDG_STATE_HOME": str(state),
                 "XDG_CONFIG_HOME": str(home / "config"), "OLLAMA_HOST": "127.0.0.1:1", **(env or {})},
        )  # fmt: skip
    try:
        yield GatewayProcess(await _url(process), process.pid, state / "toolbridge", log)
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 20)


def _write_config(home: Path, config: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "toolbridge.toml").write_text(config)


async def _url(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while line := await process.stdout.readline():
            if found := re.search(rb"http://\S+", line):
                return found[0].decode()
    raise AssertionError("the gateway did not start")
