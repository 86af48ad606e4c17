"""Gateways as a user starts them: a process of their own, with a home of their own."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
    home: Path, config: str = "", *, env: dict[str, str] | None = None, script: str = 'exec "$@"'
) -> AsyncIterator[GatewayProcess]:
    """Run `toolbridge serve` on a free port; `script` is the shell that starts it."""
    process = _start(home, config, env or {}, script)
    try:
        url = await _url(process, home)
        yield GatewayProcess(url, process.pid, home / "state" / "toolbridge", home / "stderr.log")
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 60)


def _start(home: Path, config: str, env: dict[str, str], script: str) -> "subprocess.Popen[bytes]":
    home.mkdir(parents=True, exist_ok=True)
    (home / "toolbridge.toml").write_text(config)
    command = [sys.executable, "-m", "toolbridge", "serve", "--port", "0", "--log", "json"]
    command += ["--config", str(home / "toolbridge.toml")]
    with (home / "stdout.log").open("wb") as out, (home / "stderr.log").open("ab") as errors:
        return subprocess.Popen(
            ["bash", "-c", script, "bash", *command], cwd=home, stdout=out, stderr=errors,
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(home), "XDG_STATE_HOME": str(home / "state"),
                 "XDG_CONFIG_HOME": str(home / "config"), "OLLAMA_HOST": "127.0.0.1:1", **env},
        )  # fmt: skip


async def _url(process: "subprocess.Popen[bytes]", home: Path) -> str:
    out, errors = home / "stdout.log", home / "stderr.log"
    for _ in range(1200):
        if found := re.search(rb"http://\S+(?=\n)", await asyncio.to_thread(out.read_bytes)):
            return found[0].decode()
        if process.poll() is not None:
            said = await asyncio.to_thread(errors.read_text)
            raise AssertionError(f"the gateway did not start: {said}")
        await asyncio.sleep(0.05)
    raise AssertionError("the gateway did not start in 60 seconds")
