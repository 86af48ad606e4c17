"""The router of one gateway or client.

It combines the routes of all models, the open connections and the calibrated token counts. For a
request it counts the tokens, checks them against the model's context window, and returns the
attempts that produce the answer.
"""

import asyncio
import os
from collections.abc import Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from toolbridge.accounting.calibrate import LEAST_SHARE, Calibration
from toolbridge.accounting.count import count_simply, estimate_request
from toolbridge.config import Config, ProviderConfig
from toolbridge.core.errors import ConfigError, ToolbridgeError, Unsupported
from toolbridge.core.messages import Loss, Message, Request
from toolbridge.core.steps import Steps
from toolbridge.core.usage import Usage
from toolbridge.policy.limits import check_window, was_truncated
from toolbridge.policy.routing_rules import has_images
from toolbridge.routing.attempts import AnswerAttempts, Pause
from toolbridge.routing.charge import InnerCharges, RequestSize
from toolbridge.routing.counting import ProviderCounts
from toolbridge.routing.exchange_trace import ExchangeTrace
from toolbridge.routing.failover import AnswerChain, FindAddresses, OpenAttempts
from toolbridge.routing.models import ModelRoutes
from toolbridge.routing.provider_health import ProviderHealth
from toolbridge.routing.providers import config_for, is_first_party
from toolbridge.routing.route import Route
from toolbridge.routing.rules import RuleRoutes
from toolbridge.routing.sources import ProviderConnections
from toolbridge.routing.tool_modes import ToolModes
from toolbridge.routing.translated import ClientSide, OnLosses, TranslatedRequest, ignore_losses
from toolbridge.translate import RequestOptions
from toolbridge.upstream.http import Upstream

if TYPE_CHECKING:
    from toolbridge.routing.image_describer import ImageDescriber
    from toolbridge.routing.server_slots import ServerSlots, SlotPin

Counting: TypeAlias = Literal["auto", "words4", "chars4"]
"""The values of the setting `counting`."""
Accuracy: TypeAlias = Literal["exact", "calibrated", "estimated", "words4", "chars4"]
"""The values of the header `x-toolbridge-token-count`."""
_FAMILIES = {"anthropic": "anthropic", "gemini": "gemini", "openai_responses": "openai"}
"""API → tokenizer family. OpenAI chat is not listed: most of its servers run other models."""
_MOST_COUNTED = 1000
"""Addresses whose settings for counting are kept: clients may name any number of models."""
SENTINEL_DIALECT = frozenset({"toolforge_sentinel"})
"""The dialect of our sentinels; a structured stream parses these itself, in `structured/`."""


class TokenCount(msgspec.Struct, frozen=True):
    """The input tokens of a request."""

    tokens: int
    """The best estimate, by which limits are checked."""
    raw: int
    """The estimate before calibration."""
    shown: int
    """The count that clients get, by the provider's setting `counting`."""
    accuracy: Accuracy
    """How `shown` was counted."""
    sure: bool = False
    """Whether `tokens` was calibrated by usage of this model."""


class Router:
    """Routes, connections and token counts of one gateway or client."""

    def __init__(
        self, config: Config, upstream: Upstream, env: Mapping[str, str] = os.environ
    ) -> None:
        self.config = config
        self._env = env
        self.upstream = upstream
        self.sources = ProviderConnections(upstream, env)
        self.model_routes = ModelRoutes(config, upstream, env)
        self.rules = RuleRoutes(config.routes, self.model_routes, estimate_request)
        self.tool_modes = ToolModes()
        self.health = ProviderHealth()
        self._describer = self._open_describer() if config.describe_images else None
        self._slots: ServerSlots | None = None
        self.calibration = Calibration()
        self._provider_counts = ProviderCounts(upstream)
        self._counting: dict[str, tuple[Counting, str]] = {}
        """Address → how the tokens of its requests are counted (`_count_settings`)."""
        self.pause: Pause = asyncio.sleep
        """Waits before a retry."""
        self.pinned_counts: dict[str, TokenCount] = {}
        """Address → the count of every request to it, in a replay."""

    def renewed(self, config: Config) -> "Router":
        """Return a router with other settings, and the connections and learned facts of this one."""
        router = copy(self)
        router.config = config
        router.model_routes = ModelRoutes(config, self.upstream, self._env)
        router.rules = RuleRoutes(config.routes, router.model_routes, estimate_request)
        router._describer = router._open_describer() if config.describe_images else None  # noqa: SLF001  its own class
        router._provider_counts = ProviderCounts(self.upstream)  # noqa: SLF001
        router._counting = {}  # noqa: SLF001
        return router

    def chain(
        self,
        name: str,
        open_attempts: OpenAttempts,
        caller: str = "",
        find: FindAddresses | None = None,
    ) -> AnswerChain:
        """Return the answer of the first model that gives one, of those that `name` means.

        `find` returns the addresses if the request itself selects them. Requests of the same
        `caller` wait in one line where a provider has `max_in_flight`.
        """
        find = find or partial(self.rules.addresses, Request(model=name))
        return AnswerChain(self.model_routes, self.health, find, open_attempts, caller)

    async def first_route(self, name: str, key: str = "") -> Route:
        """Return the route that a request for `name` is sent to first.

        `key` is the name of the caller's created key.
        """
        addresses = await self.rules.addresses(Request(model=name), key)
        for address in addresses if len(addresses) > 1 else ():
            if not self.health.passed_over(address):
                try:
                    return await self.model_routes.route_at(address)
                except ToolbridgeError:
                    continue
        return await self.model_routes.first_route(addresses)

    def count(self, request: Request, address: str) -> TokenCount:
        """Return the input tokens of `request` for a model, without asking its provider."""
        counting, family = self._counting.get(address) or self._count_settings(address)
        raw = estimate_request(request, family=family)
        tokens, accuracy = self.calibration.apply(address, raw)
        sure = accuracy == "calibrated"
        if counting == "auto":
            return TokenCount(tokens, raw, tokens, accuracy, sure)
        return TokenCount(tokens, raw, count_simply(request, counting), counting, sure)

    def _count_settings(self, address: str) -> tuple[Counting, str]:
        """Return the setting `counting` and the tokenizer family of a model, and keep both."""
        provider_config = self._provider_config(address)
        if len(self._counting) >= _MOST_COUNTED:
            self._counting.clear()
        found = self._counting[address] = (provider_config.counting, _family(provider_config))
        return found

    async def address(
        self, request: Request, client_headers: Mapping[str, str], key: str = ""
    ) -> str:
        """Return the address of the model for `request`, without asking a provider if possible."""
        if not self.config.routes:
            return self.model_routes.address(request.model)
        return (await self.rules.choose(request, client_headers, key)).addresses[0]

    async def count_exactly(
        self, request: Request, address: str, headers: Mapping[str, str]
    ) -> int | None:
        """Return the provider's own count; None where it has none or `counting` is not `auto`."""
        provider_config = self._provider_config(address)
        may_count = self._provider_counts.may_count(address, provider_config.api)
        if provider_config.counting != "auto" or not may_count:
            return None
        try:
            name = address if self.config.routes else request.model
            route = await self.model_routes.route(name)
        except ToolbridgeError:  # such as a missing key, which the request for an answer reports
            return None
        options = self._options(request, route, 0, attaches=True)
        return await self._provider_counts.count(request, route, options, headers)

    def _provider_config(self, address: str) -> ProviderConfig:
        name, _, model = address.partition("/")
        return config_for(self.model_routes.provider_configs.get(name, ProviderConfig()), model)

    def admit(self, request: Request, route: Route) -> TokenCount:
        """Return the token count; raise `Overflow` if `request` exceeds the context window."""
        if (pinned := self.pinned_counts.get(route.address)) is not None:
            return pinned
        counted = self.count(request, route.address)
        # Calibration may lower an estimate, but not so far that this check never applies.
        size = max(counted.tokens, round(counted.raw * LEAST_SHARE))
        if size > route.target.window:
            check_window(size, route.target.window, sure=counted.sure)
        return counted

    def counting(self, request: Request, address: str) -> Steps[int]:
        """Return the steps that count the tokens of a large request, before `admit` or `count`."""
        _, family = self._count_settings(address)
        return estimate_request.steps(request, family=family)

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
        client = client or ClientSide(losses=on_losses)
        options = self._options(request, route, tokens, attaches=attaches)
        sendable = self._translated(request, route, options, client)
        sendable.prepare()
        return AnswerAttempts(sendable, client.trace or ExchangeTrace(), self.pause)

    def sendable(
        self, request: Request, route: Route, tokens: int, *, attaches: bool, client: ClientSide
    ) -> TranslatedRequest:
        """Return the request for `route`, which its `preparing` has to translate."""
        options = self._options(request, route, tokens, attaches=attaches)
        return self._translated(request, route, options, client)

    def structured_attempts(
        self, request: Request, route: Route, tokens: int, client: ClientSide
    ) -> AnswerAttempts:
        """Return the attempts for a structured stream, which parses its sentinels itself."""
        options = self._options(request, route, tokens, ignored=SENTINEL_DIALECT)
        sendable = self._translated(request, route, options, client)
        sendable.prepare()
        return AnswerAttempts(sendable, client.trace or ExchangeTrace(), self.pause)

    def _options(
        self,
        request: Request,
        route: Route,
        tokens: int,
        *,
        attaches: bool = False,
        ignored: frozenset[str] = frozenset(),
    ) -> RequestOptions:
        settings, tools = route.settings, request.tools
        return RequestOptions(
            thinking=self.config.thinking,
            attaches=attaches,
            sequential=settings.sequential_tools,
            prompt_tokens=tokens,
            dialect=settings.dialect,
            ignored=ignored,
            tool_mode=self.tool_modes.mode(request, route),
            constraint=route.constraint if tools else "",
            tagged_calls=bool(tools) and route.tags_calls and self.tool_modes.tags_calls(route),
        )

    def _translated(
        self, request: Request, route: Route, options: RequestOptions, client: ClientSide
    ) -> TranslatedRequest:
        own = route.settings.heal
        heal = self.config.heal if own is None else own
        if route.slots > 1:
            client = msgspec.structs.replace(client, pin=self._pin(request, route, client))
        if self._describer is not None:
            client = msgspec.structs.replace(client, describer=self._describer)
        if request.tools:
            client = msgspec.structs.replace(client, tools=partial(self.tool_modes.note, route))
        return TranslatedRequest(self.sources, route, request, options, heal=heal, client=client)

    def _open_describer(self) -> "ImageDescriber":
        from toolbridge.routing.image_describer import ImageDescriber

        return ImageDescriber(self.config.describe_images, self._describing_route, self._ask)

    def _pin(self, request: Request, route: Route, client: ClientSide) -> "SlotPin | None":
        """Return the pin of a request to a server with several slots."""
        if self._slots is None:
            from toolbridge.routing.server_slots import ServerSlots

            self._slots = ServerSlots()
        return self._slots.pin(request, route, client.routing)

    async def _describing_route(self) -> Route:
        found = await self.model_routes.target_addresses((self.config.describe_images,))
        route = await self.model_routes.first_route(found)
        if not route.target.can("vision"):
            raise ConfigError(f"{route.address} accepts no images", where="describe_images")
        return route

    async def _ask(self, route: Route, request: Request) -> Message:
        """Return the answer to a request of the gateway itself."""
        options = self._options(request, route, 0, attaches=True)
        lost: list[Loss] = []
        client = ClientSide(losses=lost.extend)
        asked = TranslatedRequest(self.sources, route, request, options, heal=0, client=client)
        asked.prepare()
        if dropped := [loss for loss in lost if loss.what.startswith("turns")]:
            # Without the image, the model would describe something that it has not seen.
            raise Unsupported(f"{route.address} does not accept it: {dropped[0].why}")
        return await AnswerAttempts(asked).message()

    async def ask_searcher(
        self, model: str, request: Request, meter: InnerCharges | None
    ) -> Message:
        """Return the answer of a model that searches the web itself; raise for any other model.

        `meter` is asked whether the caller may use the model, and charges it.
        """
        found = await self.model_routes.target_addresses((model,))
        route = await self.model_routes.first_route(found)
        if "web_search" not in route.target.server_tools:
            text = f"{route.address} does not search the web; choose a model whose provider does"
            raise ConfigError(text, where="server_tools.web_search.model")
        attempts = self.attempts(request, route, attaches=True)
        if meter is None:
            return await attempts.message()
        meter.permit(route.address)
        size = RequestSize(self.count(request, route.address).tokens, request.max_tokens)
        async with meter.call(route, size) as charge:
            message = charge.message = await attempts.message()
        return message

    def describes(self, request: Request, route: Route) -> bool:
        """Return whether the images of `request` are described for its model."""
        if self._describer is None or route.target.can("vision"):
            return False
        return has_images(request)

    async def close(self) -> None:
        """Close the connections to nodes; the owner of `upstream` closes that."""
        self.model_routes.close()
        await self.tool_modes.close()
        await self.sources.close()

    def learn(self, usage: Usage, counted: TokenCount, route: Route) -> tuple[Loss, ...]:
        """Calibrate with the provider's count; return the loss if it truncated the prompt."""
        actual = usage.input_total
        if not actual:
            return ()
        if was_truncated(counted.tokens, actual, route.target.window):
            why = f"{route.provider} cut it to {actual} of about {counted.tokens} tokens"
            return (Loss("prompt", why),)
        self.calibration.learn(route.address, counted.raw, actual)
        return ()


def _family(provider_config: ProviderConfig) -> str:
    if provider_config.api == "openai_chat" and is_first_party(provider_config):
        return "openai"
    return _FAMILIES.get(provider_config.api, "")
