"""Who serves what: a client's model name becomes a provider, a model there, and what it can do."""

import asyncio
import os
from collections.abc import Mapping

import msgspec

from toolbridge import codecs
from toolbridge.config import Config, ModelConfig, ProviderConfig, secret
from toolbridge.core.codec import Codec, Target, Wording
from toolbridge.core.errors import ToolbridgeError, UnknownModel
from toolbridge.demo import MODEL as DEMO_MODEL
from toolbridge.policy.models import TIERS, resolve, split_address
from toolbridge.policy.thinking import is_thinking_capable
from toolbridge.switchboard.nodes import NODE, NodeWording, model_of, short_name
from toolbridge.switchboard.places import DEMO, OLLAMA, find_places
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.ollama import OllamaCatalog, Shown

CLAUDE = "claude-"
RETRIES = 2
ROUTES_KEPT = 30.0
"""Seconds for which a name means the same model, without asking again what that can do."""


class Route(msgspec.Struct, frozen=True):
    """Where a request goes."""

    provider: str
    place: ProviderConfig
    key: str
    target: Target
    settings: ModelConfig = ModelConfig()

    @property
    def address(self) -> str:
        return f"{self.provider}/{self.target.model}"

    @property
    def is_demo(self) -> bool:
        return self.place.api == DEMO

    @property
    def is_node(self) -> bool:
        return self.place.api == NODE

    @property
    def codec(self) -> Codec:
        return codecs.load(self.place.api)

    @property
    def wording(self) -> Wording | None:
        """How requests are said there; None where our own words are understood."""
        if self.is_demo:
            return None
        return NodeWording() if self.is_node else self.codec

    @property
    def retries(self) -> int:
        """How often to ask again. A node's session mends and pays for itself, once."""
        if self.place.retries is not None:
            return self.place.retries
        return 0 if self.is_node else RETRIES


class Listed(msgspec.Struct, frozen=True):
    """A model on offer."""

    id: str
    address: str
    window: int = 0


class Roster:
    """The providers and models of one server."""

    def __init__(
        self, config: Config, upstream: Upstream, env: Mapping[str, str] = os.environ
    ) -> None:
        self._config = config
        self._upstream = upstream
        self._env = env
        self.places = find_places(config, env)
        """Every provider, configured or known anyway."""
        self._catalogs: dict[str, OllamaCatalog] = {}
        self._routes: dict[str, tuple[float, Route]] = {}
        self._default = ""
        self.found = ""
        """How the model that serves was found, in words for the banner."""

    async def look_around(self) -> None:
        """Find out what serves when the configuration does not say."""
        if "default" in self._config.map:
            self._default = self._config.map["default"]
            self.found = "configured"
        elif self._config.providers:
            self._default = await self._first_model(next(iter(self._config.providers)))
            self.found = "the first configured provider"
        else:
            self._default = await self._ollama_or_demo()

    async def _ollama_or_demo(self) -> str:
        try:
            models = await self._catalog(OLLAMA).names(wait=0.5)
        except (ToolbridgeError, msgspec.DecodeError):
            self.found = "no provider is configured and no Ollama answers"
            return f"{DEMO}/{DEMO_MODEL}"
        if not models:
            self.found = "Ollama answers but has no model yet (ollama pull qwen3:8b)"
            return f"{DEMO}/{DEMO_MODEL}"
        self.found = "found on this machine's Ollama"
        return f"{OLLAMA}/{await self._best(models)}"

    async def _best(self, models: list[str]) -> str:
        """Return the first model that can call tools, else the first."""
        for name in models[:12]:
            try:
                shown = await self._catalog(OLLAMA).show(name)
            except ToolbridgeError:
                continue
            if shown.capabilities and "tools" in shown.capabilities:
                return name
        return models[0]

    async def _first_model(self, provider: str) -> str:
        for address in self._config.models:
            name, model = split_address(address, self.places)
            if name == provider:
                return f"{name}/{model}"
        place = self.places[provider]
        if place.api == OLLAMA:
            try:
                models = await self._catalog(provider).names()
            except (ToolbridgeError, msgspec.DecodeError):
                return ""
            return f"{provider}/{models[0]}" if models else ""
        if place.api == NODE:
            return f"{provider}/{model_of(place)}"
        return f"{provider}/{DEMO_MODEL}" if place.api == DEMO else ""

    @property
    def default(self) -> str:
        return self._default

    async def route(self, name: str) -> Route:
        """Return where a request for model `name` goes; raise `UnknownModel` when nowhere."""
        now = asyncio.get_running_loop().time()
        kept = self._routes.get(name)
        if kept is not None and now - kept[0] < ROUTES_KEPT:
            return kept[1]
        if not self._default and not split_address(name, self.places)[0]:
            await self.look_around()  # whoever was down at the start may be up by now
        route = await self._find(name)
        if len(self._routes) > 256:  # a client may ask for any name
            self._routes.clear()
        self._routes[name] = (now, route)
        return route

    async def _find(self, name: str) -> Route:
        provider, model = self._locate(await self._offered(name) or name)
        place = self.places[provider]
        if place.api == NODE:
            model = _on_node(provider, place, model)
        settings = self._settings(provider, model)
        shown = await self._shown(provider, model)
        return Route(
            provider=provider,
            place=place,
            # A wallet's key is no word in a request, and is not carried about with one.
            key="" if place.api == NODE else secret(place.key, self._env),
            target=_target(provider, place, model, settings, shown),
            settings=settings,
        )

    def address(self, name: str) -> str:
        """Return the address that `name` means, without asking anybody what is there."""
        kept = self._routes.get(name)
        return "/".join(self._locate(name)) if kept is None else kept[1].address

    async def _offered(self, name: str) -> str:
        """Return the address of the model that is listed as `name`; nothing if none is.

        Claude Code shows only models that are called claude, so to it the others are listed with
        that in front; its own names need no look at the list.
        """
        own = name.removeprefix(CLAUDE)
        if name in self._config.map or split_address(name, self.places)[0]:
            return ""
        if own != name and any(tier in own for tier in TIERS):
            return ""
        listed = {model.id: model.address for model in await self.listed()}
        names = (name, f"{name}:latest", own, f"{own}:latest")
        return next((listed[found] for found in names if found in listed), "")

    def _locate(self, name: str) -> tuple[str, str]:
        """Return provider and model; raise `UnknownModel` when nobody can be meant."""
        provider, model = split_address(self._resolve(name), self.places)
        return (provider, model) if provider else (self._owner(), model)

    def _resolve(self, name: str) -> str:
        if self._default.startswith(f"{DEMO}/") and "/" not in name:
            # The demo model is alone here: whatever name a client brings, it means this one.
            return self._config.map.get(name) or self._default
        provider, _ = split_address(name, self.places)
        if provider and name not in self._config.map:
            return name
        known = {*self._config.models, *(a.partition("/")[2] for a in self._config.models)}
        return resolve(name, self._config.map, known, self._fallback(name))

    def _fallback(self, name: str) -> str:
        """Return the address for a name that the map does not have.

        A configured default serves any name. Without one, names of vendors' models mean "whatever
        you have"; any other name is taken at its word, and its provider says if it has it not.
        """
        if "default" in self._config.map:
            return self._default
        if not self._default:
            # An Ollama that does not answer yet is asked all the same, and its silence told.
            owner = self._owner()
            return f"{owner}/{name}" if self.places[owner].api == OLLAMA else ""
        vendors = ("claude", "gpt", "gemini", "o1", "o3", "o4", "codex")
        if name.lower().startswith(vendors):
            return self._default
        return f"{self._default.partition('/')[0]}/{name}"

    def _owner(self) -> str:
        """Return who is meant by a name without a provider."""
        for name, place in self.places.items():
            if place.api == OLLAMA and (
                name in self._config.providers or not self._config.providers
            ):
                return name
        return next(iter(self._config.providers), DEMO)

    def _settings(self, provider: str, model: str) -> ModelConfig:
        models = self._config.models
        return models.get(f"{provider}/{model}") or models.get(model) or ModelConfig()

    async def _shown(self, provider: str, model: str) -> Shown:
        if self.places[provider].api != OLLAMA:
            return Shown()
        try:
            return await self._catalog(provider).show(model)
        except UnknownModel:
            raise UnknownModel(
                f"{provider} has no model {model!r}; `ollama pull {model}` fetches it, "
                "`toolbridge models` lists what there is",
                where="model",
            ) from None
        except ToolbridgeError:
            return Shown()  # the request itself will say what is wrong

    def _catalog(self, provider: str) -> OllamaCatalog:
        if provider not in self._catalogs:
            place = self.places[provider]
            headers = codecs.load(OLLAMA).authorize(secret(place.key, self._env))
            self._catalogs[provider] = OllamaCatalog(self._upstream, place.url, headers)
        return self._catalogs[provider]

    async def listed(self) -> list[Listed]:
        """Return the models on offer: the map's names, then each provider's own."""
        found: dict[str, Listed] = {}
        for name, address in self._config.map.items():
            if name != "default":
                found[name] = self._entry(name, address)
        for address in self._config.models:
            found.setdefault(address, self._entry(address, address))
        for provider, place in self.places.items():
            if place.api == NODE:
                name = short_name(model_of(place))
                found.setdefault(name, self._entry(name, f"{provider}/{model_of(place)}"))
        asked = [p for p, at in self.places.items() if at.api == OLLAMA and self._offers(p)]
        # All at once: clients give a list three seconds, and a server that is down takes two.
        for provider, models in zip(
            asked, await asyncio.gather(*map(self._names, asked)), strict=True
        ):
            for model in models:
                found.setdefault(model, self._entry(model, f"{provider}/{model}"))
        if self._default and not self._default_is_listed(found):
            model = self._default.partition("/")[2]
            found.setdefault(model, self._entry(model, self._default))
        return list(found.values())

    def _default_is_listed(self, found: Mapping[str, Listed]) -> bool:
        """Whether the default stands in the list under a name that is better than its own."""
        provider = self._default.partition("/")[0]
        at = self.places.get(provider, ProviderConfig())
        return at.api == NODE and any(m.address == self._default for m in found.values())

    def _entry(self, id: str, address: str) -> Listed:
        """Return a model with its window, as far as it is known without asking."""
        provider, model = split_address(address, self.places)
        place = self.places.get(provider, ProviderConfig())
        return Listed(id, address, self._settings(provider, model).window or place.window)

    def _offers(self, provider: str) -> bool:
        return provider in self._config.providers or self._default.startswith(f"{provider}/")

    async def _names(self, provider: str) -> list[str]:
        try:
            return await asyncio.wait_for(self._catalog(provider).names(), 2.0)
        except (ToolbridgeError, msgspec.DecodeError, TimeoutError):
            return []


def _on_node(provider: str, place: ProviderConfig, model: str) -> str:
    """Return the model that the provider pays for; raise when another is asked of it."""
    own = model_of(place)
    if model.lower() in {own.lower(), short_name(own).lower()}:
        return own
    raise UnknownModel(
        f"{provider} has no model {model!r}; its hosts are paid for {own}", where="model"
    )


def _target(
    provider: str, place: ProviderConfig, model: str, settings: ModelConfig, shown: Shown
) -> Target:
    window = settings.window or shown.window or place.window
    if place.window_cap and not settings.window:
        window = min(window, place.window_cap) if window else place.window_cap
    return Target(
        model=model,
        provider=provider,
        window=window,
        max_output=settings.max_output,
        capabilities=_capabilities(place, model, settings, shown),
        quirks={**place.quirks, **settings.quirks},
        options=settings.options,
    )


def _capabilities(
    place: ProviderConfig, model: str, settings: ModelConfig, shown: Shown
) -> frozenset[str] | None:
    """Return what the model can: by the configuration, then the server, then the name's prefix."""
    if place.api == DEMO:
        return frozenset({"tools", "thinking", "vision"})
    if place.api == NODE:
        return _of_node(settings)
    wanted = {"thinking": settings.thinking, "tools": settings.tools, "vision": settings.vision}
    if shown.capabilities is not None:
        known = set(shown.capabilities)
    elif place.api == OLLAMA:
        known = {"tools", "vision"} | ({"thinking"} if is_thinking_capable(model) else set())
    elif all(value is None for value in wanted.values()):
        return None
    else:
        known = {"tools", "thinking", "vision"}
    for name, value in wanted.items():
        if value is not None:
            known = known | {name} if value else known - {name}
    return frozenset(known)


def _of_node(settings: ModelConfig) -> frozenset[str]:
    """Return what a model on a node can.

    Every node takes a wish to think and none takes tools; a picture is described to the model where
    the host has somebody for that, and nobody says so beforehand.
    """
    thinks = {"thinking"} if settings.thinking is not False else set()
    return frozenset(thinks | ({"vision"} if settings.vision else set()))
