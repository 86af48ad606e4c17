"""Choose the order in which hosts are tried.

Hosts come from the registry. Their order is a random draw weighted by score, as in the vendor's
client; with `cheapest` the lowest price comes first. Hosts that failed lately come last. `ChainFunding` pays the first that answers a probe.
"""

import random
import time
from dataclasses import dataclass, replace

from toolbridge.node.hosts.candidates import (
    ExcludedHost,
    FoundHosts,
    HostCandidate,
    HostRequirements,
    NoHosts,
    rank,
    take,
)
from toolbridge.node.hosts.probing import HostProber, HostSilent
from toolbridge.node.hosts.records import HostRecords
from toolbridge.node.hosts.registry import HostRegistry
from toolbridge.node.hosts.scoring import Mode

_REST = 600.0
"""Seconds for which a failed host comes last."""


@dataclass(frozen=True)
class Search:
    """Which hosts to find: the model, what a host must fulfil, the scoring mode, a single address."""

    model: str
    requirements: HostRequirements
    mode: Mode = "auto"
    only: str = ""


class Finder:
    """Finds hosts for one search, and remembers those that failed."""

    def __init__(
        self,
        registry: HostRegistry,
        prober: HostProber,
        search: Search,
        randomness: random.Random,
        records: HostRecords | None = None,
    ) -> None:
        self._registry = registry
        self._prober = prober
        self._records = records
        self._randomness = randomness
        self._resting: dict[str, float] = {}
        self.search = search

    async def find(self, *, measure: bool = False) -> FoundHosts:
        """Return the usable hosts by score, best first; with `measure` only those that answer."""
        search = self.search
        found = await self._without_recorded(
            await self._registry.find(search.model, search.requirements, search.mode, search.only)
        )
        if not measure:
            return found
        times = await self._prober.latencies([one.url for one in found.candidates])
        known: list[HostCandidate] = []
        excluded = list(found.excluded)
        for one, took in zip(found.candidates, times, strict=True):
            if isinstance(took, HostSilent):
                excluded.append(ExcludedHost(one.address, f"{took} at {one.url}"))
            else:
                known.append(replace(one, latency=took))
        ranked = rank(known, search.mode, native=self._registry.native)
        return FoundHosts(ranked, tuple(excluded))

    async def _without_recorded(self, found: FoundHosts) -> FoundHosts:
        """Exclude the hosts whose recorded faults are too many."""
        reasons = await self._records.excluded() if self._records is not None else {}
        if not reasons:
            return found
        left = [one for one in found.candidates if one.address.lower() not in reasons]
        gone = [
            ExcludedHost(one.address, reasons[one.address.lower()])
            for one in found.candidates
            if one.address.lower() in reasons
        ]
        return FoundHosts(tuple(left), (*found.excluded, *gone))

    async def order(self) -> list[HostCandidate]:
        """Return the hosts to try, in the order in which to try them."""
        found = await self.find(measure=self.search.mode == "fastest")
        if not found.candidates:
            raise NoHosts(f"no host of {self.search.model} is usable; {found.describe()}")
        left, order = list(found.candidates), []
        while left:
            order.append(take(left, self._randomness.random()))
        cheapest = self.search.mode == "cheapest"
        return sorted(
            order, key=lambda one: (self._rests(one.address), one.price if cheapest else 0)
        )

    async def answering(
        self, candidates: list[HostCandidate]
    ) -> tuple[list[HostCandidate], list[str]]:
        """Return the first host that answers with all after it, and why earlier ones were skipped."""
        silent: list[str] = []
        for index, candidate in enumerate(candidates):
            try:
                await self._prober.latency(candidate.url)
            except HostSilent as error:
                silent.append(f"{candidate.address} at {candidate.url}: {error}")
                continue
            return candidates[index:], silent
        return [], silent

    def rest(self, address: str) -> None:
        """Put a failed host behind all others for ten minutes."""
        self._resting[address] = time.monotonic() + _REST

    async def has_other(self, address: str) -> bool:
        """Whether there is another host than this one that has not failed lately."""
        return any(
            one.address != address and not self._rests(one.address)
            for one in (await self.find()).candidates
        )

    def _rests(self, address: str) -> bool:
        return self._resting.get(address, 0.0) > time.monotonic()
