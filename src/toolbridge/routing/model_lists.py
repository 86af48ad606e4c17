"""The models that servers list, and what they report about them.

Every server is asked by a task of its own, one at a time: all are asked at once, and who does not
need the answer goes on with the last one. A request waits only for a server that was never asked,
or, for a name that no list has, for all but those that did not answer in time the last time.
`models.ModelRoutes` decides that; `discovery.Discovery` chooses the default model from the lists.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import msgspec

from toolbridge import codecs
from toolbridge.config import ProviderConfig, secret
from toolbridge.core.errors import ToolbridgeError
from toolbridge.routing.provider_urls import endpoint_url, unset_variables
from toolbridge.routing.providers import OLLAMA, is_vendor_host
from toolbridge.upstream.engines import EngineCatalog, EngineReport
from toolbridge.upstream.hosts import hostname, is_private
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.ollama import OllamaCatalog, OllamaModel
from toolbridge.upstream.silence import Silence

LISTS = {
    "anthropic": "/v1/models?limit=1000",
    "gemini": "/v1beta/models?pageSize=1000",
    "openai_chat": "/models",
    "openai_responses": "/models",
}
"""The path of the model list in each API, after the provider's base URL."""
LIST_WAIT = 1.2
"""Seconds to wait for a list. Clients wait three seconds for `/v1/models`, which takes two waits."""


class ModelLists:
    """The lists of all providers of one gateway or client."""

    def __init__(
        self,
        provider_configs: Mapping[str, ProviderConfig],
        upstream: Upstream,
        env: Mapping[str, str],
    ) -> None:
        self._provider_configs = provider_configs
        self._upstream = upstream
        self._env = env
        self._catalogs: dict[str, OllamaCatalog] = {}
        self._engines: dict[str, EngineCatalog] = {}
        self._silences: dict[str, Silence] = {}
        """Ollama server → its silence; an `EngineCatalog` has its own."""
        self._asked: set[str] = set()
        """The providers that were asked before, with or without an answer."""
        self._renewals: dict[str, asyncio.Task[None]] = {}
        """Provider → the question that is under way."""
        self.names: dict[str, list[str]] = {}
        """Ollama server → the models that it listed last; none for one that did not answer."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a provider lists or reports something else than before."""

    def renew(self, provider: str, *, wait: float = 0.0) -> asyncio.Task[None] | None:
        """Ask a provider in the background; return the question, None if its list is recent.

        The question ends after `wait` seconds, or after the usual limit.
        """
        if (running := self._renewals.get(provider)) is not None:
            return running
        if not self._is_due(provider):
            return None
        task = asyncio.create_task(self._renew(provider, wait))
        self._renewals[provider] = task
        task.add_done_callback(lambda _: self._renewals.pop(provider, None))
        return task

    async def ask(self, provider: str, *, wait: float = 0.0) -> None:
        """Renew the list of a provider, and wait for it unless the provider was silent before."""
        task = self.renew(provider, wait=wait)
        if task is not None and not self.is_silent(provider):
            await asyncio.wait([task])

    async def ask_all(self, providers: Iterable[str], *, new_only: bool = False) -> None:
        """Renew the lists of all `providers` at once; wait as `ask` does.

        With `new_only`, only providers that were never asked are waited for.
        """
        tasks: list[asyncio.Task[None]] = []
        for provider in providers:
            waits = not (self.is_silent(provider) or (new_only and provider in self._asked))
            if (task := self.renew(provider)) is not None and waits:
                tasks.append(task)
        if tasks:
            await asyncio.wait(tasks)

    async def settle(self, providers: Iterable[str] = (), *, wait: float = 0.0) -> bool:
        """Renew the lists of `providers`, and wait for every question; return whether there was one."""
        for provider in providers:
            self.renew(provider, wait=wait)
        if not self._renewals:
            return False
        await asyncio.wait(list(self._renewals.values()))
        return True

    def close(self) -> None:
        """End all questions."""
        for task in self._renewals.values():
            task.cancel()

    def is_silent(self, provider: str) -> bool:
        """Return whether the provider did not answer in time when it was last asked."""
        return self._silence(provider).lasts

    def _silence(self, provider: str) -> Silence:
        if self._provider_configs[provider].api != OLLAMA:
            return self.engine(provider).silence
        return self._silences.setdefault(provider, Silence())

    def _is_due(self, provider: str) -> bool:
        if self._provider_configs[provider].api != OLLAMA:
            return not self.engine(provider).is_fresh
        return asyncio.get_running_loop().time() >= self._silence(provider).until

    async def _renew(self, provider: str, wait: float) -> None:
        before = self._last(provider)
        if self._provider_configs[provider].api == OLLAMA:
            await self._list_ollama(provider, wait or LIST_WAIT)
        else:
            await self.engine(provider).report(wait)
        self._asked.add(provider)
        if self._last(provider) != before:
            self.on_change()

    def _last(self, provider: str) -> EngineReport | list[str] | None:
        if self._provider_configs[provider].api == OLLAMA:
            return self.names.get(provider)
        return self.engine(provider).last

    async def _list_ollama(self, provider: str, wait: float) -> None:
        clock = asyncio.get_running_loop().time
        start = clock()
        try:
            # Not `wait_for`: its inner task would run once more after `close`, without connections.
            async with asyncio.timeout(wait):
                found = await self.catalog(provider).names(wait=wait)
        except (ToolbridgeError, msgspec.DecodeError, TimeoutError):
            self.names.pop(provider, None)
        else:
            self.names[provider] = found
        end = clock()
        self._silence(provider).note(end, answered=provider in self.names, took=end - start)

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
