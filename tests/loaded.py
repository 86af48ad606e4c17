"""What a process loads: `import toolbridge`, and `toolbridge serve` once it listens.

`python -m tests.loaded` prints modules, milliseconds and megabytes of each.
"""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

REPORT = """
    import gc, json, resource, sys, time

    def report(began, file):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = {
            "modules": sorted(sys.modules),
            "ms": (time.perf_counter() - began) * 1000,
            "mb": most / (1 << 20 if sys.platform == "darwin" else 1 << 10),
            "collects": gc.isenabled(),
        }
        with open(file, "w") as out:
            json.dump(found, out)
"""
IMPORT = """
    began = time.perf_counter()
    import toolbridge
    report(began, sys.argv[1])
"""
SERVE = """
    import os, signal, threading, urllib.request

    out, announced, post, *rest = sys.argv[1:]

    def ask(body):
        with open(announced) as file:
            url = json.loads(file.read())["url"] + "/v1/stream"
        head = {"content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, body.encode(), head)) as answer:
            answer.read()

    def watch():
        while not os.path.exists(announced):
            time.sleep(0.005)
        if post:
            ask(post)
        report(began, out)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
    began = time.perf_counter()
    from toolbridge.cli import main
    sys.exit(main(["serve", "--port", "0", "--announce", announced, *rest]))
"""


@dataclass(frozen=True)
class Loaded:
    """What a process had loaded, and what it took."""

    modules: frozenset[str]
    ms: float
    mb: float
    collects: bool
    """Whether the garbage collector runs."""

    @property
    def own(self) -> list[str]:
        return sorted(name for name in self.modules if name.partition(".")[0] == "toolbridge")

    def below(self, *names: str) -> list[str]:
        """Return the modules that are, or are in, one of `names`."""
        return sorted(m for m in self.modules if any(f"{m}.".startswith(f"{n}.") for n in names))


def imported(folder: Path) -> Loaded:
    """Return what `import toolbridge` loads."""
    return _run(IMPORT, folder)


def served(folder: Path, config: str = "", post: str = "") -> Loaded:
    """Return what `toolbridge serve` has loaded once it listens.

    `config` is the text of its toolbridge.toml, `post` the body of a structured stream that is
    read to its end first.
    """
    given = []
    if config:
        file = folder / "toolbridge.toml"
        file.write_text(config)
        given = ["--config", str(file)]
    return _run(SERVE, folder, str(folder / "announced"), post, *given)


def _run(program: str, folder: Path, *arguments: str) -> Loaded:
    out = folder / "loaded.json"
    code = textwrap.dedent(REPORT) + textwrap.dedent(program)
    path = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", code, str(out), *arguments],
        cwd=folder,
        env={**path, "HOME": str(folder), "OLLAMA_HOST": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert out.exists(), done.stderr
    found = json.loads(out.read_text())
    return Loaded(frozenset(found["modules"]), found["ms"], found["mb"], found["collects"])


def main() -> None:
    for name, load in (("import toolbridge", imported), ("toolbridge serve", served)):
        with tempfile.TemporaryDirectory() as folder:
            load(Path(folder))  # compiles what is not compiled yet
        with tempfile.TemporaryDirectory() as folder:
            found = load(Path(folder))
        print(
            f"{name}: {len(found.own)} modules of toolbridge, {len(found.modules)} in all, "
            f"{found.ms:.0f} ms, {found.mb:.0f} MB"
        )
        parts = Counter(".".join(module.split(".")[:2]) for module in found.own)
        print("   ", ", ".join(f"{part} {count}" for part, count in parts.most_common()))


if __name__ == "__main__":
    main()
