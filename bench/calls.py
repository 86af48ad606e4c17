"""Python calls of the gateway per request, per delta and per chunk.

Another load on the machine does not change the calls per request. It changes those per chunk that
arrives by itself: chunks that the gateway reads late, it reads together, and two of them in one read cost
less than in two. So that case is repeated with a longer gap until each chunk was read by itself, and is
divided by the reads.

`python -m bench.calls` prints the counts for streams and whole answers, without tools, with fifteen
tools and with a turn of a coding agent, from Ollama and from OpenAI-compatible servers. `--top N`
lists the functions that are called most per request. `bench/guard.py` compares the counts with a
baseline.
"""

import argparse
import http.client
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from bench import bodies, native
from bench.native import Mock, scratch
from bench.plan import model_server
from bench.targets import HEADERS, UPSTREAMS, Server, toolbridge

WARM, REQUESTS = 6, 10
SHORT, LONG = 20, 220
APART, GAPS = 70, (2000, 4000, 8000, 16_000, 32_000)
"""Chunks that arrive one by one, and the µs between them: a longer gap where some arrived together."""
READ = "upstream/http_connection.py:ProviderConnection.data_received"
"""The function that the gateway calls for each read from the provider."""
HERE = Path(__file__).parent
CASES = {
    "JSON, plain": bodies.plain(stream=False),
    "stream, plain": bodies.plain(stream=True),
    "JSON, 15 tools": bodies.plain(stream=False, tools=15),
    "stream, 15 tools": bodies.plain(stream=True, tools=15),
    "agent, 48 KB": bodies.agent(48, seed="session"),
}


class CountedGateway:
    """A gateway that counts its Python calls, and one connection to it."""

    def __init__(self, api: str, mock: int) -> None:
        server = toolbridge(api, mock, name="counted")
        self._out = scratch() / f"calls-{server.port}.json"
        program = [sys.executable, str(HERE / "counted_gateway.py"), str(self._out)]
        self._server = Server("counted", [*program, *server.command[2:]], server.port)
        self._server.start()
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(self, body: bytes, times: int) -> None:
        head = {"content-type": "application/json", **HEADERS}
        for number in range(times):
            # As in `load.c`: no two bodies are equal, and the history of a session is.
            own = body.replace(bodies.NUMBER.encode(), b"#%07d#" % number)
            self._connection.request("POST", "/v1/messages", own, head)
            answer = self._connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the gateway answered {answer.status}: {text[:300]!r}")

    def calls(self) -> Counter[str]:
        self._out.unlink(missing_ok=True)
        self._server.send_signal(signal.SIGUSR1)
        for _ in range(3000):
            if self._out.exists():
                return Counter(json.loads(self._out.read_text()))
            time.sleep(0.01)
        raise RuntimeError("the gateway wrote no counts")

    def per_request(self, body: bytes, requests: int = REQUESTS) -> Counter[str]:
        """Return the calls of one request: the mean of `requests`, after some that fill caches."""
        self.ask(body, WARM)
        before = self.calls()
        self.ask(body, requests)
        after = self.calls()
        after.subtract(before)
        return Counter({name: count / requests for name, count in after.items() if count})

    def close(self) -> None:
        self._connection.close()
        self._server.close()
        self._out.unlink(missing_ok=True)


def measure(mock: Mock, api: str, top: int = 0) -> dict[str, float]:
    """Return the calls per request, and for streams per delta, of each case."""
    gateway = CountedGateway(api, mock.port)
    found = {}
    try:
        for case, body in CASES.items():
            mock.configure(chunks=SHORT)
            calls = gateway.per_request(body)
            name = f"{api}: {case}"
            found[f"{name}: calls per request"] = round(calls.total(), 1)
            if top:
                show(name, calls, top)
            if case.startswith("stream"):
                mock.configure(chunks=LONG)
                more = gateway.per_request(body).total() - calls.total()
                found[f"{name}: calls per delta"] = max(0.0, round(more / (LONG - SHORT), 2))
                found[f"{name}: calls per chunk apart"] = apart(mock, gateway, body)
    finally:
        gateway.close()
    return found


def apart(mock: Mock, gateway: CountedGateway, body: bytes) -> float:
    """Return the calls for a chunk that arrives by itself.

    Where chunks still arrive together with the longest gap, the figure is too high, not too low.
    """
    calls = []
    for gap in GAPS:
        calls.clear()
        for chunks in (SHORT, APART):
            mock.configure(chunks=chunks, burst=1, gap=gap)
            calls.append(gateway.per_request(body, requests=3))
        if calls[0][READ] >= SHORT and calls[1][READ] >= APART:
            break
    return per_read(*calls)


def per_read(short: Counter[str], long: Counter[str]) -> float:
    """Return the calls that a longer stream has more than a shorter one, for each read."""
    reads = long[READ] - short[READ]
    if reads <= 0:
        raise RuntimeError(f"no calls of {READ} were counted: has it another name now?")
    return round((long.total() - short.total()) / reads, 1)


def counted(top: int = 0) -> dict[str, float]:
    """Return all counts, of every upstream API."""
    found: dict[str, float] = {}
    with model_server() as mock:
        for api in UPSTREAMS:
            found |= measure(mock, api, top)
    return found


def show(name: str, calls: Counter[str], top: int) -> None:
    print(f"# {name}")
    for function, count in calls.most_common(top):
        print(f"{count:8.1f}  {function}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--top", type=int, default=0, help="list so many functions of each case")
    args = parser.parse_args()
    native.end_servers_on_sigterm()
    if why := native.missing():
        print(f"skipped: {why}")
        return 0
    for name, count in counted(args.top).items():
        print(f"{count:10.1f}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
