"""Discovery of the default model in the lists of the providers (`model_lists.ModelLists`).

`models.ModelRoutes` uses it. All providers are asked at once, and the first of the configuration
that offers a model is the default.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from toolbridge.config import Config, ProviderConfig
from toolbridge.demo import MODEL as DEMO_MODEL
from toolbridge.policy.models import split_address
from toolbridge.routing.model_lists import ModelLists
from toolbridge.routing.nodes import NODE, model_of
from toolbridge.routing.providers import DEMO, OLLAMA
from toolbridge.upstream.silence import SLOW

DEMO_ADDRESS = f"{DEMO}/{DEMO_MODEL}"
FIRST_WAIT = 0.5
"""Seconds to wait for an Ollama server on this machine when nothing is configured."""
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
    """Chooses the default model."""

    def __init__(
        self,
        config: Config,
        provider_configs: Mapping[str, ProviderConfig],
        lists: ModelLists,
    ) -> None:
        self._config = config
        self._provider_configs = provider_configs
        self.lists = lists
        self._next_search = 0.0
        self._searching = asyncio.Lock()
        self.found = DiscoveredModels()

    @property
    def is_provisional(self) -> bool:
        """Whether only the demo model can answer, so that the search goes on."""
        return self.found.nothing or not self.found.default

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
        if not self.is_provisional or self._searching.locked():
            return False
        async with self._searching:
            if asyncio.get_running_loop().time() < self._next_search:
                return False
            return await self.discover()

    async def end_search(self) -> bool:
        """Wait for the search that is under way; return whether there was one."""
        searching = self._searching.locked()
        async with self._searching:
            return searching

    def search_soon(self) -> None:
        """Let the next request search again: a provider lists other models than before."""
        self._next_search = 0.0

    async def _search(self) -> DiscoveredModels:
        """Return the default: of the first configured provider with a model, else of an Ollama."""
        if self._config.providers:
            return await self._first_configured()
        await self.lists.ask(OLLAMA, wait=FIRST_WAIT)
        if best := await self._best(OLLAMA):
            return DiscoveredModels(
                f"{OLLAMA}/{best}", f"found on this machine's Ollama; {_SERVES}"
            )
        if OLLAMA in self.lists.names:
            why = "Ollama answers but has no chat model yet (ollama pull qwen3:8b)"
        else:
            why = "no provider is configured and no Ollama answers"
        # A map without a default is a choice of models, and the demo model is not among them.
        if self._config.map:
            return DiscoveredModels(how=why)
        return DiscoveredModels(DEMO_ADDRESS, why, nothing=True)

    async def _first_configured(self) -> DiscoveredModels:
        """Return the first model of the first configured provider that has one; ask all at once."""
        asked: dict[str, asyncio.Task[str]] = {}
        for provider in self._config.providers:
            asked[provider] = asyncio.create_task(self._first_model(provider))
            if self._known_model(provider):
                break  # those after it are not needed
        try:
            for provider, question in asked.items():
                if found := await question:
                    return DiscoveredModels(found, f"the first model of {provider}; {_SERVES}")
        finally:
            for question in asked.values():
                question.cancel()
        return DiscoveredModels(how="no configured provider offers a model yet")

    def _known_model(self, provider: str) -> str:
        """Return the address of a provider's first model, if it is known without a question.

        A model of `[models]` goes first.
        """
        for address in self._config.models:
            name, model = split_address(address, self._provider_configs)
            if name == provider:
                return f"{name}/{model}"
        provider_config = self._provider_configs[provider]
        if provider_config.api == NODE:
            return f"{provider}/{model_of(provider_config)}"
        return f"{provider}/{DEMO_MODEL}" if provider_config.api == DEMO else ""

    async def _first_model(self, provider: str) -> str:
        """Return the address of a provider's first model; empty if it is not known.

        Vendors are not asked: their lists begin with any model.
        """
        if known := self._known_model(provider):
            return known
        if self._provider_configs[provider].api == OLLAMA:
            await self.lists.ask(provider)
            best = await self._best(provider)
            return f"{provider}/{best}" if best else ""
        if not self.lists.asks_engine(provider):
            return ""
        await self.lists.ask(provider)
        models = self.lists.engine(provider).last.models
        first = next((name for name, model in models.items() if name and not model.embeds), "")
        return f"{provider}/{first}" if first else ""

    async def _best(self, provider: str) -> str:
        """Return the first model that can call tools, else the first that can chat."""
        chat = [model for model in await self.lists.offered(provider) if not model.embeds]
        tools = (m.name for m in chat if m.shown.capabilities and "tools" in m.shown.capabilities)
        return next(tools, chat[0].name if chat else "")
