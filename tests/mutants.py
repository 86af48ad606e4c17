"""Change random lines of the product and count how many changes the tests notice.

`python -m tests.mutants [--count 60] [--seed 1] [--jobs 2] [PACKAGE …]` prints one line per mutant;
`--seconds` is the time for each, 240 by default: give more on a machine that does other work.
First the whole suite runs once without a mutant and records which tests call which function
(`tests/function_callers.py`); `--callers FILE` keeps the record there for further samples.
The tests of a mutant are those that call its function, wherever they are, at most 300: first those
of its package, and of these the ones that call the fewest functions. If none of them fails, all
tests of its package run, because some start the product in a process that the record does not see.
For a few packages that includes tests which `make test` leaves out: `MARKED`.
They run in forks of a process that has collected the suite (`tests/mutant_forks.py`). If the function
is also called at import, the tests of the package run in a process of their own.
A mutant is noticed by a test that fails twice or hangs with it and passes without it; a failure
by chance shows nothing.
A survivor is either a gap in the tests or a change without effect; each deserves a look.
The command works on copies of the tree (`tests/copies.py`), never on the tree itself.
"""

import argparse
import ast
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import pytest
from tests.copies import PACKAGE, ROOT, copies, environment, interpreter
from tests.mutant_forks import Answer, Order

SECONDS = 240
"""No further test of a mutant is started after this time, unless `--seconds` has another."""
TEST_SECONDS = 120
"""The longest that a test may take, on a machine that does other work as well."""
MOST_CALLERS = 300
"""The most tests that are chosen because they call the function of a mutant."""
MOST_CHANCES = 3
"""After so many failures that show nothing, it is unclear whether a mutant is noticed."""
MARKED = {
    "store": ["tests/stores"],
    "cli": ["tests/stores/test_gateways.py", "tests/operation"],
    "server": ["tests/operation", "tests/stores"],
}
"""Package → its tests that need servers or start many processes; without servers they are skipped."""
COMPARED = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
Callers: TypeAlias = dict[str, list[str]]
Outcome: TypeAlias = Literal["noticed", "hangs", "unclear", "SURVIVED"]
SELECTED = ["-m", "not real and not browser and not wheel"]
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

    @property
    def key(self) -> str:
        """The name of the function in the record of callers."""
        return f"{self.file.as_posix()}::{self.function}"

    @property
    def package(self) -> str:
        return self.file.relative_to(PACKAGE).parts[0]

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
            if not around or not around[-1].endswith("__repr__"):
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
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name("_log"), attr="debug"))):
            pass
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield node, "pass"


def tests_of(root: Path, mutant: Mutant, callers: Callers) -> list[list[str]]:
    """Return the tests that call the function of the mutant, those of its package, and `MARKED`."""
    package = _package_tests(root, mutant.file)
    calling = [test for test in callers.get(mutant.key, []) if test]
    work = Counter(test for tests in callers.values() for test in tests) if calling else Counter()
    folders = tuple(f"{name}/" for name in package)
    calling.sort(key=lambda test: (not test.startswith(folders), work[test], test))
    return [calling[:MOST_CALLERS], package, MARKED.get(mutant.package, [])]


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
        plugin = ["-p", "tests.function_callers", "--callers", str(record)]
        forks = ["-p", "tests.forked_workers", "--forks", str(jobs)]
        end = _pytest(tree, *forks, "-o", "timeout=600", *plugin)
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
    known = {test for tests in callers.values() for test in tests if test}
    gone = {test for test in known if not _exists(tree, test)}
    return {name: [t for t in tests if t not in gone] for name, tests in callers.items()}


def _exists(tree: Path, test: str) -> bool:
    path, _, name = test.partition("::")
    file = tree / path
    return file.is_file() and f"def {name.rpartition('::')[2]}(" in file.read_text("utf-8")


class Tester:
    """Runs the tests of mutants in one copy of the tree."""

    def __init__(self, tree: Path, callers: Callers, seconds: float = SECONDS) -> None:
        """No further test of a mutant is started after `seconds`."""
        self._tree = tree
        self._callers = callers
        self._seconds = seconds
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        self._lines = os.fdopen(self._answers, "rb")
        self._process = subprocess.Popen(
            _command(
                tree, "-p", "tests.mutant_forks", "--orders", str(orders), str(answers),
                "--basetemp", str(tree.parent / "temporary"), "-o", "timeout=0", *SELECTED,
            ),
            cwd=tree, env=environment(tree), pass_fds=(orders, answers),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(orders)
        os.close(answers)
        self._collected = False

    def close(self) -> None:
        os.close(self._orders)
        self._process.wait()
        self._lines.close()

    def outcome_of(self, mutant: Mutant) -> Outcome:
        """Apply `mutant` to the copy, run its tests until one fails, and restore the file.

        The test that failed must fail again, and pass without the mutant; otherwise it shows
        nothing, and the tests after it run.
        """
        if not self._collected:  # without a mutant, because that imports the product
            self._collected = self._order([]).end == "passed"
        begun: list[str] = []
        until = time.monotonic() + self._seconds
        for _ in range(MOST_CHANCES):
            with self._applied(mutant):
                answer = self._run(mutant, begun, until)
                if answer.end == "passed":
                    return "SURVIVED"
                is_chance = answer.why and self._order([answer.test], (), mutant).end == "passed"
            if not is_chance and self._order([answer.test]).end == "passed":
                return "hangs" if answer.end == "hangs" else "noticed"
        return "unclear"

    @contextmanager
    def _applied(self, mutant: Mutant) -> Iterator[None]:
        file = self._tree / mutant.file
        whole = file.read_bytes()
        _write(file, whole[: mutant.start] + mutant.new.encode() + whole[mutant.end :])
        try:
            yield
        finally:
            _write(file, whole)

    def _run(self, mutant: Mutant, begun: list[str], until: float) -> Answer:
        """Run the tests of `mutant` that are not in `begun`, and add them to it."""
        calling, package, marked = tests_of(self._tree, mutant, self._callers)
        at_import = not mutant.function or "" in self._callers.get(mutant.key, [])
        answer = Answer("passed")
        for tests in (calling, marked) if at_import else (calling, package, marked):
            answer = self._order(tests, begun, mutant, seconds=until - time.monotonic())
            begun += answer.begun
            if answer.end != "passed" or time.monotonic() > until:
                break
        if answer.end == "unable" or (at_import and answer.end == "passed"):
            return self._run_apart(package)
        return answer

    def _order(
        self,
        tests: list[str],
        passed: Sequence[str] = (),
        mutant: Mutant | None = None,
        *,
        seconds: float | None = None,
    ) -> Answer:
        seconds = self._seconds if seconds is None else seconds
        file = "" if mutant is None else mutant.file.as_posix()
        order = Order(tests, [*passed], TEST_SECONDS, seconds, file)
        os.write(self._orders, msgspec.json.encode(order) + b"\n")
        if line := self._lines.readline():
            return msgspec.json.decode(line, type=Answer)
        raise SystemExit(f"the tests cannot be collected in {self._tree}")

    def _run_apart(self, tests: list[str]) -> Answer:
        """Run `tests` in a process of their own, which imports the changed file anew."""
        limit = ["-o", f"timeout={TEST_SECONDS}"]
        try:
            plain = ["-x", "--tb=line", "-rfE", *limit]
            end = _pytest(self._tree, *plain, *tests, seconds=self._seconds)
        except subprocess.TimeoutExpired:
            return Answer("passed")  # as far as is known
        if end.returncode in {0, pytest.ExitCode.NO_TESTS_COLLECTED}:
            return Answer("passed")
        found = _FAILED.search(end.stdout)
        return Answer("failed", found[1] if found else tests[0])


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    # Bytecode counts as fresh when the time in seconds and the size of its source are the same.
    os.utime(file, (moment := next(_moments), moment))


def _command(tree: Path, *arguments: str) -> list[str]:
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    return [str(interpreter(tree)), "-m", "pytest", *plain, *arguments]


def _pytest(
    tree: Path, *arguments: str, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(tree, *arguments), cwd=tree, env=environment(tree),
        capture_output=True, text=True, timeout=seconds, check=False,
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
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each mutant")
    parser.add_argument("--callers", type=Path, help="file of the record; written if it is absent")
    args = parser.parse_args()
    chosen = choose(args.packages, args.count, args.seed)
    free: SimpleQueue[Tester] = SimpleQueue()

    def one(mutant: Mutant) -> Outcome:
        tester = free.get()
        began = time.monotonic()
        try:
            outcome = tester.outcome_of(mutant)
        finally:
            free.put(tester)
        print(f"{outcome:8} {time.monotonic() - began:4.0f} s {mutant}", flush=True)
        return outcome

    with copies(args.jobs) as trees, ExitStack() as stack:
        callers = read_callers(trees[0], args.jobs, args.callers)
        for tree in trees:
            free.put(stack.enter_context(closing(Tester(tree, callers, args.seconds))))
        with ThreadPoolExecutor(args.jobs) as pool:
            ends = Counter(pool.map(one, chosen))
    print(
        f"{ends['noticed'] + ends['hangs']} of {len(chosen)} mutants noticed ({ends['hangs']} hang),"
        f" {ends['SURVIVED']} survived, {ends['unclear']} unclear, seed {args.seed}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
