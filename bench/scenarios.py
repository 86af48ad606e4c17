"""The scenarios of `make bench`: each sends one kind of load to one target and returns figures.

A round of a scenario returns figures. `cost` is CPU µs of the target per request, per write or per
chunk, which is compared with nginx; `bad` is the number of answers that were not complete and right.
"""

import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bench import bodies
from bench.native import Load, Mock, finished
from bench.processes import CpuTime, own_memory
from bench.targets import HEADERS, Target

CHUNKS = 20
JSON_END = "as returned by an OpenAI-compatible server to its client"
"""The end of the text of every whole answer of `mock.c`."""
START_APART = 4200
"""µs between the starts of streams with a chunk every 4 ms, so that their chunks arrive one by one."""
Figures = dict[str, float]


@dataclass(frozen=True)
class Scale:
    """How much load a round has: all of it, a tenth for `--quick`, or what a slow peer takes."""

    factor: float = 1.0
    streams: int = 1000
    """Paced streams at the same time."""

    def of(self, count: int, least: int = 1) -> int:
        return max(least, round(count * self.factor))


Scenario = Callable[[Mock, Target, Scale], Figures]


def whole(tools: int) -> Scenario:
    """Return the scenario of whole JSON answers, 64 requests at a time."""

    def run(mock: Mock, target: Target, scale: Scale) -> Figures:
        mock.configure()
        body = bodies.plain(stream=False, tools=tools, model=target.server.model)
        count = scale.of(3000 if tools < 60 else 1500, 100)
        load = Load(body, 64, count, warm=64, expect=JSON_END)
        return _requests(target, load)

    return run


def stream(tools: int) -> Scenario:
    """Return the scenario of short streams of one upstream write, 50 at a time."""

    def run(mock: Mock, target: Target, scale: Scale) -> Figures:
        mock.configure(chunks=CHUNKS)
        body = bodies.plain(stream=True, tools=tools, model=target.server.model)
        count = scale.of(2000 if tools < 60 else 1000, 100)
        return _requests(target, _stream_load(target, body, 50, count, warm=50), CHUNKS)

    return run


def sized(kilobytes: int) -> Scenario:
    """Return the scenario of one agent's session: its history is sent again with every request."""

    def run(mock: Mock, target: Target, scale: Scale) -> Figures:
        mock.configure(chunks=CHUNKS)
        body = bodies.agent(kilobytes, seed="session", model=target.server.model)
        count = scale.of(min(1000, 60_000 // kilobytes), 10)
        return _requests(target, _stream_load(target, body, 4, count, warm=4), CHUNKS)

    return run


def writes(tools: int, *, in_step: bool) -> Scenario:
    """Return the scenario of chunks of their own: 20 streams, a chunk every 4 ms in each.

    The chunks of all streams come at the same moments, or one by one (`START_APART`). In either case
    that does not depend on how fast the gateway starts the streams.
    """

    def run(mock: Mock, target: Target, _scale: Scale) -> Figures:
        chunks = 200  # fewer would mix the cost of the request into that of its writes
        mock.configure(chunks=chunks, burst=1, gap=4000, in_step=in_step)
        body = bodies.plain(stream=True, tools=tools, model=target.server.model)
        load = _stream_load(target, body, 20, 20)
        if not in_step:
            load = replace(load, options=("-R", START_APART))
        figures, cpu = _measured(target, load)
        # A busy machine joins chunks; the writes that the client saw are the unit.
        return {
            "cost": cpu / max(1, figures["batches"]),
            "one_way_us": figures["oneway_us"]["p50"],
            "bad": _bad(figures, chunks),
        }

    return run


def burst(mock: Mock, target: Target, scale: Scale) -> Figures:
    """Measure streams of 1,000 chunks in one upstream write: the cost of translating a chunk."""
    chunks, count = 1000, scale.of(12, 4)
    mock.configure(chunks=chunks)
    body = bodies.plain(stream=True, model=target.server.model)
    figures, cpu = _measured(target, _stream_load(target, body, 4, count))
    return {"cost": cpu / (count * chunks), "bad": _bad(figures, chunks)}


def first_chunk(mock: Mock, target: Target, scale: Scale) -> Figures:
    """Measure one stream at a time: µs until its first chunk, median."""
    mock.configure(chunks=CHUNKS)
    body = bodies.plain(stream=True, model=target.server.model)
    count = scale.of(200, 50)
    figures, cpu = _measured(target, _stream_load(target, body, 1, count, warm=10))
    return {
        "cost": cpu / (count + 10),
        "first_chunk_us": figures["ttft_us"]["p50"],
        "bad": _bad(figures, CHUNKS),
    }


def paced(mock: Mock, target: Target, scale: Scale) -> Figures:
    """Measure many streams at the same time, a chunk every 200 ms in each."""
    streams, chunks = scale.streams, 25
    mock.configure(chunks=chunks, burst=1, gap=200_000)
    body = bodies.plain(stream=True, model=target.server.model)
    load = _stream_load(target, body, streams, streams)
    figures, cpu = _measured(target, replace(load, limit=60, options=("-R", 1000)))
    return {
        "cost": cpu / (streams * chunks),
        "one_way_us": figures["oneway_us"]["p50"],
        "bad": _bad(figures, chunks),
    }


def structured(mock: Mock, target: Target, scale: Scale) -> Figures:
    """Measure structured streams of 200 deltas, 8 at a time; nginx forwards the model's answer."""
    chunks, count = 200, scale.of(100, 16)
    mock.configure(chunks=chunks, result=True)
    gateway = target.server.name != "nginx"
    path, expect = ("/v1/stream", "event: done") if gateway else (target.path, target.expect)
    body = bodies.structured() if gateway else bodies.plain(stream=True)
    load = Load(body, 8, count, warm=8, expect=expect, headers=HEADERS)
    figures, cpu = _measured(replace(target, path=path), load)
    return {"cost": cpu / (count + 8) / chunks, "bad": _bad(figures, chunks)}


def slow_readers(mock: Mock, target: Target, _scale: Scale) -> Figures:
    """Measure memory while four clients read 20 KB/s of an answer of up to 50 MB each.

    The process must be a new one. In one that has served other load, the answers fit into the free
    part of its heap, and it does not grow. Ordinary streams come first, so that the code and the
    caches that every stream needs do not count.
    """
    mock.configure(chunks=CHUNKS)
    body = bodies.plain(stream=True, model=target.server.model)
    ordinary, _ = _measured(target, _stream_load(target, body, 50, 300))
    mock.configure(chunks=200_000, burst=64)
    mock.reset()
    idle = own_memory(target.server.pid)
    load = _stream_load(target, body, 4, 4)
    process, peak = _watched(target, replace(load, limit=5, options=("-r", 20_000)))
    finished(process)
    bad = _bad(ordinary, CHUNKS) + _streams_left(mock)
    return {"growth_mb": max(0.0, peak - idle), "bad": bad}


def cancel(mock: Mock, target: Target, _scale: Scale) -> Figures:
    """Measure µs from a client's disconnection after 5 chunks to the end of the model's request."""
    count = 10
    mock.configure(chunks=1000, burst=1, gap=5000)
    mock.reset()
    body = bodies.plain(stream=True, model=target.server.model)
    load = _stream_load(target, body, 1, count)
    figures = finished(_started(target, replace(load, options=("-a", 5, "-g", 250_000))))
    closed, ended = figures["close_ns"], []
    for _ in range(100):
        ended = mock.stats()["abort_ns"]
        if len(ended) >= count:
            break
        time.sleep(0.05)
    delays = []
    for number, at in enumerate(closed):
        following = closed[number + 1] if number + 1 < len(closed) else float("inf")
        delays += [(end - at) / 1000 for end in ended if at - 2e6 <= end < following][:1]
    left = _streams_left(mock)
    delay = max(0.0, statistics.median(delays)) if delays else 0.0
    return {"delay_us": delay, "reached": len(delays) / count, "bad": count - len(delays) + left}


# ── one load ─────────────────────────────────────────────────────────────────


def _stream_load(target: Target, body: bytes, at_once: int, count: int, warm: int = 0) -> Load:
    return Load(body, at_once, count, warm=warm, expect=target.expect)


def _started(target: Target, load: Load) -> subprocess.Popen:
    load = replace(load, headers=HEADERS)
    return load.start(target.server.port, target.path, target.name)


def _measured(target: Target, load: Load) -> tuple[dict, float]:
    """Return the figures of a load, and the CPU time that it took the target, in µs."""
    before = CpuTime.now(target.server.pid)
    figures = finished(_started(target, load))
    return figures, CpuTime.now(target.server.pid).since(before) / 1000


def _requests(target: Target, load: Load, chunks: int = 0) -> Figures:
    figures, cpu = _measured(target, load)
    return {
        "cost": cpu / (load.count + load.warm),
        "per_second": figures["rps"],
        "bad": _bad(figures, chunks),
    }


def _bad(figures: dict, chunks: int) -> float:
    """Return the number of wrong answers; 1 for chunks that were lost or doubled."""
    wrong = figures["errors"] + figures["incomplete"] + figures["unfinished"]
    return wrong + (bool(chunks) and figures["chunks"] != figures["n"] * chunks)


def _watched(target: Target, load: Load) -> tuple[subprocess.Popen, float]:
    """Return an ended load and the greatest memory of its own that the target has meanwhile, in MB."""
    process = _started(target, load)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, own_memory(target.server.pid))
        time.sleep(0.1)
    return process, peak


def _streams_left(mock: Mock) -> int:
    """Return the streams that the model server still writes, once it had 10 s to notice."""
    left = 0
    for _ in range(100):
        left = mock.stats()["active_streams"]
        if not left:
            break
        time.sleep(0.1)
    return left
