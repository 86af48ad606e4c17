"""Hosts in the order in which to try them: found, measured, drawn by lot, and probed."""

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
from toolbridge.node.hosts.probing import HostSilent, Prober
from toolbridge.node.hosts.registry import HostRegistry
from toolbridge.node.hosts.scoring import Mode

_REST = 600.0
"""Seconds for which a host that failed comes last."""


@dataclass(frozen=True)
class Search:
    """Whom to look for."""

    model: str
    wishes: HostRequirements
    mode: Mode = "auto"
    only: str = ""


class Finder:
    def __init__(
        self, registry: HostRegistry, prober: Prober, search: Search, dice: random.Random
    ) -> None:
        self._registry = registry
        self._prober = prober
        self._dice = dice
        self._resting: dict[str, float] = {}
        self.search = search

    async def find(self, *, measure: bool = False) -> FoundHosts:
        """Return the hosts that can be used, the best first; with `measure` those that answer."""
        search = self.search
        found = await self._registry.find(search.model, search.wishes, search.mode, search.only)
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
        return FoundHosts(rank(known, search.mode), tuple(excluded))

    async def order(self) -> list[HostCandidate]:
        """Return the hosts to try, in the order in which to try them."""
        found = await self.find(measure=self.search.mode == "fastest")
        if not found.candidates:
            raise NoHosts(
                f"none of the hosts of {self.search.model} can be used; {found.describe()}"
            )
        left, order = list(found.candidates), []
        while left:
            order.append(take(left, self._dice.random()))
        return sorted(order, key=lambda one: self._rests(one.address))

    async def answering(
        self, candidates: list[HostCandidate]
    ) -> tuple[list[HostCandidate], list[str]]:
        """Return the first host that answers and all behind it, and why those before it do not."""
        silent: list[str] = []
        for at, candidate in enumerate(candidates):
            try:
                await self._prober.latency(candidate.url)
            except HostSilent as error:
                silent.append(f"{candidate.address} at {candidate.url}: {error}")
                continue
            return candidates[at:], silent
        return [], silent

    def rest(self, address: str) -> None:
        """Put a host that failed behind all others for a while."""
        self._resting[address] = time.monotonic() + _REST

    async def has_other(self, address: str) -> bool:
        """Whether there is a host besides this one that has not failed lately."""
        return any(
            one.address != address and not self._rests(one.address)
            for one in (await self.find()).candidates
        )

    def _rests(self, address: str) -> bool:
        return self._resting.get(address, 0.0) > time.monotonic()
