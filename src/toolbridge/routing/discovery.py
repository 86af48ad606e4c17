"""What the providers of one server list, and which model serves when the user named none."""

import asyncio
from collections.abc import Mapping

import msgspec

from toolbridge import codecs
from toolbridge.config import Config, ProviderConfig, secret
from toolbridge.core.errors import ToolbridgeError
from toolbridge.demo import MODEL as DEMO_MODEL
from toolbridge.policy.models import split_address
from toolbridge.routing.nodes import NODE, model_of
from toolbridge.routing.providers import DEMO, OLLAMA
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.ollama import OllamaCatalog, OllamaModel

DEMO_ADDRESS = f"{DEMO}/{DEMO_MODEL}"
LIST_WAIT = 1.2
"""Clients give a list of models three seconds; it takes two such waits."""
LOOK_WAIT = 0.5
SILENCE_KEPT = 5.0
"""Seconds for which a server that let us wait in vain is not asked for its list again."""
SLOW = 0.2
"""Seconds: a refused connection takes less, and costs nothing to try again."""


class DiscoveredModels(msgspec.Struct, frozen=True):
    """What serves when the user named no model."""

    default: str = ""
    how: str = ""
    """In words for the banner."""
    nothing: bool = False
    """Whether nothing is configured and nothing was found: the demo model answers Claude names."""


class Discovery:
    """Asks Ollama servers for their models."""

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
        self._silent: dict[str, float] = {}
        """Provider → when it may be asked again."""
        self.names: dict[str, list[str]] = {}
        """Provider → the models that it listed last; a provider that did not answer has no entry."""

    async def look(self) -> DiscoveredModels:
        """Return what serves when the configuration does not say."""
        if self._config.providers:
            for provider in self._config.providers:
                if found := await self._first_model(provider):
                    return DiscoveredModels(found, f"the first model of {provider}")
            return DiscoveredModels(how="no configured provider offers a model yet")
        await self.refresh(OLLAMA, wait=LOOK_WAIT)
        if best := await self._best(OLLAMA) if OLLAMA in self.names else "":
            return DiscoveredModels(f"{OLLAMA}/{best}", "found on this machine's Ollama")
        if OLLAMA in self.names:
            why = "Ollama answers but has no chat model yet (ollama pull qwen3:8b)"
        else:
            why = "no provider is configured and no Ollama answers"
        # A map without a default is a choice of models, and none of them is the demo.
        return (
            DiscoveredModels(how=why)
            if self._config.map
            else DiscoveredModels(DEMO_ADDRESS, why, nothing=True)
        )

    async def _first_model(self, provider: str) -> str:
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
        return f"{provider}/{DEMO_MODEL}" if provider_config.api == DEMO else ""

    async def _best(self, provider: str) -> str:
        """Return the first model that can call tools, else the first that can chat."""
        chat = [model for model in await self.offered(provider) if not model.embeds]
        tools = (m.name for m in chat if m.shown.capabilities and "tools" in m.shown.capabilities)
        return next(tools, chat[0].name if chat else "")

    async def refresh(self, provider: str, *, wait: float = LIST_WAIT) -> None:
        """Ask an Ollama which models it has."""
        clock = asyncio.get_running_loop().time
        now = clock()
        if now < self._silent.get(provider, 0.0):
            return
        try:
            self.names[provider] = await asyncio.wait_for(
                self.catalog(provider).names(wait=wait), wait
            )
        except (ToolbridgeError, msgspec.DecodeError, TimeoutError):
            if clock() - now > SLOW:
                self._silent[provider] = clock() + SILENCE_KEPT
            self.names.pop(provider, None)

    async def offered(self, provider: str) -> list[OllamaModel]:
        """Return an Ollama's models with what it says of them; none when it does not answer."""
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
