"""The router of one gateway or client.

It combines the routes of all models, the open connections and the calibrated token counts. For a
request it counts the tokens, checks them against the model's context window, and returns the
attempts that produce the answer.
"""

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
from toolbridge.routing.translated import ClientSide, OnLosses, TranslatedRequest, ignore_losses
from toolbridge.translate import RequestOptions
from toolbridge.upstream.http import Upstream

SENTINEL_DIALECT = frozenset({"toolforge_sentinel"})
"""The dialect of our sentinels; a structured stream parses these itself, in `structured/`."""


class TokenCount(msgspec.Struct, frozen=True):
    """The number of input tokens of a request."""

    tokens: int
    raw: int
    """The estimate before calibration."""
    accuracy: str


class Router:
    """Routes, connections and token counts of one gateway or client."""

    def __init__(
        self, config: Config, upstream: Upstream, env: Mapping[str, str] = os.environ
    ) -> None:
        self.config = config
        self.upstream = upstream
        self.sources = ProviderConnections(upstream, env)
        self.model_routes = ModelRoutes(config, upstream, env)
        self._calibration = Calibration()

    def count(self, request: Request, address: str) -> TokenCount:
        """Return the number of input tokens, by an estimate calibrated for the model."""
        raw = estimate_request(request)
        tokens, accuracy = self._calibration.apply(address, raw)
        return TokenCount(tokens, raw, accuracy)

    def admit(self, request: Request, route: Route) -> TokenCount:
        """Return the token count; raise `Overflow` if `request` exceeds the context window."""
        counted = self.count(request, route.address)
        # Calibration may lower an estimate, but not so far that this check never applies.
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
        on_losses: OnLosses = ignore_losses,
        client: ClientSide | None = None,
    ) -> AnswerAttempts:
        """Return the attempts to answer `request`; nothing is sent before they are read.

        `on_losses` is called with what the provider's API cannot express.
        """
        options = self._options(route, tokens, attaches=attaches)
        return self._attempts(request, route, options, client or ClientSide(losses=on_losses))

    def structured_attempts(
        self, request: Request, route: Route, tokens: int, on_losses: OnLosses
    ) -> AnswerAttempts:
        """Return the attempts for a structured stream, which parses its sentinels itself."""
        options = self._options(route, tokens, ignored=SENTINEL_DIALECT)
        return self._attempts(request, route, options, ClientSide(losses=on_losses))

    def _options(
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
        self, request: Request, route: Route, options: RequestOptions, client: ClientSide
    ) -> AnswerAttempts:
        own = route.settings.heal
        heal = self.config.heal if own is None else own
        return AnswerAttempts(
            TranslatedRequest(self.sources, route, request, options, heal=heal, client=client)
        )

    async def close(self) -> None:
        """Close the connections to nodes; the owner of `upstream` closes that."""
        await self.sources.close()

    def learn(self, usage: Usage, counted: TokenCount, route: Route) -> tuple[Loss, ...]:
        """Calibrate with the provider's count; return the loss if it truncated the prompt."""
        actual = usage.input_total
        if not actual:
            return ()
        if was_truncated(counted.tokens, actual, route.target.window):
            why = f"{route.provider} cut it to {actual} of about {counted.tokens} tokens"
            return (Loss("prompt", why),)
        self._calibration.learn(route.address, counted.raw, actual)
        return ()
