"""Breaks the product on purpose, one requirement at a time, and shows that a marked test fails.

`python -m tests.requirements --break [IDS…]` uses it; the mutations stand in `tests/breaks.py`.
The command works on copies of the tree, never on the tree itself.
First the tests of all chosen rows must pass on an unchanged copy; then each row's mutation is applied alone and its tests run with `-x`.
A row whose tests still pass is a failure: either its mark sits on the wrong test, or the test does not check the promise.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import pytest
from tests.breaks import BREAKS, Break
from tests.copies import PACKAGE, ROOT, copies, environment, interpreter

SECONDS = 240
"""The longest that the tests of one row may take; a mutation that makes them hang is an error."""


_moments = count(1_000_000_000)
"""Times of change for files, none of them twice."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--row", help="fail unless every selected test is marked with this id")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a test in the table that does not carry the mark of its row."""
    row = session.config.getoption("--row")
    for item in session.items if row else ():
        if row not in {id for marker in item.iter_markers("req") for id in marker.args}:
            raise pytest.UsageError(f"{item.nodeid} is not marked with {row}")


def run(rows: Iterable[str], jobs: int) -> int:
    """Break the rows with these ids, or all; print what happened and return the exit status."""
    wanted = set(rows)
    chosen = [b for b in BREAKS if not wanted or b.row in wanted]
    if missing := wanted - {b.row for b in chosen}:
        print(f"no mutation for: {', '.join(sorted(missing))}", file=sys.stderr)
        return 2
    if wrong := [f"{b.row}: {fault}" for b in chosen if (fault := fault_of(b))]:
        print("\n".join(wrong), file=sys.stderr)
        return 2
    with copies(min(jobs, len(chosen))) as trees:
        if status := unbroken(trees, chosen):
            return status
        failed = sum(not passed for passed in break_all(trees, chosen))
    rows_broken = len({b.row for b in chosen})
    print(f"{rows_broken} rows: {len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


def fault_of(change: Break) -> str:
    """Return why `change` cannot be applied to the tree, or nothing."""
    file = ROOT / path_of(ROOT, change)
    if not file.is_file():
        return f"there is no {change.file} in {PACKAGE} or in the root"
    found = file.read_text("utf-8").count(change.old)
    if found != 1:
        return f"the old text occurs {found} times in {change.file}, not once: {change.old!r}"
    return ""


def path_of(root: Path, change: Break) -> Path:
    """Return the path of the file to change, which is in the package or beside it."""
    inside = PACKAGE / change.file
    return inside if (root / inside).exists() else Path(change.file)


def unbroken(trees: list[Path], chosen: list[Break]) -> int:
    """Run the tests of every row on unchanged copies; return 0 when all pass."""
    tests = sorted({test for change in chosen for test in change.tests})
    shares = [tests[n :: len(trees)] for n in range(len(trees))]
    with ThreadPoolExecutor(len(trees)) as pool:
        ends = list(pool.map(run_tests, trees, shares))
    for end in ends:
        if end.returncode:
            print(f"the tests fail on the unbroken product:\n{end.stdout}{end.stderr}")
    return int(any(end.returncode for end in ends))


def break_all(trees: list[Path], chosen: list[Break]) -> Iterator[bool]:
    """Break row after row, as many at a time as there are copies; tell whether each was noticed."""
    free: SimpleQueue[Path] = SimpleQueue()
    for tree in trees:
        free.put(tree)

    def one(change: Break) -> bool:
        tree = free.get()
        try:
            return break_one(tree, change)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        yield from pool.map(one, chosen)


def break_one(tree: Path, change: Break) -> bool:
    """Apply `change` to the copy, run its tests, and restore the file; print the outcome."""
    name = path_of(tree, change)
    file, whole = tree / name, (tree / name).read_text("utf-8")
    file.write_text(whole.replace(change.old, change.new), "utf-8")
    # Bytecode counts as fresh when the time in seconds and the size of its source are the same.
    os.utime(file, (moment := next(_moments), moment))
    try:
        end = run_tests(tree, change.tests, change.row)
        status, said = end.returncode, end.stdout + end.stderr
    except subprocess.TimeoutExpired:
        status, said = -1, f"no end after {SECONDS} s"
    finally:
        # From the copy itself: the tree may have been edited meanwhile.
        file.write_text(whole, "utf-8")
        os.utime(file, (moment := next(_moments), moment))
    if status == pytest.ExitCode.TESTS_FAILED:
        print(f"{change.row:7} passed: {first_failure(said)} fails", flush=True)
        return True
    if status == pytest.ExitCode.OK:
        print(f"{change.row:7} FAILED: its tests pass although {change.file} is broken", flush=True)
    else:
        print(f"{change.row:7} FAILED: pytest ended with {status}\n{said}", flush=True)
    return False


def first_failure(said: str) -> str:
    """Return the test that failed, as pytest names it."""
    lines = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return lines[0].partition(" ")[2].partition(" - ")[0] if lines else "a test"


def run_tests(tree: Path, tests: Iterable[str], row: str = "") -> subprocess.CompletedProcess[str]:
    """Run `tests` in a copy of the tree, with the product of that copy."""
    command = [
        str(interpreter(tree)),
        "-m",
        "pytest",
        "-x",
        "-q",
        "--tb=short",
        "-p",
        "tests.break_rows",
    ]
    command += ["-p", "no:cacheprovider", "-o", "timeout=60", *tests]
    command += ["--row", row] if row else []
    return subprocess.run(
        command, cwd=tree, env=environment(tree), capture_output=True, text=True,
        timeout=None if not row else SECONDS, check=False,
    )  # fmt: skip
