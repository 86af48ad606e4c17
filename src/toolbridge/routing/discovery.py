"""Discovery: the models that servers list, what they report about them, and the default model.

`models.ModelRoutes` uses it. A server that does not answer is not asked again for some seconds, so
that an address that drops packets does not delay every request.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from toolbridge import codecs
from toolbridge.config import Config, ProviderConfig, secret
from toolbridge.core.errors import ToolbridgeError
from toolbridge.demo import MODEL as DEMO_MODEL
from toolbridge.policy.models import split_address
from toolbridge.routing.nodes import NODE, model_of
from toolbridge.routing.provider_urls import endpoint_url, unset_variables
from toolbridge.routing.providers import DEMO, OLLAMA, is_vendor_host
from toolbridge.upstream.engines import EngineCatalog
from toolbridge.upstream.hosts import hostname, is_private
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.ollama import OllamaCatalog, OllamaModel

LISTS = {
    "anthropic": "/v1/models?limit=1000",
    "gemini": "/v1beta/models?pageSize=1000",
    "openai_chat": "/models",
    "openai_responses": "/models",
}
"""The path of the model list in each API, after the provider's base URL."""
DEMO_ADDRESS = f"{DEMO}/{DEMO_MODEL}"
LIST_WAIT = 1.2
"""Seconds to wait for a list. Clients wait three seconds for `/v1/models`, which takes two waits."""
FIRST_WAIT = 0.5
"""Seconds to wait for an Ollama server on this machine when nothing is configured."""
SILENCE_KEPT = 5.0
"""Seconds for which a server that timed out is not asked for its list again."""
SLOW = 0.2
"""Seconds. A refused connection takes less, so it can be tried again at once."""
INTERVAL = 2.0
"""Seconds between searches for an Ollama server while only the demo model can answer."""
SLOW_INTERVAL = 30.0
"""The same where a search was slow: an address that drops packets must not delay requests."""


_SERVES = "it serves the claude-…, gpt-… and gemini-… names that no other provider serves"
"""What a default does that was found, for the banner and `doctor`."""


class DiscoveredModels(msgspec.Struct, frozen=True):
    """The default model, and how it was found."""

    default: str = ""
    how: str = ""
    """A phrase for the banner."""
    nothing: bool = False
    """Whether nothing is configured and nothing was found: the demo model answers Claude names."""


class Discovery:
    """Asks Ollama servers for their models and chooses the default model."""

    def __init__(
        self,
        config: Config,
        provider_configs: Mapping[str, ProviderConfig],
        upstream: Upstream,
        env: Mapping[str, str],
    ) -> None:
        self._config = config
        self._provider_configs = provider_configs
        self._upstream = upstream
        self._env = env
        self._catalogs: dict[str, OllamaCatalog] = {}
        self._engines: dict[str, EngineCatalog] = {}
        self._silent_until: dict[str, float] = {}
        """Provider → the time from which it is asked again."""
        self._next_search = 0.0
        self._searching = asyncio.Lock()
        self.found = DiscoveredModels()
        self.names: dict[str, list[str]] = {}
        """Provider → the models that it listed last; a provider that did not answer has no entry."""

    def use_configured(self, address: str) -> None:
        """Take the default model from the configuration."""
        self.found = DiscoveredModels(address, "configured")

    async def discover(self) -> bool:
        """Search for the default model; return whether it has changed."""
        before = self.found.default
        clock = asyncio.get_running_loop().time
        started = clock()
        self.found = await self._search()
        if clock() - started > SLOW:
            self._next_search = clock() + SLOW_INTERVAL
        else:
            self._next_search = clock() + (INTERVAL if self.found.default else 0.0)
        return self.found.default != before

    async def rediscover(self) -> bool:
        """Search again if only the demo model can answer and the interval is over."""
        provisional = self.found.nothing or not self.found.default
        if not provisional or self._searching.locked():
            return False
        async with self._searching:
            if asyncio.get_running_loop().time() < self._next_search:
                return False
            return await self.discover()

    async def _search(self) -> DiscoveredModels:
        """Return the default: of the first configured provider with a model, else of an Ollama."""
        if self._config.providers:
            for provider in self._config.providers:
                if found := await self._first_model(provider):
                    return DiscoveredModels(found, f"the first model of {provider}; {_SERVES}")
            return DiscoveredModels(how="no configured provider offers a model yet")
        await self.refresh(OLLAMA, wait=FIRST_WAIT)
        if best := await self._best(OLLAMA) if OLLAMA in self.names else "":
            return DiscoveredModels(
                f"{OLLAMA}/{best}", f"found on this machine's Ollama; {_SERVES}"
            )
        if OLLAMA in self.names:
            why = "Ollama answers but has no chat model yet (ollama pull qwen3:8b)"
        else:
            why = "no provider is configured and no Ollama answers"
        # A map without a default is a choice of models, and the demo model is not among them.
        if self._config.map:
            return DiscoveredModels(how=why)
        return DiscoveredModels(DEMO_ADDRESS, why, nothing=True)

    async def _first_model(self, provider: str) -> str:
        """Return the address of a provider's first model; empty if it is not known.

        A model of `[models]` goes first. Vendors are not asked: their lists begin with any model.
        """
        for address in self._config.models:
            name, model = split_address(address, self._provider_configs)
            if name == provider:
                return f"{name}/{model}"
        provider_config = self._provider_configs[provider]
        if provider_config.api == OLLAMA:
            await self.refresh(provider)
            best = await self._best(provider)
            return f"{provider}/{best}" if best else ""
        if provider_config.api == NODE:
            return f"{provider}/{model_of(provider_config)}"
        if self.asks_engine(provider):
            report = await self.engine(provider).report()
            names = (name for name, model in report.models.items() if name and not model.embeds)
            first = next(names, "")
            return f"{provider}/{first}" if first else ""
        return f"{provider}/{DEMO_MODEL}" if provider_config.api == DEMO else ""

    async def _best(self, provider: str) -> str:
        """Return the first model that can call tools, else the first that can chat."""
        chat = [model for model in await self.offered(provider) if not model.embeds]
        tools = (m.name for m in chat if m.shown.capabilities and "tools" in m.shown.capabilities)
        return next(tools, chat[0].name if chat else "")

    async def refresh(self, provider: str, *, wait: float = LIST_WAIT) -> None:
        """Fetch the list of models of an Ollama server."""
        clock = asyncio.get_running_loop().time
        now = clock()
        if now < self._silent_until.get(provider, 0.0):
            return
        try:
            self.names[provider] = await asyncio.wait_for(
                self.catalog(provider).names(wait=wait), wait
            )
        except (ToolbridgeError, msgspec.DecodeError, TimeoutError):
            if clock() - now > SLOW:
                self._silent_until[provider] = clock() + SILENCE_KEPT
            self.names.pop(provider, None)

    async def offered(self, provider: str) -> list[OllamaModel]:
        """Return the models of an Ollama server with their details; none if it does not answer."""
        if provider not in self.names:
            return []
        try:
            return await self.catalog(provider).offered(wait=LIST_WAIT)
        except (ToolbridgeError, msgspec.DecodeError):
            return []

    def catalog(self, provider: str) -> OllamaCatalog:
        if provider not in self._catalogs:
            provider_config = self._provider_configs[provider]
            headers = codecs.load(OLLAMA).authorize(secret(provider_config.key, self._env))
            self._catalogs[provider] = OllamaCatalog(self._upstream, provider_config.url, headers)
        return self._catalogs[provider]

    def engine(self, provider: str) -> EngineCatalog:
        """Return the catalog of a server that is not an Ollama."""
        if provider not in self._engines:
            provider_config = self._provider_configs[provider]
            key = secret(provider_config.key, self._env)
            headers = codecs.load(provider_config.api).authorize(key) if key else {}
            self._engines[provider] = EngineCatalog(
                self._upstream,
                provider,
                endpoint_url(provider, provider_config, LISTS[provider_config.api]),
                {**provider_config.headers, **headers},
                private=is_private(hostname(provider_config.url)),
            )
        return self._engines[provider]

    def has_list(self, provider: str) -> bool:
        """Return whether a provider that is not an Ollama has a list of models that can be asked for."""
        provider_config = self._provider_configs[provider]
        if provider_config.api not in LISTS or provider_config.cloud:
            return False
        # With `key = "caller"` the gateway has no key of its own to ask with.
        return not (unset_variables(provider_config) or provider_config.key == "caller")

    def asks_engine(self, provider: str) -> bool:
        """Return whether a server is asked about a model before the first request to it.

        Servers of OpenAI's APIs that are not a known vendor's: llama.cpp, vLLM, SGLang and others.
        """
        provider_config = self._provider_configs[provider]
        local = provider_config.api.startswith("openai") and not is_vendor_host(provider_config)
        return local and self.has_list(provider)
