"""Funding from an account on the chain: find a host, pay a deposit, settle the job afterwards.

Payments are made one at a time, and each is recorded in the ledger before it is sent. While the
outcome of a payment is unknown, no other is sent: the next `open` resolves it first, and uses the
job that it paid for if there is one.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Coroutine
from contextlib import suppress

from toolbridge.core.errors import ConfigError, Rejected, ToolbridgeError
from toolbridge.node.chain.abi import selector
from toolbridge.node.chain.address import same_account
from toolbridge.node.chain.amounts import ETH
from toolbridge.node.chain.calls import PRECISION
from toolbridge.node.chain.client import Receipt
from toolbridge.node.chain.reverts import Reverted, explain
from toolbridge.node.chain.transaction import Signed
from toolbridge.node.funding.account import SendOptions, TransactionUncertain
from toolbridge.node.funding.books import BookEntry
from toolbridge.node.funding.context import FundingContext, job_of, unresolved
from toolbridge.node.funding.jobs import Host, Job
from toolbridge.node.funding.leases import BEAT
from toolbridge.node.funding.ledger import Payment
from toolbridge.node.funding.resolving import Resolver
from toolbridge.node.funding.settling import Settler, job_state
from toolbridge.node.hosts.candidates import HostCandidate, NoHosts
from toolbridge.node.hosts.finder import Finder

_HOST_REASONS = frozenset({
    "Low price", "Price below host minimum for model", "No host reg", "Host not registered",
    "Host not active", "Bad model", "No model pricing",
})  # fmt: skip
"""Revert reasons after which the next host is tried."""

_WATCHED = 900.0
"""Seconds for which a payment is watched: a reorganisation of the chain may remove its block."""

_SETTLE_RETRIES = (5, 30, 120)
"""Waits before each further attempt to settle a job, in multiples of `settle_after`."""

_log = logging.getLogger("toolbridge.node")


class ChainFunding:
    """Pays for jobs from an account, with hosts from a `Finder`."""

    def __init__(
        self,
        context: FundingContext,
        finder: Finder,
        *,
        pay_wait: float = 120.0,
        settle_after: float = 120.0,
    ) -> None:
        self._context = context
        self._finder = finder
        self._settle_after = settle_after
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._counting: set[asyncio.Task[None]] = set()
        """Writes of delivered tokens."""
        self._payments: dict[str, Payment] = {}
        self._lost: set[str] = set()
        self._watching: asyncio.Task[None] | None = None
        parts = (context.chain, context.account, context.ledger)
        self.settler = Settler(*parts, context.terms, context.records)
        self.resolver = Resolver(*parts, pay_wait)

    # ── the interface of Funding ──

    async def open(self) -> Job:
        """Return a paid job: that of an earlier payment that is resolved now, or a new one."""
        async with self._opening:
            await self._context.chain.check()
            self._start()
            return await self._resolve() or await self._pay_one(await self._finder.order())

    async def is_active(self, job: Job) -> bool:
        return await self._is_active(job.id)

    async def _is_active(self, job: str) -> bool:
        state = await job_state(self._context.chain, job)
        return state.active and same_account(state.depositor, self._context.account.address)

    def lost(self, job: Job) -> bool:
        """Whether the payment of a job has vanished from the chain."""
        return job.id in self._lost

    def delivered(self, job: Job, tokens: int) -> None:
        """Record tokens that a job has delivered, in the background; `close` waits for it."""
        if tokens:
            self._spawn(self._write_delivered(job.id, tokens), self._counting)

    async def _write_delivered(self, job: str, tokens: int) -> None:
        try:
            await self._context.ledger.delivered(job, tokens)
        except ConfigError as error:  # a ledger that fails must not end the answer
            _log.warning("%d tokens of job %s are not recorded: %s", tokens, job, error)

    async def has_other(self, job: Job) -> bool:
        """Whether there is another host that has not failed lately."""
        payment = self._payments.get(job.id)
        return payment is not None and await self._finder.has_other(payment.host)

    async def close(self, job: Job, *, failed: bool = False) -> None:
        """Give up a job; it is settled after `settle_after` seconds if its host has not done so."""
        payment = self._payments.pop(job.id, None)
        if payment is None:
            return
        if failed:
            self._finder.rest(payment.host)
        await self._counted()
        try:
            await self._context.ledger.change(payment.id, "closed")
        except ConfigError as error:  # the next process settles it
            _log.warning("the end of job %s is not recorded in the ledger: %s", job.id, error)
        self._spawn(self._settle_later(payment, self._settle_after))

    async def stop(self) -> None:
        """Cancel background tasks; the ledger has the jobs that remain to be settled."""
        await self._counted()
        watching = () if self._watching is None else (self._watching,)
        for task in (*self._tasks, *watching):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        try:
            await self._context.ledger.leave()
        except ConfigError as error:  # the next process notices that this one has ended
            _log.warning("%s", error)

    # ── paying ──

    async def _pay_one(self, candidates: list[HostCandidate]) -> Job:
        """Pay the first host that answers, and the next one if it rejects the terms."""
        reasons: list[str] = []
        while True:
            candidates, silent = await self._finder.answering(candidates)
            reasons += silent
            if not candidates:
                raise NoHosts(f"no host answers; {'; '.join(reasons[:5])}")
            first, *candidates = candidates
            try:
                return await self._pay(first)
            except Reverted as error:
                if error.reason not in _HOST_REASONS or not candidates:
                    raise
                reasons.append(f"{first.address}: {error}")

    async def least_deposit(self) -> int:
        """Return the marketplace's minimum deposit; raise `Reverted` if it is paused."""
        context = self._context
        marketplace = context.terms.marketplace
        (paused,) = await context.chain.read(marketplace, "paused")
        if paused:
            raise explain("createSessionJobForModel", selector("EnforcedPause()"))
        token = context.terms.token
        call = ("tokenMinDeposits", token) if token else ("MIN_DEPOSIT",)
        (least,) = await context.chain.read(marketplace, *call)
        return least if isinstance(least, int) else 0

    async def must_approve(self) -> bool:
        """Whether the token allowance of the marketplace is below one deposit."""
        context = self._context
        if not context.terms.token:
            return False
        owner, spender = context.account.address, context.terms.marketplace
        (allowed,) = await context.chain.read(context.terms.token, "allowance", owner, spender)
        return not isinstance(allowed, int) or allowed < context.terms.deposit

    async def _pay(self, candidate: HostCandidate) -> Job:
        context = self._context
        context.terms.check(await self.least_deposit(), candidate.price)
        payment_id = await context.ledger.reserve(context.budget, context.terms.deposit)
        try:
            if await self.must_approve():
                await context.account.send(context.terms.approve())
        except BaseException:
            await context.ledger.release(payment_id)  # an approval transfers nothing
            raise
        return await self._create(payment_id, candidate)

    async def _create(self, payment_id: int, candidate: HostCandidate) -> Job:
        context = self._context

        def note(db: sqlite3.Connection, signed: Signed) -> None:
            self._note_payment(db, payment_id, candidate, signed)

        try:
            receipt = await context.account.send(
                context.terms.create(candidate.address, candidate.price),
                SendOptions(note, payment_id),
            )
        except TransactionUncertain as error:
            raise unresolved(error.hash, str(error)) from None
        except Rejected as error:
            failed = isinstance(error, Reverted) and error.in_block
            await context.ledger.release(payment_id, 0, "failed" if failed else "done")
            raise
        except BaseException:  # the chain or the disk failed, or the request was cancelled
            await self._release_unsent(payment_id)
            raise
        return await self._opened(payment_id, receipt)

    def _note_payment(
        self, db: sqlite3.Connection, payment_id: int, host: HostCandidate, signed: Signed
    ) -> None:
        """Record a signed payment in ledger and books; warn if gas can cost more than the deposit."""
        terms, ledger = self._context.terms, self._context.ledger
        currency = self._context.budget.currency
        values: dict[str, str | int] = {
            "model": terms.model.hex(), "nonce": signed.transaction.nonce, "hash": signed.hash,
            "raw": signed.raw.hex(), "host": host.address, "url": host.url,
            "public": host.public.hex(), "price": str(host.price),
        }  # fmt: skip
        ledger.change_in(db, payment_id, "sent", values)
        entry = BookEntry(
            "payment", currency.address, currency.decimals, terms.deposit, host.address,
            hash=signed.hash, state="sent", payment=payment_id,
        )  # fmt: skip
        ledger.record_in(db, entry, currency)
        if not terms.token and signed.transaction.cost > terms.deposit:
            _log.warning(
                "the gas of this payment can cost %s, more than the deposit of %s; raise `deposit`",
                ETH.format(signed.transaction.cost),
                currency.format(terms.deposit),
            )

    async def _release_unsent(self, payment_id: int) -> None:
        """Free the reserved amount unless the transaction was signed and may have been sent."""
        sent = await self._context.ledger.find("sent")
        if all(payment.id != payment_id for payment in sent):
            await self._context.ledger.release(payment_id)

    async def _opened(self, payment_id: int, receipt: Receipt) -> Job:
        """Record the job of a payment before anything else can fail."""
        ledger = self._context.ledger
        await ledger.change(payment_id, "open", job=job_of(self._context, receipt))
        found = await ledger.find("open")
        return self._adopt(next(one for one in found if one.id == payment_id))

    def _adopt(self, payment: Payment) -> Job:
        """Return the job of a payment, and keep the payment for `close`."""
        self._payments[payment.job] = payment
        self._lost.discard(payment.job)
        return Job(
            payment.job,
            Host(payment.url, bytes.fromhex(payment.public)),
            self._finder.search.model,
            self._context.chain.network.chain_id,
            payment.amount * PRECISION // payment.price,
        )

    # ── payments with an unknown outcome ──

    async def _resolve(self) -> Job | None:
        """Resolve earlier payments; return a job for our model that one of them paid for, or None."""
        usable: Job | None = None
        for payment in await self._context.ledger.find("sent"):
            if payment.held_until:
                continue
            await self._context.ledger.take(payment.id)
            found = await self.resolver.resolve(payment, resend=True)
            if found.fate == "waiting":
                raise unresolved(payment.hash, found.why)
            if found.receipt is None or found.fate != "paid":
                continue
            ours = usable is None and payment.model == self._context.terms.model.hex()
            ours = ours and await self._is_active(job_of(self._context, found.receipt))
            job = await self._opened(payment.id, found.receipt)
            if ours:
                usable = job
            else:
                await self.close(job)
        return usable

    # ── watching ──

    async def _watch(self) -> None:
        """Extend our lease, and stop sessions whose payment a reorganisation has removed."""
        while True:
            await asyncio.sleep(BEAT)
            try:
                await self._context.ledger.beat()
                await self.check_payments()
            except ToolbridgeError as error:
                _log.warning("payments cannot be checked: %s", error)

    async def check_payments(self) -> None:
        """Find payments in use that the chain does not have any more; their sessions must stop."""
        for job, payment in list(self._payments.items()):
            if time.time() - payment.at > _WATCHED:
                continue
            rows = await self._context.account.journal.of_payment(payment.id)
            hashes = [row.hash for row in rows if row.state == "included"] or [payment.hash]
            receipt = await self._context.chain.receipt(hashes[0])
            if receipt is not None and receipt.succeeded and self._same_job(receipt, job):
                continue
            _log.warning(
                "the payment of job %s in %s has vanished from the chain; its session stops",
                job, hashes[0],
            )  # fmt: skip
            self._lost.add(job)
            self._payments.pop(job, None)
            await self._context.account.journal.reopen(payment.id)
            await self._context.ledger.change(payment.id, "sent", job="")

    def _same_job(self, receipt: Receipt, job: str) -> bool:
        """Whether a receipt names a job; a reorganisation may give a payment another job id."""
        try:
            return job_of(self._context, receipt) == job
        except ToolbridgeError:
            return False

    # ── settling ──

    def _start(self) -> None:
        """Watch our payments, and settle the jobs of earlier processes, once."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
            self._spawn(self._settle_left_behind())

    async def _settle_left_behind(self) -> None:
        try:
            await self.resolver.reconcile()
            left = await self.settler.left_behind()
        except ToolbridgeError as error:
            _log.warning("%s", error)
            return
        for payment in left:
            wait = payment.touched + self._settle_after - time.time()
            self._spawn(self._settle_later(payment, max(0.0, min(wait, self._settle_after))))

    async def _settle_later(self, payment: Payment, wait: float) -> None:
        """Settle a job after `wait` seconds, and retry with longer waits."""
        for pause in (wait, *(self._settle_after * times for times in _SETTLE_RETRIES)):
            await asyncio.sleep(pause)
            try:
                done = await self.settler.settle(payment)
            except ToolbridgeError as error:
                _log.warning(
                    "job %s is not settled yet (it is tried again): %s", payment.job, error
                )
            else:
                if done.overbilled:
                    _log.warning(
                        "the host %s billed %d tokens for job %s, and delivered %d",
                        done.host, done.billed, done.job, done.delivered,
                    )  # fmt: skip
                return

    async def _counted(self) -> None:
        """Wait until the delivered tokens are in the ledger."""
        if self._counting:
            await asyncio.wait(self._counting)

    def _spawn(
        self, work: Coroutine[None, None, None], into: set[asyncio.Task[None]] | None = None
    ) -> None:
        tasks = self._tasks if into is None else into
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
