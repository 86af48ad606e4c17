"""The gateway that runs in the background: where it is, and whether it still is."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import msgspec

from toolbridge.core.errors import ToolbridgeError


class Running(msgspec.Struct, frozen=True):
    pid: int
    url: str


def state_dir() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "toolbridge"


def log_file() -> Path:
    return state_dir() / "toolbridge.log"


def _pid_file() -> Path:
    return state_dir() / "toolbridge.pid"


def write_pid(running: Running) -> None:
    state_dir().mkdir(parents=True, exist_ok=True)
    _pid_file().write_bytes(msgspec.json.encode(running))


def forget() -> None:
    _pid_file().unlink(missing_ok=True)


def find() -> Running | None:
    """Return the gateway in the background; forget one that died without saying so."""
    try:
        running = msgspec.json.decode(_pid_file().read_bytes(), type=Running)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    if alive(running.pid):
        return running
    forget()
    return None


def alive(pid: int) -> bool:
    """Whether `pid` is a gateway of ours: numbers are given again to other programs."""
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/cmdline")
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        return not command.exists() or b"toolbridge" in command.read_bytes()
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError:
        return False


def healthy(url: str, wait: float = 1.0) -> dict[str, object] | None:
    """Return what the gateway at `url` says of itself; None when it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=wait) as answer:  # noqa: S310  loopback
            found: dict[str, object] = json.load(answer)
            return found
    except (OSError, ValueError, urllib.error.URLError):
        return None


def start_background(flags: list[str], wait: float = 10.0) -> Running:
    """Start a gateway that outlives this command, and wait until it serves."""
    state_dir().mkdir(parents=True, exist_ok=True)
    forget()
    with log_file().open("ab") as log:
        child = subprocess.Popen(  # noqa: S603  our own interpreter and module
            [sys.executable, "-m", "toolbridge", "serve", "--announce", *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    until = time.monotonic() + wait
    while time.monotonic() < until:
        running = find()
        if running is not None and running.pid == child.pid and healthy(running.url):
            return running
        if child.poll() is not None:
            break
        time.sleep(0.05)
    child.poll()
    if child.returncode is None:
        child.terminate()
    raise ToolbridgeError(f"the gateway did not start; {log_file()} ends with:\n{_tail()}")


def stop(running: Running, wait: float = 10.0) -> bool:
    """Stop a gateway; return whether it ended by itself in time."""
    os.kill(running.pid, signal.SIGTERM)
    until = time.monotonic() + wait
    while time.monotonic() < until:
        if not alive(running.pid):
            forget()
            return True
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    forget()
    return False


def _tail(lines: int = 12) -> str:
    try:
        return "\n".join(log_file().read_text("utf-8", "replace").split("\n")[-lines:]).strip()
    except OSError:
        return "(no log)"
