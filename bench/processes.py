"""CPU time and memory of a process with all of its children, and what a host took, from /proc (Linux)."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICK = 1e9 / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """Return `pid` and all of its descendants."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


@dataclass(frozen=True)
class CpuTime:
    """CPU time used so far, in ns: by each thread that runs, and by the processes as a whole."""

    threads: dict[str, int]
    whole: float

    @classmethod
    def now(cls, pid: int) -> "CpuTime":
        threads: dict[str, int] = {}
        whole = 0.0
        for member in family(pid):
            if fields := _stat(member):
                whole += sum(map(int, fields[11:15])) * _TICK
                threads |= _threads(member)
        return cls(threads, whole)

    def since(self, before: "CpuTime") -> float:
        """Return the CPU time between two samples, in ns.

        schedstat is exact but forgets threads that have ended; stat remembers them, in ticks of
        10 ms. The second is used only where the first has lost something.
        """
        exact = sum(self.threads.values()) - sum(before.threads.values())
        ticks = self.whole - before.whole
        lost = before.threads.keys() - self.threads.keys()
        return max(exact, ticks) if lost or ticks - exact > 3 * _TICK else exact


@dataclass(frozen=True)
class HostTime:
    """The CPU time of this machine so far, in ticks: what its host gave to others, and all of it.

    A virtual machine whose host is busy stands still meanwhile. The kernel counts that time as the
    CPU time of whatever ran, so a cost that was measured then is too high.
    """

    taken: int
    whole: int

    @classmethod
    def now(cls) -> "HostTime":
        return cls.read(Path("/proc/stat").read_text())

    @classmethod
    def read(cls, text: str) -> "HostTime":
        # user, nice, system, idle, iowait, irq, softirq, steal; guest time is a part of user time.
        ticks = [int(field) for field in text.partition("\n")[0].split()[1:9]]
        return cls(ticks[7], sum(ticks))

    def share_since(self, before: "HostTime") -> float:
        """Return the share of the time since `before` that the host took."""
        return (self.taken - before.taken) / max(1, self.whole - before.whole)


def memory(pid: int) -> float:
    """Return the proportional memory (PSS) of a process with its children, in MB."""
    return _sum_of("Pss", pid)


def own_memory(pid: int) -> float:
    """Return the part of the proportional memory that is not from files, in MB.

    The whole of it grows when another process ends that had the same libraries loaded.
    """
    return _sum_of("Pss_Anon", pid)


def _sum_of(field: str, pid: int) -> float:
    total = 0
    for member in family(pid):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text()
        except OSError:
            continue  # it has ended meanwhile
        total += sum(
            int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{field}:")
        )
    return total / 1024


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []  # it has ended meanwhile


def _threads(pid: int) -> dict[str, int]:
    found = {}
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found[task.name] = int((task / "schedstat").read_text().split()[0])
    except OSError:
        return found  # a thread has ended meanwhile
    return found
