"""Paid work: where a session's host and money come from.

A session asks its purse for a job and gives it back; whether that means a chain, a deposit and a
registry, or a job that was paid for elsewhere, is the purse's affair.
"""

from dataclasses import dataclass
from typing import Protocol

from toolbridge.core.errors import UpstreamError


class FundingUnresolved(UpstreamError):
    """Money may have been spent and nobody knows on what: a second payment must not follow."""


@dataclass(frozen=True)
class Host:
    """A machine that serves a model."""

    url: str
    """Where it says that it is: `http://…` or `ws://…`."""
    public: bytes
    """Its public key, 33 bytes."""


@dataclass(frozen=True)
class Job:
    """A session that is paid for."""

    id: str
    host: Host
    model: str
    chain_id: int = 84532
    max_tokens: int = 0
    """How many tokens the deposit pays for; 0 where nobody knows."""


class Funding(Protocol):
    async def open(self) -> Job:
        """Pay for a new job; raise `FundingUnresolved` when it is unknown whether one was paid.

        Asked again, a purse finds out first, and raises again for as long as nobody knows.
        """
        ...

    async def is_active(self, job: Job) -> bool:
        """Whether the host still works for this job."""
        ...

    async def has_other(self, job: Job) -> bool:
        """Whether a host other than that of `job` can be tried."""
        ...

    async def close(self, job: Job, *, failed: bool = False) -> None:
        """Note that we use the job no longer; its host settles it.

        `failed` says that the host could not be worked with: others come before it for a while.
        """
        ...


class PrepaidJob:
    """A purse with one job that was paid for elsewhere."""

    def __init__(self, job: Job) -> None:
        self._job = job

    async def open(self) -> Job:
        return self._job

    async def is_active(self, job: Job) -> bool:
        return job == self._job

    async def has_other(self, job: Job) -> bool:
        return job != self._job

    async def close(self, job: Job, *, failed: bool = False) -> None:
        pass
