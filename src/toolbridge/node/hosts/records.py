"""What hosts did wrong, in a SQLite file that outlives the process.

A host that claimed tokens which it did not deliver is excluded for 30 days. One that repeatedly
closed the connection during an answer, sent more than was asked for or did not confirm the end is
excluded for a day. `NodeSession` notes faults, and `Finder` leaves out the hosts.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

HostFault: TypeAlias = Literal["overclaim", "hangup", "overrun", "unsealed"]
"""The host claimed tokens that it did not deliver, closed the connection during an answer, sent
more than was asked for, or ended an answer without the encrypted confirmation."""

FILE = "node-hosts.sqlite"
_DAY = 86_400.0
_KEPT = 30 * _DAY
_REPEATED = 3
"""Faults within a day after which a host is excluded for a day."""
_SHOWN = 5
_SCHEMA = """
create table if not exists faults (
    chain integer not null, host text not null, kind text not null, text text not null,
    at real not null
)
"""
_log = logging.getLogger("toolbridge.node")


@dataclass(frozen=True)
class Fault:
    """One fault of a host."""

    host: str
    """Its address in lower case."""
    kind: HostFault
    text: str
    at: float


class HostRecords:
    """The faults of the hosts of one chain; without a path they are kept in memory only."""

    def __init__(
        self, path: Path | None, chain: int, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._chain = chain
        self._clock = clock
        self._here: list[Fault] = []
        """Faults that this process noted and could not write."""

    async def note(self, host: str, kind: HostFault, text: str) -> None:
        """Record a fault of the host with this address."""
        fault = Fault(host.lower(), kind, text, self._clock())
        if self._path is None or not await asyncio.to_thread(self._insert, self._path, fault):
            self._here.append(fault)

    async def excluded(self) -> dict[str, str]:
        """Return the reason for each host that gets no requests, by its address in lower case."""
        found: dict[str, list[Fault]] = {}
        for fault in await self.faults():
            found.setdefault(fault.host, []).append(fault)
        reasons = {host: _reason(faults, self._clock()) for host, faults in found.items()}
        return {host: why for host, why in reasons.items() if why}

    async def faults(self) -> list[Fault]:
        """Return the faults of the last 30 days, oldest first."""
        stored = await asyncio.to_thread(self._select) if self._path else []
        return sorted((*stored, *self._here), key=lambda one: one.at)

    async def forget(self, host: str) -> int:
        """Delete the faults of a host; return how many there were."""
        before = len(self._here)
        self._here = [one for one in self._here if one.host != host.lower()]
        deleted = await asyncio.to_thread(self._delete, host.lower()) if self._path else 0
        return before - len(self._here) + deleted

    # ── in a thread ──

    def _open(self, path: Path) -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        db = sqlite3.connect(path, timeout=5.0)
        db.execute(_SCHEMA)
        return db

    def _insert(self, path: Path, fault: Fault) -> bool:
        try:
            with closing(self._open(path)) as db, db:
                db.execute("delete from faults where at < ?", (fault.at - _KEPT,))
                db.execute(
                    "insert into faults (chain, host, kind, text, at) values (?, ?, ?, ?, ?)",
                    (self._chain, fault.host, fault.kind, fault.text, fault.at),
                )
        except (OSError, sqlite3.Error) as error:
            _log.warning("the faults of hosts cannot be recorded in %s: %s", path, error)
            return False
        return True

    def _select(self) -> list[Fault]:
        if self._path is None or not self._path.exists():
            return []
        try:
            with closing(self._open(self._path)) as db:
                rows = db.execute(
                    "select host, kind, text, at from faults where chain = ? and at >= ?",
                    (self._chain, self._clock() - _KEPT),
                )
                return [Fault(*row) for row in rows]
        except (OSError, sqlite3.Error) as error:
            _log.warning("the faults of hosts cannot be read from %s: %s", self._path, error)
            return []

    def _delete(self, host: str) -> int:
        if self._path is None or not self._path.exists():
            return 0
        with closing(self._open(self._path)) as db, db:
            found = db.execute(
                "delete from faults where chain = ? and host = ?", (self._chain, host)
            )
            return found.rowcount


def _reason(faults: list[Fault], now: float) -> str:
    """Return why a host with these faults gets no requests now; empty if it gets some."""
    overclaims = [one for one in faults if one.kind == "overclaim" and one.at + _KEPT > now]
    if overclaims:
        return _sentence(overclaims, overclaims[-1].at + _KEPT)
    late = [one for one in faults if one.at + _DAY > now]
    return _sentence(late, late[-1].at + _DAY) if len(late) >= _REPEATED else ""


def _sentence(faults: list[Fault], until: float) -> str:
    day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(until))
    texts = "; ".join(dict.fromkeys(one.text for one in faults[-_SHOWN:]))
    return f"it is excluded until {day} UTC: {texts}; `toolbridge node hosts --forget ADDRESS` lifts it"
