"""Score structured streams: `toolbridge conform --stream`."""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from toolbridge.cli.conform_target import check_target, no_case
from toolbridge.conformance import report
from toolbridge.conformance.runner import CaseOutcome
from toolbridge.conformance.self_gateway import STREAM_PROVIDER, STREAM_TOOLS
from toolbridge.conformance.streams.cases import LABELS, StreamCase, load, select
from toolbridge.conformance.streams.player import run_other, run_own
from toolbridge.core.errors import ConfigError

MATRIX = "stream-matrix"


def run(args: argparse.Namespace) -> int:
    cases = select(load(), args.only)
    if not cases:
        raise no_case(args.only, " or category")
    if args.list:
        return _list(cases)
    check_target(args)
    began = time.monotonic()
    outcomes = asyncio.run(_score(args, cases))
    if args.save is not None:
        _save(args.save, outcomes)
    if args.json:
        print(report.as_json(outcomes))
    else:
        seconds = time.monotonic() - began
        print(f"{report.as_text(outcomes)}, in {seconds:.0f} s")
    return 0 if outcomes and all(outcome.passed for outcome in outcomes) else 1


def _list(cases: list[StreamCase]) -> int:
    for case in cases:
        print(f"{case.id:<52} {case.proves}")
    print(f"{len(cases)} cases")
    return 0


async def _score(args: argparse.Namespace, cases: list[StreamCase]) -> list[CaseOutcome]:
    if args.own:
        return await run_own(cases)
    print(_how_to_configure(args.listen), file=sys.stderr)
    try:
        return await run_other(cases, args.url, args.listen)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on port {args.listen}: {error}; choose another with --listen"
        ) from None


def _save(folder: Path, outcomes: list[CaseOutcome]) -> None:
    picture = report.as_svg(outcomes, "Structured streams", LABELS)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{MATRIX}.json").write_text(report.as_json(outcomes) + "\n", "utf-8")
    (folder / f"{MATRIX}.svg").write_text(picture, "utf-8")


def _how_to_configure(port: int) -> str:
    return f"""\
The gateway's toolbridge.toml needs the provider that plays the cases, and the tools of the cases:

  [providers.{STREAM_PROVIDER}]
  api = "openai_chat"
  url = "http://127.0.0.1:{port}/v1"
  retries = 0
  [stream]
  demo = true
  tools = ["{STREAM_TOOLS}"]
"""
