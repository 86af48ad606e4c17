"""Budgets on a Redis or Valkey server: one script for each step, over all processes and machines.

The rules are those of `accounting/windows.py` and `accounting/limits_of_keys.py`. Python computes
the calendar (where the window of `now` begins, and how long it is), and the scripts compare and add.
Amounts are doubles in Lua: exact up to nine million dollars, which are counted in billionths.

A settlement that fails because the server is away is done when it is back, so that no use is lost.
"""

import secrets
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from toolbridge.accounting.limits_of_keys import (
    Amounts,
    KeyLimit,
    KeyLimitReached,
    LimitState,
    refuse,
)
from toolbridge.accounting.windows import begin, length
from toolbridge.store import StoreUnavailable
from toolbridge.store.budgets import LEASE, Reservation
from toolbridge.store.keys import KeyRecord
from toolbridge.store.redis_budget_scripts import RENEW, RESERVE, SETTLE
from toolbridge.store.redis_scripts import PREFIX
from toolbridge.store.redis_server import RedisServer, RunScript, Value

_Row: TypeAlias = tuple[bytes, bytes, bytes]
_MOST_UNSETTLED = 20_000
_IF_HELD = "if held"


class RedisBudgets:
    """`Budgets` on a server; the store closes it."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._unsettled: deque[tuple[list[str], list[Value]]] = deque(maxlen=_MOST_UNSETTLED)
        server.on_return.append(self._settle_late)

    async def reserve(
        self, key: KeyRecord, most: Amounts, least: Amounts, now: float
    ) -> Reservation | KeyLimitReached:
        reservation = Reservation(secrets.token_hex(12), key.id, key.limits, most, least)
        try:
            admitted, running, states = await self._step(key, reservation, now)
        except StoreUnavailable:
            # The server may have reserved before its answer was lost.
            given_back = _settlement(reservation, Amounts(), now)
            self._unsettled.append((_keys(key.id), [*given_back, _IF_HELD]))
            raise
        if admitted:
            return reservation
        if key.concurrency and running >= key.concurrency:
            return KeyLimitReached(1, running=running)
        return refuse(states, most) or KeyLimitReached(1, running=running)

    async def _step(
        self, key: KeyRecord, reservation: Reservation | None, now: float
    ) -> tuple[bool, int, list[LimitState]]:
        """Reserve, or with None only read; return the states before it."""
        most = Amounts() if reservation is None else reservation.most
        least = Amounts() if reservation is None else reservation.least
        args: list[Value] = [
            *(_exact(now), _exact(LEASE), "" if reservation is None else reservation.id),
            *(key.concurrency, most.requests, most.tokens, most.dollars),
            *(least.tokens, least.dollars, *_windows(key.limits, now)),
        ]
        found = await self._server.run(RESERVE, _keys(key.id), args)
        (admitted, running), rows = _reply(found)
        states = [
            LimitState(limit, int(used), int(held), float(ends))
            for limit, (used, held, ends) in zip(key.limits, rows, strict=True)
        ]
        return bool(admitted), running, states

    async def settle(
        self, reservation: Reservation, used: Amounts, now: float, *, only_held: bool = False
    ) -> None:
        keys, args = _keys(reservation.key), _settlement(reservation, used, now)
        args.append(_IF_HELD if only_held else "")
        try:
            await self._server.run(SETTLE, keys, args)
        except StoreUnavailable:
            self._unsettled.append((keys, args))

    async def _settle_late(self, run: RunScript) -> None:
        while self._unsettled:
            keys, args = self._unsettled[0]
            await run(SETTLE, keys, args)
            self._unsettled.popleft()

    async def renew(self, reservations: list[Reservation], now: float) -> None:
        by_key: dict[str, list[str]] = {}
        for reservation in reservations:
            by_key.setdefault(reservation.key, []).append(reservation.id)
        for key, ids in by_key.items():
            await self._server.run(RENEW, _keys(key), [_exact(now + LEASE), *ids])

    async def states(self, key: KeyRecord, now: float) -> list[LimitState]:
        return (await self._step(key, None, now))[2]

    async def close(self) -> None:
        """Do nothing: the store closes the server."""


def _reply(found: object) -> tuple[tuple[int, int], list[_Row]]:
    """Return whether a request is admitted, the running ones, and a row for each limit."""
    parts = msgspec.convert(found, list[int | _Row])
    numbers = [part for part in parts if isinstance(part, int)]
    return (numbers[0], numbers[1]), [part for part in parts if not isinstance(part, int)]


def _settlement(reservation: Reservation, used: Amounts, now: float) -> list[Value]:
    late = used.less(reservation.least)
    return [
        *(_exact(now), reservation.id, used.tokens, used.dollars, late.tokens, late.dollars),
        *_windows(reservation.limits, now),
    ]


def _keys(id: str) -> list[str]:
    return [f"{PREFIX}:used:{id}", f"{PREFIX}:held:{id}"]


def _windows(limits: Sequence[KeyLimit], now: float) -> list[Value]:
    """Return the number of limits, and for each its name, its window at `now` and its amount."""
    found: list[Value] = [len(limits)]
    for limit in limits:
        start = begin(limit.per, now)
        window = (_exact(start), _exact(length(limit.per, start)))
        found += [limit.what, limit.per, *window, limit.amount]
    return found


def _exact(number: float) -> str:
    return repr(float(number))
