"""What was paid, on disk: a limit that holds across restarts and across processes.

Money is written down before it is sent, under a lock that every process shares: the sum of all that
was set aside in the last 24 hours never passes the limit. What is known to have come back lowers the
sum again. A payment of which nobody knows stays, and stands in the way of the next one, until the
chain has told. Where the file cannot be written, nothing is paid.
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
"""This process, told apart from an earlier one with the same number."""
T = TypeVar("T")
State: TypeAlias = Literal["reserved", "sent", "open", "closed", "done"]
"""Set aside; signed and maybe sent; a job we work on; a job we left; nothing more to come."""

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
    """Whether somebody still looks after a line; if in doubt, somebody does for a day."""
    if not owner or owner.startswith(_PROCESS):
        return bool(owner)
    number, machine, *_ = [*owner.split(":"), ""]
    if os.name != "posix" or machine != _MACHINE or not number.isdigit():
        return touched + DAY > time.time()  # a session lasts no longer
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
    """One more payment would pass the limit of the day."""


@dataclass(frozen=True)
class Budget:
    """What may be spent of one currency in any 24 hours."""

    purpose: Literal["deposit", "gas"]
    currency: str
    limit: int
    decimals: int
    setting: str
    """The name of the setting that raises it."""


@dataclass(frozen=True)
class Payment:
    """A line of the ledger."""

    id: int
    amount: int
    state: State
    nonce: int = -1
    hash: str = ""
    raw: str = ""
    """The signed transaction: to send it again is to send it once."""
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
    """The payments of one account to one marketplace; limits count for all that the file holds."""

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
        """Set money aside and return the line's number; raise `LimitReached` beyond the limit."""
        return await self._run(lambda db: self._reserve(db, budget, amount))

    async def spent(self, budget: Budget) -> int:
        return await self._run(lambda db: self._sum(db, budget))

    async def change(self, id: int, state: State, **values: str | int) -> None:
        """Note what has become of a payment."""
        await self._run(lambda db: self._change(db, id, state, values))

    async def release(self, id: int, cost: int = 0) -> None:
        """Note that a payment is over, and what it really cost."""
        await self._run(lambda db: self._release(db, id, cost))

    async def take(self, id: int) -> None:
        """Look after a line that somebody else has left."""
        await self._run(lambda db: self._own(db, self._owner, "id", id))

    async def leave(self) -> None:
        """Leave all that we look after to whoever comes next."""
        if self._path.exists():
            await self._run(lambda db: self._own(db, "", "owner", self._owner))

    def is_ours(self, payment: "Payment") -> bool:
        """Whether we look after a payment, or nobody does."""
        return payment.owner == self._owner or not is_alive(payment.owner, payment.touched)

    async def find(self, *states: State) -> list[Payment]:
        """Return our deposits in these states, oldest first."""
        return await self._run(lambda db: self._find(db, states))

    # ── in the thread ──

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._locked, work)

    def _locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` alone among all processes, and return when it is on the disk."""
        try:
            with closing(self._open()) as db, _transaction(db):
                return work(db)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"the ledger of payments {self._path} cannot be used ({error}); without it nothing "
                "is paid"
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
            raise self._beyond(db, budget, amount, spent)
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
        """Return when and how much was paid; a clock that was set back hides nothing."""
        rows = db.execute(
            "select at, amount from payments where at > ? and chain = ? and purpose = ? "
            "and currency = ? order by at",
            (self._clock() - DAY, self._chain, budget.purpose, budget.currency.lower()),
        )
        return [(at, int(amount)) for at, amount in rows]

    def _sum(self, db: sqlite3.Connection, budget: Budget) -> int:
        return sum(amount for _, amount in self._counted(db, budget))

    def _beyond(
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
            f"{wanted} more would pass the limit of {limit} in 24 hours ({have} is spent or set "
            f"aside); raise `{budget.setting}` or wait",
            retry_after=max(1.0, free_at - self._clock()) if over <= 0 else None,
        )

    def _change(
        self, db: sqlite3.Connection, id: int, state: State, values: dict[str, str | int]
    ) -> None:
        names = [name for name in _COLUMNS.split(", ") if name in values]
        settings = "".join(f", {name} = ?" for name in names)
        db.execute(
            f"update payments set state = ?, touched = ?{settings} where id = ?",  # noqa: S608  our own names
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
        db.execute(f"update payments set owner = ? where {where} = ?", (owner, value))  # noqa: S608  two names

    def _find(self, db: sqlite3.Connection, states: tuple[State, ...]) -> list[Payment]:
        marks = ", ".join("?" * len(states))
        rows = db.execute(
            f"select {_COLUMNS} from payments where purpose = 'deposit' and chain = ? "  # noqa: S608  marks only
            f"and account = ? and market = ? and state in ({marks}) order by id",
            (self._chain, self._account, self._market, *states),
        )
        return [_payment(row) for row in rows]


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Hold the file from before the first reading, so that no two processes read the same sum."""
    db.execute("begin immediate")
    try:
        yield
    except BaseException:
        db.execute("rollback")
        raise
    db.execute("commit")


def _payment(row: tuple[str | int | float, ...]) -> Payment:
    return msgspec.convert(dict(zip(_COLUMNS.split(", "), row, strict=True)), Payment, strict=False)
