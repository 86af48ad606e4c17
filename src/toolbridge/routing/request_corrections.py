"""The corrections of one request that its provider rejects.

`RequestCorrections` applies the corrections that are known for the model, and finds a new one in each
rejection. The new corrections are remembered when the provider accepts the corrected request, or when
its next rejection is about another field: then they have helped, even if the request fails in the
end. Translated requests and passthrough use it.
"""

from typing import NamedTuple

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, Problem
from toolbridge.policy.corrections import Correction, apply, field_of, loss_of
from toolbridge.policy.rejection_rules import find_corrections
from toolbridge.routing.learned_corrections import LearnedCorrections
from toolbridge.routing.providers import quirks_of_host
from toolbridge.routing.route import Route
from toolbridge.routing.sources import Batch, Source

MOST_PER_REQUEST = 8
_NO_ENDPOINT = frozenset({404, 405, 501})
_SHARED_QUIRKS = frozenset({"cache_retention", "user_field"})
"""Quirks of Chat Completions that the Responses API has too."""


class RequestCorrections:
    """The corrections of one request."""

    _problem: Problem | None = None
    """The rejection before, for which the last of the corrections was found."""
    _count = 0
    losses: tuple[Loss, ...] = ()
    """The report of another API."""
    _before: "_Rejected | None" = None
    found: tuple[tuple[Route, tuple[Correction, ...]], ...] = ()
    """Corrections that the provider has not confirmed yet, with their routes."""

    def __init__(self, learned: LearnedCorrections, route: Route) -> None:
        self._learned = learned
        self.route = route
        """The route that the request is sent to; it has another API if the model needs that."""
        self.active = learned.of(route)
        """The corrections of the body. Without them and `losses`, the request is sent as it is."""
        if self.active:
            self._change_api_if_learned()

    def _change_api_if_learned(self) -> None:
        for correction in self.active:
            if correction.kind == "api":
                self._change_api(correction)
                return

    def _change_api(self, correction: Correction) -> None:
        api = str(correction.values[0])
        why = (
            f"{self.route.address} needs {api}; the request was sent with it (set api = {api!r} "
            f"under [providers.{self.route.provider}])"
        )
        self.losses = (Loss("api", why),)
        self.route = _with_api(self.route, api)
        self.active = self._learned.of(self.route)
        self._change_api_if_learned()

    @property
    def known(self) -> tuple[Loss, ...]:
        """The reports of all corrections for the model, also of those that no request needs now."""
        return self.losses + tuple(loss_of(one, self.route.address) for one in self.active)

    def apply(self, body: JsonObject) -> tuple[JsonObject, tuple[Loss, ...]]:
        """Return `body` with the corrections, and the losses that report them."""
        if not self.active or self.route.is_demo or self.route.is_node:
            return body, self.losses
        done = apply(body, self.active, self.route.provider_config.api, self.route.address)
        return done.body, self.losses + done.losses

    def find(self, problem: Problem, body: JsonObject) -> bool:
        """Find the correction for a rejection of `body`; return whether there is a new one."""
        if self.route.is_demo or self.route.is_node:
            return False
        found = self._new(problem, body)
        if found and self._names_another(found, body):
            self._keep_confirmed()
        if self._count >= MOST_PER_REQUEST:
            return False
        if not found and self._before is not None and problem.status in _NO_ENDPOINT:
            found = self._back(self._before)
        if not found:
            return False
        self._count += 1
        self._problem = problem
        self.found += ((self.route, found),)
        self.active += found
        if found[0].kind == "api":
            self._before = _Rejected(self.route, self.active, problem, body)
            self._change_api(found[0])
        return True

    def _new(self, problem: Problem, body: JsonObject) -> tuple[Correction, ...]:
        return find_corrections(problem, body, self.route.provider_config.api, self.active)

    def _names_another(self, found: tuple[Correction, ...], body: JsonObject) -> bool:
        """Return whether a rejection is about other fields than the one before it.

        A text that names several fields may come again unchanged, and then the correction of the
        first has not helped.
        """
        if not self.found or self._problem is None or self._new(self._problem, body) == found:
            return False
        before = {field_of(correction) for correction in self.found[-1][1]}
        return before.isdisjoint(map(field_of, found))

    def _keep_confirmed(self) -> None:
        """Remember the corrections that have changed the rejection.

        Another API is remembered only when it has answered: until then the provider may lack it.
        """
        for route, corrections in self.found:
            if corrections[0].kind != "api":
                self._learned.add(route, corrections)
        self.found = tuple(one for one in self.found if one[1][0].kind == "api")

    def _back(self, before: "_Rejected") -> tuple[Correction, ...]:
        """Return to the API before; the provider does not have the other one."""
        self._before = None
        self.losses = ()
        self.found = tuple(one for one in self.found if one[1][0].kind != "api")
        self.route = before.route
        self.active = before.active
        return self._new(before.problem, before.body)

    def confirming(self, source: Source) -> Source:
        """Return `source`; if it is accepted, the new corrections are remembered."""
        return _ConfirmingSource(source, self) if self.found else source

    def accepted(self) -> None:
        """Remember the new corrections: the provider has accepted the request."""
        for route, corrections in self.found:
            self._learned.add(route, corrections)
        self.found = ()


class _Rejected(NamedTuple):
    """A request that was rejected because of its API."""

    route: Route
    active: tuple[Correction, ...]
    problem: Problem
    body: JsonObject


class _ConfirmingSource:
    """A source that reports its first events to the corrections of the request."""

    def __init__(self, source: Source, corrections: RequestCorrections) -> None:
        self._source = source
        self._corrections = corrections
        self.passing = False

    async def read(self) -> Batch | None:
        batch = await self._source.read()
        self.passing = self._source.passing
        # OpenRouter reports the rejection of the provider behind it as the first event of a stream.
        if not any(isinstance(event, ev.Failed) for event in batch or ()):
            self._corrections.accepted()
        return batch

    async def close(self) -> None:
        await self._source.close()


def _with_api(route: Route, api: str) -> Route:
    """Return `route` with another API of the same provider; only quirks that both have are kept."""
    config = msgspec.structs.replace(route.provider_config, api=api, quirks={})
    shared = {name: value for name, value in route.target.quirks.items() if name in _SHARED_QUIRKS}
    target = msgspec.structs.replace(route.target, quirks={**quirks_of_host(config), **shared})
    return msgspec.structs.replace(route, provider_config=config, target=target)
