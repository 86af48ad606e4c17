"""The books: one row and one log line for every payment, refund, claim, withdrawal and fee.

Rows are never deleted. The row of a payment follows its state; the others are facts. They are in the
file of the ledger, and `toolbridge node history` prints them.
"""

import logging
import sqlite3
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from toolbridge.node.chain.amounts import Currency

Kind: TypeAlias = Literal["payment", "refund", "claim", "withdrawal", "gas"]
"""`payment`: a deposit for a job. `refund`: the rest of a deposit that came back. `claim`: what a
host billed for a job. `withdrawal`: a balance in the marketplace that was sent back to the account.
`gas`: the fee of a transaction."""

_COLUMNS = (
    "id, at, chain, account, kind, currency, decimals, amount, host, job, hash, state, tokens, note, "
    "payment"
)
_log = logging.getLogger("toolbridge.node")


@dataclass(frozen=True)
class BookEntry:
    """A row of the books."""

    kind: Kind
    currency: str
    decimals: int
    amount: int
    host: str = ""
    job: str = ""
    hash: str = ""
    state: str = "done"
    tokens: int = 0
    """Tokens that a claim bills."""
    note: str = ""
    payment: int = 0
    """The id of the payment in the ledger."""
    id: int = 0
    at: float = 0.0
    chain: int = 0
    account: str = ""


def add_entry(db: sqlite3.Connection, entry: BookEntry) -> bool:
    """Append a row and return True, unless it is about a transaction or payment that has one.

    A payment may be signed again with another nonce, and a block may include a transaction again.
    """
    if entry.kind == "gas":
        changed = db.execute(
            "update entries set amount = ?, state = ? where kind = 'gas' and chain = ? and hash = ?",
            (str(entry.amount), entry.state, entry.chain, entry.hash),
        )
        if changed.rowcount:
            return False
    if entry.kind == "payment":
        follow_payment(db, entry.payment)
        same = "select 1 from entries where kind = 'payment' and payment = ?"
        if db.execute(same, (entry.payment,)).fetchone():
            return False
    names = [name for name in _COLUMNS.split(", ") if name != "id"]
    values = [str(entry.amount) if name == "amount" else getattr(entry, name) for name in names]
    marks = ", ".join("?" * len(names))
    db.execute(f"insert into entries ({', '.join(names)}) values ({marks})", values)  # noqa: S608  column names are constants
    return True


def follow_payment(db: sqlite3.Connection, payment: int) -> None:
    """Copy state, host, job and hash of a payment into its row."""
    db.execute(
        "update entries set (state, host, job, hash) = "
        "(select state, host, job, hash from payments where id = ?) "
        "where payment = ? and kind = 'payment'",
        (payment, payment),
    )


def read_entries(db: sqlite3.Connection, account: str, since: float = 0.0) -> list[BookEntry]:
    """Return the rows of an account on all chains, oldest first."""
    rows = db.execute(
        f"select {_COLUMNS} from entries where account = ? and at >= ? order by id",  # noqa: S608  column names are constants
        (account.lower(), since),
    )
    names = _COLUMNS.split(", ")
    return [
        msgspec.convert(dict(zip(names, row, strict=True)), BookEntry, strict=False) for row in rows
    ]


def log_entry(entry: BookEntry, currency: Currency) -> None:
    """Write a row as a line of the log."""
    parts = [f"{entry.kind} of {currency.format(entry.amount)}"]
    parts += [f"{name} {value}" for name in ("host", "job") if (value := getattr(entry, name))]
    parts += [f"{entry.tokens} tokens"] if entry.tokens else []
    parts += [entry.state]
    parts += [f"in {entry.hash}"] if entry.hash else []
    parts += [entry.note] if entry.note else []
    _log.info("%s", ", ".join(parts))
