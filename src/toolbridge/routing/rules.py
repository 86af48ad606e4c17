"""Applies the rules of `[[routes]]` to requests.

`RuleRoutes` returns the models for a request: those of the first rule that matches, or those of the
model's name. Without rules a request is not examined. The conditions are in
`policy/routing_rules.py`.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from toolbridge.core.messages import Request
from toolbridge.policy.routing_rules import (
    RequestTraits,
    RoutingRule,
    matches,
    traits_of,
)
from toolbridge.policy.session_key import session_key
from toolbridge.routing.models import ModelRoutes

NO_HEADERS: Mapping[str, str] = {}


class ChosenModels(msgspec.Struct, frozen=True):
    """The addresses for a request, and the rule that selected them."""

    addresses: tuple[str, ...]
    """In the order in which they are tried."""
    why: str = ""
    """The number and the conditions of the rule; empty if the model's name decided."""


class RuleRoutes:
    """The rules of one gateway or client."""

    def __init__(
        self,
        rules: Sequence[RoutingRule],
        model_routes: ModelRoutes,
        estimate: Callable[[Request], int],
    ) -> None:
        self._rules = tuple(enumerate(rules, 1))
        self._model_routes = model_routes
        self._estimate = estimate
        self._counts = any(rule.counts for rule in rules)

    async def choose(
        self, request: Request, headers: Mapping[str, str] = NO_HEADERS, key: str = ""
    ) -> ChosenModels:
        """Return the models for `request`.

        `headers` are the client's, with names in lower case; `key` is the name of its created key.
        """
        if not self._rules:
            return ChosenModels(await self._model_routes.addresses(request.model))
        tokens = self._estimate(request) if self._counts else 0
        traits = traits_of(request, headers, tokens, key)
        return await self._first(self._rules, traits, session_key(request, headers))

    async def addresses(self, request: Request, key: str = "") -> tuple[str, ...]:
        """Return the addresses for a request without headers, in order."""
        return (await self.choose(request, key=key)).addresses

    async def _first(
        self, rules: Sequence[tuple[int, RoutingRule]], traits: RequestTraits, session: str
    ) -> ChosenModels:
        for position, (number, rule) in enumerate(rules):
            if not matches(rule, traits):
                continue
            if _needs_vision_only(rule, traits):
                # Images stay with a model that is known to accept them.
                other = await self._first(rules[position + 1 :], traits, session)
                route = await self._model_routes.first_route(other.addresses)
                if route.target.can("vision", unknown=False):
                    return other
            found = await self._model_routes.target_addresses(rule.models_for(session))
            return ChosenModels(found, f"{number} ({rule.describe()})")
        return ChosenModels(await self._model_routes.addresses(traits.model))


def _needs_vision_only(rule: RoutingRule, traits: RequestTraits) -> bool:
    """Return whether `rule` matches because of the images of the request and nothing else."""
    return "images" in rule.tasks and not matches(
        rule, msgspec.structs.replace(traits, images=False)
    )
