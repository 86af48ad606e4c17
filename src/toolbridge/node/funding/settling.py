"""The end of a paid job: what it cost, and the rest of its deposit back.

A host settles by itself as soon as the connection ends. Where it does not, who paid may do so. A job
that a process left behind when it died is found in the ledger and settled by the next one.
"""

import time
from dataclasses import dataclass

from toolbridge.node.chain.abi import MalformedAnswer, Value
from toolbridge.node.chain.calls import SessionTerms
from toolbridge.node.chain.client import Chain
from toolbridge.node.chain.reverts import Reverted
from toolbridge.node.funding.account import Account
from toolbridge.node.funding.ledger import Ledger, Payment, is_alive

ACTIVE = 0


@dataclass(frozen=True)
class JobState:
    """A session as the marketplace keeps it."""

    depositor: str
    host: str
    deposit: int
    price: int
    started: int
    duration: int
    status: int
    """0 while it is active, then 1 completed or 2 timed out."""
    refunded: int

    @property
    def active(self) -> bool:
        return self.status == ACTIVE and time.time() < self.started + self.duration


@dataclass(frozen=True)
class SettledJob:
    """A job that is over."""

    job: str
    refund: int
    cost: int
    transaction: str = ""
    """The hash of our own call that ended it; nothing where the host had done so."""


async def job_state(chain: Chain, job: str) -> JobState:
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
            raise MalformedAnswer("the marketplace tells of a session in another form")


class Settler:
    def __init__(self, chain: Chain, account: Account, ledger: Ledger, terms: SessionTerms) -> None:
        self._chain = chain
        self._account = account
        self._ledger = ledger
        self._terms = terms

    async def left_behind(self) -> list[Payment]:
        """Return the jobs that nobody works on any more and that are not settled yet."""
        found = await self._ledger.find("open", "closed")
        return [
            one for one in found if one.state == "closed" or not is_alive(one.owner, one.touched)
        ]

    async def settle(self, payment: Payment) -> SettledJob:
        """End a job if its host has not, and write down what it cost."""
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
            # The host was quicker; or the call can never succeed, and then the state still says so.
            if (await job_state(self._chain, job)).status == ACTIVE:
                raise
            return ""
