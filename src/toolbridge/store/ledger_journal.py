"""A file in which the rows of a process wait for the ledger, so that they outlive `kill -9`.

A request to a model is noted before it is sent, while it runs, and when it has ended; each line has
the whole row, and the last line of a request counts. A line is given to the operating system with
`write`, which a killed process does not undo (a machine that loses power may); the lines of requests
that have ended wait for the next line, or for the end of a turn of the event loop. The lock on the
file ends with its process. So another process, or the next one, knows that the owner is dead, and
puts its rows into the ledger: `dead_journals`. The ledger leaves out a row that it has, so a row
that is put there twice counts once.
"""

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from toolbridge.store import private_files
from toolbridge.store.budgets import Reservation
from toolbridge.store.ledger import LedgerRow
from toolbridge.store.notices import notice

_HAS_LOCKS = os.name == "posix"
"""Windows has no such locks; rows wait in memory only there."""
if _HAS_LOCKS:
    import fcntl

FOLDER = "journal"
"""The folder in the state directory."""
_ENDING = ".journal"
_SET_ASIDE = "refused.jsonl"
_COMPACT = 256 * 1024
"""Bytes from which on lines of written rows are removed from the file."""
_SPARSE = 4
"""How many times larger than its needed lines the file is then."""
_MOST_BYTES = 256 * 1024 * 1024
"""Bytes of the rows that wait while the ledger is away."""
_BATCH = 500


class JournalLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request as far as it was known."""

    row: LedgerRow
    runs: bool = False
    held: Reservation | None = None
    """What a running request has reserved of its key's budget."""


_line = msgspec.json.Decoder(JournalLine)
_encode = msgspec.json.Encoder().encode


class LedgerJournal:
    """The journal of this process; its methods may be called in any thread and never raise."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / f"{os.getpid()}-{secrets.token_hex(4)}{_ENDING}"
        self._lock = threading.Lock()
        self._file = -1
        self._size = 0
        self._lines: dict[str, bytes] = {}
        """The last line of each request that the file must have; of `left` ones only the file has it."""
        self._unwritten: dict[str, bytes] = {}
        """The lines of them that are written together with the next one."""
        self.left = 0
        """Rows that only the file has, because the memory has no room for them."""
        self._broken = not _HAS_LOCKS

    @property
    def has_file(self) -> bool:
        """Whether there is a file in which rows can wait."""
        return self._file >= 0

    def note(self, line: JournalLine, *, leave: bool = False) -> bool:
        """Write a line; return whether the file has it. With `leave` it is not kept in memory."""
        data = _encode(line) + b"\n"
        with self._lock:
            if not self._write(data):
                return False
            if leave:
                self.left += 1
                self._lines.pop(line.row.id, None)
            else:
                self._lines[line.row.id] = data
        return True

    def add(self, line: JournalLine) -> bool:
        """Write a line with the next one, or with `flush`, whichever is first; return whether it can."""
        data = _encode(line) + b"\n"
        with self._lock:
            if self._broken:
                return False
            self._lines[line.row.id] = self._unwritten[line.row.id] = data
        return True

    def flush(self) -> None:
        """Write the lines of `add`; if another thread writes them, return when it has done that."""
        with self._lock:
            if self._unwritten:
                self._write(b"")

    def written(self, ids: list[str]) -> None:
        """Forget rows that the ledger has."""
        with self._lock:
            for id in ids:
                self._lines.pop(id, None)
                self._unwritten.pop(id, None)
            if self.left or self._file < 0:
                return
            try:
                if not self._lines:
                    os.ftruncate(self._file, 0)
                    self._size = 0
                elif self._size > max(_COMPACT, _SPARSE * sum(map(len, self._lines.values()))):
                    self._compact()
            except OSError as error:
                self._report(error)

    def left_rows(self) -> Iterator[list[LedgerRow]]:
        """Yield the ended rows of the file in batches; then count those of `left` as written."""
        with self._lock:
            left = self.left
        yield from _ended(self.path)
        with self._lock:
            self.left -= left

    def close(self) -> None:
        """Give up the file; remove it unless rows wait in it."""
        self.flush()
        with self._lock:
            if self._file >= 0:
                with suppress(OSError):
                    if not self._lines and not self.left:
                        self.path.unlink()
                    os.close(self._file)
            self._file = -1
            self._broken = True

    # ── with the lock ────────────────────────────────────────────────────────

    def _write(self, data: bytes) -> bool:
        """Append the lines of `add`, and `data`; return whether the file has them."""
        if self._unwritten:
            # If they cannot be written, they are in memory only, as any line is then.
            data = b"".join([*self._unwritten.values(), data])
            self._unwritten.clear()
        length = len(data)
        if self._broken or self._size + length > _MOST_BYTES:
            return False
        try:
            if self._file < 0:
                self._open()
            if (written := os.write(self._file, data)) != length:  # a full disk took a part
                self._size += data.rfind(b"\n", 0, written) + 1  # whole lines stay
                os.ftruncate(self._file, self._size)
                return False
        except OSError as error:
            self._report(error)
            return False
        self._size += length
        return True

    def _open(self) -> None:
        private_files.make_folder(self._folder)
        self._file = _open_locked(self.path)

    def _report(self, error: OSError) -> None:
        self._broken = self._file < 0  # a full disk may have room again
        if self._broken:
            notice(f"rows of the ledger wait in memory only: {self._folder}: {error}")

    def _compact(self) -> None:
        """Replace the file by one with the needed lines, which is complete or does not exist."""
        path = self.path.with_suffix(".new")
        path.unlink(missing_ok=True)
        file = _open_locked(path)
        data = b"".join(self._lines.values())
        if os.write(file, data) == len(data):
            path.replace(self.path)
            self._file, file, self._size = file, self._file, len(data)
            self._unwritten.clear()
        else:  # no room for it; the old one stays
            path.unlink()
        os.close(file)


class DeadJournal:
    """The journal of a process that has ended, locked by this one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        running: dict[str, JournalLine] = {}
        for line in _lines_of(path):
            if line.runs:
                running[line.row.id] = line
            else:
                running.pop(line.row.id, None)
        self.running = list(running.values())
        """The requests that had not ended."""

    def rows(self) -> Iterator[list[LedgerRow]]:
        """Yield all rows in batches."""
        yield from _ended(self._path)
        yield [line.row for line in self.running]

    def remove(self) -> None:
        for path in (self._path.with_suffix(".new"), self._path):
            path.unlink(missing_ok=True)


@contextmanager
def dead_journals(folder: Path) -> Iterator[list[DeadJournal]]:
    """Return the journals whose processes have ended, locked while the block runs."""
    files: list[int] = []
    found: list[DeadJournal] = []
    try:
        for path in sorted(folder.glob(f"*{_ENDING}")) if _HAS_LOCKS else ():
            with suppress(OSError):  # another process removed it, or it belongs to another user
                files.append(file := os.open(path, os.O_RDWR))
                if _lock(file) and os.fstat(file).st_ino == path.stat().st_ino:
                    found.append(DeadJournal(path))
        yield found
    finally:
        for file in files:
            os.close(file)


def has_journals(folder: Path) -> bool:
    """Return whether any process has a journal here."""
    return any(folder.glob(f"*{_ENDING}"))


def set_aside(folder: Path | None, row: LedgerRow, why: str) -> None:
    """Report a row that the ledger cannot hold, and append it to a file that no process reads."""
    text = f"the ledger cannot hold the row {row.id}: {why}"
    if folder is not None:
        path = folder / _SET_ASIDE
        with suppress(OSError):
            private_files.make_folder(folder)
            file = private_files.open_to_append(path)
            try:
                if os.fstat(file).st_size < _MOST_BYTES:
                    os.write(file, _encode(row) + b"\n")
                    text += f"; it is in {path}"
            finally:
                os.close(file)
    notice(text)


def _ended(path: Path) -> Iterator[list[LedgerRow]]:
    """Yield the rows of ended requests in batches."""
    batch: list[LedgerRow] = []
    for line in _lines_of(path):
        if not line.runs:
            batch.append(line.row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch


def _lines_of(path: Path) -> Iterator[JournalLine]:
    with path.open("rb") as file:
        for data in file:
            with suppress(msgspec.MsgspecError):  # cut by the end of the process
                yield _line.decode(data)


def _open_locked(path: Path) -> int:
    """Return the descriptor of a new file that this process has locked."""
    while True:
        file = private_files.open_to_append(path)
        # Another process may have found the file before it was locked, and removed it.
        with suppress(FileNotFoundError):
            if _lock(file) and os.fstat(file).st_ino == path.stat().st_ino:
                return file
        os.close(file)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
