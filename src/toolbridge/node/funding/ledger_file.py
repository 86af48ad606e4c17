"""The SQLite file of the ledger: its tables, its lock, and files of earlier versions.

Every access opens the file, takes an exclusive lock before the first read, and returns when its
changes are on disk. If the file cannot be written, nothing is paid.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from toolbridge.core.errors import ConfigError

T = TypeVar("T")

_SCHEMA = """
create table if not exists payments (
    id integer primary key, at real not null, chain integer not null, account text not null,
    market text not null,
    purpose text not null, currency text not null, amount text not null, state text not null,
    nonce integer not null default -1, raw text not null default '', hash text not null default '', job text not null default '',
    model text not null default '', host text not null default '', url text not null default '', public text not null default '',
    price text not null default '0', owner text not null default '', touched real not null,
    delivered integer not null default 0, committed text not null default '0'
);
create index if not exists payments_at on payments (at);
create index if not exists payments_state on payments (state);
create table if not exists transactions (
    id integer primary key, at real not null, chain integer not null, account text not null,
    nonce integer not null, hash text not null, body text not null, raw text not null,
    kind text not null, function text not null, payment integer not null, gas integer not null,
    state text not null, owner text not null
);
create index if not exists transactions_state on transactions (state);
create table if not exists entries (
    id integer primary key, at real not null, chain integer not null, account text not null,
    kind text not null, currency text not null, decimals integer not null, amount text not null,
    host text not null, job text not null, hash text not null, state text not null,
    tokens integer not null, note text not null, payment integer not null
);
create table if not exists leases (owner text primary key, until real not null, process text not null);
create table if not exists caps (
    account text not null, currency text not null, day text not null, job text not null,
    primary key (account, currency)
);
create table if not exists scans (
    chain integer not null, account text not null, market text not null, first integer not null,
    last integer not null, primary key (chain, account, market)
);
"""
_ADDED = {"delivered": "integer not null default 0", "committed": "text not null default '0'"}
"""Columns of `payments` that files of earlier versions lack."""
_VERSION = 2
SYNCHRONOUS = "extra"
"""SQLite's `synchronous`: a change is on disk, and so is its directory entry, before it counts."""


class LedgerFile:
    """A SQLite file that several processes share; `wait` is how long to wait for its lock."""

    def __init__(self, path: Path, wait: float = 10.0) -> None:
        self.path = path
        self._wait = wait

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work`, run in a thread under the lock of the file."""
        return await asyncio.to_thread(self._locked, work)

    def _locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with closing(self._open()) as db, _transaction(db):
                return work(db)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"the ledger of payments {self.path} cannot be used ({error}); nothing is paid "
                "without it: check the permissions and the free space of its directory"
            ) from None

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o600)
        db = sqlite3.connect(self.path, timeout=self._wait, isolation_level=None)
        try:
            db.execute(f"pragma synchronous = {SYNCHRONOUS}")
            if db.execute("pragma user_version").fetchone() != (_VERSION,):
                _upgrade(db)
        except sqlite3.Error:
            db.close()
            raise
        return db


def _upgrade(db: sqlite3.Connection) -> None:
    """Create the tables, and add the columns that a file of an earlier version lacks."""
    with _transaction(db):
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
        known = {row[1] for row in db.execute("pragma table_info(payments)")}
        for name, kind in _ADDED.items():
            if name not in known:
                db.execute(f"alter table payments add column {name} {kind}")
        db.execute(f"pragma user_version = {_VERSION}")


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Lock the file before the first read, so that no two processes read the same sum."""
    db.execute("begin immediate")
    try:
        yield
    except BaseException:
        db.execute("rollback")
        raise
    db.execute("commit")
