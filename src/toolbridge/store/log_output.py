"""Non-blocking output for the request log and for notices.

Standard error may be a pipe that stays open and is not read. A blocking write to it would stop the
event loop, and with it every answer. So a part is written only when the descriptor has room for it;
the rest waits in a buffer. When the buffer is full, lines are dropped and counted, and the count is
written as soon as there is room again.

The lines of all requests of a turn of the event loop are one write (`later`, then `flush`). Any other
line is written after those that wait, so the order is kept.
"""

import atexit
import os
import select
import stat
import sys
import threading
from typing import TextIO

MOST_WAITING = 256 * 1024
"""Bytes that may wait in the buffer."""
MOST_LATER = 64 * 1024
"""Bytes that wait for the end of a turn."""
_PIECE = 512
"""Bytes that a ready descriptor accepts without blocking; POSIX guarantees 512 for every pipe."""


class LogOutput:
    """A text file, a terminal or a pipe that lines are written to."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self._waiting = bytearray()
        self._dropped = 0
        self._fd = _descriptor(out)
        self._piece = max(_PIECE, getattr(select, "PIPE_BUF", _PIECE))
        self._is_file = _is_file(self._fd)
        """Whether a write never has to wait for a reader."""
        # A notice may come from another thread, or from a signal while a line is written.
        self._lock = threading.RLock()

    def write(self, text: str) -> None:
        """Write whole lines, now or when there is room; never block and never raise."""
        self.write_bytes(text.encode("utf-8", "backslashreplace"))

    def write_bytes(self, data: bytes, *, later: bool = False) -> None:
        """Like `write`, for lines in UTF-8; with `later` they wait for the next ones or for `flush`."""
        with self._lock:
            if later and len(self._waiting) + len(data) <= MOST_LATER and self._fd is not None:
                self._waiting += data
                return
            try:
                self._write(data)
            except (OSError, ValueError):
                return  # its disk is full, its reader has left, or it was closed

    def flush(self) -> None:
        """Write the lines that wait for it, as far as there is room."""
        if self._waiting:
            self.write_bytes(b"")

    def _write(self, data: bytes) -> None:
        if self._fd is None or self.out.closed:  # a closed number may belong to another file
            self._waiting.clear()
            self.out.write(data.decode())
            self.out.flush()
            return
        if len(self._waiting) + len(data) > MOST_WAITING or self._dropped:
            self._empty()
        if self._dropped and not self._waiting:
            data = self._count() + data
        if len(self._waiting) + len(data) > MOST_WAITING:
            self._dropped += data.count(b"\n")
            return
        self._waiting += data
        self._empty()

    def _count(self) -> bytes:
        lines, self._dropped = self._dropped, 0
        verb = "line was" if lines == 1 else "lines were"
        return f"toolbridge: {lines} {verb} dropped, because the log was not read\n".encode()

    def _empty(self) -> None:
        """Write as much as there is room for."""
        try:
            while self._waiting and (self._is_file or _has_room(self._fd)):
                whole = self._is_file or len(self._waiting) <= self._piece
                data = bytes(self._waiting) if whole else self._some_lines()
                del self._waiting[: os.write(self._fd, data)]  # type: ignore[arg-type]
        except BlockingIOError:
            return  # another writer has filled the pipe
        except OSError:
            self._waiting.clear()  # the reader has closed the pipe, or the disk is full
            raise

    def _some_lines(self) -> bytes:
        """Return what is one write: whole lines, because other processes write to the same pipe."""
        end = self._waiting.rfind(b"\n", 0, self._piece) + 1
        return bytes(self._waiting[: end or self._piece])


def standard_error() -> LogOutput | None:
    """Return the output for the current standard error; None in a process without one."""
    global _current
    out = sys.stderr
    if out is None:
        return None
    if _current is None or _current.out is not out:
        _current = LogOutput(out)
    return _current


def flush() -> None:
    """Write the lines that wait for the end of a turn."""
    if _current is not None:
        _current.flush()


_current: LogOutput | None = None
atexit.register(flush)


def _descriptor(out: TextIO) -> int | None:
    """Return the descriptor of `out`; None without one, or without `select.poll`."""
    if not hasattr(select, "poll"):
        return None
    try:
        return out.fileno()
    except (OSError, ValueError, AttributeError):  # in memory, or closed
        return None


def _is_file(fd: int | None) -> bool:
    try:
        return fd is not None and stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:  # closed
        return False


def _has_room(fd: int | None) -> bool:
    if fd is None:
        return False
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))
