"""Paid jobs, and the interface through which a session gets them.

A session opens a job with `Funding` and closes it at the end. `ChainFunding` finds a host and pays
a deposit; `PrepaidJob` has a fixed host and a job that was paid outside toolbridge.
"""

from dataclasses import dataclass
from typing import Protocol

from toolbridge.core.errors import UpstreamError


class FundingUnresolved(UpstreamError):
    """A payment may have been made and its outcome is unknown; no other may be sent."""


@dataclass(frozen=True)
class Host:
    """A machine that serves a model, reachable at `url`."""

    url: str
    """`http://…` or `ws://…`."""
    public: bytes
    """Its public key, 33 bytes."""


@dataclass(frozen=True)
class Job:
    """A paid session: in the contracts, a session job."""

    id: str
    host: Host
    model: str
    chain_id: int = 84532
    max_tokens: int = 0
    """How many tokens the deposit pays for; 0 if unknown."""


class Funding(Protocol):
    """Pays for jobs."""

    async def open(self) -> Job:
        """Return a newly paid job; raise `FundingUnresolved` if a payment's outcome is unknown.

        The next call resolves that payment first, and raises again until it is resolved.
        """
        ...

    async def is_active(self, job: Job) -> bool:
        """Whether the job is still active, so that its host answers requests."""
        ...

    def lost(self, job: Job) -> bool:
        """Whether the payment of a job has vanished from the chain, so that its session must stop."""
        ...

    def delivered(self, job: Job, tokens: int) -> None:
        """Record tokens that a job has delivered, counted on our side; returns at once."""
        ...

    async def has_other(self, job: Job) -> bool:
        """Whether another host than that of `job` can be tried."""
        ...

    async def close(self, job: Job, *, failed: bool = False) -> None:
        """Give up a job; its host settles it.

        With `failed`, other hosts are preferred to its host for a while.
        """
        ...


class PrepaidJob:
    """Funding for a job that was paid outside toolbridge."""

    def __init__(self, job: Job) -> None:
        self._job = job

    async def open(self) -> Job:
        return self._job

    async def is_active(self, job: Job) -> bool:
        return job == self._job

    def lost(self, job: Job) -> bool:
        return job != self._job

    def delivered(self, job: Job, tokens: int) -> None:
        pass  # a prepaid job has no bill

    async def has_other(self, job: Job) -> bool:
        return job != self._job

    async def close(self, job: Job, *, failed: bool = False) -> None:
        pass
