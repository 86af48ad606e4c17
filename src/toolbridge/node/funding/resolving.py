"""Find out what became of transactions whose outcome is unknown.

A payment has one transaction, or several with the same nonce when a stuck one was replaced. Its
outcome is that of the one that a block includes. If none is included, the account's nonce decides:
when it has passed, none of them can be included any more.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolbridge.core.errors import BrokenWire, RateLimited, TimedOut, Unreachable
from toolbridge.node.chain.client import ChainClient, Receipt
from toolbridge.node.funding.account import MAX_AHEAD, Account
from toolbridge.node.funding.journal import JournalRow
from toolbridge.node.funding.ledger import Ledger, Payment

LAG = 5.0
"""Seconds by which a server's receipts may lag behind its nonces."""
_PAUSE = 0.5
Fate: TypeAlias = Literal["paid", "failed", "cancelled", "gone", "waiting"]


@dataclass(frozen=True)
class Resolution:
    """What became of a payment."""

    fate: Fate
    receipt: Receipt | None = None
    why: str = ""


class Resolver:
    """Resolves the transactions of one account."""

    def __init__(self, chain: ChainClient, account: Account, ledger: Ledger, wait: float) -> None:
        self._chain = chain
        self._account = account
        self._ledger = ledger
        self._wait = wait

    async def resolve(self, payment: Payment, *, resend: bool) -> Resolution:
        """Return what became of a payment, and free its amount if it was not made.

        With `resend`, a payment that no block includes is sent again and waited for.
        """
        rows = await self._account.journal.of_payment(payment.id)
        cancels = {row.hash for row in rows if row.kind == "cancel"}
        hashes = list(dict.fromkeys([*(row.hash for row in rows), payment.hash]))
        receipt = await self._receipt(hashes)
        if receipt is None and (why := await self._unreachable(payment.nonce, hashes)):
            await self._give_up(payment, rows)
            return Resolution("gone", why=why)
        if receipt is None and resend and not cancels:
            await self._account.again(bytes.fromhex(rows[0].raw if rows else payment.raw))
            receipt = await self._wait_for(hashes, self._wait)
        if receipt is None:
            receipt = await self._receipt(hashes)
        if receipt is None:
            return Resolution("waiting", why=await self._why(payment.nonce, hashes))
        await self._account.close(receipt)
        if receipt.hash in cancels:
            await self._ledger.release(payment.id, 0, "gone")
            return Resolution("cancelled", receipt, "its cancellation is on the chain")
        if not receipt.succeeded:
            await self._ledger.release(payment.id, 0, "failed")
            return Resolution("failed", receipt, "it failed on the chain")
        return Resolution("paid", receipt)

    async def reconcile(self) -> None:
        """Record the outcome of transactions that processes left pending when they ended."""
        await self._ledger.release_unsigned()
        rows = await self._account.journal.pending()
        idle = [row for row in rows if not row.held_until and not row.payment]
        for nonce in dict.fromkeys(row.nonce for row in idle):
            same = [row for row in idle if row.nonce == nonce]
            hashes = [row.hash for row in same]
            receipt = await self._receipt(hashes)
            if receipt is not None:
                await self._account.close(receipt)
            elif await self._unreachable(nonce, hashes):
                await self._forget(same)

    # ── the chain ──

    async def _receipt(self, hashes: Sequence[str]) -> Receipt | None:
        for hash in hashes:
            if (found := await self._chain.confirmed(hash)) is not None:
                return found
        return None

    async def _wait_for(self, hashes: Sequence[str], wait: float) -> Receipt | None:
        """Return the first receipt; a server that fails in between is asked again."""
        until = asyncio.get_running_loop().time() + wait
        while True:
            late = asyncio.get_running_loop().time() + _PAUSE > until
            try:
                found = await self._receipt(hashes)
            except (Unreachable, TimedOut, BrokenWire, RateLimited):
                if late:
                    raise
                found = None
            if found is not None or late:
                return found
            await asyncio.sleep(min(_PAUSE, wait / 4))

    async def _unreachable(self, nonce: int, hashes: Sequence[str]) -> str:
        """Return why no block can include a transaction with this nonce; empty if one can."""
        included = await self._chain.nonce(self._account.address, "latest")
        if nonce > included + MAX_AHEAD:
            return (
                f"its nonce {nonce} is far above the account's nonce {included}, so no block can "
                "include it"
            )
        if included <= nonce or await self._unconfirmed(hashes):
            return ""
        if await self._wait_for(hashes, LAG) is not None:
            return ""
        return f"another transaction has used its nonce {nonce}"

    async def _unconfirmed(self, hashes: Sequence[str]) -> bool:
        """Whether a block includes one of them, with too few confirmations."""
        if self._chain.network.confirmations <= 1:
            return False
        return any([await self._chain.receipt(hash) is not None for hash in hashes])

    async def _why(self, nonce: int, hashes: Sequence[str]) -> str:
        if await self._unconfirmed(hashes):
            return f"its block does not have {self._chain.network.confirmations} confirmations yet"
        if await self._chain.nonce(self._account.address) < nonce:
            return "a transaction before it is missing, so no block can include it yet"
        known = any([await self._chain.transaction(hash) is not None for hash in hashes])
        return "no block includes it yet" if known else "the server does not have it"

    # ── giving up ──

    async def _give_up(self, payment: Payment, rows: Sequence[JournalRow]) -> None:
        await self._forget(rows)
        await self._ledger.release(payment.id, 0, "gone")

    async def _forget(self, rows: Sequence[JournalRow]) -> None:
        for row in rows:
            await self._account.journal.close(row.hash, "gone")
            await self._ledger.release(row.gas, 0, "gone")
