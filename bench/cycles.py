"""Simulated CPU cycles of the gateway per request: the measure for changes of the request path.

`python -m bench.cycles [CASE ...]` runs the gateway in callgrind, with a simulation of caches and
branches, and prints the cost of each case. The figures are the same within 1 % from run to run,
while measured times of the same program differ by 6 % and more
(docs/decisions/0050-where-the-time-of-a-request-goes.md). The kernel is not part of them.
`--keep FILE` keeps the profile of the last case for `callgrind_annotate`. Needs valgrind.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench import bodies, native
from bench.native import Load, Mock, finished, scratch
from bench.plan import model_server
from bench.scenarios import CHUNKS, JSON_END
from bench.targets import HEADERS, UPSTREAMS, Server, toolbridge

WARM, REQUESTS, AT_ONCE = 200, 300, 32
WRITES, APART, GAP = 100, 96, 150_000
"""The chunks of each stream whose chunks arrive apart, the streams that are counted, and the µs between
two chunks: in callgrind the gateway is fifty times as slow, and faster ones would arrive together."""
CASES = ("JSON", "stream", "JSON, 15 tools", "stream, 15 tools", "write")
QUOTED = ", ".join(f'"{case}"' for case in CASES)
# The L1 and L2 caches of current server processors; L2 takes the place of callgrind's last level.
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=524288,8,64")
PER_INSTRUCTION, PER_L1_MISS, PER_L2_MISS, PER_BRANCH = 0.4, 14, 35, 15


class SimulatedGateway:
    """A gateway in callgrind, which counts nothing until it is asked to."""

    def __init__(self, api: str, mock: int) -> None:
        plain = toolbridge(api, mock, name="simulated")
        self.out = scratch() / f"callgrind-{plain.port}"
        valgrind = ["valgrind", "--tool=callgrind", "--cache-sim=yes", "--branch-sim=yes", *CACHES]
        valgrind += ["--instr-atstart=no", f"--callgrind-out-file={self.out}", "--quiet"]
        command = [*valgrind, sys.executable, *plain.command]
        self.server = Server("simulated", command, plain.port)
        self.server.start()

    def load(self, body: bytes, count: int, expect: str) -> None:
        load = Load(body, AT_ONCE, count, expect=expect, headers=HEADERS, limit=600)
        figures = finished(load.start(self.server.port, "/v1/messages", "simulated"))
        if figures["errors"] or figures["incomplete"] or figures["unfinished"]:
            raise RuntimeError(f"wrong answers: {figures}")

    def control(self, *options: str) -> None:
        command = ["callgrind_control", *options, str(self.server.pid)]
        subprocess.run(command, check=True, capture_output=True)

    def counted(self, body: bytes, expect: str, requests: int) -> dict[str, int]:
        """Return the events of `requests`, after some that fill caches."""
        self.load(body, min(WARM, requests), expect)
        self.control("-i", "on")
        self.load(body, AT_ONCE, expect)  # fills the simulated caches
        self.control("-z")
        self.load(body, requests, expect)
        self.control("-d")
        self.control("-i", "off")
        return events_of(max(self.dumps(), key=lambda file: int(file.suffix[1:])))

    def dumps(self) -> list[Path]:
        return list(self.out.parent.glob(f"{self.out.name}.[0-9]*"))

    def close(self) -> None:
        self.server.close()


def events_of(dump: Path) -> dict[str, int]:
    """Return the totals of a profile of callgrind, by the names of its events."""
    text = dump.read_text(errors="replace")
    names = re.search(r"^events: (.*)$", text, re.MULTILINE)
    totals = re.search(r"^(?:totals|summary): (.*)$", text, re.MULTILINE)
    if names is None or totals is None:
        raise RuntimeError(f"{dump} has no totals")
    return dict(zip(names[1].split(), map(int, totals[1].split()), strict=False))


def cycles(events: dict[str, int]) -> float:
    """Return the cycles that a usual processor takes for these events."""
    l1 = events["I1mr"] + events["D1mr"] + events["D1mw"]
    l2 = events["ILmr"] + events["DLmr"] + events["DLmw"]
    branches = events["Bcm"] + events["Bim"]
    return (
        PER_INSTRUCTION * events["Ir"] + PER_L1_MISS * l1 + PER_L2_MISS * l2 + PER_BRANCH * branches
    )


def measure(mock: Mock, api: str, case: str, keep: str) -> None:
    streams = not case.startswith("JSON")
    body = bodies.plain(stream=streams, tools=15 if "15 tools" in case else 0)
    apart = case == "write"
    if apart:
        mock.configure(chunks=WRITES, burst=1, gap=GAP)
    else:
        mock.configure(chunks=CHUNKS)
    requests = APART if apart else REQUESTS
    gateway = SimulatedGateway(api, mock.port)
    try:
        events = gateway.counted(body, "message_stop" if streams else JSON_END, requests)
        if keep:
            shutil.copy(max(gateway.dumps(), key=lambda file: int(file.suffix[1:])), keep)
    finally:
        gateway.close()
    unit = requests * WRITES if apart else requests
    counts = "  ".join(f"{name} {events[name] / unit:,.0f}" for name in ("Ir", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw", "Bcm", "Bim"))  # fmt: skip
    print(f"{cycles(events) / unit / 1000:10,.1f} kilocycles  {api}: {case}   {counts}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {QUOTED}; all")
    parser.add_argument("--api", choices=sorted(UPSTREAMS), help="of the model server; both")
    parser.add_argument("--keep", default="", metavar="FILE", help="keep the last profile there")
    args = parser.parse_args()
    native.end_servers_on_sigterm()
    if unknown := set(args.cases) - set(CASES):
        parser.error(f"unknown case {min(unknown)!r}; choose from {QUOTED}")
    if why := native.missing() or ("" if shutil.which("valgrind") else "valgrind is not installed"):
        print(f"skipped: {why}")
        return 0
    with model_server() as mock:
        for api in [args.api] if args.api else UPSTREAMS:
            for case in args.cases or CASES:
                measure(mock, api, case, args.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
