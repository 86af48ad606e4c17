"""A plugin of pytest that writes which tests call which functions of the product.

`python -m pytest -p tests.function_callers --callers FILE …` writes a JSON object to FILE: each
function as `path::qualified.name`, with the tests that call it in their own process.
The test with the empty name stands for calls before the first test, at import.
With `--forks`, every worker writes a file of its own: FILE.0, FILE.1 and so on.
`tests/mutants.py` uses it to choose the tests of a mutant.
"""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import msgspec
import pytest

PRODUCT = f"src{os.sep}toolbridge{os.sep}"

_called: dict[int, CodeType] = {}
_callers: dict[str, dict[str, None]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--callers", help="the file for the tests that call each function")


def pytest_configure() -> None:
    threading.settrace(_record)
    sys.settrace(_record)


def pytest_collection_finish() -> None:
    _keep("")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _called.clear()
    sys.settrace(_record)  # for each test: Hypothesis removes the function of an earlier one
    result = yield
    _keep(item.nodeid.partition("[")[0])
    return result


def _keep(test: str) -> None:
    for code in [*_called.values()]:
        at = code.co_filename.rfind(PRODUCT)
        if at >= 0:
            name = f"{Path(code.co_filename[at:]).as_posix()}::{code.co_qualname}"
            _callers.setdefault(name, {})[test] = None


def pytest_unconfigure(config: pytest.Config) -> None:
    sys.settrace(None)
    if file := config.getoption("--callers"):
        _write(Path(file))


@pytest.hookimpl(optionalhook=True)
def pytest_worker_finish(config: pytest.Config, worker: int) -> None:
    """Write what a fork of `tests/forked_workers.py` has recorded."""
    _write(Path(f"{config.getoption('--callers')}.{worker}"))


def _write(file: Path) -> None:
    record = {function: [*tests] for function, tests in _callers.items()}
    file.write_bytes(msgspec.json.encode(record))


def _record(frame: FrameType, _event: str, _arg: object) -> None:
    """Record the call; return no local function, so that lines are not traced."""
    # By identity: the hash of a code object reads all of its constants, at every call.
    code = frame.f_code
    _called[id(code)] = code
