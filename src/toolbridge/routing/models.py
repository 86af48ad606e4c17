"""Routes: which provider serves a model name, and with which capabilities.

`ModelRoutes` answers three questions for the gateway, the SDK and the commands: where a request
for a name goes (`route`), which models can be used (`listed`), and what is wrong with the
configured names (`problems`). Names are resolved in `model_names.py`, the providers' own lists come
from `model_lists.py` and the default model from `discovery.py`.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic

import msgspec

from toolbridge.config import Config, ProviderConfig, secret
from toolbridge.core.errors import ToolbridgeError, UnknownModel
from toolbridge.policy.model_facts import JoinedFacts
from toolbridge.policy.model_name import check_model_name
from toolbridge.policy.models import CLAUDE, split_address
from toolbridge.routing.capabilities import (
    LiveModel,
    facts_of,
    of_engine,
    of_ollama,
    shown_window,
    target_of,
)
from toolbridge.routing.discovery import Discovery
from toolbridge.routing.model_lists import LIST_WAIT, ModelLists
from toolbridge.routing.model_names import ModelNames
from toolbridge.routing.nodes import NODE, model_of, short_name
from toolbridge.routing.providers import OLLAMA, config_for, find_providers, is_vendor_host
from toolbridge.routing.route import Route, in_api
from toolbridge.upstream.cloud_endpoint import CloudEndpoint
from toolbridge.upstream.engine_facts import EngineModel
from toolbridge.upstream.http import Upstream

__all__ = ["CLAUDE", "ListedModel", "ModelRoutes"]

CHAT = "chat"
EMBEDDING = "embedding"
ROUTES_KEPT = 30.0
"""Seconds for which a route is cached, before its provider is asked for the model's details again."""
_MAX_ROUTES = 256
"""Cached routes; a client may send any number of different names."""
_TARGET = "\0"
"""Begins the keys of rules' targets among the cached chains; no client's name contains it."""


class ListedModel(msgspec.Struct, frozen=True):
    """A model that clients can use."""

    id: str
    address: str
    window: int = 0
    kind: str = CHAT
    """`chat`, or `embedding` for a model that cannot chat."""
    facts: JoinedFacts = JoinedFacts()


class ModelRoutes:
    """The providers and models of one gateway or client."""

    def __init__(
        self, config: Config, upstream: Upstream, env: Mapping[str, str] = os.environ
    ) -> None:
        self._config = config
        self._env = env
        self.provider_configs = find_providers(config, env)
        """Every provider: the configured ones, then the built-in ones."""
        self._lists = ModelLists(self.provider_configs, upstream, env)
        self._lists.on_change = self._lists_changed
        self._discovery = Discovery(config, self.provider_configs, self._lists)
        self._names = ModelNames(config, self.provider_configs, self._discovery, env)
        self._has_default = "default" in config.map
        self._chains: dict[str, tuple[float, tuple[str, ...], bool]] = {}
        """Name → the time, the addresses that it means, and whether a later default may change them."""
        self._routes: dict[str, tuple[float, Route]] = {}
        """Address → the time and its route."""
        self._pinned: dict[str, Route] = {}
        self._pinned_chains: dict[str, tuple[str, ...]] = {}
        self._upstream = upstream
        self._endpoints: dict[str, CloudEndpoint | None] = {}
        """Provider in a cloud → its endpoint, which keeps the credentials."""

    async def discover(self) -> None:
        """Find the default model: the configured one, else the first that a provider offers."""
        if self._has_default:
            if not self._names.is_direct("default"):
                await self._lists.ask_all(self._listing_providers())
            self._discovery.use_configured(self._names.configured_default())
        elif await self._discovery.discover():
            self._forget_routes()

    async def _rediscover(self) -> None:
        """Search again at intervals while only the demo model can answer."""
        if not self._has_default and await self._discovery.rediscover():
            self._forget_routes()

    def close(self) -> None:
        """End all questions to providers."""
        self._lists.close()

    def _lists_changed(self) -> None:
        self._forget_routes()
        self._discovery.search_soon()

    def _forget_routes(self) -> None:
        self._chains.clear()
        self._routes.clear()

    @property
    def default(self) -> str:
        """The address of the default model; empty without one."""
        return self._discovery.found.default

    @property
    def found(self) -> str:
        """How the default model was found, for the banner."""
        return self._discovery.found.how

    async def route(self, name: str) -> Route:
        """Return the first route of a request for model `name`; raise `UnknownModel` without one."""
        return await self.first_route(await self.addresses(name))

    async def first_route(self, addresses: Sequence[str]) -> Route:
        """Return the route of the first address that can be used; raise the first error."""
        first: ToolbridgeError | None = None
        for address in addresses:
            try:
                return await self.route_at(address)
            except ToolbridgeError as error:
                first = first or error
        raise first or UnknownModel("there is no address to send the request to", where="model")

    async def addresses(self, name: str) -> tuple[str, ...]:
        """Return the addresses that `name` means, in the order in which they are tried."""
        if (pinned := self._pinned_chains.get(name)) is not None:
            return pinned
        kept = self._chains.get(name)
        recent = kept is not None and monotonic() - kept[0] < ROUTES_KEPT
        if kept is not None and recent and not (kept[2] and self._discovery.is_provisional):
            return kept[1]
        check_model_name(name)
        return await self._chain(name, (name,), lambda: self._names.resolve_chain(name))

    async def target_addresses(self, values: Sequence[str]) -> tuple[str, ...]:
        """Return the addresses of a rule's targets, which are read like values of the map."""
        key = _TARGET.join(("", *values))
        return await self._chain(key, values, lambda: self._names.resolve_targets(values))

    async def _chain(
        self, key: str, names: Sequence[str], resolve: Callable[[], tuple[str, ...]]
    ) -> tuple[str, ...]:
        listed = [name for name in names if not self._names.is_direct(name)]
        if listed:
            await self._rediscover()
        now = monotonic()
        kept = self._chains.get(key)
        if kept is not None and now - kept[0] < ROUTES_KEPT:
            return kept[1]
        if listed:
            known = kept is not None or all(map(self._names.is_known, listed))
            await self._lists.ask_all(self._listing_providers(), new_only=known)
        chain = await self._resolved(resolve)
        if len(self._chains) > _MAX_ROUTES:
            self._chains.clear()
        self._chains[key] = (now, chain, bool(listed) and not self._has_default)
        return chain

    async def _resolved(self, resolve: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Resolve a name; an unknown one waits for the lists that are asked for at this moment."""
        try:
            return resolve()
        except UnknownModel:
            searched = await self._discovery.end_search()
            if not await self._lists.settle() and not searched:
                raise
        await self._rediscover()
        return resolve()

    async def route_at(self, address: str) -> Route:
        """Return the route of an address; raise `UnknownModel` if it cannot be used."""
        if (pinned := self._pinned.get(address)) is not None:
            return pinned
        now = monotonic()
        kept = self._routes.get(address)
        if kept is not None and now - kept[0] < ROUTES_KEPT:
            return kept[1]
        self._names.check_key(address)
        route = await self._find(address)
        if len(self._routes) > _MAX_ROUTES:
            self._routes.clear()
        self._routes[address] = (now, route)
        return route

    def address(self, name: str) -> str:
        """Return the first address that `name` means, without a request to any provider."""
        check_model_name(name)
        kept = self._chains.get(name)
        if kept is not None and len(kept[1]) == 1:
            route = self._routes.get(kept[1][0])
            return route[1].address if route else kept[1][0]
        try:
            return self._names.resolve(name)
        except UnknownModel:  # it may be in a list that was not fetched yet
            return name

    def pin(self, name: str, routes: Sequence[Route]) -> None:
        """Use the chain `routes` for `name` from now on, without asking any provider."""
        self._pinned_chains[name] = tuple(route.address for route in routes)
        self._pinned |= {route.address: route for route in routes}

    def explain_name(self, name: str) -> str:
        """Return the rule by which `name` is resolved, as the lists of models are now."""
        return self._names.explain(name)

    async def _find(self, address: str) -> Route:
        provider, _, model = address.partition("/")
        provider_config = config_for(self.provider_configs[provider], model)
        if provider_config.api == NODE:
            model = _node_model(provider, provider_config, model)
        settings = self._names.settings(provider, model)
        live = await self._live(provider, model)
        facts = facts_of(provider, provider_config, model, settings, live)
        route = Route(
            provider=provider,
            provider_config=provider_config,
            # A wallet's key is never part of a request, so a route does not carry it.
            key="" if provider_config.api == NODE else secret(provider_config.key, self._env),
            target=target_of(provider, provider_config, model, settings, facts),
            settings=settings,
            facts=facts,
            engine=live.engine,
            template=live.template,
            slots=live.slots,
            endpoint=self._endpoint(provider) if provider_config.cloud else None,
        )
        others = {api: in_api(route, api) for api in provider_config.other_apis}
        return msgspec.structs.replace(route, others=others) if others else route

    def _endpoint(self, provider: str) -> CloudEndpoint | None:
        """Return the endpoint of a provider in a cloud, whose code is loaded when it is first used."""
        if provider not in self._endpoints:
            from toolbridge.upstream.clouds.endpoint import open_endpoint

            config = self.provider_configs[provider]
            self._endpoints[provider] = open_endpoint(provider, config, self._upstream, self._env)
        return self._endpoints[provider]

    async def _live(self, provider: str, model: str) -> LiveModel:
        """Return what the provider reports about a model; nothing for one that is not asked."""
        if self.provider_configs[provider].api == OLLAMA:
            return await self._shown(provider, model)
        if not self._lists.asks_engine(provider):
            return self._last_report(provider, model)
        server = self._lists.engine(provider)
        if server.last.answered or server.silence.lasts:
            self._lists.renew(provider)
        found = await server.find(model)
        return of_engine(found, server.last.engine)

    def _last_report(self, provider: str, model: str) -> LiveModel:
        """Return what the provider last reported about a model, without a request to it."""
        known = provider in self.provider_configs
        if not known or not self._lists.has_list(provider):
            return LiveModel()
        last = self._lists.engine(provider).last
        return of_engine(last.find(model), last.engine)

    async def _shown(self, provider: str, model: str) -> LiveModel:
        try:
            return of_ollama(await self._lists.catalog(provider).show(model))
        except UnknownModel:
            raise UnknownModel(
                f"{provider} has no model {model!r}. Fetch it with `ollama pull {model}`, or list "
                "the models there are with `toolbridge models`.",
                where="model",
            ) from None
        except ToolbridgeError:
            return LiveModel()  # the request itself will fail with the reason

    def _listing_providers(self) -> list[str]:
        """Return the servers of the user, whose models can be named without the provider."""
        return [*self._names.ollama_providers(), *self._names.local_providers()]

    async def problems(self) -> list[str]:
        """Return what is wrong with the models that the map names, one line each."""
        await self._lists.ask_all(self._names.ollama_providers())
        found: list[str] = []
        for name in self._config.map:
            try:
                chain = self._names.resolve_chain(name)
            except UnknownModel as error:
                found.append(f"{name}: {error.problem.text}")
                continue
            found += [f"{name}: {why}" for address in chain if (why := self._trouble(address))]
        found += [
            line for where, target in self._other_targets() if (line := self._bad(where, target))
        ]
        named = " ".join(found)
        return found + [line for line in self._names.keyless() if line.split()[0] not in named]

    def _other_targets(self) -> Iterator[tuple[str, str]]:
        """Yield the targets of rules and the model that describes images, each with its place."""
        for number, rule in enumerate(self._config.routes, 1):
            yield from ((f"routes.{number}", target.model) for target in rule.targets)
        if self._config.describe_images:
            yield "describe_images", self._config.describe_images

    def _bad(self, where: str, target: str) -> str:
        try:
            self._names.resolve_targets((target,))
        except UnknownModel as error:
            return f"{where}: {error.problem.text}"
        return ""

    def _trouble(self, address: str) -> str:
        """Return why an address of the map cannot be used; empty if nothing is known against it."""
        provider, _, model = address.partition("/")
        try:
            self._names.check_key(address)
        except UnknownModel as error:
            return error.problem.text
        ollama = self.provider_configs[provider].api == OLLAMA
        return self._missing_model(provider, model) if ollama else ""

    def _missing_model(self, provider: str, model: str) -> str:
        """Return why an Ollama server cannot serve `model`; empty if it can."""
        if (names := self._lists.names.get(provider)) is None:
            url = self.provider_configs[provider].url
            return f"{provider} does not answer at {url}; start it with `ollama serve`"
        if {model, f"{model}:latest"} & set(names):
            return ""
        return f"{provider} has no model {model!r}; fetch it with `ollama pull {model}`"

    async def listed(self, kind: str = CHAT) -> list[ListedModel]:
        """Return the models of a kind: the names in the map first, then each provider's own."""
        await self._rediscover()
        ollamas, others = self._names.ollama_providers(), self._names.list_providers()
        await self._lists.settle((*ollamas, *others), wait=LIST_WAIT)
        offered, served = await self._offered(ollamas), self._served(others)
        found: dict[str, ListedModel] = {}
        for name in self._config.map:
            if name != "default" and "*" not in name:
                found[name] = self._entry(name, self.address(name))
        for address in self._config.models:
            found.setdefault(address, self._entry(address, address))
        for name, address in self._names.node_models():
            found.setdefault(name, self._entry(name, address))
        for model in offered:
            found.setdefault(model.id, model)
        if self.default and not self._default_is_listed(found):
            model_name = self.default.partition("/")[2]
            found.setdefault(model_name, self._entry(model_name, self.default))
        for model in served:
            found.setdefault(model.id, model)
        return [model for model in found.values() if model.kind == kind]

    async def _offered(self, providers: Sequence[str]) -> list[ListedModel]:
        """Return the models of Ollama servers; all are asked for the details at once."""
        lists = await asyncio.gather(*map(self._lists.offered, providers))
        found: list[ListedModel] = []
        for provider, models in zip(providers, lists, strict=True):
            for model in models:
                kind = EMBEDDING if model.embeds else CHAT
                live = of_ollama(model.shown)
                entry = self._entry(model.name, f"{provider}/{model.name}", live)
                found.append(msgspec.structs.replace(entry, kind=kind))
        return found

    def _served(self, providers: Sequence[str]) -> list[ListedModel]:
        """Return the models that other providers have listed."""
        found: list[ListedModel] = []
        for provider in providers:
            report = self._lists.engine(provider).last
            models = dict(report.models)
            if not models and is_vendor_host(self.provider_configs[provider]):
                from toolbridge.policy.model_table import known_names

                models = dict.fromkeys(known_names(provider), EngineModel())
            for model, known in models.items():
                if not model:
                    continue
                address = f"{provider}/{model}"
                entry = self._entry(address, address, of_engine(known, report.engine))
                kind = EMBEDDING if known.embeds else CHAT
                found.append(msgspec.structs.replace(entry, kind=kind))
        return found

    def _default_is_listed(self, found: Mapping[str, ListedModel]) -> bool:
        """Return whether the default is listed already under the short name of a node's model."""
        provider = self.default.partition("/")[0]
        at = self.provider_configs.get(provider, ProviderConfig())
        return at.api == NODE and any(m.address == self.default for m in found.values())

    def _entry(self, id: str, address: str, live: LiveModel | None = None) -> ListedModel:
        """Return a model with what is known about it, without a request to its provider."""
        provider, model = split_address(address, self.provider_configs)
        provider_config = self.provider_configs.get(provider, ProviderConfig())
        settings = self._names.settings(provider, model)
        live = live or self._last_report(provider, model)
        facts = facts_of(provider, provider_config, model, settings, live)
        window = shown_window(provider_config, facts)
        return ListedModel(id, address, window, facts=facts)


def _node_model(provider: str, provider_config: ProviderConfig, model: str) -> str:
    """Return the model that a node provider serves; raise `UnknownModel` for any other."""
    own = model_of(provider_config)
    if model.lower() in {own.lower(), short_name(own).lower()}:
        return own
    raise UnknownModel(f"{provider} has no model {model!r}; its hosts serve {own}", where="model")
