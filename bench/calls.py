"""Python calls of the gateway per request and per delta: a cost that no other load changes.

`python bench/calls.py` prints the counts for streams and whole answers, without tools and with
fifteen, from Ollama and from OpenAI-compatible servers. `--top N` lists the functions that are
called most per request, `--check FILE` compares with a saved baseline and fails if any count is more
than ten percent higher, `--save FILE` writes a new one.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "harness"))
import bench as harness  # noqa: E402  its folder is not a package

PORT, MOCK = 21110, 21101
REQUESTS = 40
SHORT, LONG = 20, 220
CONFIG = """
log = "off"
[map]
default = "mock/m"
[providers.mock]
api = "{api}"
url = "http://127.0.0.1:{mock}{path}"
[models."mock/m"]
window = 65536
"""
TOOL = {
    "description": "Does a thing with a path and a number, and says what it did.",
    "input_schema": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where"},
            "n": {"type": "integer"},
        },
        "required": ["path"],
    },
}


def body(*, stream: bool, tools: int) -> bytes:
    asked = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1024,
        "stream": stream,
        "messages": [{"role": "user", "content": "Say something about gateways, please."}],
    }
    if tools:
        asked["tools"] = [TOOL | {"name": f"tool_{n}"} for n in range(tools)]
    return json.dumps(asked).encode()


class CountedGateway:
    def __init__(self, api: str, folder: Path) -> None:
        self._out = folder / "calls.json"
        config = folder / "toolbridge.toml"
        path = "/v1" if api == "openai_chat" else ""
        config.write_text(CONFIG.format(api=api, mock=MOCK, path=path))
        command = [sys.executable, str(HERE / "counted_gateway.py"), str(self._out)]
        env = {**os.environ, "OLLAMA_HOST": "127.0.0.1:1", "HOME": str(folder)}
        self._process = subprocess.Popen(
            [*command, "--config", str(config), "--port", str(PORT)],
            env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        harness.waitport(PORT, proc=self._process)

    def ask(self, data: bytes, times: int) -> None:
        head = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
        url = f"http://127.0.0.1:{PORT}/v1/messages"
        for _ in range(times):
            with urllib.request.urlopen(urllib.request.Request(url, data, head)) as answer:
                answer.read()

    def calls(self) -> Counter[str]:
        self._out.unlink(missing_ok=True)
        self._process.send_signal(signal.SIGUSR1)
        for _ in range(1000):
            if self._out.exists():
                return Counter(json.loads(self._out.read_text()))
            time.sleep(0.01)
        raise RuntimeError("the gateway wrote no counts")

    def per_request(self, data: bytes) -> Counter[str]:
        """Return the calls of one request: the mean of `REQUESTS`, after some that fill caches."""
        self.ask(data, 10)
        before = self.calls()
        self.ask(data, REQUESTS)
        after = self.calls()
        after.subtract(before)
        return Counter({name: count / REQUESTS for name, count in after.items() if count})

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)


def chunks(count: int, *, apart: bool = False) -> None:
    burst = 1 if apart else 1_000_000
    gap = 300 if apart else 0
    harness.get(f"http://127.0.0.1:{MOCK}/__ctl?chunks={count}&burst={burst}&gap={gap}&delay=0")


def measure(api: str, folder: Path, top: int) -> dict[str, float]:
    gateway = CountedGateway(api, folder)
    found = {}
    try:
        for tools in (0, 15):
            for stream in (False, True):
                chunks(SHORT)
                data = body(stream=stream, tools=tools)
                calls = gateway.per_request(data)
                name = f"{api}, {'stream' if stream else 'whole'}, {tools} tools"
                found[f"{name}: calls per request"] = round(calls.total(), 1)
                if top:
                    show(name, calls, top)
                if stream:
                    chunks(LONG)
                    more = gateway.per_request(data).total() - calls.total()
                    found[f"{name}: calls per delta"] = round(more / (LONG - SHORT), 2)
    finally:
        gateway.close()
    return found


def show(name: str, calls: Counter[str], top: int) -> None:
    print(f"# {name}")
    for function, count in calls.most_common(top):
        print(f"{count:8.1f}  {function}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--top", type=int, default=0)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--check", type=Path)
    args = parser.parse_args()
    out = HERE / "out"
    harness.build(str(out))
    mock = subprocess.Popen([str(out / "mock"), str(MOCK)])
    try:
        harness.waitport(MOCK, proc=mock)
        found: dict[str, float] = {}
        for api in ("ollama", "openai_chat"):
            with tempfile.TemporaryDirectory() as folder:
                found |= measure(api, Path(folder), args.top)
    finally:
        mock.terminate()
        mock.wait()
    for name, count in found.items():
        print(f"{count:10.1f}  {name}")
    if args.save:
        args.save.write_text(json.dumps(found, indent=1) + "\n")
    return compare(found, json.loads(args.check.read_text())) if args.check else 0


def compare(found: dict[str, float], baseline: dict[str, float]) -> int:
    worse = [name for name, count in baseline.items() if found.get(name, 1e9) > count * 1.1]
    for name in worse:
        print(f"more calls than the baseline: {name}: {baseline[name]} → {found.get(name)}")
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
