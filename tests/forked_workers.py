"""A plugin of pytest that collects the tests once and runs them in forks of that process.

`python -m pytest -p tests.forked_workers --forks N …`; `auto` stands for the number of cores.
pytest-xdist starts processes that each import and collect the whole suite:
docs/decisions/0047-tests-run-in-forks.md has the figures.
"""

import os
import signal
import sys
import traceback
from collections import deque
from contextlib import suppress
from itertools import pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import NoReturn

import pytest

LARGEST_BATCH = 32
"""Tests that a worker gets at once; towards the end they become fewer, so that all end together."""


class WorkerHooks:
    @pytest.hookspec
    def pytest_worker_finish(self, config: pytest.Config, worker: int) -> None:
        """Do what a worker has to do after its last test."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(WorkerHooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    text = (
        "run the tests in N forks of the process that has collected them; `auto`: as many as cores"
    )
    parser.addoption("--forks", type=_count, default=0, metavar="N", help=text)


def _count(text: str) -> int:
    return os.cpu_count() or 1 if text == "auto" else int(text)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count, option = session.config.getoption("--forks"), session.config.option
    if not count or not session.items or session.testsfailed or option.collectonly or option.usepdb:
        return None
    Workers(session).run(count)
    return True


class Worker:
    """A fork, and the tests that it was given and has not reported."""

    def __init__(self, number: int, pid: int, connection: Connection) -> None:
        self.number = number
        self.pid = pid
        self.connection = connection
        self.given: deque[int] = deque()

    def give(self, batch: list[int]) -> None:
        self.given += batch
        with suppress(ConnectionError):  # it has ended: its connection is read to the end next
            self.connection.send(batch)

    def end(self) -> int:
        """End the fork; return its exit status."""
        self.connection.close()
        os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Workers:
    """Gives the tests to forks and reports what these report."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._hook = session.config.hook
        self._left = deque(range(len(session.items)))
        self._workers: dict[Connection, Worker] = {}
        self._begun = 0
        self._folder = session.config._tmp_path_factory.getbasetemp()

    def run(self, count: int) -> None:
        self._count = count
        try:
            for _ in range(min(count, len(self._left))):
                self._start()
            while self._workers:
                for connection in wait([*self._workers]):
                    self._read(self._workers[connection])
        finally:
            for worker in self._workers.values():
                worker.end()

    def _start(self) -> None:
        ours, theirs = Pipe()
        number, self._begun = self._begun, self._begun + 1
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            ours.close()
            for other in self._workers:
                other.close()
            folder = self._folder / f"worker-{number}"
            folder.mkdir(0o700)
            self._session.config._tmp_path_factory._basetemp = folder
            _work(self._session, number, theirs)
        theirs.close()
        worker = self._workers[ours] = Worker(number, pid, ours)
        # It always has the next batch: the fixtures that end with a test depend on the test after it.
        worker.give(self._batch())
        worker.give(self._batch())

    def _batch(self) -> list[int]:
        size = max(1, min(LARGEST_BATCH, len(self._left) // (4 * self._count)))
        return [self._left.popleft() for _ in range(min(size, len(self._left)))]

    def _read(self, worker: Worker) -> None:
        try:
            message = worker.connection.recv()
        except (EOFError, ConnectionError):
            del self._workers[worker.connection]
            self._take_back(worker, worker.end())
            return
        if message is None:
            worker.give(self._batch())
            return
        worker.given.popleft()
        index, reports = message
        config = self._session.config
        self._report(
            self._session.items[index],
            [
                self._hook.pytest_report_from_serializable(config=config, data=one)
                for one in reports
            ],
        )

    def _take_back(self, worker: Worker, status: int) -> None:
        """Report the test that has ended its worker; give the other ones to a new worker."""
        if not worker.given:
            return
        item = self._session.items[worker.given.popleft()]
        text = f"worker {worker.number} ended with status {status} in this test"
        failed = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        self._left.extendleft(reversed(worker.given))
        self._report(item, [failed])
        if self._left:
            self._start()

    def _report(self, item: pytest.Item, reports: list[pytest.TestReport]) -> None:
        for report in reports:
            self._hook.pytest_runtest_logreport(report=report)
        self._hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)


def _work(session: pytest.Session, number: int, connection: Connection) -> NoReturn:
    """Run the tests that are given, until there are none; never return to the code of the parent."""
    status = 1
    try:
        _capture_apart(session.config)
        _run_given(session, connection)
        session.config.hook.pytest_worker_finish(config=session.config, worker=number)
        status = 0
    except EOFError:
        pass  # the run was ended
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _capture_apart(config: pytest.Config) -> None:
    """Capture output in files of this process: a fork shares those of its parent, and the position."""
    config.pluginmanager.unregister(name="terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()


def _run_given(session: pytest.Session, connection: Connection) -> None:
    config = session.config
    found: list[object] = []

    class Reports:
        @staticmethod
        def pytest_runtest_logreport(report: pytest.TestReport) -> None:
            found.append(config.hook.pytest_report_to_serializable(config=config, report=report))

    config.pluginmanager.register(Reports())
    batch, following = connection.recv(), connection.recv()
    while batch:
        connection.send(None)
        # The first test after the batch, or None after the last test of all.
        for index, after in pairwise([*batch, *(following[:1] or [None])]):
            item, nextitem = session.items[index], None if after is None else session.items[after]
            config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            connection.send((index, found.copy()))
            found.clear()
        batch, following = following, connection.recv()
