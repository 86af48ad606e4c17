"""Replay what was recorded: a request (`toolbridge replay FILE`) or a run (`toolbridge replay last`).

FILE is a recording of `toolbridge serve --record`: the request runs again through this version of
toolbridge, without a network, and the difference to the recorded answer is printed (exit status 1).
RUN is a structured stream, an id, the beginning of an id, or `last`: its events are printed at their
own pace. No request is sent to a model.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from toolbridge import codecs
from toolbridge.cli.demo import line_of
from toolbridge.cli.demo_trace import Trace, plain, wants_colour
from toolbridge.cli.runs import find_run, prompt_of
from toolbridge.cli.show_timeline import recorded_events
from toolbridge.core.errors import MalformedRequest
from toolbridge.structured import events as fe


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast (1)")
    parser.add_argument("--now", action="store_true", help="print all events at once")
    parser.add_argument("--json", action="store_true", help="print events, one JSON line each")
    parser.add_argument(
        "--with",
        dest="changes",
        action="append",
        metavar="dialect=NAME",
        help="replay a request with another dialect",
    )
    parser.add_argument(
        "--heal", type=int, choices=range(4), help="replay a request with this level of healing"
    )
    parser.add_argument(
        "--to", choices=codecs.names(), help="replay a request with an answer in this API"
    )
    parser.add_argument(
        "--transcript", action="store_true", help="print a recorded request as a transcript"
    )
    parser.add_argument("run", metavar="RUN|FILE", help="a recording, the id of a run, or `last`")


def run(args: argparse.Namespace) -> int:
    if Path(args.run).is_file() or args.run.endswith(".json"):
        from toolbridge.cli.replay_recording import replay_file

        return replay_file(args)
    if args.changes or args.heal is not None or args.to or args.transcript:
        raise MalformedRequest(
            f"{args.run} is no file; --with, --heal, --to and --transcript need a recording of "
            "`toolbridge serve --record DIR`"
        )
    return _replay_run(args)


def _replay_run(args: argparse.Namespace) -> int:
    if not args.speed > 0:
        raise MalformedRequest("must be more than 0, for example 2", where="--speed")
    record = find_run(args.run, or_file=True)
    events = list(recorded_events(record.frames))
    colour = wants_colour(os.environ, is_terminal=sys.stdout.isatty())
    trace = Trace(sys.stdout.write, colour=colour)
    if not args.json:
        print(f"“{plain(prompt_of(record))}”\n")
    began = time.monotonic()
    for n, (ms, event) in enumerate(events, 1):
        if not args.now:
            time.sleep(max(0.0, ms / 1000 / args.speed - (time.monotonic() - began)))
        if args.json:
            print(line_of(ms, n, event))
        else:
            trace.write(ms, event)
        sys.stdout.flush()
    trace.close()
    return 0 if events and isinstance(events[-1][1], fe.RunDone) else 1
