"""The ledger of payments in a SQLite file: spending limits across restarts and processes.

An amount is reserved before it is sent, under a lock that all processes share, so the sum of the
last 24 hours never exceeds the limit. A refund lowers the sum again. A payment with an unknown
outcome keeps its amount reserved until the chain resolves it. If the file cannot be written,
nothing is paid.
"""

import asyncio
import os
import platform
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec

from toolbridge.core.errors import ConfigError, RateLimited
from toolbridge.node.chain.amounts import format_amount

DAY = 86_400
_MACHINE = platform.node().replace(":", "")
_PROCESS = f"{os.getpid()}:{_MACHINE}:{secrets.token_hex(8)}"
"""Identifies this process, also against an earlier one with the same process id."""
T = TypeVar("T")
State: TypeAlias = Literal["reserved", "sent", "open", "closed", "done"]
"""`reserved`: not signed yet. `sent`: signed, perhaps sent. `open`: a job in use. `closed`: a job
to be settled. `done`: the final cost is recorded."""

_SCHEMA = """
create table if not exists payments (
    id integer primary key, at real not null, chain integer not null, account text not null,
    market text not null,
    purpose text not null, currency text not null, amount text not null, state text not null,
    nonce integer not null default -1, raw text not null default '', hash text not null default '', job text not null default '',
    model text not null default '', host text not null default '', url text not null default '', public text not null default '',
    price text not null default '0', owner text not null default '', touched real not null
);
create index if not exists payments_at on payments (at);
create index if not exists payments_state on payments (state);
"""


def is_alive(owner: str, touched: float) -> bool:
    """Whether the process that owns a payment still runs.

    A process on another machine cannot be checked, so it counts as running for a day.
    """
    if not owner or owner.startswith(_PROCESS):
        return bool(owner)
    number, machine, *_ = [*owner.split(":"), ""]
    if os.name != "posix" or machine != _MACHINE or not number.isdigit():
        return touched + DAY > time.time()  # a session lasts no longer than that
    if int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


class LimitReached(RateLimited):
    """A payment would exceed the limit of 24 hours."""


@dataclass(frozen=True)
class Budget:
    """How much of a currency may be spent for a purpose within any 24 hours."""

    purpose: Literal["deposit", "gas"]
    currency: str
    limit: int
    decimals: int
    setting: str
    """The name of the setting with the limit."""


@dataclass(frozen=True)
class Payment:
    """A row of the ledger."""

    id: int
    amount: int
    state: State
    nonce: int = -1
    hash: str = ""
    raw: str = ""
    """The signed transaction in hex; sending it again cannot pay twice."""
    job: str = ""
    model: str = ""
    host: str = ""
    url: str = ""
    public: str = ""
    price: int = 0
    owner: str = ""
    touched: float = 0.0


_COLUMNS = (
    "id, amount, state, nonce, hash, raw, job, model, host, url, public, price, owner, touched"
)


class Ledger:
    """The payments of one account to one marketplace.

    Limits count all payments on the chain that are in the file, whatever the account.
    """

    def __init__(
        self,
        path: Path,
        chain: int,
        account: str,
        market: str = "",
        *,
        clock: Callable[[], float] = time.time,
        wait: float = 10.0,
    ) -> None:
        self._path = path
        self._chain = chain
        self._account = account.lower()
        self._market = market.lower()
        self._clock = clock
        self._wait = wait
        self._owner = f"{_PROCESS}:{secrets.token_hex(4)}"

    async def reserve(self, budget: Budget, amount: int) -> int:
        """Reserve an amount and return the payment's id; raise `LimitReached` beyond the limit."""
        return await self._run(lambda db: self._reserve(db, budget, amount))

    async def spent(self, budget: Budget) -> int:
        """Return what was spent or reserved of a budget in the last 24 hours."""
        return await self._run(lambda db: self._sum(db, budget))

    async def change(self, id: int, state: State, **values: str | int) -> None:
        """Set the state and other columns of a payment."""
        await self._run(lambda db: self._change(db, id, state, values))

    async def release(self, id: int, cost: int = 0) -> None:
        """Set a payment to `done` with its final cost; the rest of its amount is free again."""
        await self._run(lambda db: self._release(db, id, cost))

    async def take(self, id: int) -> None:
        """Make this process the owner of a payment."""
        await self._run(lambda db: self._own(db, self._owner, "id", id))

    async def leave(self) -> None:
        """Give up the ownership of all our payments, for the next process."""
        if self._path.exists():
            await self._run(lambda db: self._own(db, "", "owner", self._owner))

    def is_ours(self, payment: "Payment") -> bool:
        """Whether this process owns a payment, or no running process does."""
        return payment.owner == self._owner or not is_alive(payment.owner, payment.touched)

    async def find(self, *states: State) -> list[Payment]:
        """Return the deposits in these states, oldest first."""
        return await self._run(lambda db: self._find(db, states))

    # ── in a thread ──

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._locked, work)

    def _locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` under an exclusive lock, and return when its changes are on disk."""
        try:
            with closing(self._open()) as db, _transaction(db):
                return work(db)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"the ledger of payments {self._path} cannot be used ({error}); nothing is paid "
                "without it: check the permissions and the free space of its directory"
            ) from None

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        db = sqlite3.connect(self._path, timeout=self._wait, isolation_level=None)
        try:
            db.execute("pragma synchronous = extra")
            if not db.execute("pragma table_info(payments)").fetchone():
                db.executescript(_SCHEMA)
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _reserve(self, db: sqlite3.Connection, budget: Budget, amount: int) -> int:
        spent = self._sum(db, budget)
        if amount < 0 or spent + amount > budget.limit:
            raise self._limit_reached(db, budget, amount, spent)
        now = self._clock()
        found = db.execute(
            "insert into payments (at, chain, account, market, purpose, currency, amount, state, owner, "
            "touched) values (?, ?, ?, ?, ?, ?, ?, 'reserved', ?, ?)",
            (
                now, self._chain, self._account, self._market, budget.purpose, budget.currency.lower(),
                str(amount), self._owner, now,
            ),
        )  # fmt: skip
        return found.lastrowid or 0

    def _counted(self, db: sqlite3.Connection, budget: Budget) -> list[tuple[float, int]]:
        """Return time and amount of each payment of the last 24 hours.

        Payments with a time in the future count too, so setting the clock back hides nothing.
        """
        rows = db.execute(
            "select at, amount from payments where at > ? and chain = ? and purpose = ? "
            "and currency = ? order by at",
            (self._clock() - DAY, self._chain, budget.purpose, budget.currency.lower()),
        )
        return [(at, int(amount)) for at, amount in rows]

    def _sum(self, db: sqlite3.Connection, budget: Budget) -> int:
        return sum(amount for _, amount in self._counted(db, budget))

    def _limit_reached(
        self, db: sqlite3.Connection, budget: Budget, amount: int, spent: int
    ) -> LimitReached:
        over, free_at = spent + amount - budget.limit, 0.0
        for at, paid in self._counted(db, budget):
            over, free_at = over - paid, at + DAY
            if over <= 0:
                break
        wanted, have, limit = (
            format_amount(sum, budget.decimals) for sum in (amount, spent, budget.limit)
        )
        return LimitReached(
            f"a payment of {wanted} would exceed `{budget.setting}`: {limit} in 24 hours, of which "
            f"{have} is spent or reserved; raise `{budget.setting}`, or wait",
            retry_after=max(1.0, free_at - self._clock()) if over <= 0 else None,
        )

    def _change(
        self, db: sqlite3.Connection, id: int, state: State, values: dict[str, str | int]
    ) -> None:
        names = [name for name in _COLUMNS.split(", ") if name in values]
        settings = "".join(f", {name} = ?" for name in names)
        db.execute(
            f"update payments set state = ?, touched = ?{settings} where id = ?",  # noqa: S608  column names are constants
            (state, self._clock(), *(values[name] for name in names), id),
        )

    def _release(self, db: sqlite3.Connection, id: int, cost: int) -> None:
        db.execute(
            "update payments set amount = ?, state = 'done', raw = '', touched = ? where id = ?",
            (str(max(0, cost)), self._clock(), id),
        )

    def _own(
        self, db: sqlite3.Connection, owner: str, where: Literal["id", "owner"], value: str | int
    ) -> None:
        db.execute(f"update payments set owner = ? where {where} = ?", (owner, value))  # noqa: S608  one of two literals

    def _find(self, db: sqlite3.Connection, states: tuple[State, ...]) -> list[Payment]:
        marks = ", ".join("?" * len(states))
        rows = db.execute(
            f"select {_COLUMNS} from payments where purpose = 'deposit' and chain = ? "  # noqa: S608  only `?` marks are inserted
            f"and account = ? and market = ? and state in ({marks}) order by id",
            (self._chain, self._account, self._market, *states),
        )
        return [_payment(row) for row in rows]


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


def _payment(row: tuple[str | int | float, ...]) -> Payment:
    return msgspec.convert(dict(zip(_COLUMNS.split(", "), row, strict=True)), Payment, strict=False)
