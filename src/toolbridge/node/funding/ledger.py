"""The ledger of payments: spending limits and hard caps across restarts and processes.

An amount is reserved before it is sent, under a lock that all processes share, so the sum of the
last 24 hours exceeds neither the limit of the settings nor the hard cap of the account. A payment
with an unknown outcome keeps its amount reserved until the chain resolves it, and a refund lowers
the sum of the settings' limit. The hard cap counts everything that was signed, in full: a dishonest
server may report that a payment failed or came back, and still cannot make us exceed the cap.
"""

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.errors import RateLimited
from toolbridge.node.chain.amounts import Currency
from toolbridge.node.chain.contracts import NATIVE
from toolbridge.node.funding import books, leases
from toolbridge.node.funding.books import BookEntry
from toolbridge.node.funding.caps import HardCap, read_cap, write_cap
from toolbridge.node.funding.ledger_file import LedgerFile

DAY = 86_400
State: TypeAlias = Literal["reserved", "sent", "open", "closed", "done", "failed", "gone"]
"""`reserved`: not signed yet. `sent`: signed, perhaps sent. `open`: a job in use. `closed`: a job
to be settled. `done`: the final cost is recorded. `failed`: reverted in its block. `gone`: another
transaction has used its nonce, or no block can include it."""


class LimitReached(RateLimited):
    """A payment would exceed the limit of 24 hours, or the hard cap of the account."""


@dataclass(frozen=True)
class Budget:
    """How much of a currency may be spent for a purpose within any 24 hours."""

    purpose: Literal["deposit", "gas"]
    currency: Currency
    limit: int
    setting: str
    """The name of the setting with the limit."""


@dataclass(frozen=True)
class Payment:
    """A row of the ledger."""

    id: int
    amount: int
    state: State
    currency: str = NATIVE
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
    delivered: int = 0
    """Tokens that arrived here and were counted here; -1 if that is not known."""
    owner: str = ""
    at: float = 0.0
    touched: float = 0.0
    held_until: float = 0.0
    """When the lease of another process ends that works on it; 0 if none does."""


_COLUMNS = (
    "id, amount, state, currency, nonce, hash, raw, job, model, host, url, public, price, delivered, "
    "owner, at, touched"
)


class Ledger:
    """The payments of one account to one marketplace.

    Limits of the settings count all payments on the chain that are in the file, whatever the
    account; hard caps count those of the account, on all chains.
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
        self.file = LedgerFile(path, wait)
        self.chain = chain
        self.account = account.lower()
        self.market = market.lower()
        self.clock = clock
        self.owner = leases.new_owner()

    # ── limits ──

    async def reserve(self, budget: Budget, amount: int, *, limited: bool = True) -> int:
        """Reserve an amount and return the payment's id; raise `LimitReached` beyond the limit.

        Without `limited` only the row is written: money comes back at any cost of gas.
        """
        return await self.file.run(lambda db: self._reserve(db, budget, amount, limited=limited))

    async def spent(self, budget: Budget) -> int:
        """Return what was spent or reserved of a budget in the last 24 hours."""
        return await self.file.run(lambda db: _sum(self._counted(db, budget)))

    async def cap(self, currency: Currency) -> HardCap:
        """Return the hard cap of the account."""
        return await self.file.run(lambda db: read_cap(db, self.account, currency))

    async def set_cap(self, currency: Currency, cap: HardCap) -> None:
        """Set the hard cap of the account."""
        await self.file.run(lambda db: write_cap(db, self.account, currency, cap))

    async def capped(self, currency: Currency) -> int:
        """Return what counts towards the daily hard cap."""
        return await self.file.run(lambda db: _sum(self._counted_by_cap(db, currency)))

    # ── payments ──

    async def change(self, id: int, state: State, **values: str | int) -> None:
        """Set the state and other columns of a payment."""
        await self.file.run(lambda db: self.change_in(db, id, state, values))

    async def release(self, id: int, cost: int = 0, state: State = "done") -> None:
        """Set the final cost of a payment; the rest of its amount is free again."""
        await self.file.run(lambda db: self.release_in(db, id, cost, state))

    async def release_unsigned(self) -> None:
        """Free what processes reserved that ended before they signed a transaction for it."""
        await self.file.run(self._release_unsigned)

    async def delivered(self, job: str, tokens: int) -> None:
        """Add tokens that a job has delivered, counted here; `settle` compares them with the bill."""
        await self.file.run(lambda db: self._deliver(db, job, tokens))

    async def record(self, entry: BookEntry, currency: Currency) -> None:
        """Write a row and a log line of the books."""
        await self.file.run(lambda db: self.record_in(db, entry, currency))

    def record_in(self, db: sqlite3.Connection, entry: BookEntry, currency: Currency) -> None:
        """Write a row and a log line of the books, as part of a larger change of the file."""
        whole = replace(entry, at=self.clock(), chain=self.chain, account=self.account)
        if books.add_entry(db, whole):
            books.log_entry(whole, currency)

    async def entries(self, since: float = 0.0) -> list[BookEntry]:
        """Return the rows of the books of the account, oldest first."""
        return await self.file.run(lambda db: books.read_entries(db, self.account, since))

    async def adopt(self, found: Payment) -> int:
        """Write a payment that the chain has and the ledger lacks, and return its id."""
        return await self.file.run(lambda db: self._adopt(db, found))

    async def find(self, *states: State) -> list[Payment]:
        """Return the deposits in these states, oldest first."""
        return await self.file.run(lambda db: self._find(db, states))

    # ── who works on a payment ──

    async def take(self, id: int) -> None:
        """Make this process the owner of a payment."""
        await self.file.run(lambda db: self._take(db, id))

    async def beat(self) -> None:
        """Extend our lease, so that no other process takes our payments over."""
        await self.file.run(lambda db: leases.extend(db, self.owner, self.clock()))

    async def leave(self) -> None:
        """Give up the ownership of all our payments, for the next process."""
        if self.file.path.exists():
            await self.file.run(lambda db: leases.end(db, self.owner))

    # ── in a thread, under the lock ──

    def _reserve(
        self, db: sqlite3.Connection, budget: Budget, amount: int, *, limited: bool
    ) -> int:
        if limited:
            self._check(db, budget, amount)
        now, currency = self.clock(), budget.currency
        leases.extend(db, self.owner, now)
        found = db.execute(
            "insert into payments (at, chain, account, market, purpose, currency, amount, state, owner, "
            "touched) values (?, ?, ?, ?, ?, ?, ?, 'reserved', ?, ?)",
            (
                now, self.chain, self.account, self.market, budget.purpose, currency.address.lower(),
                str(amount), self.owner, now,
            ),
        )  # fmt: skip
        return found.lastrowid or 0

    def _check(self, db: sqlite3.Connection, budget: Budget, amount: int) -> None:
        """Raise `LimitReached` if an amount exceeds the hard cap or the limit of the settings."""
        currency, command = budget.currency, "`toolbridge node limit`"
        cap = read_cap(db, self.account, currency)
        if budget.purpose == "deposit" and amount > cap.job:
            raise LimitReached(
                f"a deposit of {currency.format(amount)} exceeds the hard cap of this account, "
                f"{currency.format(cap.job)} per job; lower `deposit`, or raise the cap with {command}"
            )
        limits = (
            (self._counted_by_cap(db, currency), cap.day, f"the hard cap of {command}"),
            (self._counted(db, budget), budget.limit, f"`{budget.setting}`"),
        )  # fmt: skip
        for counted, limit, name in limits:
            if amount < 0 or _sum(counted) + amount > limit:
                raise self._limit_reached(currency, amount, counted, limit, name)

    def _limit_reached(
        self,
        currency: Currency,
        amount: int,
        counted: list[tuple[float, int]],
        limit: int,
        name: str,
    ) -> LimitReached:
        over, free_at = _sum(counted) + amount - limit, 0.0
        for at, paid in counted:
            over, free_at = over - paid, at + DAY
            if over <= 0:
                break
        wanted, have, most = map(currency.format, (amount, _sum(counted), limit))
        return LimitReached(
            f"a payment of {wanted} would exceed {name}: {most} in 24 hours, of which "
            f"{have} is spent or reserved; raise {name}, or wait",
            retry_after=max(1.0, free_at - self.clock()) if over <= 0 else None,
        )

    def _counted(self, db: sqlite3.Connection, budget: Budget) -> list[tuple[float, int]]:
        """Return time and amount of each payment of the last 24 hours.

        Payments with a time in the future count too, so setting the clock back hides nothing.
        """
        rows = db.execute(
            "select at, amount from payments where at > ? and chain = ? and purpose = ? "
            "and currency = ? order by at",
            (self.clock() - DAY, self.chain, budget.purpose, budget.currency.address.lower()),
        )
        return [(at, int(amount)) for at, amount in rows]

    def _counted_by_cap(
        self, db: sqlite3.Connection, currency: Currency
    ) -> list[tuple[float, int]]:
        """Return what counts towards the hard cap: deposits and gas of the account on all chains."""
        rows = db.execute(
            "select at, amount, committed from payments where at > ? and account = ? and currency = ? "
            "order by at",
            (self.clock() - DAY, self.account, currency.address.lower()),
        )
        return [(at, max(int(amount), int(committed))) for at, amount, committed in rows]

    def change_in(
        self, db: sqlite3.Connection, id: int, state: State, values: dict[str, str | int]
    ) -> None:
        """Set the state and other columns of a payment, as part of a larger change of the file."""
        names = [name for name in _COLUMNS.split(", ") if name in values]
        settings = "".join(f", {name} = ?" for name in names)
        db.execute(
            f"update payments set state = ?, touched = ?{settings} where id = ?",  # noqa: S608  column names are constants
            (state, self.clock(), *(values[name] for name in names), id),
        )
        books.follow_payment(db, id)

    def release_in(self, db: sqlite3.Connection, id: int, cost: int, state: State) -> None:
        """Set the final cost of a payment, as part of a larger change of the file."""
        db.execute(
            "update payments set amount = ?, state = ?, touched = ? where id = ?",
            (str(max(0, cost)), state, self.clock(), id),
        )
        books.follow_payment(db, id)

    def _release_unsigned(self, db: sqlite3.Connection) -> None:
        rows = db.execute(
            "select id, owner from payments where state = 'reserved' and chain = ? and account = ? "
            "and owner != ? and id not in (select gas from transactions where state = 'pending')",
            (self.chain, self.account, self.owner),
        ).fetchall()
        for id, owner in rows:
            if not leases.held_until(db, owner, self.clock()):
                self.release_in(db, id, 0, "done")

    def _deliver(self, db: sqlite3.Connection, job: str, tokens: int) -> None:
        db.execute(
            "update payments set delivered = delivered + ? where purpose = 'deposit' and chain = ? "
            "and account = ? and market = ? and job = ? and delivered >= 0",
            (max(0, tokens), self.chain, self.account, self.market, job),
        )

    def _adopt(self, db: sqlite3.Connection, found: Payment) -> int:
        now = self.clock()
        made = db.execute(
            "insert into payments (at, chain, account, market, purpose, currency, amount, state, "
            "hash, job, host, price, owner, touched, delivered) "
            "values (?, ?, ?, ?, 'deposit', ?, ?, ?, ?, ?, ?, ?, '', ?, -1)",
            (
                found.at or now, self.chain, self.account, self.market, found.currency.lower(),
                str(found.amount), found.state, found.hash, found.job, found.host,
                str(found.price), now,
            ),
        )  # fmt: skip
        return made.lastrowid or 0

    def _take(self, db: sqlite3.Connection, id: int) -> None:
        leases.extend(db, self.owner, self.clock())
        db.execute("update payments set owner = ? where id = ?", (self.owner, id))

    def _find(self, db: sqlite3.Connection, states: tuple[State, ...]) -> list[Payment]:
        marks = ", ".join("?" * len(states))
        rows = db.execute(
            f"select {_COLUMNS} from payments where purpose = 'deposit' and chain = ? "  # noqa: S608  only `?` marks are inserted
            f"and account = ? and market = ? and state in ({marks}) order by id",
            (self.chain, self.account, self.market, *states),
        )
        return [self._payment(db, row) for row in rows.fetchall()]

    def _payment(self, db: sqlite3.Connection, row: tuple[str | int | float, ...]) -> Payment:
        found = dict(zip(_COLUMNS.split(", "), row, strict=True))
        payment = msgspec.convert(found, Payment, strict=False)
        if payment.owner == self.owner:
            return payment
        return replace(payment, held_until=leases.held_until(db, payment.owner, self.clock()))


def _sum(counted: list[tuple[float, int]]) -> int:
    return sum(amount for _, amount in counted)
