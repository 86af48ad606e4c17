"""The built wheel, as a user installs it: pip, a virtual environment, no clone around it."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.wheel.pythons import ROOT, find_python, supported

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist)], cwd=ROOT)
    [built] = dist.glob("toolbridge-*-py3-none-any.whl")
    return built


@pytest.mark.parametrize("version", supported())
def test_the_wheel_installs_and_serves(version, wheel, tmp_path):
    python = find_python(version)
    if python is None:
        pytest.skip(f"this machine has no Python {version}")
    _run([python, "-m", "venv", str(tmp_path / "venv")], cwd=tmp_path)
    binaries = tmp_path / "venv" / "bin"
    _run([binaries / "python", "-m", "pip", "install", "-q", str(wheel)], cwd=tmp_path)

    said = _run([binaries / "toolbridge", "--version"], cwd=tmp_path)
    assert said == f"toolbridge {wheel.name.split('-')[1]}\n"
    with _served(binaries / "toolbridge", tmp_path) as url:
        assert _json(f"{url}/health")["status"] == "ok"
        answer = _json(f"{url}/v1/messages", _message("What is 6 * 7?"))
        assert "42" in answer["content"][0]["text"]


def _run(command: list, *, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def _served(command: Path, home: Path) -> Iterator[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OLLAMA_HOST": "127.0.0.1:1"}
    process = subprocess.Popen(
        [command, "serve", "--port", "0", "--log", "off"],
        cwd=home, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        said = process.stdout.readline()
        found = re.search(r"http://\S+", said)
        assert found, said + process.stdout.read()
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=20)


def _json(url: str, body: dict | None = None) -> dict:
    request = urllib.request.Request(
        url, json.dumps(body).encode() if body else None, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def _message(text: str) -> dict:
    turns = [{"role": "user", "content": text}]
    return {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": turns}
