"""Funding from an account on the chain: find a host, pay a deposit, settle the job afterwards.

Payments are made one at a time, and each is recorded in the ledger before it is sent. While the
outcome of a payment is unknown, no other is sent: the next `open` resolves it first, and uses the
job that it paid for if there is one.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass

from toolbridge.core.errors import ConfigError, Rejected, ToolbridgeError
from toolbridge.node.chain.abi import selector, topic
from toolbridge.node.chain.address import same_account
from toolbridge.node.chain.calls import PRECISION, SessionTerms
from toolbridge.node.chain.client import ChainClient, Receipt, hexed, word
from toolbridge.node.chain.contracts import SESSION_CREATED
from toolbridge.node.chain.reverts import Reverted, explain
from toolbridge.node.chain.transaction import Signed
from toolbridge.node.funding.account import Account, TransactionUncertain
from toolbridge.node.funding.jobs import FundingUnresolved, Host, Job
from toolbridge.node.funding.ledger import Budget, Ledger, Payment
from toolbridge.node.funding.settling import Settler, job_state
from toolbridge.node.hosts.candidates import HostCandidate, NoHosts
from toolbridge.node.hosts.finder import Finder

_HOST_REASONS = frozenset({
    "Low price", "Price below host minimum for model", "No host reg", "Host not registered",
    "Host not active", "Bad model", "No model pricing",
})  # fmt: skip
"""Revert reasons after which the next host is tried."""

_LAG = 5.0
"""Seconds by which a server's receipts may lag behind its nonces."""

_SETTLE_RETRIES = (5, 30, 120)
"""Waits before each further attempt to settle a job, in multiples of `settle_after`."""

_log = logging.getLogger("toolbridge.node")


@dataclass(frozen=True)
class FundingContext:
    """The chain, account, ledger, terms and budget of a funding."""

    chain: ChainClient
    account: Account
    ledger: Ledger
    terms: SessionTerms
    budget: Budget


class ChainFunding:
    """Pays for jobs from an account, with hosts from a `Finder`."""

    def __init__(
        self,
        context: FundingContext,
        finder: Finder,
        *,
        settle_after: float = 120.0,
    ) -> None:
        self._context = context
        self._finder = finder
        self._settle_after = settle_after
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._payments: dict[str, Payment] = {}
        self._settled_earlier = False
        self.settler = Settler(context.chain, context.account, context.ledger, context.terms)

    # ── the interface of Funding ──

    async def open(self) -> Job:
        """Return a paid job: that of an earlier payment that is resolved now, or a new one."""
        async with self._opening:
            await self._context.chain.check()
            self._settle_earlier()
            return await self._resolve() or await self._pay_one(await self._finder.order())

    async def is_active(self, job: Job) -> bool:
        return await self._is_active(job.id)

    async def _is_active(self, job: str) -> bool:
        state = await job_state(self._context.chain, job)
        return state.active and same_account(state.depositor, self._context.account.address)

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
        try:
            await self._context.ledger.change(payment.id, "closed")
        except ConfigError as error:  # the next process settles it
            _log.warning("the end of job %s is not recorded in the ledger: %s", job.id, error)
        self._spawn(self._settle_later(payment, self._settle_after))

    async def stop(self) -> None:
        """Cancel background tasks; the ledger has the jobs that remain to be settled."""
        for task in list(self._tasks):
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

        async def note(signed: Signed) -> None:
            await context.ledger.change(
                payment_id, "sent", model=context.terms.model.hex(), nonce=signed.transaction.nonce, hash=signed.hash,
                raw=signed.raw.hex(), host=candidate.address, url=candidate.url,
                public=candidate.public.hex(), price=str(candidate.price),
            )  # fmt: skip

        try:
            receipt = await context.account.send(
                context.terms.create(candidate.address, candidate.price), note
            )
        except TransactionUncertain as error:
            raise _unresolved(error.hash, str(error)) from None
        except Rejected:
            await context.ledger.release(payment_id)
            raise
        except ToolbridgeError:  # the chain or the disk failed, usually before signing
            await self._release_unsent(payment_id)
            raise
        return await self._opened(payment_id, receipt)

    async def _release_unsent(self, payment_id: int) -> None:
        """Free the reserved amount unless the transaction was signed and may have been sent."""
        sent = await self._context.ledger.find("sent")
        if all(payment.id != payment_id for payment in sent):
            await self._context.ledger.release(payment_id)

    async def _opened(self, payment_id: int, receipt: Receipt) -> Job:
        """Record the job of a payment before anything else can fail."""
        await self._context.ledger.change(payment_id, "open", job=self._job_of(receipt))
        found = await self._context.ledger.find("open")
        return self._adopt(next(one for one in found if one.id == payment_id))

    def _job_of(self, receipt: Receipt) -> str:
        """Return the job id from our `SessionJobCreated` log; a receipt may contain others' logs."""
        context = self._context
        for log in receipt.logs:
            ours = same_account(log.address, context.terms.marketplace) and len(log.topics) == 4
            if not ours or log.topics[0] != hexed(topic(SESSION_CREATED)):
                continue
            if same_account(log.topics[2], word(context.account.address)):
                return str(int(log.topics[1], 16))
        why = "it succeeded, but its receipt has no SessionJobCreated log; check `marketplace`"
        raise _unresolved(receipt.hash, why)

    def _adopt(self, payment: Payment) -> Job:
        """Return the job of a payment, and keep the payment for `close`."""
        self._payments[payment.job] = payment
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
            if not self._context.ledger.is_ours(payment):
                continue
            await self._context.ledger.take(payment.id)
            receipt = await self._outcome(payment)
            if receipt is None or not receipt.succeeded:
                await self._context.ledger.release(payment.id)
                continue
            ours = usable is None and payment.model == self._context.terms.model.hex()
            ours = ours and await self._is_active(self._job_of(receipt))
            job = await self._opened(payment.id, receipt)
            if ours:
                usable = job
            else:
                await self.close(job)
        return usable

    async def _outcome(self, payment: Payment) -> Receipt | None:
        """Return the receipt of a payment, or None if it can never be included in a block."""
        context = self._context
        if (found := await context.chain.receipt(payment.hash)) is not None:
            return found
        # The account's nonce has passed: this transaction is already included, or never will be.
        if await context.chain.nonce(context.account.address, "latest") > payment.nonce:
            return await context.chain.wait_for(payment.hash, _LAG)
        await context.account.again(bytes.fromhex(payment.raw))
        try:
            return await context.account.settled(payment.hash)
        except TransactionUncertain as error:
            raise _unresolved(payment.hash, str(error)) from None

    # ── settling ──

    def _settle_earlier(self) -> None:
        """Settle the jobs of earlier processes, once."""
        if not self._settled_earlier:
            self._settled_earlier = True
            self._spawn(self._settle_left_behind())

    async def _settle_left_behind(self) -> None:
        try:
            left = await self.settler.left_behind()
        except ConfigError as error:
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
                _log.info("job %s is settled, refund %d", done.job, done.refund)
                return

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _unresolved(hash: str, why: str) -> FundingUnresolved:
    return FundingUnresolved(
        f"the payment in transaction {hash} is unresolved: {why}; no other payment is sent until it "
        "is resolved. The next request checks it again; `toolbridge node balance` lists such payments"
    )
