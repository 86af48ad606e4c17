"""Print the events of a recorded structured stream at their own pace: `toolbridge replay last`.

RUN is an id, the beginning of an id, or `last`. No request is sent to a model.
"""

import argparse
import os
import sys
import time

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
    parser.add_argument("run", metavar="RUN", help="the id of a run, or `last`")


def run(args: argparse.Namespace) -> int:
    if not args.speed > 0:
        raise MalformedRequest("must be more than 0, for example 2", where="--speed")
    record = find_run(args.run)
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
