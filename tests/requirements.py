"""Prints each requirement with the tests that prove it; fails when one in scope has none.

Run as `python -m tests.requirements`, or `… --areas PX,CB` for other areas than those that are done.
`… --break [IDS]` breaks the product once per requirement and shows that a marked test fails.
"""

import argparse
import contextlib
import io
import os
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tests import break_rows
from tests.breaks import BREAKS

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "docs" / "reference" / "requirements.md"
DONE_AREAS = ("PX", "CL", "ZG", "CB", "TF")
"""Areas of which every row must have a test."""

_ROW = re.compile(r"^\| (([A-Z]{2})-X?\d+) \| ([^|]+)", re.MULTILINE)


class Collector:
    """A plugin that keeps the ids of the requirements that each collected test names."""

    def __init__(self) -> None:
        self.tests: dict[str, set[str]] = defaultdict(set)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for marker in item.iter_markers("req"):
                for id in marker.args:
                    self.tests[id].add(item.nodeid.partition("[")[0])


def collect(paths: list[str]) -> dict[str, set[str]]:
    """Return the tests under `paths` by the ids that they prove."""
    collector = Collector()
    said = io.StringIO()
    # Real clients prove requirements too, though they run apart.
    arguments = ["--collect-only", "-q", "-p", "no:randomly", "-m", "", "--rootdir", str(ROOT)]
    arguments += paths
    with contextlib.redirect_stdout(said):
        status = pytest.main(arguments, plugins=[collector])
    if status != pytest.ExitCode.OK:
        sys.exit(said.getvalue())
    return collector.tests


def requirements() -> dict[str, str]:
    """Return what every id is about."""
    return {id: about.strip() for id, _, about in _ROW.findall(ROWS.read_text("utf-8"))}


def report(known: dict[str, str], tests: dict[str, set[str]], areas: tuple[str, ...]) -> list[str]:
    """Print every id in `areas` with its tests; return what is wrong."""
    wrong = [f"{id}: no such requirement" for id in sorted(set(tests) - set(known))]
    for id, about in known.items():
        if id.partition("-")[0] not in areas:
            continue
        print(f"{id}  {about[:90]}")
        for test in sorted(tests.get(id, ())):
            print(f"    {test}")
        if not tests.get(id):
            wrong.append(f"{id}: no test")
    return wrong


def faults_of_breaks(tests: dict[str, set[str]]) -> list[str]:
    """Return what is wrong with the table of mutations, without applying any."""
    wrong = [f"{b.row}: {fault}" for b in BREAKS if (fault := break_rows.fault_of(b))]
    for change in BREAKS:
        unmarked = sorted(set(change.tests) - tests.get(change.row, set()))
        wrong += [f"{change.row}: no test {test} is marked with it" for test in unmarked]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.requirements", description=__doc__)
    parser.add_argument("--areas", default=",".join(DONE_AREAS), help="as in PX,CL,CB")
    parser.add_argument(
        "--break", dest="rows", nargs="*", metavar="ID",
        help="break these rows, or all that have a mutation, and show that a marked test fails",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="at a time")
    options = parser.parse_args()
    if options.rows is not None:
        return break_rows.run(options.rows, options.jobs)
    areas = tuple(options.areas.split(","))
    known = requirements()
    if unknown := set(areas) - {id.partition("-")[0] for id in known}:
        parser.error(f"no such area: {', '.join(sorted(unknown))}")
    tests = collect([str(ROOT / "tests")])
    wrong = report(known, tests, areas) + faults_of_breaks(tests)
    print(f"\n{len(wrong)} to do" if wrong else "\nevery requirement has a test")
    broken = len({change.row for change in BREAKS})
    print(f"{broken} of {len(known)} have a mutation; `make requirements-break` applies them")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
