"""The names that clients use for models, and the addresses that they mean.

An address is `provider/model`. `ModelNames` collects the names in the configuration, in the lists
of Ollama servers and of the nodes, and passes them to `policy.models.resolve`, which has the rules.
It sends no requests: `model_lists.ModelLists` keeps the lists, and `models.ModelRoutes` renews them
when they are needed.
"""

from collections.abc import Iterator, Mapping, Sequence

from toolbridge.config import Config, ModelConfig, ProviderConfig
from toolbridge.core.errors import UnknownModel
from toolbridge.map_settings import addresses_of
from toolbridge.policy.models import (
    check_key,
    explain_name,
    is_known,
    resolve,
    resolve_chain,
    resolve_targets,
    split_address,
)
from toolbridge.policy.name_facts import ModelFacts
from toolbridge.routing.discovery import DEMO_ADDRESS, Discovery
from toolbridge.routing.nodes import NODE, model_of, short_name
from toolbridge.routing.providers import DEMO, OLLAMA, cloud_lacks, missing_key


class ModelNames:
    """Resolves model names for one gateway or client."""

    def __init__(
        self,
        config: Config,
        provider_configs: Mapping[str, ProviderConfig],
        discovery: Discovery,
        env: Mapping[str, str],
    ) -> None:
        self._lists = discovery.lists
        self._config = config
        self._provider_configs = provider_configs
        self._discovery = discovery
        self._missing_keys = {
            name: missing_key(name, at, env) for name, at in provider_configs.items()
        }
        self._cloud_lacks = {
            name: lacks
            for name, at in provider_configs.items()
            if (lacks := cloud_lacks(name, at, env))
        }

    def resolve(self, name: str) -> str:
        """Return the address that `name` means; raise `UnknownModel` if it means none."""
        return resolve(name, self._facts())

    def explain(self, name: str) -> str:
        """Return the rule by which `name` is resolved."""
        return explain_name(name, self._facts())

    def resolve_targets(self, values: Sequence[str]) -> tuple[str, ...]:
        """Return the addresses of a rule's targets, which are read like values of the map."""
        return resolve_targets(values, self._facts())

    def resolve_chain(self, name: str) -> tuple[str, ...]:
        """Return every address that `name` means, in the order in which they are tried."""
        return resolve_chain(name, self._facts())

    def is_known(self, name: str) -> bool:
        """Return whether a list or the configuration has `name`, as the lists are now."""
        return is_known(name, self._facts())

    def check_key(self, address: str) -> None:
        """Raise `UnknownModel` if the key of the provider is not set."""
        check_key(address, self._facts())

    def keyless(self) -> Iterator[str]:
        """Yield a line for every provider of the configuration whose key is not set."""
        for name in self._config.providers:
            if variable := self._missing_keys.get(name):
                yield f"{variable} is not set; the provider {name} needs it"

    def configured_default(self) -> str:
        """Return the address of the default that the user set in `[map]`."""
        try:
            return self.resolve("default")
        except UnknownModel:  # its key is missing: the first request reports it
            return addresses_of(self._config.map["default"])[0]

    def is_direct(self, name: str) -> bool:
        """Return whether `name` names its provider, so that no list of models is needed."""
        if not name.strip():
            name = "default"
        if name in self._config.map:
            values = addresses_of(self._config.map[name])
            return all(value.partition("/")[0] in self._provider_configs for value in values)
        provider, slash, _ = name.partition("/")
        return bool(slash) and provider in {*self._config.providers, DEMO, OLLAMA}

    def ollama_providers(self) -> list[str]:
        """Return the Ollama servers in use: configured, discovered, or named in the map."""
        used = self._used()
        # A server that has only embedding models is not the default, but serves those.
        used |= self._lists.names.keys()
        return [
            name for name, at in self._provider_configs.items() if at.api == OLLAMA and name in used
        ]

    def list_providers(self) -> list[str]:
        """Return the other providers in use whose lists of models can be asked for."""
        used = self._used()
        return [
            name
            for name in self._provider_configs
            if name in used and not self._missing_keys[name] and self._lists.has_list(name)
        ]

    def _used(self) -> set[str]:
        """Return the providers that are configured, or named in the map or in a rule."""
        mapped = (value for entry in self._config.map.values() for value in addresses_of(entry))
        named = (target.model for rule in self._config.routes for target in rule.targets)
        own = (self._discovery.found.default, self._config.describe_images)
        addresses = (*mapped, *named, *own)
        return {address.partition("/")[0] for address in addresses} | self._config.providers.keys()

    def local_providers(self) -> list[str]:
        """Return those of them that run on servers of the user, whose names need no provider."""
        return [name for name in self.list_providers() if self._lists.asks_engine(name)]

    def node_models(self) -> Iterator[tuple[str, str]]:
        """Yield the model of every node provider: its short name and its address."""
        for provider, provider_config in self._provider_configs.items():
            if provider_config.api == NODE:
                model = model_of(provider_config)
                yield short_name(model), f"{provider}/{model}"

    def settings(self, provider: str, model: str) -> ModelConfig:
        """Return the `[models]` table of a model, by its address or its name."""
        models = self._config.models
        return models.get(f"{provider}/{model}") or models.get(model) or ModelConfig()

    def _facts(self) -> ModelFacts:
        """Return what is known about names at this moment."""
        config, names, found = self._config, self._lists.names, self._discovery.found
        ollamas = self.ollama_providers()
        with_lists = {
            name for name, at in self._provider_configs.items() if at.api in {OLLAMA, NODE, DEMO}
        }
        with_lists |= {
            name for name in self.list_providers() if self._lists.engine(name).last.models
        }
        return ModelFacts(
            table=config.map,
            listed=dict(self._listed()),
            providers=self._missing_keys,
            cloud_lacks=self._cloud_lacks,
            configured=config.providers,
            default=addresses_of(config.map.get("default", ""))[0]
            or ("" if found.nothing else found.default),
            fixed="default" in config.map,
            demo=DEMO_ADDRESS if found.nothing else "",
            owner=self._default_provider(),
            silent=next((p for p in ollamas if p in config.providers and p not in names), ""),
            unlisted=[p for p in config.providers if p not in with_lists],
            fetches=any(p in names for p in ollamas),
        )

    def _listed(self) -> Iterator[tuple[str, str]]:
        """Yield every listed name with its address; a later pair replaces an earlier one."""
        yield from ((DEMO_ADDRESS.partition("/")[2], DEMO_ADDRESS), (DEMO, DEMO_ADDRESS))
        for provider in reversed(self.ollama_providers()):
            for model in self._lists.names.get(provider, []):
                if not self.is_direct(model):
                    yield model, f"{provider}/{model}"
        for provider in reversed(self.local_providers()):
            for model in self._lists.engine(provider).last.models:
                if model and not self.is_direct(model):
                    yield from ((model, f"{provider}/{model}"), (f"{provider}/{model}",) * 2)
        for name, address in self.node_models():
            yield from ((address.partition("/")[2], address), (name, address))
        for address in self._config.models:
            provider, model = split_address(address, self._provider_configs)
            whole = f"{provider or self._default_provider()}/{model}"
            yield from ((model, whole), (address, whole))

    def _default_provider(self) -> str:
        """Return the provider of an address that names none."""
        configured = self._config.providers
        for name, provider_config in self._provider_configs.items():
            if provider_config.api == OLLAMA and (name in configured or not configured):
                return name
        return next(iter(configured), DEMO)
