"""Budgets in the SQLite file of the keys: one transaction for each step, over all processes."""

import secrets
import sqlite3
from pathlib import Path

from toolbridge.accounting.limits_of_keys import (
    Amounts,
    KeyLimit,
    KeyLimitReached,
    LimitState,
    refuse,
    state_of,
)
from toolbridge.accounting.windows import Counter, current
from toolbridge.store.budgets import LEASE, Reservation
from toolbridge.store.keys import KeyRecord
from toolbridge.store.sqlite_tables import SqliteTables

_SCHEMA = """
create table if not exists used (
    key text not null, what text not null, per text not null, start real not null,
    used integer not null, primary key (key, what, per)
);
create table if not exists reserved (
    id text primary key, key text not null, tokens integer not null, dollars integer not null,
    least_tokens integer not null, least_dollars integer not null, ends real not null
);
create index if not exists reserved_key on reserved (key);
"""


class SqliteBudgets:
    """`Budgets` in a file."""

    def __init__(self, path: Path) -> None:
        self._tables = SqliteTables(path, _SCHEMA)

    async def reserve(
        self, key: KeyRecord, most: Amounts, least: Amounts, now: float
    ) -> Reservation | KeyLimitReached:
        reservation = Reservation(secrets.token_hex(12), key.id, key.limits, most, least)
        return await self._tables.run(lambda c: _reserve(c, key, reservation, now))

    async def settle(
        self, reservation: Reservation, used: Amounts, now: float, *, only_held: bool = False
    ) -> None:
        await self._tables.run(lambda c: _settle(c, reservation, used, now, only_held=only_held))

    async def renew(self, reservations: list[Reservation], now: float) -> None:
        rows = [(now + LEASE, reservation.id) for reservation in reservations]
        await self._tables.run(
            lambda c: c.executemany("update reserved set ends = ? where id = ?", rows)
        )

    async def states(self, key: KeyRecord, now: float) -> list[LimitState]:
        return await self._tables.run(lambda c: _states(c, key, now)[0])

    async def close(self) -> None:
        await self._tables.close()


def _reserve(
    connection: sqlite3.Connection, key: KeyRecord, reservation: Reservation, now: float
) -> Reservation | KeyLimitReached:
    states, running = _states(connection, key, now)
    if key.concurrency and running >= key.concurrency:
        return KeyLimitReached(1, running=running)
    if (full := refuse(states, reservation.most)) is not None:
        return full
    most, least = reservation.most, reservation.least
    connection.execute(
        "insert into reserved values (?,?,?,?,?,?,?)",
        (
            *(reservation.id, key.id, most.tokens, most.dollars),
            *(least.tokens, least.dollars, now + LEASE),
        ),
    )
    _charge(connection, key.id, key.limits, Amounts(requests=most.requests), now)
    return reservation


def _states(
    connection: sqlite3.Connection, key: KeyRecord, now: float
) -> tuple[list[LimitState], int]:
    """Return the state of every limit, and the number of running requests."""
    _expire(connection, key, now)
    running, tokens, dollars = connection.execute(
        "select count(*), coalesce(sum(tokens), 0), coalesce(sum(dollars), 0) from reserved "
        "where key = ?",
        (key.id,),
    ).fetchone()
    held = Amounts(tokens=tokens, dollars=dollars)
    states = [
        state_of(limit, _counter(connection, key.id, limit), held, now) for limit in key.limits
    ]
    return states, running


def _expire(connection: sqlite3.Connection, key: KeyRecord, now: float) -> None:
    """Charge the least of reservations whose lease has ended, and remove them."""
    # After a jump of the clock back, a lease ends no later than if it had begun now.
    connection.execute(
        "update reserved set ends = ?1 where key = ?2 and ends > ?1", (now + LEASE, key.id)
    )
    rows = connection.execute(
        "delete from reserved where key = ? and ends <= ? returning least_tokens, least_dollars",
        (key.id, now),
    ).fetchall()
    for tokens, dollars in rows:
        _charge(connection, key.id, key.limits, Amounts(tokens=tokens, dollars=dollars), now)


def _settle(
    connection: sqlite3.Connection,
    reservation: Reservation,
    used: Amounts,
    now: float,
    *,
    only_held: bool,
) -> None:
    removed = connection.execute("delete from reserved where id = ?", (reservation.id,))
    if only_held and not removed.rowcount:
        return
    # The end of the lease has charged tokens and dollars. The request was counted at its begin.
    least = Amounts(tokens=reservation.least.tokens, dollars=reservation.least.dollars)
    charged = used if removed.rowcount else used.less(least)
    _charge(connection, reservation.key, reservation.limits, charged, now)


def _charge(
    connection: sqlite3.Connection,
    key: str,
    limits: tuple[KeyLimit, ...],
    amounts: Amounts,
    now: float,
) -> None:
    for limit in limits:
        if not (amount := amounts.of(limit.what)):
            continue
        counter = current(_counter(connection, key, limit), limit.per, now)
        connection.execute(
            "insert or replace into used values (?,?,?,?,?)",
            (key, limit.what, limit.per, counter.start, max(0, counter.used + amount)),
        )


def _counter(connection: sqlite3.Connection, key: str, limit: KeyLimit) -> Counter | None:
    row = connection.execute(
        "select start, used from used where key = ? and what = ? and per = ?",
        (key, limit.what, limit.per),
    ).fetchone()
    return None if row is None else Counter(*row)
