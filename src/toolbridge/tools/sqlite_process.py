"""Processes that answer questions to databases, and can be killed.

A thread cannot be stopped, and SQLite does not look at the clock inside one of its functions. So a
question runs in a process (`sqlite_program`), which is killed when its time is over. A process that
has answered stays for the next question; one that is not asked for a minute ends by itself.
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
"""All of our environment that the process gets: where an interpreter may find its libraries."""
_STARTING = 20.0
"""Seconds that a process may take to start."""
_MARGIN = 0.25
"""Seconds that SQLite has to stop by itself before the process is killed."""
_MOST = 4
"""Processes at the same time."""


class TooSlow(Exception):
    """The question was not answered in time, and its process was killed."""


class ProcessDied(Exception):
    """The process ended without an answer."""


class SqlProcess:
    """One process; a context that kills it in the end."""

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
            raise ProcessDied("the process answered with something else than JSON")
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
                except OSError:  # what was written last has found no reader
                    continue
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SqlProcesses:
    """A few processes for the questions of one tool."""

    def __init__(self, most: int = _MOST) -> None:
        self._places = threading.BoundedSemaphore(most)
        self._idle: list[SqlProcess] = []
        weakref.finalize(self, _close_all, self._idle)

    def ask(self, question: JsonObject, seconds: float) -> JsonObject:
        """Return the answer; raise `TooSlow` or `ProcessDied`. Waits while all processes are busy."""
        if not self._places.acquire(timeout=seconds + _STARTING):
            raise TooSlow
        try:
            return self._ask(question, seconds)
        finally:
            self._places.release()

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
            except IndexError:  # another thread was quicker
                break
            if not process.ended:
                return process
            process.close()
        return SqlProcess()


def _close_all(processes: list[SqlProcess]) -> None:
    while processes:
        processes.pop().close()
