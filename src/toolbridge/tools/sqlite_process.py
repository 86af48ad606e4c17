"""Child processes that run SQLite queries and can be killed.

A thread cannot be stopped, and SQLite does not check the time inside one of its functions. So a query
runs in a process (`sqlite_program`) that is killed at its timeout. A process is reused for the next
query, and exits after a minute without one.
"""

import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Self

from toolbridge.core.json import JsonObject, dump_bytes, maybe_object

_PROGRAM = Path(__file__).with_name("sqlite_program.py")
_PASSED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""The only environment variables passed to the process: an interpreter may need them to start."""
_STARTING = 20.0
"""Seconds that a process may take to start."""
_MARGIN = 0.25
"""Seconds that SQLite has to stop by itself before its process is killed."""
_MOST = 4
"""The most processes at the same time."""


class TooSlow(Exception):
    """The query was not answered in time, and its process was killed."""


class ProcessDied(Exception):
    """The process ended without an answer."""


class SqlProcess:
    """One process; a context manager that kills it on exit."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603  our own interpreter and program
            [sys.executable, "-I", "-S", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/" if sys.platform != "win32" else None,
            env={name: os.environ[name] for name in _PASSED if name in os.environ},
        )
        try:
            self._read(_STARTING)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def ask(self, question: JsonObject, seconds: float) -> JsonObject:
        """Return the answer; raise `TooSlow` or `ProcessDied`, after which the process is gone."""
        pipe = self._process.stdin
        try:
            if pipe is not None:
                pipe.write(dump_bytes(question) + b"\n")
                pipe.flush()
        except OSError as error:
            raise ProcessDied(str(error)) from None
        answer = maybe_object(self._read(seconds + _MARGIN))
        if answer is None:
            raise ProcessDied("the process did not answer with JSON")
        return answer

    def _read(self, seconds: float) -> bytes:
        late = threading.Event()

        def kill() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            line = b"" if self._process.stdout is None else self._process.stdout.readline()
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            return line
        raise TooSlow if late.is_set() else ProcessDied("it needs too much memory or time")

    def close(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # the last write was not read
                    continue
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SqlProcesses:
    """A pool of processes for one tool."""

    def __init__(self, most: int = _MOST) -> None:
        self._slots = threading.BoundedSemaphore(most)
        self._idle: list[SqlProcess] = []
        weakref.finalize(self, _close_all, self._idle)

    def ask(self, question: JsonObject, seconds: float) -> JsonObject:
        """Return the answer; raise `TooSlow` or `ProcessDied`. Waits while all processes are busy."""
        if not self._slots.acquire(timeout=seconds + _STARTING):
            raise TooSlow
        try:
            return self._ask(question, seconds)
        finally:
            self._slots.release()

    def _ask(self, question: JsonObject, seconds: float) -> JsonObject:
        process = self._taken()
        try:
            answer = process.ask(question, seconds)
        except BaseException:
            process.close()
            raise
        self._idle.append(process)
        return answer

    def _taken(self) -> SqlProcess:
        while self._idle:
            try:
                process = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if not process.ended:
                return process
            process.close()
        return SqlProcess()


def _close_all(processes: list[SqlProcess]) -> None:
    while processes:
        processes.pop().close()
