"""Settle jobs: end them on the chain, and record their cost and refund.

A host settles a job when its connection ends. If it does not, the depositor may call
`completeSessionJob`. Jobs of a process that crashed are found in the ledger and settled by the next
process, or by `toolbridge node settle`.
"""

import time
from dataclasses import dataclass

from toolbridge.node.chain.abi import MalformedAnswer, Value
from toolbridge.node.chain.calls import SessionTerms
from toolbridge.node.chain.client import ChainClient
from toolbridge.node.chain.reverts import Reverted
from toolbridge.node.funding.account import Account
from toolbridge.node.funding.ledger import Ledger, Payment, is_alive

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

    @property
    def active(self) -> bool:
        return self.status == ACTIVE and time.time() < self.started + self.duration


@dataclass(frozen=True)
class SettledJob:
    """A job that has ended, with its refund and cost."""

    job: str
    refund: int
    cost: int
    transaction: str = ""
    """The hash of our transaction that ended it; empty if the host had ended it."""


async def job_state(chain: ChainClient, job: str) -> JobState:
    """Return the state of a job on the chain."""
    return _state(await chain.read(chain.network.marketplace, "sessionJobs", int(job)))


def _state(found: list[Value]) -> JobState:
    match found:
        case [
            int(), str(depositor), str(host), str(), int(deposit), int(price), int(),
            int(duration), int(started), int(), int(), int(), int(status), int(), int(refunded),
            *_,
        ]:  # fmt: skip
            return JobState(depositor, host, deposit, price, started, duration, status, refunded)
        case _:
            raise MalformedAnswer(
                "the marketplace returned a session in an unknown form; check `marketplace`"
            )


class Settler:
    """Settles jobs of one account."""

    def __init__(
        self, chain: ChainClient, account: Account, ledger: Ledger, terms: SessionTerms
    ) -> None:
        self._chain = chain
        self._account = account
        self._ledger = ledger
        self._terms = terms

    async def left_behind(self) -> list[Payment]:
        """Return the unsettled jobs that no process uses any more."""
        found = await self._ledger.find("open", "closed")
        return [
            one for one in found if one.state == "closed" or not is_alive(one.owner, one.touched)
        ]

    async def settle(self, payment: Payment) -> SettledJob:
        """End a job if its host has not, and record its cost in the ledger."""
        state = await job_state(self._chain, payment.job)
        hash = ""
        if state.status == ACTIVE:
            hash = await self._complete(payment.job)
            state = await job_state(self._chain, payment.job)
        cost = payment.amount - state.refunded
        await self._ledger.release(payment.id, cost)
        return SettledJob(payment.job, state.refunded, cost, hash)

    async def _complete(self, job: str) -> str:
        try:
            return (await self._account.send(self._terms.complete(job))).hash
        except Reverted:
            # The host may have ended it first; if the job is still active, the call has failed.
            if (await job_state(self._chain, job)).status == ACTIVE:
                raise
            return ""
