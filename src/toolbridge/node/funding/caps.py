"""Hard caps: the most that an account may spend per day and per job, whatever the settings are.

Caps are kept in the ledger with the address of the account, outside every configuration file. Only
`toolbridge node limit` changes them. An account without a cap of its own has the default, which is
small, so a lost state directory never raises a cap.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from toolbridge.node.chain.amounts import Currency
from toolbridge.node.chain.contracts import NATIVE


@dataclass(frozen=True)
class HardCap:
    """The most to spend of a currency, in its smallest unit."""

    day: int
    """Within any 24 hours, on all chains: deposits, and gas where the currency pays for it."""
    job: int
    """The deposit of one job."""
    default: bool = True
    """Whether the user has not set it."""


def default_cap(currency: Currency) -> HardCap:
    """Return the cap of an account that has none of its own."""
    unit = 10**currency.decimals
    if currency.address == NATIVE:
        return HardCap(unit // 100, unit // 500)
    return HardCap(20 * unit, 5 * unit)


def read_cap(db: sqlite3.Connection, account: str, currency: Currency) -> HardCap:
    """Return the cap of an account."""
    found = db.execute(
        "select day, job from caps where account = ? and currency = ?",
        (account.lower(), currency.address.lower()),
    ).fetchone()
    if found is None:
        return default_cap(currency)
    return HardCap(int(found[0]), int(found[1]), default=False)


def write_cap(db: sqlite3.Connection, account: str, currency: Currency, cap: HardCap) -> None:
    """Set the cap of an account."""
    db.execute(
        "insert or replace into caps (account, currency, day, job) values (?, ?, ?, ?)",
        (account.lower(), currency.address.lower(), str(cap.day), str(cap.job)),
    )


def cap_in(path: Path, account: str, currency: Currency) -> HardCap:
    """Return the cap that a ledger has, or the default; the file is neither made nor changed."""
    if not path.is_file():
        return default_cap(currency)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            return read_cap(db, account, currency)
    except sqlite3.Error:  # a ledger of an earlier version, or one that payments will not accept
        return default_cap(currency)
