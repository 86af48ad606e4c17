"""A gateway as a user starts one: the installed command, in its own process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def serve(tmp_path):
    """Return a function that starts a gateway with a configuration and returns its URL."""
    started: list[subprocess.Popen] = []

    def start(config: str = "") -> str:
        file = tmp_path / f"toolbridge-{len(started)}.toml"
        file.write_text(config)
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "toolbridge"), "serve", "--port", "0",
             "--config", str(file), "--log", "off"],
            stdout=subprocess.PIPE, text=True,
            env={k: v for k, v in os.environ.items() if "TOOLBRIDGE" not in k}
            | {"OLLAMA_HOST": "127.0.0.1:1"},
        )  # fmt: skip
        started.append(process)
        first = process.stdout.readline()
        assert " at http://" in first, first
        return first.rsplit(" at ", 1)[1].strip()

    yield start
    for process in started:
        process.terminate()
        process.wait(10)
        process.stdout.close()
