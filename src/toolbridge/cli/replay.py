"""Tell a structured stream that was kept once more, at the pace it had: `toolbridge replay last`.

RUN is an id, the beginning of one, or `last`. Nothing is asked of a model again.
"""

import argparse
import os
import sys
import time

from toolbridge.cli.demo import line_of
from toolbridge.cli.demo_trace import Trace, plain, wants_colour
from toolbridge.cli.runs import find_run, prompt_of
from toolbridge.cli.show_timeline import told
from toolbridge.core.errors import MalformedRequest
from toolbridge.structured import events as fe


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast (1)")
    parser.add_argument("--now", action="store_true", help="without waiting")
    parser.add_argument("--json", action="store_true", help="print events, one JSON line each")
    parser.add_argument("run", metavar="RUN", help="which one")


def run(args: argparse.Namespace) -> int:
    if not args.speed > 0:
        raise MalformedRequest("must be more than 0", where="--speed")
    record = find_run(args.run)
    events = list(told(record.frames))
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
            trace.tell(ms, event)
        sys.stdout.flush()
    trace.close()
    return 0 if events and isinstance(events[-1][1], fe.RunDone) else 1
