"""Applies the rules of `[[routes]]` to requests.

`RuleRoutes` returns the route of a request: that of the first rule that matches, or the route of
the model's name. Without rules a request is not examined. The conditions are in
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
    weighted_choice,
)
from toolbridge.policy.session_key import session_key
from toolbridge.routing.models import ModelRoutes, Route

NO_HEADERS: Mapping[str, str] = {}


class ChosenRoute(msgspec.Struct, frozen=True):
    """The route of a request, and the rule that selected it."""

    route: Route
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
        self, request: Request, headers: Mapping[str, str] = NO_HEADERS
    ) -> ChosenRoute:
        """Return the route of `request`; `headers` are the client's, with names in lower case."""
        if not self._rules:
            return ChosenRoute(await self._model_routes.route(request.model))
        tokens = self._estimate(request) if self._counts else 0
        traits = traits_of(request, headers, tokens)
        return await self._first(self._rules, traits, session_key(request, headers))

    async def _first(
        self, rules: Sequence[tuple[int, RoutingRule]], traits: RequestTraits, session: str
    ) -> ChosenRoute:
        for position, (number, rule) in enumerate(rules):
            if not matches(rule, traits):
                continue
            if _needs_vision_only(rule, traits):
                # Images stay with a model that is known to accept them.
                other = await self._first(rules[position + 1 :], traits, session)
                if other.route.target.can("vision", unknown=False):
                    return other
            model = weighted_choice(rule.targets, session)
            route = await self._model_routes.route_to(model)
            return ChosenRoute(route, f"{number} ({rule.describe()})")
        return ChosenRoute(await self._model_routes.route(traits.model))


def _needs_vision_only(rule: RoutingRule, traits: RequestTraits) -> bool:
    """Return whether `rule` matches because of the images of the request and nothing else."""
    return "images" in rule.tasks and not matches(
        rule, msgspec.structs.replace(traits, images=False)
    )
