"""Get money back: settle every job, withdraw balances, and replace stuck transactions.

`toolbridge node settle`, `withdraw` and `transactions` use it. No spending limit stops it, and a job
that fails does not stop the others: each has a result, or the reason why it has none.
"""

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from toolbridge.core.errors import ConfigError, ToolbridgeError
from toolbridge.node.chain.address import same_account
from toolbridge.node.chain.amounts import Currency
from toolbridge.node.chain.contracts import NATIVE
from toolbridge.node.chain.transaction import Transaction
from toolbridge.node.funding.account import MAX_AHEAD, SendOptions
from toolbridge.node.funding.books import BookEntry
from toolbridge.node.funding.context import FundingContext, job_of
from toolbridge.node.funding.job_scan import MOST_BLOCKS, JobScan, ScannedJob
from toolbridge.node.funding.journal import JournalRow, Sending
from toolbridge.node.funding.ledger import Payment
from toolbridge.node.funding.resolving import Resolver
from toolbridge.node.funding.settling import ACTIVE, JobState, SettledJob, Settler, job_states

_MOST_RAISE = 10
"""The highest fee of a replacement, in multiples of the fee of the first transaction."""
_TRANSFER_GAS = 21_000


@dataclass(frozen=True)
class Withdrawal:
    """A balance in the marketplace that was sent back, or the reason why not."""

    currency: Currency
    amount: int
    transaction: str = ""
    why: str = ""


@dataclass(frozen=True)
class StuckTransaction:
    """A transaction without an outcome, and what the chain has of it."""

    row: JournalRow
    state: str


class Recovery:
    """Everything that brings money back to one account."""

    def __init__(self, context: FundingContext, resolver: Resolver, settler: Settler) -> None:
        self._context = context
        self._resolver = resolver
        self._settler = settler

    # ── jobs ──

    async def settle(self, blocks: int = MOST_BLOCKS) -> AsyncIterator[SettledJob]:
        """Yield the outcome of every unresolved payment and every open job of the account."""
        await self._resolver.reconcile()
        await self._reopen_vanished()
        async for one in self._resolve():
            yield one
        try:
            await self._scan(blocks)
        except ToolbridgeError as error:
            yield SettledJob("", why=f"jobs that the ledger lacks cannot be found: {error}")
        for payment in await self._context.ledger.find("open", "closed"):
            yield await self._settle_one(payment)

    async def _reopen_vanished(self) -> None:
        """Make payments unresolved again whose job a reorganisation has removed from the chain."""
        context = self._context
        found = [one for one in await context.ledger.find("open", "closed") if not one.held_until]
        for payment, state in zip(found, await self._states(found), strict=True):
            if state is not None and not same_account(state.depositor, context.account.address):
                await context.account.journal.reopen(payment.id)
                await context.ledger.change(payment.id, "sent", job="")

    async def _states(self, payments: Sequence[Payment]) -> list[JobState | None]:
        """Return the state of each job; None where the chain cannot be read."""
        try:
            return [*await job_states(self._context.chain, [one.job for one in payments])]
        except ToolbridgeError:
            return [None] * len(payments)

    async def _resolve(self) -> AsyncIterator[SettledJob]:
        """Resolve payments with an unknown outcome; those that were made are settled afterwards."""
        for payment in await self._context.ledger.find("sent"):
            left = self._left(payment)
            if payment.held_until:
                yield replace(left, why=_held(payment))
                continue
            try:
                found = await self._resolver.resolve(payment, resend=False)
                if found.receipt is not None and found.fate == "paid":
                    job = job_of(self._context, found.receipt)
                    await self._context.ledger.change(payment.id, "closed", job=job)
                    continue
            except ToolbridgeError as error:
                yield replace(left, why=str(error))
                continue
            if found.fate == "waiting":
                yield replace(
                    left,
                    why=f"{found.why}; wait, or run `toolbridge node transactions --cancel "
                    f"{payment.hash}` to take it back",
                )
            else:
                yield replace(left, refund=payment.amount, transaction=payment.hash)

    async def _settle_one(self, payment: Payment) -> SettledJob:
        if payment.held_until and payment.state == "open":
            return replace(self._left(payment), why=_held(payment))
        try:
            return await self._settler.settle(payment)
        except ToolbridgeError as error:
            return replace(self._left(payment), why=str(error))

    def _left(self, payment: Payment) -> SettledJob:
        currency = self._context.chain.network.currency(payment.currency)
        return SettledJob(payment.job, currency=currency, host=payment.host, payment=payment.hash)

    async def _scan(self, blocks: int) -> None:
        """Write the active jobs of the account that the ledger lacks into it."""
        context = self._context
        every = await context.ledger.find(
            "reserved", "sent", "open", "closed", "done", "failed", "gone"
        )
        busy = {one.job for one in every if one.state in {"open", "closed"}}
        sent = {one.hash for one in every if one.state == "sent"}
        found = [
            job
            for job in await JobScan(context.chain, context.ledger).find(blocks)
            if job.job not in busy and job.hash not in sent
        ]
        known = {one.hash: one for one in every if one.hash} | {
            f"job {one.job}": one for one in every if one.job
        }
        states = await job_states(context.chain, [job.job for job in found])
        for job, state in zip(found, states, strict=True):
            if state.status == ACTIVE and same_account(state.depositor, context.ledger.account):
                payment = known.get(f"job {job.job}") or known.get(job.hash)
                await self._adopt(job, payment, _payment(job, state))

    async def _adopt(self, job: ScannedJob, known: Payment | None, found: Payment) -> None:
        ledger, currency = (
            self._context.ledger,
            self._context.chain.network.currency(found.currency),
        )
        if known is not None and known.job in {"", job.job}:
            await ledger.change(known.id, "closed", job=job.job, amount=str(found.amount))
            return
        id = await ledger.adopt(found)
        entry = BookEntry(
            "payment", currency.address, currency.decimals, found.amount, found.host, job.job,
            job.hash, "closed", note="found in the logs of the chain", payment=id,
        )  # fmt: skip
        await ledger.record(entry, currency)

    # ── balances in the marketplace ──

    async def withdraw(self) -> AsyncIterator[Withdrawal]:
        """Send every balance in the marketplace back to the account."""
        context = self._context
        network = context.chain.network
        currencies = [NATIVE, *({network.token, context.terms.token} - {""})]
        for address in dict.fromkeys(currencies):
            currency = network.currency(address)
            (held,) = await context.chain.read(
                network.marketplace, "getDepositBalance", context.account.address, address
            )
            if not isinstance(held, int) or not held:
                continue
            try:
                call = context.terms.withdraw(address, held)
                receipt = await context.account.send(call, SendOptions(limited=False))
            except ToolbridgeError as error:
                yield Withdrawal(currency, held, why=str(error))
                continue
            yield Withdrawal(currency, held, receipt.hash)

    # ── stuck transactions ──

    async def transactions(self) -> list[StuckTransaction]:
        """Return the transactions without an outcome; those with one are recorded first."""
        await self._resolver.reconcile()
        return [
            StuckTransaction(row, await self._state(row))
            for row in await self._context.account.journal.pending()
        ]

    async def _state(self, row: JournalRow) -> str:
        chain, address = self._context.chain, self._context.account.address
        if await chain.receipt(row.hash) is not None:
            return "included in a block; run `toolbridge node settle`"
        if await chain.nonce(address, "latest") > row.nonce:
            return "its nonce was used by another transaction; --forget frees it"
        if await chain.nonce(address) < row.nonce:
            return "waits for a transaction before it that the server does not have; cancel it"
        if await chain.transaction(row.hash) is None:
            return "the server does not have it; --raise or --cancel sends a replacement"
        return "waits for a block; --raise or --cancel sends a replacement"

    async def raise_fee(self, hash: str) -> str:
        """Send the same call with a higher fee and return its hash."""
        row = await self._pending(hash)
        fee, tip = await self._higher(row)
        again = replace(row.transaction, fee=fee, tip=tip)
        what = Sending(row.function, row.payment, kind="raise")
        made = await self._context.account.send_at(again, what)
        await self._follow(row, made)
        return made

    async def cancel(self, hash: str) -> str:
        """Send a transfer of nothing to ourselves with the same nonce and return its hash."""
        row = await self._pending(hash)
        await self._fill_gap(row)
        fee, tip = await self._higher(row)
        what = Sending("cancel", row.payment, kind="cancel")
        return await self._context.account.send_at(self._nothing(row.nonce, fee, tip), what)

    def _nothing(self, nonce: int, fee: int, tip: int) -> Transaction:
        """Return a transfer of nothing from the account to itself."""
        address, chain_id = self._context.account.address, self._context.chain.network.chain_id
        return Transaction(chain_id, nonce, address, b"", 0, _TRANSFER_GAS, fee, tip)

    async def _fill_gap(self, row: JournalRow) -> None:
        """Use the nonces before that of `row` that no waiting transaction uses.

        A server may have lost them, or a reorganisation removed them. Until each is used, no block
        includes `row` or its replacement.
        """
        account, chain = self._context.account, self._context.chain
        following = await chain.nonce(account.address)
        if row.nonce > following + MAX_AHEAD:
            raise ConfigError(
                f"the nonce {row.nonce} of {row.hash} is far above the account's nonce {following}, so "
                "no block can include it; `toolbridge node settle` frees it"
            )
        for nonce in range(following, row.nonce):
            earlier = [one for one in await account.journal.with_nonce(nonce) if one.raw]
            for one in reversed(earlier):
                if one.state == "pending":
                    await account.again(bytes.fromhex(one.raw))
            if await chain.nonce(account.address) > nonce:
                continue
            fee, tip = await chain.fees()
            await account.send_at(self._nothing(nonce, fee, tip), Sending("cancel", kind="cancel"))

    async def forget(self, hash: str) -> str:
        """Free what a transaction reserved whose nonce was used elsewhere; return what happened."""
        row = await self._pending(hash)
        chain, address = self._context.chain, self._context.account.address
        await chain.check()
        if row.payment:
            payment = next(
                (one for one in await self._context.ledger.find("sent") if one.id == row.payment),
                None,
            )
            if payment is not None:
                found = await self._resolver.resolve(payment, resend=False)
                if found.fate == "waiting":
                    raise ConfigError(f"{hash} can still be included ({found.why}); cancel it")
                return found.why or "it was made: run `toolbridge node settle`"
        if await chain.nonce(address, "latest") <= row.nonce:
            raise ConfigError(
                f"{hash} can still be included, because its nonce {row.nonce} is not used; cancel "
                f"it with `toolbridge node transactions --cancel {hash}`"
            )
        await self._resolver.reconcile()
        return f"its nonce {row.nonce} is used"

    async def _pending(self, hash: str) -> JournalRow:
        for row in await self._context.account.journal.pending():
            if same_account(row.hash, hash):
                return row
        raise ConfigError(
            f"no transaction {hash} is pending; `toolbridge node transactions` lists those that are"
        )

    async def _higher(self, row: JournalRow) -> tuple[int, int]:
        """Return fee and tip of a replacement, above every transaction with the same nonce.

        Servers accept a replacement if both are at least 10 % higher (geth's `pricebump`).
        """
        same = [
            one.transaction
            for one in await self._context.account.journal.with_nonce(row.nonce)
            if one.state == "pending"
        ]
        fee, tip = await self._context.chain.fees()
        most = _MOST_RAISE * min(one.fee for one in same)
        fee = max(fee, *(one.fee * 5 // 4 + 1 for one in same))
        tip = max(tip, *(one.tip * 5 // 4 + 1 for one in same))
        if fee > most:
            raise ConfigError(
                f"the fee would be {fee} wei per gas, more than {_MOST_RAISE} times that of the first "
                "transaction; wait until fees have fallen"
            )
        return fee, min(tip, fee)

    async def _follow(self, row: JournalRow, hash: str) -> None:
        """Let the payment of a raised transaction name the new hash."""
        for payment in await self._context.ledger.find("sent"):
            if payment.id == row.payment:
                await self._context.ledger.change(payment.id, "sent", hash=hash)


def _payment(job: ScannedJob, state: JobState) -> Payment:
    """Return a payment from the chain's own record of its job."""
    return Payment(
        0, state.deposit, "closed", state.token, hash=job.hash, job=job.job, host=state.host,
        price=state.price, at=float(state.started),
    )  # fmt: skip


def _held(payment: Payment) -> str:
    seconds = max(1, round(payment.held_until - time.time()))
    return (
        "a running process uses it; stop that process, or wait until its lease ends "
        f"({seconds} s after its last sign of life)"
    )
