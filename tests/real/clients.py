"""Real coding agents, installed from their registry and run apart from everything of the user's.

Each run has an empty home, a clean environment, a dummy key, telemetry off, and a base URL on
loopback. A client that cannot be installed is skipped with the reason; one that runs must work.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2] / ".real"
WANT = "hello from gateway"
NODE = "node@24.21.0"


@dataclass(frozen=True)
class Client:
    """How a client is installed and called."""

    name: str
    package: str
    command: str
    arguments: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    """Values may hold {url}, {model} and {home}."""
    files: dict[str, str] = field(default_factory=dict)
    """Configuration in the client's home, with the same words."""
    model: str = "claude-sonnet-4-5"


CLAUDE_CODE = Client(
    name="claude",
    package="@anthropic-ai/claude-code@2.1.325",
    command="claude",
    arguments=("-p", "{prompt}", "--dangerously-skip-permissions"),
    env={
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_AUTH_TOKEN": "dummy-local-token",
        "ANTHROPIC_MODEL": "{model}",
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    },
)


def install(client: Client) -> Path:
    """Return the client's command, installed into the project; skip the test if that fails."""
    command = HOME / client.name / "node_modules" / ".bin" / client.command
    node = HOME / "node" / "node_modules" / ".bin" / "node"
    for place, package, made in (
        (HOME / "node", NODE, node),
        (HOME / client.name, client.package, command),
    ):
        if made.exists():
            continue
        if shutil.which("npm") is None:
            pytest.skip(f"{client.name}: npm is not on this machine")
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_text("{}")
        run = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--no-save", package],
            cwd=place, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        if run.returncode or not made.exists():
            pytest.skip(f"{client.name}: cannot be installed: {run.stderr.strip()[-300:]}")
    return command


@dataclass(frozen=True)
class Run:
    status: int
    output: str
    file: str | None
    """What hello.txt holds afterwards."""


def run(client: Client, url: str, work: Path, *, prompt: str = "", model: str = "") -> Run:
    """Let the client create hello.txt in `work` through the gateway at `url`."""
    command = install(client)
    work.mkdir(parents=True, exist_ok=True)
    asked = prompt or f"Create the file {work}/hello.txt with exactly this content: {WANT}"
    with tempfile.TemporaryDirectory() as home:
        words = {"url": url, "home": home, "model": model or client.model, "prompt": asked}
        for name, text in client.files.items():
            place = Path(home) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_fill(text, words))
        done = subprocess.run(
            [str(command), *(_fill(a, words) for a in client.arguments)],
            cwd=work, env=_clean(home) | {k: _fill(v, words) for k, v in client.env.items()},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
    made = work / "hello.txt"
    return Run(
        done.returncode, done.stdout + done.stderr, made.read_text() if made.exists() else None
    )


def _fill(text: str, words: dict[str, str]) -> str:
    for name, value in words.items():
        text = text.replace("{" + name + "}", value)
    return text


def _clean(home: str) -> dict[str, str]:
    node = HOME / "node" / "node_modules" / ".bin"
    return {
        "PATH": os.pathsep.join([str(node), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1",
        "SHELL": "/bin/bash", "CI": "1", "DO_NOT_TRACK": "1", "OTEL_SDK_DISABLED": "true",
        "NO_UPDATE_NOTIFIER": "1",
        "XDG_CONFIG_HOME": f"{home}/.config", "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_CACHE_HOME": f"{home}/.cache", "XDG_STATE_HOME": f"{home}/.local/state",
    }  # fmt: skip
