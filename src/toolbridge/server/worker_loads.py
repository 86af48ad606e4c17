"""How many connections each worker of a gateway has, in memory that the workers share.

All workers of `serve --workers N` accept from one socket, and the system wakes every idle one of them
for each connection. The worker that is fastest would get nearly all of them, so each one compares
itself with the others before it accepts (`fair_acceptor`). docs/decisions/0053-fair-workers.md
"""

import mmap
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_FILE = "connections"
_SIZE = 4
"""Bytes of a count. It is the number of connections and one; 0 stands for no such worker."""


@dataclass(frozen=True)
class WorkerLoads:
    """The connections of all workers, as the supervisor sees them."""

    counts: memoryview

    def forget(self, worker: int) -> None:
        """Take note that a worker has ended."""
        self.counts[worker - 1] = 0


@dataclass(frozen=True)
class WorkerLoad:
    """The connections of one worker beside those of the others."""

    counts: memoryview
    worker: int

    def may_accept(self, connections: int) -> bool:
        """Note the connections of this worker; return whether no other one has clearly fewer."""
        self.counts[self.worker - 1] = connections + 1
        least = min(filter(None, self.counts)) - 1
        # A quarter more is even enough, and lets a burst of connections be accepted with few pauses.
        return connections <= least + least // 4


def create_loads(folder: Path, workers: int) -> WorkerLoads | None:
    """Return the loads of workers that have not begun; None if there is no space for them."""
    with suppress(OSError):
        # Written, not truncated: a page without space on the disk ends the process that uses it.
        (folder / _FILE).write_bytes(bytes(_SIZE * workers))
        return WorkerLoads(_counts(folder))
    return None


def open_load(folder: Path, worker: int) -> WorkerLoad | None:
    """Return the load of one worker; None if the supervisor could not create the loads."""
    with suppress(OSError, ValueError):  # ValueError: an empty file
        return WorkerLoad(_counts(folder), worker)
    return None


def _counts(folder: Path) -> memoryview:
    with (folder / _FILE).open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0)).cast("I")
