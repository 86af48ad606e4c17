"""A purse that finds a host, pays for a job there, and gets the rest of the money back.

One payment at a time, each written down before it is sent. While the fate of one is unknown no other
follows: the next asker finds out first, and works on the job that was paid if there is one.
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
from toolbridge.node.chain.client import Chain, Receipt, hexed, word
from toolbridge.node.chain.contracts import SESSION_CREATED
from toolbridge.node.chain.reverts import Reverted, explain
from toolbridge.node.chain.transaction import Signed
from toolbridge.node.funding.account import Account, TransactionUncertain
from toolbridge.node.funding.jobs import FundingUnresolved, Host, Job
from toolbridge.node.funding.ledger import Budget, Ledger, Payment
from toolbridge.node.funding.settling import Settler, job_state
from toolbridge.node.hosts.candidates import HostCandidate, NoHosts
from toolbridge.node.hosts.finder import Finder

_ITS_FAULT = frozenset({
    "Low price", "Price below host minimum for model", "No host reg", "Host not registered",
    "Host not active", "Bad model", "No model pricing",
})  # fmt: skip
"""Reasons for which another host may be taken instead."""

_LAG = 5.0
"""Seconds by which a server's receipts may be behind its other answers."""

_AGAIN = (5, 30, 120)
"""How many times the usual wait before a job is settled that could not be."""

_log = logging.getLogger("toolbridge.node")


@dataclass(frozen=True)
class FundingContext:
    """What a purse works with."""

    chain: Chain
    account: Account
    ledger: Ledger
    terms: SessionTerms
    budget: Budget


class ChainFunding:
    def __init__(
        self,
        means: FundingContext,
        finder: Finder,
        *,
        settle_after: float = 120.0,
    ) -> None:
        self._means = means
        self._finder = finder
        self._settle_after = settle_after
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._payments: dict[str, Payment] = {}
        self._swept = False
        chain, account, ledger, terms = means.chain, means.account, means.ledger, means.terms
        self.settler = Settler(chain, account, ledger, terms)

    # ── the purse of a session ──

    async def open(self) -> Job:
        """Return a job that was paid for: one of which we learn only now, or a new one."""
        async with self._opening:
            await self._means.chain.check()
            self._sweep()
            return await self._resolved() or await self._pay_one(await self._finder.order())

    async def is_active(self, job: Job) -> bool:
        return await self._is_active(job.id)

    async def _is_active(self, job: str) -> bool:
        state = await job_state(self._means.chain, job)
        return state.active and same_account(state.depositor, self._means.account.address)

    async def has_other(self, job: Job) -> bool:
        """Whether there is another host that has not failed lately."""
        payment = self._payments.get(job.id)
        return payment is not None and await self._finder.has_other(payment.host)

    async def close(self, job: Job, *, failed: bool = False) -> None:
        """Leave a job; its host has some time to settle it before we do."""
        payment = self._payments.pop(job.id, None)
        if payment is None:
            return
        if failed:
            self._finder.rest(payment.host)
        try:
            await self._means.ledger.change(payment.id, "closed")
        except ConfigError as error:  # the next process finds it as one that was left behind
            _log.warning("the end of the job %s was not written down: %s", job.id, error)
        self._spawn(self._settle_later(payment, self._settle_after))

    async def stop(self) -> None:
        """End what waits in the background; the ledger knows what is left to do."""
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        try:
            await self._means.ledger.leave()
        except ConfigError as error:  # the next process sees that this one is no more
            _log.warning("%s", error)

    # ── paying ──

    async def _pay_one(self, candidates: list[HostCandidate]) -> Job:
        """Pay the first host that answers and takes the money."""
        reasons: list[str] = []
        while True:
            candidates, silent = await self._finder.answering(candidates)
            reasons += silent
            if not candidates:
                raise NoHosts(f"no host can be worked with; {'; '.join(reasons[:5])}")
            first, *candidates = candidates
            try:
                return await self._pay(first)
            except Reverted as error:
                if error.reason not in _ITS_FAULT or not candidates:
                    raise
                reasons.append(f"{first.address}: {error}")

    async def least_deposit(self) -> int:
        """Return the least that the marketplace takes; raise when it takes nothing at all."""
        means = self._means
        place = means.terms.marketplace
        (paused,) = await means.chain.read(place, "paused")
        if paused:
            raise explain("a payment", selector("EnforcedPause()"))
        asked = ("tokenMinDeposits", means.terms.token) if means.terms.token else ("MIN_DEPOSIT",)
        (least,) = await means.chain.read(place, *asked)
        return least if isinstance(least, int) else 0

    async def must_approve(self) -> bool:
        """Whether the marketplace may not take one deposit yet."""
        means = self._means
        if not means.terms.token:
            return False
        owner, spender = means.account.address, means.terms.marketplace
        (allowed,) = await means.chain.read(means.terms.token, "allowance", owner, spender)
        return not isinstance(allowed, int) or allowed < means.terms.deposit

    async def _pay(self, candidate: HostCandidate) -> Job:
        means = self._means
        means.terms.check(await self.least_deposit(), candidate.price)
        line = await means.ledger.reserve(means.budget, means.terms.deposit)
        try:
            if await self.must_approve():
                await means.account.send(means.terms.approve())
        except BaseException:
            await means.ledger.release(line)  # an approval moves no money
            raise
        return await self._create(line, candidate)

    async def _create(self, line: int, candidate: HostCandidate) -> Job:
        means = self._means

        async def note(signed: Signed) -> None:
            await means.ledger.change(
                line, "sent", model=means.terms.model.hex(), nonce=signed.transaction.nonce, hash=signed.hash,
                raw=signed.raw.hex(), host=candidate.address, url=candidate.url,
                public=candidate.public.hex(), price=str(candidate.price),
            )  # fmt: skip

        try:
            receipt = await means.account.send(
                means.terms.create(candidate.address, candidate.price), note
            )
        except TransactionUncertain as error:
            raise _unresolved(error.hash, str(error)) from None
        except Rejected:
            await means.ledger.release(line)
            raise
        except ToolbridgeError:  # the chain or the disk went away, mostly before it was signed
            await self._release_unsent(line)
            raise
        return await self._opened(line, receipt)

    async def _release_unsent(self, line: int) -> None:
        sent = await self._means.ledger.find("sent")
        if all(payment.id != line for payment in sent):
            await self._means.ledger.release(line)

    async def _opened(self, line: int, receipt: Receipt) -> Job:
        """Write down the job of a payment that was made, before anything else can fail."""
        await self._means.ledger.change(line, "open", job=self._job_of(receipt))
        found = await self._means.ledger.find("open")
        return self._adopt(next(one for one in found if one.id == line))

    def _job_of(self, receipt: Receipt) -> str:
        """Return the job of our own log: others may stand in the same receipt."""
        means = self._means
        for log in receipt.logs:
            ours = same_account(log.address, means.terms.marketplace) and len(log.topics) == 4
            if not ours or log.topics[0] != hexed(topic(SESSION_CREATED)):
                continue
            if same_account(log.topics[2], word(means.account.address)):
                return str(int(log.topics[1], 16))
        why = "it is part of the chain, but tells of no job; check `marketplace`"
        raise _unresolved(receipt.hash, why)

    def _adopt(self, payment: Payment) -> Job:
        self._payments[payment.job] = payment
        return Job(
            payment.job,
            Host(payment.url, bytes.fromhex(payment.public)),
            self._finder.search.model,
            self._means.chain.network.chain_id,
            payment.amount * PRECISION // payment.price,
        )

    # ── payments whose fate is unknown ──

    async def _resolved(self) -> Job | None:
        """Find out what became of earlier payments; return a job that one of them paid for."""
        usable: Job | None = None
        for payment in await self._means.ledger.find("sent"):
            if not self._means.ledger.is_ours(payment):
                continue
            await self._means.ledger.take(payment.id)
            receipt = await self._fate(payment)
            if receipt is None or not receipt.succeeded:
                await self._means.ledger.release(payment.id)
                continue
            wanted = usable is None and payment.model == self._means.terms.model.hex()
            wanted = wanted and await self._is_active(self._job_of(receipt))
            job = await self._opened(payment.id, receipt)
            if wanted:
                usable = job
            else:
                await self.close(job)
        return usable

    async def _fate(self, payment: Payment) -> Receipt | None:
        """Return the receipt of a payment, or None when it can never be made any more."""
        means = self._means
        if (found := await means.chain.receipt(payment.hash)) is not None:
            return found
        # Another transaction with its number is part of the chain: this one can never be.
        if await means.chain.nonce(means.account.address, "latest") > payment.nonce:
            return await means.chain.wait_for(payment.hash, _LAG)
        await means.account.again(bytes.fromhex(payment.raw))
        try:
            return await means.account.settled(payment.hash)
        except TransactionUncertain as error:
            raise _unresolved(payment.hash, str(error)) from None

    # ── the rest of the money ──

    def _sweep(self) -> None:
        """Settle, once, what earlier processes left behind."""
        if not self._swept:
            self._swept = True
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
        """Settle a job after a while; where that fails, after longer and longer ones."""
        for pause in (wait, *(self._settle_after * times for times in _AGAIN)):
            await asyncio.sleep(pause)
            try:
                done = await self.settler.settle(payment)
            except ToolbridgeError as error:
                _log.warning("the job %s is not settled yet: %s", payment.job, error)
            else:
                _log.info("the job %s is settled: %d came back", done.job, done.refund)
                return

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _unresolved(hash: str, why: str) -> FundingUnresolved:
    return FundingUnresolved(
        f"a payment is unresolved: {why}; no other is made until the chain knows the transaction "
        f"{hash}"
    )
