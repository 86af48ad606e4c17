"""The counters of all workers of a gateway, in one directory.

Each worker writes its counters to a file of its own, at most once per second. `/metrics` adds those of
the other workers to its own. The supervisor adds the counters of a worker that has ended to one file,
so that a sum never becomes smaller.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

Labels: TypeAlias = tuple[tuple[str, str], ...]
Counts: TypeAlias = "Counter[tuple[str, Labels]]"
_rows = msgspec.json.Decoder(list[tuple[str, Labels, float]])
_ENDED = "ended.json"


class WorkerMetrics:
    """The files of one worker and of the others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = folder / f"{os.getpid()}.json"
        self._written = -1

    def write(self, counts: Counts) -> None:
        """Write the counters of this worker, if they have changed."""
        size = len(counts) + int(sum(counts.values()) * 1000)
        if size != self._written:
            self._written = size
            _write(self._own, counts)

    def others(self) -> Counts:
        """Return the sum of the counters of all other workers, ended ones included."""
        total: Counts = Counter()
        with _locked(self._folder, exclusive=False), suppress(OSError):
            for file in self._folder.glob("*.json"):
                if file != self._own:
                    _add(total, file)
        return total


def settle_ended(folder: Path, pid: int) -> None:
    """Add the counters of a worker that has ended to those of all others that have."""
    file, ended = folder / f"{pid}.json", folder / _ENDED
    with _locked(folder, exclusive=True):
        if not file.exists():
            return
        total: Counts = Counter()
        _add(total, ended)
        _add(total, file)
        _write(ended, total)
        file.unlink()


def _add(total: Counts, file: Path) -> None:
    with suppress(OSError, msgspec.DecodeError):  # a worker that has just begun has none
        for name, labels, value in _rows.decode(file.read_bytes()):
            total[name, labels] += value  # type: ignore[assignment]  # a Counter counts floats too


def _write(file: Path, counts: Counts) -> None:
    made = file.with_suffix(".new")
    with suppress(OSError):  # a full disk must not change an answer
        rows = [(name, labels, value) for (name, labels), value in counts.items()]
        made.write_bytes(msgspec.json.encode(rows))
        made.replace(file)


@contextmanager
def _locked(folder: Path, *, exclusive: bool) -> Iterator[None]:
    import fcntl

    with (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
