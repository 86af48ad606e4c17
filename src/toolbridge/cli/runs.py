"""List the recorded structured streams with time, model, duration, tools, repairs and prompt."""

import argparse
import os
import sys
import time
from pathlib import Path

from toolbridge.cli.demo_trace import cut, plain
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.runs.folders import RunRecord, Summary, list_runs, load_run, runs_root

_TITLES: tuple[str, ...] = (
    "RUN", "WHEN", "MODEL", "MS", "TOOLS", "REPAIRS", "DEGRADED", "PROMPT",
)  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--limit", type=int, default=20, metavar="N", help="the most runs to list (20)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON line per run")


def run(args: argparse.Namespace) -> int:
    if args.limit < 1:
        raise MalformedRequest("must be at least 1", where="-n/--limit")
    root = runs_folder()
    found = [_row(root, summary) for summary in list_runs(root)[: args.limit]]
    if args.json:
        for row in found:
            print(dumps(row))
    elif found:
        _print_table(found)
    else:
        print(f"there are no runs in {root}; record one with `toolbridge demo`")
    return 0


def runs_folder() -> Path:
    """Return the folder of all runs; raise if there is no state directory."""
    root = runs_root(os.environ)
    if root is None:
        raise MalformedRequest("there is no state directory; set HOME or XDG_STATE_HOME")
    return root


def find_run(given: str, *, or_file: bool = False) -> RunRecord:
    """Return the run with the id `given`, the beginning of an id, or `last`.

    With `or_file`, the error for an unknown id also mentions a missing file.
    """
    root = runs_folder()
    ids = [summary.id for summary in list_runs(root)]
    wanted = given if given.startswith("run_") else f"run_{given}"
    found = ids[:1] if given == "last" else [id for id in ids if id.startswith(wanted)]
    if len(found) > 1:
        raise MalformedRequest(
            f"several runs begin with {given}: {', '.join(found[:4])}; give more of the id",
            where="RUN",
        )
    if not found:
        raise MalformedRequest(_missing(given, wanted, root, or_file=or_file), where="RUN")
    try:
        return load_run(root, found[0])
    except LookupError as error:
        raise MalformedRequest(str(error), where="RUN") from None


def _missing(given: str, wanted: str, root: Path, *, or_file: bool) -> str:
    if given == "last":
        return f"there are no runs in {root}; record one with `toolbridge demo`"
    file = f"there is no file {given}, and " if or_file else "there is "
    return f"{file}no run whose id begins with {wanted} in {root}; see `toolbridge runs`"


def prompt_of(record: RunRecord) -> str:
    """Return the prompt, or the text of the last message."""
    order = _member(record.prompt, "order")
    prompt, messages = _member(order, "prompt"), _member(order, "messages")
    if isinstance(prompt, str) and prompt:
        return prompt
    last = messages[-1] if isinstance(messages, list) and messages else None
    return str(_member(last, "content") or "")


def _member(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


def _row(root: Path, summary: Summary) -> JsonObject:
    metrics = summary.metrics
    degraded = metrics.get("degraded")
    try:
        asked = prompt_of(load_run(root, summary.id))
    except LookupError:  # removed in the meantime
        asked = ""
    return {
        "id": summary.id,
        "started": summary.started,
        "prompt": asked,
        "model": metrics.get("model") or "",
        "ms": metrics.get("total_ms"),
        "tools": metrics.get("tool_calls") or 0,
        "repairs": metrics.get("repairs") or 0,
        "degraded": len(degraded) if isinstance(degraded, list) else 0,
        "finished": summary.finished,
        "bytes": summary.bytes,
    }


def _print_table(rows: list[JsonObject]) -> None:
    table = [_TITLES, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in table) for at in range(7)]
    room = (
        60
        if not sys.stdout.isatty()
        else max(20, os.get_terminal_size().columns - sum(widths) - 14)
    )
    for line in table:
        cells = [
            cell.rjust(width) if 3 <= at <= 6 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=False))
        ]
        print("  ".join([*cells, cut(line[7], room)]).rstrip())


def _cells(row: JsonObject) -> tuple[str, ...]:
    started = row["started"]
    when = time.localtime(float(started) if isinstance(started, int | float) else 0.0)
    ms = row["ms"]
    return (
        str(row["id"]),
        time.strftime("%Y-%m-%d %H:%M:%S", when),
        plain(str(row["model"])),
        f"{ms:.0f}" if isinstance(ms, int | float) else "running",
        str(row["tools"]),
        str(row["repairs"]),
        str(row["degraded"]),
        " ".join(plain(str(row["prompt"])).split()),
    )
