"""The gateway that runs in the background: its pid file, its health, starting and stopping it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from toolbridge.config import Config
from toolbridge.core.errors import ToolbridgeError
from toolbridge.state_dir import state_dir as find_state_dir
from toolbridge.store import private_files

START_WAIT = 30.0
"""Seconds for a gateway to answer: a second usually, ten times as long on a busy machine."""


class Running(msgspec.Struct, frozen=True, omit_defaults=True):
    """The process and the address of a running gateway."""

    pid: int
    url: str
    started: float = 0.0
    """When its processes were started, or replaced for the last time."""
    reloads: int = 0
    """How often the configuration was read again."""
    grace: float = 0.0
    """Seconds for which it may finish running requests when it is stopped."""
    fault: str = ""
    """Why the last reload failed; empty if it did not."""
    unchanged: tuple[str, ...] = ()
    """The changed settings that the last reload could not apply."""
    writes: int = 0
    """How often this was written: two failures with the same fault differ."""


def state_dir() -> Path:
    """Return the state directory of this user; without `HOME`, that of the user database."""
    return find_state_dir(os.environ) or find_state_dir({"HOME": str(Path.home())}) or Path()


def log_file() -> Path:
    return state_dir() / "toolbridge.log"


def pid_file(owner: str = "toolbridge") -> Path:
    """Return the pid file of the background gateway, or that of one command (`owner`)."""
    return state_dir() / f"{owner}.pid"


def write_pid(running: Running, file: Path) -> None:
    if file.parent == state_dir() or not file.parent.exists():
        private_files.make_folder(file.parent)
    private_files.write(file, msgspec.json.encode(running))


def forget_pid(pid: int, file: Path | None) -> None:
    """Remove the pid file, unless another gateway has written it since."""
    running = find(file)
    if running is None or running.pid == pid:
        forget(file)


def forget(file: Path | None = None) -> None:
    with suppress(OSError):  # a directory that cannot be written has no pid file of ours
        (file or pid_file()).unlink(missing_ok=True)


def find(file: Path | None = None) -> Running | None:
    """Return the gateway in the background; None if the one of the pid file has died.

    The file of a dead process stays: its successor may write it at the same moment.
    """
    try:
        running = msgspec.json.decode((file or pid_file()).read_bytes(), type=Running)
    except (OSError, msgspec.DecodeError):
        return None
    return running if alive(running.pid) else None


def alive(pid: int) -> bool:
    """Return whether `pid` is a gateway; the system gives old numbers to other programs."""
    return {b"toolbridge", b"serve", b"--announce"} <= set(_command(pid))


def _command(pid: int) -> list[bytes]:
    """Return the command line of the process `pid`; empty if it has ended."""
    if pid <= 0:
        return []
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return []
    ps = ["ps", "-o", "command=", "-p", str(pid)]
    return subprocess.run(ps, capture_output=True, check=False).stdout.split()  # noqa: S603


def healthy(url: str, wait: float = 1.0) -> dict[str, object] | None:
    """Return the health of the gateway at `url`; None if it does not answer."""
    import urllib.request  # it takes 10 ms, which `serve` spends only if the port is taken

    try:
        with urllib.request.urlopen(f"{url}/health", timeout=wait) as answer:  # noqa: S310  loopback
            found: dict[str, object] = json.load(answer)
            return found
    except (OSError, ValueError):
        return None


def start_background(
    flags: list[str], wait: float = START_WAIT, *, file: Path | None = None
) -> Running:
    """Start a gateway as a background process, and wait until it answers."""
    file = file or pid_file()
    with _open_log() as log:
        forget(file)
        child = subprocess.Popen(  # noqa: S603  our own interpreter and module
            [sys.executable, "-m", "toolbridge", "serve", "--announce", str(file), *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    running: Running | None = None
    try:
        running = _wait_for(child, file, wait)
    finally:
        if running is None and child.poll() is None:  # too slow, or interrupted
            child.terminate()
    if running is None:
        raise ToolbridgeError(f"the gateway did not start; {log_file()} ends with:\n{_tail()}")
    return running


def _open_log() -> BinaryIO:
    try:
        private_files.make_folder(state_dir())
        return os.fdopen(private_files.open_to_append(log_file()), "ab")
    except OSError as error:
        raise ToolbridgeError(
            f"cannot write to {state_dir()} ({error.strerror}); make it writable, or set "
            "XDG_STATE_HOME to another directory"
        ) from None


def _wait_for(child: "subprocess.Popen[bytes]", file: Path, wait: float) -> Running | None:
    until = time.monotonic() + wait
    while time.monotonic() < until and child.poll() is None:
        running = find(file)
        if running is not None and running.pid == child.pid and healthy(running.url):
            return running
        time.sleep(0.05)
    return None


def stop(running: Running, wait: float = 10.0, *, file: Path | None = None) -> bool:
    """Stop a gateway; return whether it ended without being killed.

    It has `wait` seconds, and those in which it finishes running requests.
    """
    with suppress(ProcessLookupError):
        os.kill(running.pid, signal.SIGTERM)
    until = time.monotonic() + wait + running.grace
    while (ended := not alive(running.pid)) is False and time.monotonic() < until:
        time.sleep(0.05)
    if not ended:
        with suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGKILL)
    forget_pid(running.pid, file)
    return ended


def ask(running: Running, number: int, wait: float, *, replace: bool = False) -> Running | None:
    """Send a signal to a gateway; return its new state, None without a change in `wait` seconds.

    The gateway writes the pid file again when it has done what the signal asks for. It does so
    after every change of its configuration file too, which is no answer to the signal to `replace`
    its processes.
    """
    with suppress(ProcessLookupError):
        os.kill(running.pid, number)
    until = time.monotonic() + wait
    while time.monotonic() < until:
        now = find()
        if now is not None and now != running:
            replaced = (now.pid, now.started) != (running.pid, running.started)
            if replaced or now.fault or not replace:
                return now
        time.sleep(0.05)
    return None


class Announcement:
    """The pid file of a gateway in the background; nothing without one."""

    def __init__(self, url: str, file: Path | None, config: Config) -> None:
        self._file = file
        grace = config.stop_grace + config.drain_delay
        self._state = Running(os.getpid(), url, started=time.time(), grace=grace)

    def write(
        self,
        *,
        fault: str = "",
        reloaded: bool = False,
        started: float = 0.0,
        unchanged: Sequence[str] = (),
    ) -> None:
        """Write the file again: after a reload, a failure, or the replacement of workers."""
        self._state = msgspec.structs.replace(
            self._state,
            fault=fault,
            unchanged=tuple(unchanged),
            reloads=self._state.reloads + reloaded,
            writes=self._state.writes + 1,
            started=started or self._state.started,
        )
        if self._file is not None:
            write_pid(self._state, self._file)

    def count_reload(self, fault: str, unchanged: Sequence[str]) -> None:
        self.write(fault=fault, reloaded=True, unchanged=unchanged)

    def hand_over(self) -> None:
        """Leave the file to the process that replaces this one, and never write or remove it again.

        The successor may write it between a check of its content and its removal.
        """
        self._file = None

    def remove(self) -> None:
        if self._file is not None:
            forget_pid(os.getpid(), self._file)


def _tail(lines: int = 12) -> str:
    try:
        return "\n".join(log_file().read_text("utf-8", "replace").split("\n")[-lines:]).strip()
    except OSError:
        return "(no log)"
