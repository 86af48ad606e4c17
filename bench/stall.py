"""How long a large request delays another stream that the same gateway serves.

A second stream receives a chunk every millisecond through the gateway. Meanwhile sessions of a
coding agent send large requests: a first one whose bytes the gateway has never seen (cold), then two
later turns with the same history (same session). Each chunk has the time at which the model
server wrote it; the longest one-way time while a request runs is the stall. A figure is the median over
the sessions of a round of the longest time in each.
"""

import signal
import statistics
import time
from dataclasses import replace
from pathlib import Path

from bench import bodies
from bench.native import Load, Mock, finished, scratch
from bench.scenarios import Figures
from bench.targets import HEADERS, Target

GAP = 1000
"""µs between the chunks of the second stream; more of them would be a load of their own."""
PAUSE = 0.05
"""Seconds between two requests: the second stream catches up."""
TURNS = 3
Window = tuple[int, int]


def stall(mock: Mock, target: Target, kilobytes: int, sessions: int, seed: str) -> Figures:
    """Return the longest stall in ms, as the median over `sessions`: cold and in the same session."""
    turns = _turns(target, kilobytes, sessions, seed)
    mock.configure(chunks=10_000_000, burst=1, gap=GAP)
    file = scratch() / f"arrivals-{target.server.port}.txt"
    body = bodies.plain(stream=True, model=target.server.model)
    second = Load(body, 1, 1, limit=600, options=("-o", file), headers=HEADERS)
    begun = mock.stats()["chunks"]
    process = second.start(target.server.port, target.path, f"{target.name}-second")
    try:
        while mock.stats()["chunks"] < begun + 100 and process.poll() is None:
            time.sleep(0.02)
        mock.configure()
        windows = [[_asked(target, turn) for turn in session] for session in turns]
    finally:
        process.send_signal(signal.SIGINT)
        figures = finished(process)
    arrivals = _arrivals(file)
    longest = [[_longest(arrivals, window) for window in session] for session in windows]
    missed = sum(found is None for session in longest for found in session)
    cold = [session[0] or 0.0 for session in longest]
    same = [max(found or 0.0 for found in session[1:]) for session in longest]
    return {
        "cold_ms": statistics.median(cold),
        "same_ms": statistics.median(same),
        "usual_ms": figures["oneway_us"]["p50"] / 1000,
        # A request after the end of the second stream was not watched.
        "bad": figures["errors"] + figures["n"] + missed,
    }


def _turns(target: Target, kilobytes: int, sessions: int, seed: str) -> list[list[bytes]]:
    model = target.server.model
    return [
        [
            bodies.agent(kilobytes, seed=f"{seed}-{session}", more_turns=turn, model=model)
            for turn in range(TURNS)
        ]
        for session in range(sessions)
    ]


def _asked(target: Target, body: bytes) -> Window:
    began = time.monotonic_ns()
    status, answer = replace(target.server, path=target.path).ask(body)
    ended = time.monotonic_ns()
    if status != 200 or target.expect.encode() not in answer:
        raise RuntimeError(f"{target.name} answered {status}: {answer[:300]!r}")
    time.sleep(PAUSE)
    return began, ended


def _arrivals(file: Path) -> list[tuple[int, int]]:
    lines = file.read_text().splitlines()
    file.unlink()
    return [(int(at), int(delay)) for at, delay in (line.split() for line in lines)]


def _longest(arrivals: list[tuple[int, int]], window: Window) -> float | None:
    """Return the longest one-way time in ms of the chunks on their way, or due, within `window`.

    A window is a gap long at least, as a shorter one may have no chunk: the next one counts then. None
    means that the second stream ended before the window did.
    """
    began, ended = window
    if not arrivals or arrivals[-1][0] < ended:
        return None
    ended = max(ended, began + GAP * 1000)
    later = [(at, delay) for at, delay in arrivals if at >= began]
    # The model server may write a chunk late; the next one counts in any case.
    delays = [delay for at, delay in later if at - delay <= ended] or [later[0][1]]
    return max(delays) / 1e6
