"""Change random lines of the product and count how many changes the package's own tests notice.

`python -m tests.mutants [--count 60] [--seed 1] [--jobs 2] [PACKAGE …]` prints one line per mutant.
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
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, NamedTuple, TypeAlias

import pytest
from tests.break_rows import PACKAGE, ROOT, copies

SECONDS = 1500
"""The longest that the tests of one mutant may take, on a machine that does other work as well."""
TEST_SECONDS = 240
"""The longest that one of those tests may take."""
COMPARED = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
Outcome: TypeAlias = Literal["noticed", "timed out", "unclear", "SURVIVED"]
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
_moments = count(1_100_000_000)


class Mutant(NamedTuple):
    file: Path
    line: int
    start: int
    end: int
    new: str

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

    for node in ast.walk(ast.parse(source)):
        for target, new in _changes(node, text):
            first, last = span(target)
            yield Mutant(file, target.lineno, first, last, new)


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


def tests_of(root: Path, file: Path) -> list[list[str]]:
    """Return the tests of the module, then those of its package and those with its name elsewhere.

    The first are tried first, because they notice most mutants and are quick.
    """
    parts = file.relative_to(PACKAGE).parts
    own = root / "tests" / parts[0].removesuffix(".py")
    named = sorted((root / "tests").rglob(f"test_{file.stem}.py"))
    if parts[0] == "codecs" and len(parts) > 2:
        own, named = own / parts[1], sorted((own / parts[1]).rglob(f"test_{file.stem}.py"))
        package = [own, root / "tests" / "test_transcripts.py"]
    else:
        package = [own] if own.exists() else []
    first = [path for path in named if own in path.parents]
    package += [path for path in named if path not in first and "real" not in path.parts]
    groups = [[str(path.relative_to(root)) for path in group] for group in (first, package)]
    return [group for group in groups if group] or [["tests/properties"]]


def outcome_of(tree: Path, mutant: Mutant) -> Outcome:
    """Apply `mutant` to the copy, run its tests until one fails, and restore the file.

    The test that failed must pass without the mutant; otherwise it shows nothing.
    """
    file = tree / mutant.file
    whole = file.read_bytes()
    file.write_bytes(whole[: mutant.start] + mutant.new.encode() + whole[mutant.end :])
    os.utime(file, (moment := next(_moments), moment))
    try:
        ends = (_run(tree, tests) for tests in tests_of(tree, mutant.file))
        outcome, test = next((end for end in ends if end[0] != "SURVIVED"), ("SURVIVED", ""))
    finally:
        file.write_bytes(whole)
        os.utime(file, (moment := next(_moments), moment))
    if outcome == "noticed" and _run(tree, [test])[0] != "SURVIVED":
        return "unclear"
    return outcome


def _run(tree: Path, tests: list[str]) -> tuple[Outcome, str]:
    """Return what `tests` made of the tree, and the first one that failed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "CI": "1"}
    try:
        end = subprocess.run(
            [*command, "-rfE", "-o", f"timeout={TEST_SECONDS}", *tests],
            cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "timed out", ""
    if end.returncode in {0, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return "SURVIVED", ""
    found = _FAILED.search(end.stdout)
    return "timed out" if "Timeout (>" in end.stdout else "noticed", found[1] if found else tests[0]


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
    args = parser.parse_args()
    chosen = choose(args.packages, args.count, args.seed)
    free: SimpleQueue[Path] = SimpleQueue()

    def one(mutant: Mutant) -> Outcome:
        tree = free.get()
        try:
            outcome = outcome_of(tree, mutant)
        finally:
            free.put(tree)
        print(f"{outcome:9}", mutant, flush=True)
        return outcome

    with copies(args.jobs) as trees:
        for tree in trees:
            free.put(tree)
        with ThreadPoolExecutor(args.jobs) as pool:
            ends = Counter(pool.map(one, chosen))
    print(
        f"{ends['noticed']} of {len(chosen)} mutants noticed, {ends['SURVIVED']} survived,"
        f" {ends['timed out']} timed out, {ends['unclear']} unclear, seed {args.seed}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
