"""Other gateways, measured in the same run: LiteLLM and the engine of claude-code-router.

Each is installed into an environment of its own below `build/bench/peers` and serves Anthropic's
API in front of the OpenAI-compatible model server. One that cannot be installed is left out, with
the reason.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.native import OUT, scratch
from bench.targets import KEY, Server, free_port

FOLDER = OUT / "peers"
ENGINE = "@musistudio/llms"
# `hosted_vllm`: an `openai` model would be asked through the Responses API.
LITELLM_CONFIG = """
model_list:
  - model_name: m
    litellm_params: {{model: hosted_vllm/m, api_base: "http://127.0.0.1:{mock}/v1", api_key: any}}
litellm_settings: {{telemetry: false, drop_params: true}}
"""
ENGINE_PROGRAM = """
const Server = require("@musistudio/llms").default;
const [port, url] = process.argv.slice(2);
const provider = { name: "mock", api_base_url: url, api_key: "any", models: ["m"] };
new Server({
  initialConfig: { PORT: port, HOST: "127.0.0.1", LOG: false, providers: [provider] },
  logger: false,
}).start();
"""


class Absent(Exception):
    """A peer cannot be installed here."""


def litellm(mock: int) -> Server:
    """Return LiteLLM's proxy, installed on first use."""
    home = FOLDER / "litellm"
    program = home / "bin" / "litellm"
    if not program.exists():
        _run([sys.executable, "-m", "venv", str(home)])
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-qq"]
        _run([*pip, "--disable-pip-version-check", "litellm[proxy]"])
    config = scratch() / f"litellm-{mock}.yaml"
    config.write_text(LITELLM_CONFIG.format(mock=mock))
    port = free_port()
    command = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    # The table of prices comes from the package, not from the network.
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY}
    return Server("LiteLLM", command, port, model="m", env=env)


def engine(mock: int) -> Server:
    """Return the engine of claude-code-router as a server, installed on first use."""
    home = FOLDER / "engine"
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise Absent("node and npm are not installed")
    home.mkdir(parents=True, exist_ok=True)
    if not _engine_package().exists():
        (home / "package.json").write_text('{"private": true}\n')
        _run([npm, "install", "--no-audit", "--no-fund", "--loglevel=error", ENGINE], home)
    (home / "serve.cjs").write_text(ENGINE_PROGRAM)
    port = free_port()
    url = f"http://127.0.0.1:{mock}/v1/chat/completions"
    command = [node, str(home / "serve.cjs"), str(port), url]
    return Server("claude-code-router engine", command, port, model="mock,m")


def versions() -> dict[str, str]:
    """Return the versions of the peers that are installed."""
    found = {}
    for folder in (FOLDER / "litellm").glob("lib/python*/site-packages/litellm-*.dist-info"):
        found["LiteLLM"] = folder.name.removeprefix("litellm-").removesuffix(".dist-info")
    if _engine_package().exists():
        found["claude-code-router engine"] = json.loads(_engine_package().read_text())["version"]
    return found


def started(mock: int) -> Iterator[Server]:
    """Yield each peer that could be installed and started; print why another could not."""
    for name, create in (("LiteLLM", litellm), ("claude-code-router engine", engine)):
        try:
            server = create(mock)
            server.start()
        except (Absent, OSError, RuntimeError) as reason:
            print(f"# {name}: skipped: {reason}", flush=True)
            continue
        yield server


def _engine_package() -> Path:
    return FOLDER / "engine" / "node_modules" / ENGINE / "package.json"


def _run(command: list[str], folder: Path | None = None) -> None:
    print(f"# {' '.join(command)}", flush=True)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Absent(said[-1] if said else f"{command[0]} ended with {done.returncode}")
