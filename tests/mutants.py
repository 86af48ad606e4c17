"""Change random lines of the product and count how many changes the tests notice.

`python -m tests.mutants [--count 60] [--seed 1] [--jobs 2] [PACKAGE …]` prints one line per mutant.
First the whole suite runs once without a mutant and records which tests call which function
(`tests/function_callers.py`); `--callers FILE` keeps the record there for further samples.
The tests of a mutant are those that call its function, wherever they are, at most 300: first those
of its package, and of these the ones that call the fewest functions. If none of them fails, all
tests of its package run, because some start the product in a process that the record does not see.
For a few packages that includes tests which `make test` leaves out: `MARKED`.
A change outside all functions happens at import, so only the tests of the package run.
A survivor is either a gap in the tests or a change without effect; each deserves a look.
A mutant whose tests do not end is counted apart: it hangs, or the machine was too busy to know.
A mutant is noticed by a test that fails with it and passes without it.
The command works on copies of the tree (`tests/break_rows.py`), never on the tree itself.
"""

import argparse
import ast
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import pytest
from tests.break_rows import PACKAGE, ROOT, copies

SECONDS = 1500
"""The longest that the tests of one mutant may take, on a machine that does other work as well."""
TEST_SECONDS = 240
"""The longest that one of those tests may take."""
MOST_CALLERS = 300
"""The most tests that are chosen because they call the function of a mutant."""
MARKED = {
    "store": ["-m", "stores", "tests/stores"],
    "cli": ["-m", "operation", "tests/operation"],
    "server": ["-m", "operation", "tests/operation"],
}
"""Package → its tests that need servers or start many processes; without servers they are skipped."""
COMPARED = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
Callers: TypeAlias = dict[str, list[str]]
Outcome: TypeAlias = Literal["noticed", "timed out", "unclear", "SURVIVED"]
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
_moments = count(1_100_000_000)


class Mutant(NamedTuple):
    file: Path
    line: int
    start: int
    end: int
    new: str
    function: str
    """The qualified name of the innermost function around the change; empty outside of all."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.new}"


def mutants(root: Path, file: Path) -> Iterator[Mutant]:
    """Yield every change of one module that the operators below allow."""
    source = (root / file).read_text("utf-8")
    starts = [0]
    for line in source.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    encoded = source.encode()

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first = starts[node.lineno - 1] + node.col_offset
        return first, starts[node.end_lineno - 1] + node.end_col_offset

    def text(node: ast.expr) -> str:
        first, last = span(node)
        return encoded[first:last].decode()

    tree = ast.parse(source)
    functions = [*_functions(tree)]
    for node in ast.walk(tree):
        for target, new in _changes(node, text):
            first, last = span(target)
            around = [name for lines, name in functions if target.lineno in lines]
            yield Mutant(file, target.lineno, first, last, new, around[-1] if around else "")


def _functions(node: ast.AST, scope: str = "") -> Iterator[tuple[range, str]]:
    """Yield the lines and the qualified name of every function, outer ones first."""
    for inner in ast.iter_child_nodes(node):
        match inner:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                assert inner.end_lineno is not None
                yield range(inner.lineno, inner.end_lineno + 1), scope + name
                yield from _functions(inner, f"{scope}{name}.<locals>.")
            case ast.ClassDef(name=name):
                yield from _functions(inner, f"{scope}{name}.")
            case _:
                yield from _functions(inner, scope)


def _changes(node: ast.AST, text) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield node, f"({text(left)} {COMPARED[type(op)]} {text(right)})"
        case ast.BoolOp(op=op, values=[left, right]):
            word = "or" if isinstance(op, ast.And) else "and"
            yield node, f"(({text(left)}) {word} ({text(right)}))"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({text(operand)})"
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Name):
            yield test, f"not ({text(test)})"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=int()) as right):
            yield node, f"({text(left)} - {text(right)})"
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield node, f"({text(left)} + {text(right)})"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield node, "pass"


def tests_of(root: Path, mutant: Mutant, callers: Callers) -> list[list[str]]:
    """Return the tests that call the function of the mutant, those of its package, and `MARKED`."""
    package = _package_tests(root, mutant.file)
    calling = callers.get(f"{mutant.file.as_posix()}::{mutant.function}", [])
    work = Counter(test for tests in callers.values() for test in tests) if calling else Counter()
    folders = tuple(f"{name}/" for name in package)
    calling.sort(key=lambda test: (not test.startswith(folders), work[test], test))
    marked = MARKED.get(mutant.file.relative_to(PACKAGE).parts[0], [])
    return [group for group in (calling[:MOST_CALLERS], package, marked) if group]


def _package_tests(root: Path, file: Path) -> list[str]:
    """Return the tests of the package of a module, and those with the module's name elsewhere."""
    parts = file.relative_to(PACKAGE).parts
    own = root / "tests" / parts[0].removesuffix(".py")
    named = sorted((root / "tests").rglob(f"test_{file.stem}.py"))
    if parts[0] == "codecs" and len(parts) > 2:
        own, named = own / parts[1], sorted((own / parts[1]).rglob(f"test_{file.stem}.py"))
        package = [own, root / "tests" / "test_transcripts.py"]
    else:
        package = [own] if own.exists() else []
    package += [path for path in named if own not in path.parents and "real" not in path.parts]
    return [str(path.relative_to(root)) for path in package] or ["tests/properties"]


def record_callers(tree: Path, jobs: int) -> Callers:
    """Run the whole suite in the copy; return every function with the tests that call it."""
    with tempfile.TemporaryDirectory(prefix="toolbridge-callers-") as directory:
        record = Path(directory, "callers")
        end = _pytest(
            tree, "-n", str(jobs), "-p", "tests.function_callers", "--callers", str(record)
        )
        if end.returncode not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            raise SystemExit(f"the tests cannot be run:\n{end.stdout}{end.stderr}")
        callers: dict[str, set[str]] = {}
        for file in Path(directory).iterdir():
            for function, tests in msgspec.json.decode(file.read_bytes(), type=Callers).items():
                callers.setdefault(function, set()).update(tests)
    return {function: sorted(tests) for function, tests in callers.items()}


def read_callers(tree: Path, jobs: int, file: Path | None) -> Callers:
    """Return the record in `file`, without tests that have gone; make it where it is absent."""
    if file is None or not file.exists():
        callers = record_callers(tree, jobs)
        if file is not None:
            file.write_bytes(msgspec.json.encode(callers))
        return callers
    callers = msgspec.json.decode(file.read_bytes(), type=Callers)
    known = {test for tests in callers.values() for test in tests}
    gone = {test for test in known if not _exists(tree, test)}
    return {name: [t for t in tests if t not in gone] for name, tests in callers.items()}


def _exists(tree: Path, test: str) -> bool:
    path, _, name = test.partition("::")
    file = tree / path
    return file.is_file() and f"def {name.rpartition('::')[2]}(" in file.read_text("utf-8")


def outcome_of(tree: Path, mutant: Mutant, callers: Callers) -> Outcome:
    """Apply `mutant` to the copy, run its tests until one fails, and restore the file.

    The test that failed must pass without the mutant; otherwise it shows nothing.
    """
    file = tree / mutant.file
    whole = file.read_bytes()
    file.write_bytes(whole[: mutant.start] + mutant.new.encode() + whole[mutant.end :])
    os.utime(file, (moment := next(_moments), moment))
    try:
        ends = (_run(tree, tests) for tests in tests_of(tree, mutant, callers))
        outcome, test = next((end for end in ends if end[0] != "SURVIVED"), ("SURVIVED", ""))
    finally:
        file.write_bytes(whole)
        os.utime(file, (moment := next(_moments), moment))
    if outcome == "noticed" and _run(tree, ["-m", "", test])[0] != "SURVIVED":  # with any mark
        return "unclear"
    return outcome


def _run(tree: Path, tests: list[str]) -> tuple[Outcome, str]:
    """Return what `tests` made of the tree, and the first one that failed."""
    try:
        end = _pytest(tree, "-x", "--tb=line", "-rfE", "-p", "no:randomly", *tests, seconds=SECONDS)
    except subprocess.TimeoutExpired:
        return "timed out", ""
    if end.returncode in {0, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return "SURVIVED", ""
    found = _FAILED.search(end.stdout)
    return "timed out" if "Timeout (>" in end.stdout else "noticed", found[1] if found else tests[
        -1
    ]


def _pytest(
    tree: Path, *arguments: str, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "CI": "1"}
    return subprocess.run(
        [*command, "-o", f"timeout={TEST_SECONDS}", *arguments],
        cwd=tree, env=environment, capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip


def choose(packages: list[str], number: int, seed: int) -> list[Mutant]:
    """Return mutants drawn at random from all that there are, at most one per function line."""
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    names = [file.relative_to(ROOT) for file in files]
    if packages:
        names = [name for name in names if name.relative_to(PACKAGE).parts[0] in packages]
    every = [mutant for name in names for mutant in mutants(ROOT, name)]
    return random.Random(seed).sample(every, min(number, len(every)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("packages", nargs="*", help="only these packages, such as core or codecs")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--callers", type=Path, help="file of the record; written if it is absent")
    args = parser.parse_args()
    chosen = choose(args.packages, args.count, args.seed)
    free: SimpleQueue[Path] = SimpleQueue()

    def one(mutant: Mutant) -> Outcome:
        tree = free.get()
        try:
            outcome = outcome_of(tree, mutant, callers)
        finally:
            free.put(tree)
        print(f"{outcome:9}", mutant, flush=True)
        return outcome

    with copies(args.jobs) as trees:
        for tree in trees:
            free.put(tree)
        callers = read_callers(trees[0], args.jobs, args.callers)
        with ThreadPoolExecutor(args.jobs) as pool:
            ends = Counter(pool.map(one, chosen))
    print(
        f"{ends['noticed']} of {len(chosen)} mutants noticed, {ends['SURVIVED']} survived,"
        f" {ends['timed out']} timed out, {ends['unclear']} unclear, seed {args.seed}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
