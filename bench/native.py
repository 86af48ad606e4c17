"""The model server and the load generator, which are written in C so that they never limit.

`Mock` is `harness/mock.c` as a process; `Load` is one run of `harness/load.c`. Both are built on
first use, into `build/bench`.
"""

import atexit
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
OUT = HERE.parent / "build" / "bench"


@cache
def scratch() -> Path:
    """Return a folder for the files of this run; it is removed at the end of the process."""
    OUT.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="run-", dir=OUT)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def missing() -> str:
    """Return why the benchmarks cannot run here; nothing if they can."""
    if sys.platform != "linux":
        return "the benchmarks read /proc and use epoll, so they run on Linux only"
    try:
        subprocess.run(["cc", "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no C compiler (install gcc or clang as `cc`)"
    return ""


def end_servers_on_sigterm() -> None:
    """Let `timeout` and `kill` end a run as Ctrl-C does: all servers that it started end too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def built(name: str) -> str:
    """Return the path of a C program of `harness/`, built anew if its source is newer."""
    OUT.mkdir(parents=True, exist_ok=True)
    source, program = HERE / "harness" / f"{name}.c", OUT / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        part = program.with_suffix(".part")
        subprocess.run(["cc", "-O2", "-w", "-o", part, source], check=True)
        part.replace(program)
    return str(program)


class Mock:
    """A model server: Ollama at /api/chat, OpenAI chat at /v1/chat/completions."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([built("mock")], stdout=subprocess.PIPE, text=True)
        self.port = int(self._process.stdout.readline())

    def configure(
        self,
        *,
        chunks: int = 20,
        burst: int = 1_000_000,
        gap: int = 0,
        result: bool = False,
        in_step: bool = False,
    ) -> None:
        """Set the answers of later requests: `burst` chunks per write, writes `gap` µs apart.

        With `in_step` all streams are written at the same moments, whenever they began.
        """
        settings = f"chunks={chunks}&burst={burst}&gap={gap}&result={result:d}&step={in_step:d}"
        self._get(f"__ctl?{settings}&delay=0")

    def reset(self) -> None:
        self._get("__reset")

    def stats(self) -> dict:
        return json.loads(self._get("__stats"))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._process.stdout.close()

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=10) as answer:
            return answer.read()


@dataclass(frozen=True)
class Load:
    """Requests to one port: `at_once` of them at a time, `count` after `warm` that do not count."""

    body: bytes
    at_once: int
    count: int
    warm: int = 0
    expect: str = ""
    """Text that a complete answer contains."""
    limit: int = 120
    """Seconds after which the generator stops."""
    options: tuple[object, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)

    def start(self, port: int, path: str, name: str) -> subprocess.Popen:
        file = scratch() / f"body-{name}-{port}.json"
        file.write_bytes(self.body)
        command: list[object] = [
            built("load"), "-p", port, "-u", path, "-b", file, "-c", self.at_once,
            "-n", self.count, "-w", self.warm, "-T", self.limit, *self.options,
        ]  # fmt: skip
        for key, value in self.headers.items():
            command += ["-H", f"{key}: {value}"]
        if self.expect:
            command += ["-E", self.expect]
        return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE)


def finished(process: subprocess.Popen) -> dict:
    """Return the figures of a load that ends by itself."""
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the load generator ended with {process.returncode}")
    figures = json.loads(out)
    if figures["errors"]:
        print(f"# status {figures['last_status']}: {figures['errbody'][:300]}", file=sys.stderr)
    return figures
