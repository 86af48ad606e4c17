"""Real coding agents, installed from their registry and run apart from everything of the user's.

Each run has an empty home, a clean environment, a dummy key, telemetry off, and a base URL on
loopback. A client that cannot be installed is skipped with the reason; one that runs must work.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2] / ".real"
WANT = "hello from gateway"
NODE = "node@24.21.0"
PAGE = Path(__file__).parents[2] / "docs" / "start" / "clients.md"
KEY = "dummy-local-token"


def documented(title: str) -> tuple[dict[str, str], str]:
    """Return the environment and the first file that the page on clients shows for a client.

    The real clients run with what the page shows: its address, model and key are replaced.
    """
    part = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    text = next(p for p in part if p.startswith(f"{title}\n"))
    text = text.replace("http://127.0.0.1:3456", "{url}").replace("ollama/qwen3:8b", "{model}")
    text = text.replace("qwen3:8b", "{model}")
    exports = re.findall(r"^\$ export (\w+)=(\S+)$", text, re.MULTILINE)
    file = re.search(r"```(?:toml|json|yaml)\n(.*?)```", text, re.DOTALL)
    shown = file[1].replace('"any"', f'"{KEY}"') if file else ""
    return {name: KEY if value == "any" else value for name, value in exports}, shown


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


_CODEX_OFF = """
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[features]
plugins = false
apps = false
remote_plugin = false
"""


def _codex() -> Client:
    env, file = documented("Codex")
    top, provider, table = file.partition("[model_providers.toolbridge]")
    return Client(
        name="codex",
        package="@openai/codex@0.166.0",
        command="codex",
        arguments=(
            "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "{prompt}",
        ),
        env={"CODEX_HOME": "{home}/.codex", "TOOLBRIDGE_KEY": env["TOOLBRIDGE_KEY"]},
        files={".codex/config.toml": top + _CODEX_OFF + provider + table},
        model="test-model",
    )  # fmt: skip


CODEX = _codex()

GEMINI_CLI = Client(
    name="gemini",
    package="@google/gemini-cli@0.61.0",
    command="gemini",
    arguments=("-m", "{model}", "--approval-mode", "yolo", "--skip-trust", "-p", "{prompt}"),
    env={
        **documented("Gemini CLI")[0],
        "GEMINI_CLI_NO_RELAUNCH": "1",
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    },
    files={
        ".gemini/settings.json": json.dumps({
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        })
    },
    model="gemini-2.5-pro",
)  # fmt: skip


def _opencode(module: str, path: str) -> Client:
    config = json.loads(documented("OpenCode")[1]) | {
        "autoupdate": False,
        "share": "disabled",
        "permission": {"*": "allow"},
        "enabled_providers": ["toolbridge"],
        "small_model": "toolbridge/{model}",
    }
    provider = config["provider"]["toolbridge"]
    provider["npm"] = f"@ai-sdk/{module}"
    provider["options"]["baseURL"] = "{url}" + path
    return Client(
        name="opencode",
        package="opencode-ai@1.18.33",
        command="opencode",
        arguments=("run", "--pure", "--auto", "{prompt}"),
        env={
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        },
        model="test-model",
    )


QWEN_CODE = Client(
    name="qwen",
    package="@qwen-code/qwen-code@0.15.10",
    command="qwen",
    arguments=("--auth-type", "openai", "--approval-mode", "yolo", "-p", "{prompt}"),
    env={**documented("Qwen Code")[0], "QWEN_TELEMETRY_ENABLED": "false"},
    model="test-model",
)

COPILOT = Client(
    name="copilot",
    package="@github/copilot@1.0.102",
    command="copilot",
    arguments=("-p", "{prompt}", "--allow-all-tools", "--allow-all-paths"),
    env=documented("Copilot CLI")[0],
    model="test-model",
)


def _kimi(kind: str) -> Client:
    return Client(
        name="kimi",
        package="@moonshot-ai/kimi-code@2.1.0",
        command="kimi",
        arguments=("-p", "{prompt}"),
        env={
            **documented("Kimi Code")[0],
            "KIMI_MODEL_PROVIDER_TYPE": kind,
            "KIMI_DISABLE_TELEMETRY": "1",
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
        },
        model="test-model",
    )


PI = Client(
    name="pi",
    package="@mariozechner/pi-coding-agent@0.73.1",
    command="pi",
    arguments=("--provider", "toolbridge", "--model", "{model}", "-p", "{prompt}"),
    env={"PI_OFFLINE": "1"},
    files={".pi/agent/models.json": documented("pi")[1]},
    model="test-model",
)

CONTINUE = Client(
    name="continue",
    package="@continuedev/cli@1.5.47",
    command="cn",
    arguments=("--config", "{home}/.continue/config.yaml", "--auto", "-p", "{prompt}"),
    env={"CONTINUE_TELEMETRY_ENABLED": "0"},
    files={".continue/config.yaml": documented("Continue")[1]},
    model="test-model",
)

CODEX_OSS = Client(
    name="codex",
    package=CODEX.package,
    command="codex",
    arguments=(
        "exec", "--oss", "--local-provider", "ollama", "-m", "{model}", "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox", "{prompt}",
    ),
    env={
        "CODEX_HOME": "{home}/.codex",
        "CODEX_OSS_BASE_URL": documented("Codex")[0]["CODEX_OSS_BASE_URL"],
    },
    files={
        ".codex/config.toml": CODEX.files[".codex/config.toml"]
        .replace('model_provider = "toolbridge"', 'model_provider = "ollama"')
        .partition("[model_providers.toolbridge]")[0]
    },
    model="toolbridge-demo:latest",
)  # fmt: skip


CLIENTS = {
    "claude": CLAUDE_CODE,
    "codex": CODEX,
    "codex-oss": CODEX_OSS,
    "qwen": QWEN_CODE,
    "copilot": COPILOT,
    "gemini": GEMINI_CLI,
    "kimi-anthropic": _kimi("anthropic"),
    "kimi-gemini": _kimi("google-genai"),
    "pi": PI,
    "continue": CONTINUE,
    "opencode-anthropic": _opencode("anthropic", "/v1"),
    "opencode-chat": _opencode("openai-compatible", "/v1"),
    "opencode-responses": _opencode("openai", "/v1"),
    "opencode-gemini": _opencode("google", "/v1beta"),
}


def install(client: Client) -> Path:
    """Return the client's command, installed into the project; skip the test if that fails."""
    npm_install("node", NODE)
    place = npm_install(client.name, client.package)
    return place / "node_modules" / ".bin" / client.command


@contextmanager
def installing(name: str) -> Iterator[Path]:
    """Yield the place of `name`; other workers that want it wait until it is installed."""
    HOME.mkdir(exist_ok=True)
    with (HOME / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed
        yield HOME / name


def npm_install(name: str, *packages: str) -> Path:
    """Install npm packages into a place of their own; skip the test if that fails."""
    with installing(name) as place:
        return _npm_installed(name, place, packages)


def _npm_installed(name: str, place: Path, packages: tuple[str, ...]) -> Path:
    ready = place / ".ready"
    if ready.exists() and ready.read_text() == " ".join(packages):
        return place
    if shutil.which("npm") is None:
        pytest.skip(f"{name}: npm is not on this machine")
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").write_text("{}")
    try:
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--no-save", *packages],
            cwd=place, capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name}: cannot be installed: npm took more than 400 s")
    if done.returncode:
        pytest.skip(f"{name}: cannot be installed: {done.stderr.strip()[-300:]}")
    ready.write_text(" ".join(packages))
    return place


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
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        words = {"url": url, "home": home, "model": model or client.model, "prompt": asked}
        for name, text in client.files.items():
            place = Path(home) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_fill(text, words))
        done = subprocess.run(
            [str(command), *(_fill(a, words) for a in client.arguments)],
            cwd=work, env=clean_environment(home) | {k: _fill(v, words) for k, v in client.env.items()},
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


def clean_environment(home: str) -> dict[str, str]:
    """Return an environment with nothing of the user in it."""
    node = HOME / "node" / "node_modules" / ".bin"
    return {
        "PATH": os.pathsep.join([str(node), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1",
        "SHELL": "/bin/bash", "CI": "1", "DO_NOT_TRACK": "1", "OTEL_SDK_DISABLED": "true",
        "NO_UPDATE_NOTIFIER": "1",
        "XDG_CONFIG_HOME": f"{home}/.config", "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_CACHE_HOME": f"{home}/.cache", "XDG_STATE_HOME": f"{home}/.local/state",
    }  # fmt: skip
