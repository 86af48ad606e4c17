"""Leases: which process works on a payment.

A process holds a lease with an expiry and extends it while it runs. When it crashes, its lease ends
by itself, and another process takes its payments over, on whatever machine it runs. A process that
is known to have ended (same kernel, same process namespace) loses its lease at once.
"""

import os
import secrets
import sqlite3
from pathlib import Path

LEASE = 90.0
"""Seconds for which a lease holds without being extended."""
BEAT = 20.0
"""Seconds between two extensions."""


def _place() -> str:
    """Return the running kernel and the process namespace; empty where they cannot be read."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"
    except (OSError, UnicodeDecodeError):
        return ""


def _started(pid: int) -> str:
    """Return the start time of a process in ticks, which differs when a process id is reused."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
        )
    except (OSError, IndexError):
        return ""


def _process() -> str:
    place = _place()
    return f"{os.getpid()} {_started(os.getpid())} {place}" if place else ""


def new_owner() -> str:
    """Return an id for a holder of leases."""
    return secrets.token_hex(12)


def extend(db: sqlite3.Connection, owner: str, now: float) -> None:
    """Make the lease of `owner` hold for another `LEASE` seconds."""
    db.execute(
        "insert into leases (owner, until, process) values (?, ?, ?) "
        "on conflict (owner) do update set until = excluded.until",
        (owner, now + LEASE, _process()),
    )


def end(db: sqlite3.Connection, owner: str) -> None:
    """End the lease of `owner`."""
    db.execute("delete from leases where owner = ?", (owner,))


def held_until(db: sqlite3.Connection, owner: str, now: float) -> float:
    """Return when the lease of `owner` ends; 0 if no running process holds it."""
    found = db.execute("select until, process from leases where owner = ?", (owner,)).fetchone()
    if found is None:
        return 0.0
    until, process = found
    # A clock that was set back must not make a lease hold for longer than its length.
    if until <= now or until > now + 2 * LEASE or _has_ended(process):
        return 0.0
    return float(until)


def _has_ended(process: str) -> bool:
    """Whether a process of this machine does not run any more; False if it cannot be checked."""
    pid, started, place = [*process.split(" ", 2), "", "", ""][:3]
    if not pid.isdigit() or not place or place != _place():
        return False
    return _started(int(pid)) != started
