"""Who serves what: a client's model name becomes a provider, a model there, and what it can do."""

import asyncio
import os
from collections.abc import Iterator, Mapping

import msgspec

from toolbridge import codecs
from toolbridge.config import Config, ModelConfig, ProviderConfig, secret
from toolbridge.core.codec import Codec, RequestEncoder, Target
from toolbridge.core.errors import ToolbridgeError, UnknownModel
from toolbridge.policy.model_name import check_model_name
from toolbridge.policy.models import CLAUDE, ModelFacts, resolve, split_address
from toolbridge.routing.capabilities import target_of, window_of
from toolbridge.routing.discovery import DEMO_ADDRESS, SLOW, DiscoveredModels, Discovery
from toolbridge.routing.nodes import NODE, NodeRequestEncoder, model_of, short_name
from toolbridge.routing.providers import DEMO, OLLAMA, find_providers, missing_key
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.ollama import ModelDetails

__all__ = ["CLAUDE", "ListedModel", "ModelRoutes", "Route"]

CHAT = "chat"
EMBEDDING = "embedding"
RETRIES = 2
ROUTES_KEPT = 30.0
"""Seconds for which a name means the same model, without asking again what that can do."""
LOOK_AGAIN = 2.0
"""Seconds between looks for an Ollama, while nothing but the demo model serves."""
LOOK_AGAIN_SLOW = 30.0
"""The same where a look takes long: an address that swallows packets must not delay requests."""


class Route(msgspec.Struct, frozen=True):
    """Where a request goes."""

    provider: str
    provider_config: ProviderConfig
    key: str
    target: Target
    settings: ModelConfig = ModelConfig()

    @property
    def address(self) -> str:
        return f"{self.provider}/{self.target.model}"

    @property
    def is_demo(self) -> bool:
        return self.provider_config.api == DEMO

    @property
    def is_node(self) -> bool:
        return self.provider_config.api == NODE

    @property
    def codec(self) -> Codec:
        return codecs.load(self.provider_config.api)

    @property
    def wording(self) -> RequestEncoder | None:
        """How requests are said there; None where our own words are understood."""
        if self.is_demo:
            return None
        return NodeRequestEncoder() if self.is_node else self.codec

    @property
    def retries(self) -> int:
        """How often to ask again. A node's session mends and pays for itself, once."""
        if self.provider_config.retries is not None:
            return self.provider_config.retries
        return 0 if self.is_node else RETRIES


class ListedModel(msgspec.Struct, frozen=True):
    """A model on offer."""

    id: str
    address: str
    window: int = 0
    kind: str = CHAT
    """`chat`, or `embedding` for a model that cannot chat."""


class ModelRoutes:
    """The providers and models of one server."""

    def __init__(
        self, config: Config, upstream: Upstream, env: Mapping[str, str] = os.environ
    ) -> None:
        self._config = config
        self._env = env
        self.provider_configs = find_providers(config, env)
        """Every provider, configured or known anyway."""
        self._missing = {
            name: missing_key(name, at, env) for name, at in self.provider_configs.items()
        }
        self._discovery = Discovery(config, self.provider_configs, upstream, env)
        self._routes: dict[str, tuple[float, Route]] = {}
        self._found = DiscoveredModels()
        self._next_look = 0.0
        self._looking = asyncio.Lock()

    # ── what serves ──

    async def look_around(self) -> None:
        """Find out what serves when the configuration does not say."""
        if "default" in self._config.map:
            await self._ask_lists("default")
            self._found = DiscoveredModels(self._default_address(), "configured")
            return
        before = self._found.default
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._found = await self._discovery.look()
        if self._found.default != before:
            self._routes.clear()
        if loop.time() - started > SLOW:
            self._next_look = loop.time() + LOOK_AGAIN_SLOW
        else:
            self._next_look = loop.time() + (LOOK_AGAIN if self._found.default else 0.0)

    def _default_address(self) -> str:
        given = self._config.map["default"]
        try:
            return resolve("default", self._facts())
        except UnknownModel:  # its key is missing: the first request says so
            return given

    async def _look_again(self) -> None:
        """Look once more, now and then, while nothing but the demo model serves."""
        provisional = self._found.nothing or not self._found.default
        if not provisional or "default" in self._config.map or self._looking.locked():
            return
        async with self._looking:
            if asyncio.get_running_loop().time() >= self._next_look:
                await self.look_around()

    @property
    def default(self) -> str:
        """The address that serves when a name says nothing else; empty if nothing does."""
        return self._found.default

    @property
    def found(self) -> str:
        """How the default was found, in words for the banner."""
        return self._found.how

    # ── names ──

    async def route(self, name: str) -> Route:
        """Return where a request for model `name` goes; raise `UnknownModel` when nowhere."""
        check_model_name(name)
        await self._look_again()
        now = asyncio.get_running_loop().time()
        kept = self._routes.get(name)
        if kept is not None and now - kept[0] < ROUTES_KEPT:
            return kept[1]
        await self._ask_lists(name)
        route = await self._find(resolve(name, self._facts()))
        if len(self._routes) > 256:  # a client may ask for any name
            self._routes.clear()
        self._routes[name] = (now, route)
        return route

    def address(self, name: str) -> str:
        """Return the address that `name` means, without asking any provider."""
        check_model_name(name)
        kept = self._routes.get(name)
        if kept is not None:
            return kept[1].address
        try:
            return resolve(name, self._facts())
        except UnknownModel:  # a list that was not asked for yet may have it
            return name

    async def _find(self, address: str) -> Route:
        provider, _, model = address.partition("/")
        provider_config = self.provider_configs[provider]
        if provider_config.api == NODE:
            model = _on_node(provider, provider_config, model)
        settings = self._settings(provider, model)
        shown = await self._shown(provider, model)
        return Route(
            provider=provider,
            provider_config=provider_config,
            # A wallet's key is no word in a request, and is not carried about with one.
            key="" if provider_config.api == NODE else secret(provider_config.key, self._env),
            target=target_of(provider, provider_config, model, settings, shown),
            settings=settings,
        )

    def _facts(self) -> ModelFacts:
        """Return all that is known of names at this moment."""
        config, names = self._config, self._discovery.names
        asked = self._asked()
        lists = {
            name for name, at in self.provider_configs.items() if at.api in {OLLAMA, NODE, DEMO}
        }
        return ModelFacts(
            table=config.map,
            listed=dict(self._names()),
            providers=self._missing,
            configured=config.providers,
            default=config.map.get("default") or ("" if self._found.nothing else self.default),
            fixed="default" in config.map,
            demo=DEMO_ADDRESS if self._found.nothing else "",
            owner=self._owner(),
            silent=next((p for p in asked if p in config.providers and p not in names), ""),
            unlisted=[p for p in config.providers if p not in lists],
            fetches=any(p in names for p in asked),
        )

    def _names(self) -> Iterator[tuple[str, str]]:
        """Yield every listed name with its address; where two are the same, the last one counts."""
        yield from ((DEMO_ADDRESS.partition("/")[2], DEMO_ADDRESS), (DEMO, DEMO_ADDRESS))
        for provider in reversed(self._asked()):
            for model in self._discovery.names.get(provider, []):
                if not self._is_direct(model):
                    yield model, f"{provider}/{model}"
        for provider, provider_config in self.provider_configs.items():
            if provider_config.api == NODE:
                for name in (model_of(provider_config), short_name(model_of(provider_config))):
                    yield name, f"{provider}/{model_of(provider_config)}"
        for address in self._config.models:
            provider, model = split_address(address, self.provider_configs)
            whole = f"{provider or self._owner()}/{model}"
            yield from ((model, whole), (address, whole))

    async def _ask_lists(self, name: str) -> None:
        """Ask the Ollamas on offer for their models, all at once, if `name` may be one of these."""
        if not self._is_direct(name):
            await asyncio.gather(*map(self._discovery.refresh, self._asked()))

    def _is_direct(self, name: str) -> bool:
        """Return whether `name` leads to a provider, whatever anybody lists."""
        if name in self._config.map:
            return self._config.map[name].partition("/")[0] in self.provider_configs
        provider, slash, _ = name.partition("/")
        return bool(slash) and provider in {*self._config.providers, DEMO, OLLAMA}

    def _asked(self) -> list[str]:
        """Return the Ollamas on offer: configured, found, or named in the map."""
        leads = {to.partition("/")[0] for to in (*self._config.map.values(), self.default)}
        leads |= self._config.providers.keys()
        leads |= self._discovery.names.keys()  # one that has only embedding models serves these
        return [
            name for name, at in self.provider_configs.items() if at.api == OLLAMA and name in leads
        ]

    def _owner(self) -> str:
        """Return the provider of an address in the map that names none."""
        for name, provider_config in self.provider_configs.items():
            if provider_config.api == OLLAMA and (
                name in self._config.providers or not self._config.providers
            ):
                return name
        return next(iter(self._config.providers), DEMO)

    def _settings(self, provider: str, model: str) -> ModelConfig:
        models = self._config.models
        return models.get(f"{provider}/{model}") or models.get(model) or ModelConfig()

    async def _shown(self, provider: str, model: str) -> ModelDetails:
        if self.provider_configs[provider].api != OLLAMA:
            return ModelDetails()
        try:
            return await self._discovery.catalog(provider).show(model)
        except UnknownModel:
            raise UnknownModel(
                f"{provider} has no model {model!r}; `ollama pull {model}` fetches it, "
                "`toolbridge models` lists what there is",
                where="model",
            ) from None
        except ToolbridgeError:
            return ModelDetails()  # the request itself will say what is wrong

    async def problems(self) -> list[str]:
        """Return what is wrong with the models that the map names, one line each."""
        await asyncio.gather(*map(self._discovery.refresh, self._asked()))
        found: list[str] = []
        for name in self._config.map:
            try:
                provider, _, model = resolve(name, self._facts()).partition("/")
            except UnknownModel as error:
                found.append(f"{name}: {error.problem.text}")
                continue
            if self.provider_configs[provider].api == OLLAMA and (
                wrong := self._absence(provider, model)
            ):
                found.append(f"{name}: {wrong}")
        return found

    def _absence(self, provider: str, model: str) -> str:
        if (names := self._discovery.names.get(provider)) is None:
            return f"{provider} does not answer at {self.provider_configs[provider].url}; start it"
        if {model, f"{model}:latest"} & set(names):
            return ""
        return f"{provider} has no model {model!r}; `ollama pull {model}` fetches it"

    # ── the list ──

    async def listed(self, kind: str = CHAT) -> list[ListedModel]:
        """Return the models of a kind on offer: the map's names, then each provider's own."""
        await self._look_again()
        offered = await self._offered()
        found: dict[str, ListedModel] = {}
        for name in self._config.map:
            if name != "default":
                found[name] = self._entry(name, self.address(name))
        for address in self._config.models:
            found.setdefault(address, self._entry(address, address))
        for provider, provider_config in self.provider_configs.items():
            if provider_config.api == NODE:
                name = short_name(model_of(provider_config))
                found.setdefault(name, self._entry(name, f"{provider}/{model_of(provider_config)}"))
        for model in offered:
            found.setdefault(model.id, model)
        if self.default and not self._default_is_listed(found):
            model_name = self.default.partition("/")[2]
            found.setdefault(model_name, self._entry(model_name, self.default))
        return [model for model in found.values() if model.kind == kind]

    async def _offered(self) -> list[ListedModel]:
        """Return the models of every Ollama on offer, all asked at once."""
        asked = self._asked()
        await asyncio.gather(*map(self._discovery.refresh, asked))
        lists = await asyncio.gather(*map(self._discovery.offered, asked))
        found: list[ListedModel] = []
        for provider, models in zip(asked, lists, strict=True):
            for model in models:
                settings = self._settings(provider, model.name)
                window = window_of(self.provider_configs[provider], settings, model.shown)
                kind = EMBEDDING if model.embeds else CHAT
                found.append(ListedModel(model.name, f"{provider}/{model.name}", window, kind))
        return found

    def _default_is_listed(self, found: Mapping[str, ListedModel]) -> bool:
        """Whether the default stands in the list under a name that is better than its own."""
        provider = self.default.partition("/")[0]
        at = self.provider_configs.get(provider, ProviderConfig())
        return at.api == NODE and any(m.address == self.default for m in found.values())

    def _entry(self, id: str, address: str) -> ListedModel:
        """Return a model with its window, as far as it is known without asking."""
        provider, model = split_address(address, self.provider_configs)
        provider_config = self.provider_configs.get(provider, ProviderConfig())
        return ListedModel(
            id, address, self._settings(provider, model).window or provider_config.window
        )


def _on_node(provider: str, provider_config: ProviderConfig, model: str) -> str:
    """Return the model that the provider pays for; raise when another is asked of it."""
    own = model_of(provider_config)
    if model.lower() in {own.lower(), short_name(own).lower()}:
        return own
    raise UnknownModel(
        f"{provider} has no model {model!r}; its hosts are paid for {own}", where="model"
    )
