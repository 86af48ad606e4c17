"""A plugin of pytest that collects all tests once and then runs some of them per order, in a fork.

`python -m pytest -p tests.mutant_forks --orders READ WRITE …` reads an `Order` per line from one
file descriptor and writes an `Answer` per line to the other. Collecting the whole suite takes far
longer than the tests of one mutant, so `tests/mutants.py` orders them here.
The fork replaces the code of the functions that the changed file has already defined; modules that
a test imports later are read from the changed file itself. A call that was made at import is not
made again, so a mutant that passes here needs another look in a process of its own.
"""

import functools
import gc
import itertools
import os
import signal
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType
from typing import Literal, NamedTuple

import msgspec
import pytest


class Order(msgspec.Struct):
    tests: list[str]
    """Tests without their parameters, files or folders, in the order in which they run."""
    passed: list[str]
    """Tests that do not run again."""
    test_seconds: float
    seconds: float
    """No further test is started after this time."""
    file: str = ""
    """The changed file, as a path from the root; empty for the product as it is."""


class Answer(msgspec.Struct):
    end: Literal["passed", "failed", "hangs", "unable"]
    """`unable`: the code of a function cannot be replaced, because it uses other outer variables."""
    test: str = ""
    """The test that failed or did not end."""
    why: str = ""
    """The end of the report of the failure."""
    begun: list[str] = []
    """The tests that were started, in this order."""


class Functions(NamedTuple):
    """What the product has defined in this process."""

    by_file: dict[str, list[FunctionType]]
    caches: list["functools._lru_cache_wrapper[object]"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--orders", type=int, nargs=2, help="descriptors for orders and answers")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if not (descriptors := session.config.getoption("--orders")):
        return None
    functions = product_functions(Path("src").resolve())
    items: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        name = item.nodeid.partition("[")[0]
        file = Path(name.partition("::")[0])
        for key in (name, file.as_posix(), *(folder.as_posix() for folder in file.parents)):
            items.setdefault(key, []).append(item)
    with os.fdopen(descriptors[0], "rb") as orders, os.fdopen(descriptors[1], "wb") as answers:
        for line in orders:
            order = msgspec.json.decode(line, type=Order)
            passed = {id(item) for name in order.passed for item in items.get(name, [])}
            found = (item for name in order.tests for item in items.get(name, []))
            chosen = [item for item in found if id(item) not in passed]
            answers.write(msgspec.json.encode(_in_fork(session, functions, chosen, order)) + b"\n")
            answers.flush()
    return True


def _in_fork(
    session: pytest.Session, functions: Functions, items: list[pytest.Item], order: Order
) -> Answer:
    """Run the tests in a fork; end it, and what it started, when the time is over."""
    ours, theirs = Pipe(duplex=False)
    child = os.fork()
    if not child:
        try:
            os.setsid()
            if order.file and not replace_code(functions, Path(order.file).resolve()):
                theirs.send(Answer("unable"))
            else:
                _run(session, items, order, theirs)
        finally:
            os._exit(0)
    theirs.close()
    begun: list[str] = []
    try:
        while ours.poll(order.test_seconds):
            answer = ours.recv()
            if isinstance(answer, Answer):
                answer.begun = begun
                return answer
            begun.append(answer)
        return Answer("hangs", begun[-1] if begun else "", begun=begun)
    except EOFError:  # the mutant ended the process
        return Answer("failed", begun[-1], begun=begun) if begun else Answer("unable")
    finally:
        ours.close()
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _run(
    session: pytest.Session, items: list[pytest.Item], order: Order, answers: Connection
) -> None:
    failures: list[pytest.TestReport] = []

    class Failures:
        @staticmethod
        def pytest_runtest_logreport(report: pytest.TestReport) -> None:
            if report.failed:
                failures.append(report)

    session.config.pluginmanager.register(Failures())
    until = time.monotonic() + order.seconds
    for item, following in itertools.pairwise([*items, None]):
        assert item is not None
        name = item.nodeid.partition("[")[0]
        answers.send(name)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures or time.monotonic() > until:
            session._setupstate.teardown_exact(None)
            break
    if not failures:
        answers.send(Answer("passed"))
        return
    name, why = failures[0].nodeid.partition("[")[0], failures[0].longreprtext
    answers.send(Answer("failed", name, why[-1000:]))


def product_functions(product: Path) -> Functions:
    """Return the functions that each file of `product` has defined, and their caches."""
    found = Functions({}, [])
    gc.unfreeze()
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename.startswith(str(product)):
            found.by_file.setdefault(thing.__code__.co_filename, []).append(thing)
        elif isinstance(thing, functools._lru_cache_wrapper):
            found.caches.append(thing)
    gc.freeze()
    return found


def replace_code(functions: Functions, file: Path) -> bool:
    """Give every function that `file` has defined its code in the file as it is now.

    Return False if one of them uses other variables of the functions around it than before.
    """
    codes: dict[tuple[str, int], CodeType] = {}

    def add(code: CodeType) -> None:
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                codes[inner.co_qualname, inner.co_firstlineno] = inner
                add(inner)

    add(compile(file.read_bytes(), str(file), "exec"))
    for function in functions.by_file.get(str(file), []):
        old = function.__code__
        code = codes.get((old.co_qualname, old.co_firstlineno))
        if code is None or code.co_freevars != old.co_freevars:
            return False
        function.__code__ = code
    for cache in functions.caches:
        cache.cache_clear()
    return True
