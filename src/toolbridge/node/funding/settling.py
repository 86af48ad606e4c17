"""Settle jobs: end them on the chain, and record their cost and refund.

A host settles a job when its connection ends. If it does not, the depositor may call
`completeSessionJob`. Jobs of a process that crashed are found in the ledger and settled by the next
process, or by `toolbridge node settle`. What a host billed is compared with what it delivered.
"""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolbridge.node.chain.abi import MalformedAnswer, Value
from toolbridge.node.chain.amounts import ETH, Currency
from toolbridge.node.chain.calls import SessionTerms
from toolbridge.node.chain.client import ChainClient, ReadCall
from toolbridge.node.chain.contracts import NATIVE
from toolbridge.node.chain.reverts import Reverted
from toolbridge.node.funding.account import Account, SendOptions
from toolbridge.node.funding.books import BookEntry
from toolbridge.node.funding.ledger import Ledger, Payment
from toolbridge.node.hosts.records import HostRecords
from toolbridge.node.protocol.delivered import Tolerance

ACTIVE = 0


@dataclass(frozen=True)
class JobState:
    """A job as `sessionJobs` of the marketplace returns it."""

    depositor: str
    host: str
    deposit: int
    price: int
    started: int
    duration: int
    status: int
    """0 active, 1 completed, 2 timed out."""
    refunded: int
    token: str = NATIVE
    """The currency of the job."""
    tokens: int = 0
    """Tokens that the host has proved."""
    interval: int = 0
    """The fewest tokens that are billed."""

    @property
    def active(self) -> bool:
        return self.status == ACTIVE and time.time() < self.started + self.duration


@dataclass(frozen=True)
class SettledJob:
    """What became of a job or of a payment: settled with refund and cost, or the reason why not."""

    job: str
    refund: int = 0
    cost: int = 0
    transaction: str = ""
    """The hash of our transaction that ended it; empty if the host had ended it."""
    currency: Currency = ETH
    host: str = ""
    billed: int = 0
    """Tokens that the host billed."""
    delivered: int = 0
    """Tokens that arrived here; -1 if the ledger does not have the job's count."""
    overbilled: bool = False
    why: str = ""
    """Why it is not settled, and what to do; empty if it is."""
    payment: str = ""
    """The hash of the payment."""


async def job_state(chain: ChainClient, job: str) -> JobState:
    """Return the state of a job on the chain."""
    return _state(await chain.read(chain.network.marketplace, "sessionJobs", int(job)))


async def job_states(chain: ChainClient, jobs: Sequence[str]) -> list[JobState]:
    """Return the states of jobs on the chain, read in few requests."""
    market = chain.network.marketplace
    answers = await chain.read_many([ReadCall(market, "sessionJobs", (int(job),)) for job in jobs])
    return [_state(answer if isinstance(answer, list) else []) for answer in answers]


def _state(found: list[Value]) -> JobState:
    match found:
        case [
            int(), str(depositor), str(host), str(token), int(deposit), int(price), int(tokens),
            int(duration), int(started), int(), int(interval), int(), int(status), int(),
            int(refunded), *_,
        ]:  # fmt: skip
            return JobState(
                depositor, host, deposit, price, started, duration, status, refunded, token, tokens,
                interval,
            )  # fmt: skip
        case _:
            raise MalformedAnswer(
                "the marketplace returned a session in an unknown form; check `marketplace`"
            )


class Settler:
    """Settles jobs of one account."""

    def __init__(
        self,
        chain: ChainClient,
        account: Account,
        ledger: Ledger,
        terms: SessionTerms,
        records: HostRecords,
    ) -> None:
        self._chain = chain
        self._account = account
        self._ledger = ledger
        self._terms = terms
        self._records = records

    async def left_behind(self) -> list[Payment]:
        """Return the unsettled jobs that no process uses any more."""
        found = await self._ledger.find("open", "closed")
        mine = self._ledger.owner
        return [
            one
            for one in found
            if one.state == "closed" or (not one.held_until and one.owner != mine)
        ]

    async def settle(self, payment: Payment) -> SettledJob:
        """End a job if its host has not, and record its cost in the ledger."""
        state = await job_state(self._chain, payment.job)
        hash = ""
        if state.status == ACTIVE:
            hash = await self._complete(payment.job)
            state = await job_state(self._chain, payment.job)
        return await self._record(payment, state, hash)

    async def _complete(self, job: str) -> str:
        try:
            options = SendOptions(limited=False)  # a limit must never keep a refund away
            return (await self._account.send(self._terms.complete(job), options)).hash
        except Reverted:
            # The host may have ended it first; if the job is still active, the call has failed.
            if (await job_state(self._chain, job)).status == ACTIVE:
                raise
            return ""

    async def _record(self, payment: Payment, state: JobState, hash: str) -> SettledJob:
        deposit = state.deposit or payment.amount
        refund = min(state.refunded, deposit)
        cost = deposit - refund
        currency = self._chain.network.currency(payment.currency)
        (fresh,) = [
            one for one in await self._ledger.find("open", "closed") if one.id == payment.id
        ] or [payment]
        done = SettledJob(
            payment.job, refund, cost, hash, currency, payment.host, state.tokens,
            # A process that crashed has not counted its last answer.
            fresh.delivered if fresh.state == "closed" else -1,
            payment=payment.hash,
        )  # fmt: skip
        done = replace(done, overbilled=_overbilled(done, state))
        await self._ledger.file.run(lambda db: self._write(db, done, payment.id))
        if done.overbilled:
            text = (
                f"it billed {done.billed} tokens for job {done.job} and delivered {done.delivered}"
            )
            await self._records.note(done.host, "overclaim", text)
        return done

    def _write(self, db: sqlite3.Connection, done: SettledJob, payment: int) -> None:
        """Record the cost of a job, the claim of its host and the refund, all at once."""
        self._ledger.release_in(db, payment, done.cost, "done")
        known = done.delivered >= 0
        note = f"{done.delivered} tokens delivered" if known else "delivered tokens are not known"
        claim = BookEntry(
            "claim", done.currency.address, done.currency.decimals, done.cost, done.host, done.job,
            done.transaction, "overbilled" if done.overbilled else "accepted", done.billed, note,
            payment,
        )  # fmt: skip
        refund = replace(claim, kind="refund", amount=done.refund, tokens=0, note="", state="done")
        for entry in (claim, refund):
            self._ledger.record_in(db, entry, done.currency)


def _overbilled(done: SettledJob, state: JobState) -> bool:
    """Whether a host proved clearly more tokens than arrived; one proof interval is the minimum."""
    most = Tolerance().most(done.delivered) + state.interval
    return done.delivered >= 0 and done.billed > most
