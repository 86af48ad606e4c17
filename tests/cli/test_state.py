"""The gateway in the background, and other programs that have its number now."""

import json
import signal
import subprocess
import sys

import pytest

from toolbridge.cli import state


@pytest.fixture
def noted(monkeypatch, tmp_path):
    """Return a function that writes down a process as the gateway in the background."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def note(pid: object, url: str = "http://127.0.0.1:1") -> None:
        state.pid_file().parent.mkdir(exist_ok=True)
        state.pid_file().write_text(json.dumps({"pid": pid, "url": url}))

    return note


@pytest.mark.req("PX-X7")
@pytest.mark.parametrize("pid", [-1, 0, 10**11, "x", None])
def test_a_number_that_is_no_process_is_no_gateway(noted, pid):
    noted(pid)
    assert state.find() is None


@pytest.mark.req("PX-X7")
def test_another_program_that_speaks_of_toolbridge_is_left_alone(noted):
    other = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)", "toolbridge", "serve", "notes.md"]
    )
    try:
        noted(other.pid)
        assert state.find() is None
        assert state.pid_file().exists()  # a successor may write it at this moment
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.req("PX-X7", "CB-27")
def test_a_gateway_ends_well_at_a_signal_and_forgets_itself(noted, tmp_path, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.pid"
    process = subprocess.Popen(
        [sys.executable, "-m", "toolbridge", "serve", "--port=0", "--announce", str(file)],
        stdout=subprocess.PIPE,
    )
    try:
        process.stdout.readline()
        assert state.find(file).pid == process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert not file.exists()
    finally:
        process.kill()
        process.communicate()
