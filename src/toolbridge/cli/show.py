"""Show a recorded structured stream on a time axis: `toolbridge show run_0123456789abcdef`.

RUN is an id, the beginning of an id, or `last`.
"""

import argparse
import shutil
import sys

from toolbridge.cli.demo_trace import plain
from toolbridge.cli.runs import find_run, prompt_of
from toolbridge.cli.show_timeline import draw, recorded_events, rows_of
from toolbridge.core.json import JsonObject, dumps


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the whole record as JSON")
    parser.add_argument("run", metavar="RUN", help="the id of a run, or `last`")


def run(args: argparse.Namespace) -> int:
    record = find_run(args.run)
    if args.json:
        print(dumps(record))
        return 0
    metrics = record.metrics if isinstance(record.metrics, dict) else {}
    print(f"{record.id}  {_summary(metrics)}\n“{plain(prompt_of(record))}”\n")
    rows = rows_of(recorded_events(record.frames))
    width = shutil.get_terminal_size((110, 24)).columns
    for line in draw(rows, max(width, 60), block=_block()):
        print(line.rstrip())
    if record.result is not None:
        print(f"\n{plain(dumps(record.result))}")
    return 0


def _summary(metrics: JsonObject) -> str:
    if not metrics:
        return "(running, or the process was killed)"
    total, model = metrics.get("total_ms"), metrics.get("model")
    degraded = metrics.get("degraded")
    parts = [
        plain(str(model or "")),
        f"{total:.0f} ms" if isinstance(total, int | float) else "",
        f"tools: {metrics.get('tool_calls', 0)}",
        f"repairs: {metrics.get('repairs', 0)}",
        f"degraded: {len(degraded) if isinstance(degraded, list) else 0}",
    ]
    return " · ".join(part for part in parts if part)


def _block() -> str:
    try:
        "█".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "#"
    return "█"
