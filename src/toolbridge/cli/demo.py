"""Run a structured stream with text, objects, tools, a repair, a pause and a result.

By default it runs in this process with the embedded model, which needs no key and no network, and
omits a member of one object so that a repair is needed. With --model, --profile or --url a real
model is used. The exit status is 1 without a valid result.
"""

import argparse
import asyncio
import os
import sys
import time

from toolbridge.cli import options
from toolbridge.cli.demo_trace import Trace, wants_colour
from toolbridge.core.json import Json, dumps
from toolbridge.runs.folders import load_run, runs_root
from toolbridge.sdk.structured.client import (
    AsyncStructuredStream,
    StreamFailed,
    StreamOptions,
    astart_stream,
)
from toolbridge.structured import events as fe

PROMPT = "Find pizza near me; book a table at 7pm if open."
EMBEDDED = "demo/toolbridge-demo"
_PACE = 0.02
"""Seconds between events on a terminal; without it the events appear all at once."""


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_config(parser)
    parser.add_argument("-m", "--model", metavar="MODEL", help="the model (the embedded one)")
    parser.add_argument("--profile", help="a profile: demo, dev, local, or one of yours")
    parser.add_argument(
        "--url",
        help="a running gateway, such as 127.0.0.1:3456; its key is read from TOOLBRIDGE_KEY",
    )
    parser.add_argument("--json", action="store_true", help="print events, one JSON line each")
    parser.add_argument(
        "--pause",
        type=float,
        default=0.8,
        metavar="S",
        help="seconds for which reading pauses (0.8; 0 for no pause)",
    )
    parser.add_argument(
        "--pace", type=float, metavar="S", help="seconds between events (0.02 on a terminal)"
    )
    parser.add_argument("prompt", nargs="*", help=f"the prompt ({PROMPT})")


def run(args: argparse.Namespace) -> int:
    return asyncio.run(_Show(args).play())


def stream_options(args: argparse.Namespace) -> StreamOptions:
    """Return the options of the stream from the command line."""
    found: StreamOptions = {"profile": args.profile or "demo"}
    if args.model or not (args.url or args.profile):
        found["model"] = args.model or EMBEDDED
    if args.url:
        found["url"] = options.gateway_url(args.url)
        found["api_key"] = os.environ.get("TOOLBRIDGE_KEY", "")
        found["attempts"] = 1  # a wrong address is reported at once
    else:
        found["config"] = options.load(argparse.Namespace(config=args.config))
    return found


class _Show:
    """Prints the events of one stream as they arrive."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        terminal = sys.stdout.isatty()
        self._trace = Trace(sys.stdout.write, colour=wants_colour(os.environ, is_terminal=terminal))
        self._pace = args.pace if args.pace is not None else _PACE * terminal
        self._began = time.monotonic()
        self._count = 0
        self._paused = args.pause <= 0

    async def play(self) -> int:
        prompt = " ".join(self._args.prompt) or PROMPT
        if not self._args.json:
            print(f"“{prompt}”\n")
        async with astart_stream(prompt, **stream_options(self._args)) as stream:
            try:
                async for event in stream:
                    self._print(event)
                    await self._hold(stream, event)
                await stream.result()
            except StreamFailed as failure:
                self._trace.close()
                print(f"toolbridge: {failure.code}: {failure}", file=sys.stderr)
                return 1
            status = self._conclude(stream)
        # The artifacts are complete only now.
        if not (self._args.json or self._args.url) and _is_recorded(stream.run):
            print(f"Run `toolbridge show {stream.run}` to see it on a time axis.")
        return status

    @property
    def _ms(self) -> float:
        return (time.monotonic() - self._began) * 1000

    def _print(self, event: fe.Event) -> None:
        self._count += 1
        if self._args.json:
            print(line_of(self._ms, self._count, event))
        else:
            self._trace.write(self._ms, event)
        sys.stdout.flush()

    async def _hold(self, stream: AsyncStructuredStream[Json], event: fe.Event) -> None:
        """Pause once in the middle, to show that an unread stream stops its model."""
        if isinstance(event, fe.ToolResult) and not self._paused:
            self._paused = True
            await self._stop_reading(stream)
        elif self._pace:
            await asyncio.sleep(self._pace)

    async def _stop_reading(self, stream: AsyncStructuredStream[Json]) -> None:
        seconds = self._args.pause
        stream.pause()
        self._note(
            f"paused for {seconds:g} s: nothing is read, and the model stops after 128 more events"
        )
        asyncio.get_running_loop().call_later(seconds, stream.resume)
        await stream.resumed()
        self._note("resumed: no event is lost")

    def _note(self, text: str) -> None:
        if not self._args.json:
            self._trace.note(self._ms, text)
            sys.stdout.flush()

    def _conclude(self, stream: AsyncStructuredStream[Json]) -> int:
        found = stream.found
        status = 0 if found is not None and found.status != "degraded" else 1
        if self._args.json:
            return status
        value = None if found is None else found.value
        answer = value.get("answer") if isinstance(value, dict) else None
        repaired = sum(seen.status == "repaired" for seen in stream.objects)
        counts = f"{_many(len(stream.tools), 'tool')}, {repaired} repaired, {self._ms / 1000:.2f} s"
        print(f"\n{answer if isinstance(answer, str) else dumps(value)}\n\n{stream.run}: {counts}")
        return status


def line_of(ms: float, n: int, event: fe.Event) -> str:
    """Return an event as a JSON line in the format of `frames.ndjson`."""
    return dumps(
        {"ms": round(ms, 3), "n": n, "event": fe.name_of(event), "data": fe.data_of(event)}
    )


def _is_recorded(run: str) -> bool:
    """Return whether the artifacts of a run were written: its folder may be unusable."""
    root = runs_root(os.environ)
    try:
        return root is not None and bool(load_run(root, run).frames)
    except LookupError:
        return False


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
