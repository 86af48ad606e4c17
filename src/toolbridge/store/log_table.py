"""Logs in a SQLite database: one row for each batch of entries, in a file or in memory."""

import sqlite3
import time
from collections.abc import Sequence

import msgspec

from toolbridge.store.interface import READ_BYTES, Numbered

SCHEMA = """
create table if not exists logged (
    scope text not null, key text not null, last integer not null, value blob not null,
    ends real not null, primary key (scope, key, last)
) without rowid
"""
INDEX = "create index if not exists logged_ends on logged (ends)"
_batch = msgspec.msgpack.Decoder(list[Numbered])


def append(
    connection: sqlite3.Connection,
    log: tuple[str, str],
    entries: Sequence[Numbered],
    seconds: float,
) -> None:
    """Add the entries whose numbers are above the last of the log; call it in a transaction."""
    found = connection.execute("select max(last) from logged where scope = ? and key = ?", log)
    last = found.fetchone()[0] or 0
    if new := [entry for entry in entries if entry[0] > last]:
        row = (*log, new[-1][0], msgspec.msgpack.encode(new), time.time() + seconds)
        connection.execute("insert into logged values (?, ?, ?, ?, ?)", row)


def read(connection: sqlite3.Connection, log: tuple[str, str], after: int) -> list[Numbered]:
    """Return the entries after a number, about `READ_BYTES` at most."""
    rows = connection.execute(
        "select value from logged where scope = ? and key = ? and last > ? and ends > ? "
        "order by last",
        (*log, after, time.time()),
    )
    found: list[Numbered] = []
    size = 0
    for (value,) in rows:
        found += [entry for entry in _batch.decode(value) if entry[0] > after]
        size += len(value)
        if size >= READ_BYTES:
            break
    rows.close()
    return found


def drop(connection: sqlite3.Connection, log: tuple[str, str]) -> bool:
    done = connection.execute("delete from logged where scope = ? and key = ?", log)
    return done.rowcount > 0
