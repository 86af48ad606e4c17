"""A gateway as a user starts one: the installed command, in its own process. And what it needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.real import llamacpp

COMMAND = Path(sys.executable).parent / "toolbridge"


@pytest.fixture
def serve(tmp_path):
    """Return a function that starts a gateway with a configuration and returns its URL."""
    started: list[subprocess.Popen] = []

    def start(
        config: str = "", *flags: str, command: Path = COMMAND, state: Path | None = None
    ) -> str:
        file = tmp_path / f"toolbridge-{len(started)}.toml"
        file.write_text(config)
        process = subprocess.Popen(
            [str(command), "serve", "--port", "0", "--config", str(file), "--log", "off", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={k: v for k, v in os.environ.items() if "TOOLBRIDGE" not in k}
            | {"OLLAMA_HOST": "127.0.0.1:1", "XDG_STATE_HOME": str(state or tmp_path / "state")},
        )  # fmt: skip
        started.append(process)
        said = ""
        for line in process.stdout:
            said += line
            if " at http://" in line:
                return line.rsplit(" at ", 1)[1].strip()
        raise AssertionError(f"the gateway ended: {said}")

    yield start
    for process in started:
        process.terminate()
        process.wait(60)
        print(process.stdout.read())  # shown when the test failed
        process.stdout.close()


@pytest.fixture(scope="session")
def tiny():
    """Return a llama.cpp server with the scripted model, one for all tests."""
    with llamacpp.engine() as engine:
        yield engine
