"""One gateway's or client's view of all models: who serves, how much is asked, who answers."""

import os
from collections.abc import Mapping

import msgspec

from toolbridge.accounting.calibrate import LEAST_SHARE, Calibration
from toolbridge.accounting.count import estimate_request
from toolbridge.config import Config
from toolbridge.core.messages import Loss, Request
from toolbridge.core.usage import Usage
from toolbridge.policy.limits import check_window, was_truncated
from toolbridge.routing.attempts import AnswerAttempts
from toolbridge.routing.models import ModelRoutes, Route
from toolbridge.routing.sources import ProviderConnections
from toolbridge.routing.translated import ClientSide, Tell, TranslatedRequest, quiet
from toolbridge.translate import RequestOptions
from toolbridge.upstream.http import Upstream

SENTINEL_DIALECT = frozenset({"toolforge_sentinel"})
"""The dialect of our own sentinels: in a structured stream only its own grammar reads these."""


class TokenCount(msgspec.Struct, frozen=True):
    tokens: int
    raw: int
    """Before calibration: what the estimator said."""
    accuracy: str


class Router:
    def __init__(
        self, config: Config, upstream: Upstream, env: Mapping[str, str] = os.environ
    ) -> None:
        self.config = config
        self.upstream = upstream
        self.sources = ProviderConnections(upstream, env)
        self.model_routes = ModelRoutes(config, upstream, env)
        self._calibration = Calibration()

    def count(self, request: Request, address: str) -> TokenCount:
        """Return how many tokens `request` is to a model, as well as anybody here can tell."""
        raw = estimate_request(request)
        tokens, accuracy = self._calibration.apply(address, raw)
        return TokenCount(tokens, raw, accuracy)

    def admit(self, request: Request, route: Route) -> TokenCount:
        """Return how large `request` is; raise `Overflow` when it does not fit the model."""
        counted = self.count(request, route.address)
        # Calibration may sharpen an estimate, but never disarm this check.
        size = max(counted.tokens, round(counted.raw * LEAST_SHARE))
        check_window(size, route.target.window, sure=counted.accuracy != "estimated")
        return counted

    def attempts(
        self,
        request: Request,
        route: Route,
        tokens: int = 0,
        *,
        attaches: bool = False,
        tell: Tell = quiet,
        client: ClientSide | None = None,
    ) -> AnswerAttempts:
        """Return the answer to `request`, yet to be asked for; `tell` hears what gets lost."""
        wishes = self._wishes(route, tokens, attaches=attaches)
        return self._attempts(request, route, wishes, client or ClientSide(losses=tell))

    def structured_attempts(
        self, request: Request, route: Route, tokens: int, tell: Tell
    ) -> AnswerAttempts:
        """Return the answer to a request of a structured stream, which reads its sentinels itself."""
        wishes = self._wishes(route, tokens, ignored=SENTINEL_DIALECT)
        return self._attempts(request, route, wishes, ClientSide(losses=tell))

    def _wishes(
        self,
        route: Route,
        tokens: int,
        *,
        attaches: bool = False,
        ignored: frozenset[str] = frozenset(),
    ) -> RequestOptions:
        settings = route.settings
        return RequestOptions(
            thinking=self.config.thinking,
            attaches=attaches,
            sequential=settings.sequential_tools,
            prompt_tokens=tokens,
            dialect=settings.dialect,
            ignored=ignored,
        )

    def _attempts(
        self, request: Request, route: Route, wishes: RequestOptions, client: ClientSide
    ) -> AnswerAttempts:
        own = route.settings.heal
        heal = self.config.heal if own is None else own
        return AnswerAttempts(
            TranslatedRequest(self.sources, route, request, wishes, heal=heal, client=client)
        )

    async def close(self) -> None:
        """Close what was opened for answers; the upstream is its owner's to close."""
        await self.sources.close()

    def learn(self, usage: Usage, counted: TokenCount, route: Route) -> tuple[Loss, ...]:
        """Learn from the place's own count; return what of the prompt it has cut in silence."""
        actual = usage.input_total
        if not actual:
            return ()
        if was_truncated(counted.tokens, actual, route.target.window):
            why = f"{route.provider} cut it to {actual} of about {counted.tokens} tokens"
            return (Loss("prompt", why),)
        self._calibration.learn(route.address, counted.raw, actual)
        return ()
