"""The journal of signed transactions: recorded before they are sent, until their outcome is known.

Several transactions may share a nonce, because a stuck one is replaced by one with a higher fee or
by a cancellation; a block can include only one of them. The rows are in the file of the ledger.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from toolbridge.node.chain.transaction import Signed, Transaction
from toolbridge.node.funding import leases
from toolbridge.node.funding.ledger import Ledger

Kind: TypeAlias = Literal["call", "raise", "cancel"]
"""`call`: the first of its nonce. `raise`: the same call with a higher fee. `cancel`: a transfer of
nothing to ourselves, which takes the nonce."""
Note: TypeAlias = Callable[[sqlite3.Connection, Signed], None]
"""Records the payment of a signed transaction, in the same change of the file as the journal."""
Outcome: TypeAlias = Literal["pending", "included", "failed", "rejected", "gone"]
"""`rejected`: the server did not accept it. `gone`: its nonce was used by another transaction."""


class NonceTaken(Exception):
    """Another process of the account sends a transaction with the same nonce at this moment."""


@dataclass(frozen=True)
class Sending:
    """What a transaction is sent for."""

    function: str
    payment: int = 0
    """The id of the deposit in the ledger; 0 for a transaction that transfers none."""
    gas: int = 0
    """The id of its reserved gas in the ledger."""
    kind: Kind = "call"


@dataclass(frozen=True)
class JournalRow:
    """A signed transaction."""

    id: int
    at: float
    nonce: int
    hash: str
    body: str
    raw: str
    kind: Kind
    function: str
    payment: int
    gas: int
    state: Outcome
    owner: str
    held_until: float = 0.0
    """When the lease of another process ends that waits for it; 0 if none does."""

    @property
    def transaction(self) -> Transaction:
        """The unsigned transaction."""
        return _decode(self.body)


class _Body(msgspec.Struct):
    """The fields of a transaction as JSON; numbers may exceed 64 bits, so they are text."""

    chain_id: int
    nonce: int
    to: str
    data: str
    value: str
    gas: str
    fee: str
    tip: str


def _encode(one: Transaction) -> str:
    body = _Body(one.chain_id, one.nonce, one.to, one.data.hex(), str(one.value), str(one.gas),
                 str(one.fee), str(one.tip))  # fmt: skip
    return msgspec.json.encode(body).decode()


def _decode(text: str) -> Transaction:
    body = msgspec.json.decode(text, type=_Body)
    numbers = (int(body.value), int(body.gas), int(body.fee), int(body.tip))
    return Transaction(body.chain_id, body.nonce, body.to, bytes.fromhex(body.data), *numbers)


_COLUMNS = "id, at, nonce, hash, body, raw, kind, function, payment, gas, state, owner"


class Journal:
    """The transactions of one account on one chain, in the file of its ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def write(self, signed: Signed, what: Sending, note: Note | None = None) -> None:
        """Record a signed transaction before it is sent, and what `note` records, both or neither.

        Raise `NonceTaken` if another running process has signed one with this nonce.
        """
        await self._ledger.file.run(lambda db: self._write(db, signed, what, note))

    async def close(self, hash: str, state: Outcome) -> None:
        """Record the outcome of a transaction; others with its nonce are gone once it is included."""
        await self._ledger.file.run(lambda db: self.close_in(db, hash, state))

    async def reopen(self, payment: int) -> None:
        """Make the transactions of a payment pending again, after their block has vanished."""
        await self._ledger.file.run(lambda db: self._reopen(db, payment))

    async def pending(self) -> list[JournalRow]:
        """Return the transactions without an outcome, by nonce."""
        return await self._ledger.file.run(self.pending_in)

    async def of_payment(self, payment: int) -> list[JournalRow]:
        """Return the transactions of a deposit that a server may have, newest first."""
        found = await self._ledger.file.run(lambda db: self._find(db, "payment = ?", payment))
        return [one for one in reversed(found) if one.state != "rejected"]

    async def with_nonce(self, nonce: int) -> list[JournalRow]:
        """Return the transactions with a nonce."""
        return await self._ledger.file.run(lambda db: self.with_nonce_in(db, nonce))

    async def highest(self) -> int:
        """Return the highest nonce that a block includes, as far as is recorded; -1 for none."""
        found = await self._ledger.file.run(
            lambda db: self._find(db, "state in ('included', 'failed')")
        )
        return max((one.nonce for one in found), default=-1)

    # ── under the lock ──

    def pending_in(self, db: sqlite3.Connection) -> list[JournalRow]:
        """Return the transactions without an outcome, as part of a larger change of the file."""
        return self._find(db, "state = 'pending'")

    def with_nonce_in(self, db: sqlite3.Connection, nonce: int) -> list[JournalRow]:
        """Return the transactions with a nonce, as part of a larger change of the file."""
        return self._find(db, "nonce = ?", nonce)

    def _write(
        self, db: sqlite3.Connection, signed: Signed, what: Sending, note: Note | None
    ) -> None:
        ledger, one = self._ledger, signed.transaction
        same = self._find(db, "nonce = ? and state = 'pending'", one.nonce)
        if what.kind == "call" and any(row.held_until for row in same):
            raise NonceTaken
        # Two processes with the same host, fee and nonce sign the same bytes: one payment, not two.
        equal = self._find(
            db, "hash = ? and state in ('pending', 'included', 'failed')", signed.hash
        )
        if what.payment and any(row.payment not in {0, what.payment} for row in equal):
            raise NonceTaken
        if note is not None:
            note(db, signed)
        leases.extend(db, ledger.owner, ledger.clock())
        for id in (what.payment if what.kind == "call" else 0, what.gas):
            _commit(db, id)
        db.execute(
            "insert into transactions (at, chain, account, nonce, hash, body, raw, kind, function, "
            "payment, gas, state, owner) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?)",
            (
                ledger.clock(), ledger.chain, ledger.account, one.nonce, signed.hash, _encode(one),
                signed.raw.hex(), what.kind, what.function, what.payment, what.gas, ledger.owner,
            ),
        )  # fmt: skip

    def close_in(self, db: sqlite3.Connection, hash: str, state: Outcome) -> None:
        """Record the outcome of a transaction, as part of a larger change of the file."""
        mine = (self._ledger.chain, self._ledger.account)
        db.execute(
            "update transactions set state = ? where chain = ? and account = ? and hash = ?",
            (state, *mine, hash),
        )
        if state in {"included", "failed"}:
            db.execute(
                "update transactions set state = 'gone' where chain = ? and account = ? and hash != ? "
                "and state = 'pending' and nonce = "
                "(select max(nonce) from transactions where chain = ? and account = ? and hash = ?)",
                (*mine, hash, *mine, hash),
            )

    def _reopen(self, db: sqlite3.Connection, payment: int) -> None:
        rows = [row for row in self._find(db, "payment = ?", payment) if row.state == "included"]
        for row in rows:
            db.execute("update transactions set state = 'pending' where id = ?", (row.id,))
            db.execute(
                "update entries set amount = '0', state = 'gone' where kind = 'gas' and hash = ?",
                (row.hash,),
            )

    def _find(self, db: sqlite3.Connection, where: str, *values: int | str) -> list[JournalRow]:
        ledger = self._ledger
        rows = db.execute(
            f"select {_COLUMNS} from transactions where chain = ? and account = ? and {where} "  # noqa: S608  conditions are constants
            "order by nonce, id",
            (ledger.chain, ledger.account, *values),
        ).fetchall()
        now, names = ledger.clock(), [*_COLUMNS.split(", "), "held_until"]
        return [
            JournalRow(**dict(zip(names, (*row, self._held(db, row[-1], now)), strict=True)))
            for row in rows
        ]

    def _held(self, db: sqlite3.Connection, owner: str, now: float) -> float:
        return 0.0 if owner == self._ledger.owner else leases.held_until(db, owner, now)


def _commit(db: sqlite3.Connection, payment: int) -> None:
    """Count the amount of a payment towards the hard cap, once per signed transaction."""
    found = db.execute("select amount, committed from payments where id = ?", (payment,)).fetchone()
    if found is not None:
        total = str(int(found[0]) + int(found[1]))
        db.execute("update payments set committed = ? where id = ?", (total, payment))
