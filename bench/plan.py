"""What `make bench` and `make bench-peers` measure, and in which order."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from tests import loaded

from bench import bodies, peers, scenarios
from bench.bars import NGINX_BARS
from bench.native import Mock
from bench.rounds import interleaved, medians, ratio, summary
from bench.scenarios import Figures, Scale, Scenario
from bench.stall import stall
from bench.targets import (
    UPSTREAMS,
    Server,
    Target,
    forward_target,
    message_target,
    nginx,
    toolbridge,
)


@dataclass(frozen=True)
class Size:
    """How long a run takes: rounds of each scenario, the load of a round."""

    rounds: int
    """Rounds of the scenarios that have a bar."""
    few_rounds: int
    """Rounds of the others."""
    long_rounds: int
    """Rounds of the scenarios that take seconds by themselves."""
    sessions: int
    """Sessions per round whose requests delay a second stream."""
    scale: Scale

    def rounds_of(self, name: str) -> int:
        """Return the rounds of the scenario `name`."""
        if name in LONG:
            return self.few_rounds if name in BARRED else self.long_rounds
        return self.rounds if name in BARRED else self.few_rounds


# One round differs from the next by 15 %, for nginx as well: many short rounds give a steadier median
# than a few long ones.
FULL = Size(11, 5, 3, 5, Scale(0.6))
QUICK = Size(3, 3, 1, 3, Scale(0.1, streams=200))

REQUESTS: dict[str, Scenario] = {
    "JSON, plain": scenarios.whole(0),
    "JSON, 15 tools": scenarios.whole(15),
    "JSON, 60 tools": scenarios.whole(60),
    "stream, plain": scenarios.stream(0),
    "stream, 15 tools": scenarios.stream(15),
    "stream, 60 tools": scenarios.stream(60),
    "write, plain": scenarios.writes(0, in_step=True),
    "write, 15 tools": scenarios.writes(15, in_step=True),
    "write, one by one": scenarios.writes(0, in_step=False),
    "burst chunk": scenarios.burst,
    "structured stream, per delta": scenarios.structured,
    **{f"agent, {size} KB": scenarios.sized(size) for size in bodies.SIZES},
}
LONG: dict[str, Scenario] = {
    "paced streams, per chunk": scenarios.paced,
    "cancel": scenarios.cancel,
}
NEW_PROCESSES: dict[str, Scenario] = {"slow readers": scenarios.slow_readers}
"""Scenarios whose processes must not have served other load: each round starts new ones."""
PEERS: dict[str, Scenario] = {
    "JSON": scenarios.whole(0),
    "stream": scenarios.stream(0),
    "write": scenarios.writes(0, in_step=True),
    "burst chunk": scenarios.burst,
    "first chunk": scenarios.first_chunk,
}
BARRED = {bar.path[2] for bar in NGINX_BARS if bar.must is not None}
STALLS = (48, 311, 600)
ONCE = ("workers", "start")
"""What is measured once, not for each upstream API."""
NO_NGINX = "# nginx is not installed: no ratios (apt-get install nginx-light)"


@contextmanager
def model_server() -> Iterator[Mock]:
    mock = Mock()
    try:
        yield mock
    finally:
        mock.close()


@contextmanager
def running(*servers: Server | None) -> Iterator[list[Server]]:
    """Start servers one after the other, and end them all; `None` is left out."""
    live: list[Server] = []
    try:
        for server in servers:
            if server:
                server.start()
                live.append(server)
        yield live
    finally:
        for server in live:
            server.close()


def targets_of(servers: list[Server], api: str) -> list[Target]:
    return [
        forward_target(server, api) if server.name == "nginx" else message_target(server)
        for server in servers
    ]


def reference(mock: Mock) -> Server | None:
    server = nginx(mock.port)
    if server is None:
        print(NO_NGINX, flush=True)
    return server


def names(part: str) -> list[str]:
    """Return what a part of a run measures, as `--only` selects it."""
    if part == "peers":
        return list(PEERS)
    return [*REQUESTS, *LONG, *map(stall_name, STALLS), *NEW_PROCESSES, *ONCE]


def stall_name(kilobytes: int) -> str:
    return f"stall, {kilobytes} KB"


def unknown(only: str, parts: Sequence[str]) -> str:
    """Return why `only` selects nothing of `parts`; nothing if it selects something."""
    found = [name for part in parts for name in names(part)]
    if any(only in name for name in found):
        return ""
    by_letters = {name.lower(): name for name in found}
    (near,) = get_close_matches(only.lower(), by_letters, n=1, cutoff=0)
    listed = ", ".join(f'"{name}"' for name in found)
    return f'no scenario contains "{only}"; the nearest is "{by_letters[near]}", of {listed}'


def gateway(size: Size, only: str = "") -> dict:
    """Measure toolbridge against nginx; `only` selects the scenarios whose names contain it."""
    found: dict[str, dict] = {}
    with model_server() as mock:
        for api in UPSTREAMS:
            with running(reference(mock), toolbridge(api, mock.port)) as servers:
                found[api] = of_api(mock, targets_of(servers, api), size, only)
            found[api] |= of_new_processes(mock, api, size, only)
        if only in "workers":
            found["workers"] = workers(mock, size)
        if only in "start":
            found["start"] = start(mock, size)
    return found


def of_api(mock: Mock, targets: list[Target], size: Size, only: str = "") -> dict:
    found = {}
    for name, scenario in {**REQUESTS, **LONG}.items():
        if only in name:
            found[name] = measured(mock, targets, scenario, size.rounds_of(name), size.scale)
            show(name, found[name])
    for kilobytes in STALLS:
        name = stall_name(kilobytes)
        if only in name:
            found[name] = stalls(mock, targets, kilobytes, size)
            show(name, found[name])
    return found


@dataclass(frozen=True)
class New:
    """A server that is started for each round, and has the name of its target."""

    name: str
    create: Callable[[], Server | None]


def of_new_processes(mock: Mock, api: str, size: Size, only: str = "") -> dict:
    """Measure what depends on all that a process has done before, in new processes for each round."""
    new = [New("toolbridge", lambda: toolbridge(api, mock.port))]
    if nginx(mock.port):
        new.insert(0, New("nginx", lambda: nginx(mock.port)))
    found = {}
    for name, scenario in NEW_PROCESSES.items():
        if only in name:
            found[name] = in_new_processes(mock, new, api, scenario, size)
            show(name, found[name])
    return found


def in_new_processes(
    mock: Mock, new: Sequence[New], api: str, scenario: Scenario, size: Size
) -> dict:
    def once(one: New, _number: int) -> Figures:
        with running(one.create()) as servers:
            (target,) = targets_of(servers, api)
            return scenario(mock, target, size.scale)

    return summary(interleaved(new, once, size.long_rounds))


def measured(
    mock: Mock, targets: list[Target], scenario: Scenario, count: int, scale: Scale
) -> dict:
    return summary(interleaved(targets, lambda target, _: scenario(mock, target, scale), count))


def stalls(mock: Mock, targets: list[Target], kilobytes: int, size: Size) -> dict:
    # Each round has texts of its own: a gateway that remembers bodies has not seen them.
    run = os.urandom(4).hex()
    samples = interleaved(
        targets,
        lambda target, number: stall(mock, target, kilobytes, size.sessions, f"{run}-{number}"),
        size.long_rounds,
    )
    return {name: medians(rounds) for name, rounds in samples.items()}


def workers(mock: Mock, size: Size) -> dict:
    """Measure how much two worker processes serve, compared with one."""
    one = toolbridge("ollama", mock.port, name="1 worker")
    two = toolbridge("ollama", mock.port, workers=2, name="2 workers")
    found = {}
    with running(one, two) as servers:
        for name in ("JSON, plain", "stream, plain", "stream, 15 tools"):
            samples = interleaved(
                targets_of(servers, "ollama"),
                lambda target, _, run=REQUESTS[name]: run(mock, target, size.scale),
                size.few_rounds,
            )
            found[name] = summary(samples)
            found[name]["gain"] = ratio(samples, "2 workers", "1 worker", "per_second")
            show(f"workers: {name}", found[name])
    return found


def start(mock: Mock, size: Size) -> dict:
    """Measure what a start costs: time to the first answer, import, modules, memory."""
    starts: list[dict] = []
    for _ in range(size.few_rounds):
        with running(toolbridge("ollama", mock.port)) as (server,):
            figures = {"cold_start_s": server.cold_start, "idle_mb": server.idle}
        with tempfile.TemporaryDirectory() as folder:
            imported = loaded.imported(Path(folder))
            served = loaded.served(Path(folder))
        figures |= {
            "import_s": imported.ms / 1000,
            "import_modules": len(imported.modules),
            "serve_modules": len(served.modules),
            "bad": 0,
        }
        starts.append(figures)
    found = {"toolbridge": medians(starts)}
    show("start", found)
    return found


def with_peers(size: Size, only: str = "") -> dict:
    """Measure other gateways, toolbridge and nginx in one run, with the load of the slowest."""
    scale = Scale(0.1 if size is FULL else 0.03)
    count = size.long_rounds
    found: dict[str, dict] = {}
    with model_server() as mock, running(
        reference(mock), toolbridge("openai_chat", mock.port)
    ) as servers:  # fmt: skip
        others: list[Server] = []
        try:
            others.extend(peers.started(mock.port))
            targets = targets_of([*servers, *others], "openai_chat")
            for target in targets:
                # Just-in-time compilers and caches: the first requests are slower than later ones.
                PEERS["stream"](mock, target, scale)
            found |= {
                name: _peer_row(mock, targets, scenario, count, scale)
                for name, scenario in PEERS.items()
                if only in name
            }
            found["start"] = {
                server.name: {"cold_start_s": server.cold_start, "idle_mb": server.idle}
                for server in [*servers, *others]
            }
        finally:
            for server in others:
                server.close()
    for name, row in found.items():
        show(f"peers: {name}", row)
    return found


def _peer_row(
    mock: Mock, targets: list[Target], scenario: Scenario, count: int, scale: Scale
) -> dict:
    samples = interleaved(targets, lambda target, _: scenario(mock, target, scale), count)
    found = summary(samples)
    for name, figures in found.items():
        if name not in {"nginx", "toolbridge"}:
            figures["times_toolbridge"] = ratio(samples, name, "toolbridge")
            if "first_chunk_us" in figures:
                late = ratio(samples, name, "toolbridge", "first_chunk_us")
                figures["times_toolbridge_first_chunk"] = late
    return found


def show(name: str, found: dict) -> None:
    print(f"\n{name}   (load {os.getloadavg()[0]:.1f}, {time.strftime('%H:%M:%S')})")
    for target, figures in found.items():
        if isinstance(figures, dict):
            values = "  ".join(
                f"{key} {value:.4g}" for key, value in figures.items() if value is not None
            )
            print(f"  {target:<26} {values}", flush=True)
        else:
            print(f"  {target} {figures:.3g}", flush=True)
