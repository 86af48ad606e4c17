"""What is known about a model, and the `Target` of its requests.

The sources, in their order: the configuration, what the provider reports, the table in the wheel,
the family of the model's name. `models.ModelRoutes` builds the `Target` of each route with this.
Windows from the table are only shown: the sources of the table differ about them, so that a request
is never rejected or shortened because of one.
"""

import msgspec

from toolbridge import providers
from toolbridge.config import ModelConfig, ProviderConfig
from toolbridge.core.codec import Target
from toolbridge.core.json import JsonObject
from toolbridge.policy.model_facts import JoinedFacts, KnownModel, join_facts
from toolbridge.policy.model_quirks import quirks_for
from toolbridge.policy.thinking import is_thinking_capable
from toolbridge.routing.nodes import NODE
from toolbridge.routing.providers import (
    DEMO,
    OLLAMA,
    own_server_tools,
    quirks_of_host,
    whose_files,
)
from toolbridge.upstream.engine_facts import EngineModel
from toolbridge.upstream.ollama import ModelDetails

ANTHROPIC = "anthropic"
CONFIG = "config"
PROVIDER = "provider"
TABLE = "table"
FAMILY = "family"
CHECKED = ("tools", "thinking", "vision")
"""Capabilities without which a request is changed."""


class LiveModel(msgspec.Struct, frozen=True):
    """What a provider reports about one of its models."""

    known: KnownModel = KnownModel()
    engine: str = ""
    template: str = ""
    """The hash of the model's chat template."""
    slots: int = 0
    """The number of prompts that the server keeps at the same time."""


def of_engine(found: EngineModel, engine: str) -> LiveModel:
    return LiveModel(found.known, engine, found.template, found.slots)


def of_ollama(shown: ModelDetails) -> LiveModel:
    """Return what an Ollama server reports; its list of capabilities is complete."""
    known = KnownModel(window=shown.window)
    if shown.capabilities is not None:
        lacks = frozenset(CHECKED) - shown.capabilities
        known = KnownModel(window=shown.window, can=shown.capabilities, cannot=lacks)
    return LiveModel(known, OLLAMA)


def facts_of(
    provider: str,
    provider_config: ProviderConfig,
    model: str,
    settings: ModelConfig,
    live: LiveModel,
) -> JoinedFacts:
    """Return what is known about a model, from all sources.

    A server whose engine is known runs open weights under names of its own, so that neither the table
    nor a family applies to it.
    """
    # The table is loaded when the first model of a provider without an engine is used.
    stated = [(CONFIG, _of_settings(settings)), (PROVIDER, live.known)]
    stated.append((FAMILY, _of_api(provider_config, model)))
    if not live.engine and provider_config.api not in {DEMO, NODE, OLLAMA}:
        from toolbridge.policy.model_families import find_family
        from toolbridge.policy.model_table import find_in_table

        found = find_in_table(provider, model)
        stated.append((TABLE, found) if found else (FAMILY, find_family(model) or KnownModel()))
    return join_facts(stated)


def window_of(provider_config: ProviderConfig, facts: JoinedFacts) -> int:
    """Return the context window by which requests are checked; 0 if it is unknown."""
    source = facts.sources.get("window")
    window = facts.known.window if source in {CONFIG, PROVIDER} else provider_config.window
    if provider_config.window_cap and source != CONFIG:
        window = min(window, provider_config.window_cap) if window else provider_config.window_cap
    return window


def shown_window(provider_config: ProviderConfig, facts: JoinedFacts) -> int:
    """Return the context window that is shown to clients; 0 if it is unknown."""
    return window_of(provider_config, facts) or facts.known.window


def target_of(
    provider: str,
    provider_config: ProviderConfig,
    model: str,
    settings: ModelConfig,
    facts: JoinedFacts,
) -> Target:
    """Return the target that requests for the model are encoded for."""
    return Target(
        model=model,
        provider=provider,
        window=window_of(provider_config, facts),
        max_output=max_output_of(provider, facts),
        # Anthropic, Messages API: `max_tokens` is required; other APIs have defaults of their own.
        limits_only=facts.sources.get("max_output") != CONFIG and provider_config.api != ANTHROPIC,
        capabilities=_capabilities(provider_config, facts.known),
        quirks=_quirks(provider, provider_config, facts.known) | settings.quirks,
        options=settings.options,
        files=whose_files(provider, provider_config),
        server_tools=own_server_tools(provider_config) - facts.known.cannot,
    )


def max_output_of(provider: str, facts: JoinedFacts) -> int:
    """Return the maximum of output tokens by which a request is lowered; 0 if it is unknown.

    The table counts only for the vendors' own models: the values of resellers are often guesses.
    """
    if facts.sources.get("max_output") != TABLE:
        return facts.known.max_output
    from toolbridge.policy.model_table import RESELLERS

    return 0 if provider in RESELLERS else facts.known.max_output


def _quirks(provider: str, provider_config: ProviderConfig, known: KnownModel) -> JsonObject:
    """Return the quirks of a provider and a model.

    Facts of the model replace the quirks in a built-in provider's file; the user's own replace both.
    """
    shipped = providers.load(provider) if provider in providers.names() else ProviderConfig()
    same_api = shipped.api == provider_config.api
    built_in = shipped.quirks if same_api else shipped.other_apis.get(provider_config.api, {})
    same = {
        name: value
        for name, value in provider_config.quirks.items()
        if name in built_in and built_in[name] == value
    }
    return {
        **quirks_of_host(provider_config),
        **same,
        **quirks_for(known, provider_config.api),
        **{name: value for name, value in provider_config.quirks.items() if name not in same},
    }


def _of_settings(settings: ModelConfig) -> KnownModel:
    # With `tool_mode = "native"` the tools are sent whatever the server reports about the model.
    tools = True if settings.tool_mode == "native" else settings.tools
    wanted = {"thinking": settings.thinking, "tools": tools, "vision": settings.vision}
    return KnownModel(
        window=settings.window,
        max_output=settings.max_output,
        can=frozenset(name for name, value in wanted.items() if value is True),
        cannot=frozenset(name for name, value in wanted.items() if value is False),
    )


def _of_api(provider_config: ProviderConfig, model: str) -> KnownModel:
    """Return what follows from the provider's API, where its server reports nothing."""
    if provider_config.api == DEMO:
        return KnownModel(can=frozenset(CHECKED))
    if provider_config.api == NODE:
        # Every node accepts thinking and none accepts tools. A host may describe pictures to its
        # model, but does not announce it, so vision is on only if the configuration sets it.
        return KnownModel(can=frozenset({"thinking"}), cannot=frozenset({"tools", "vision"}))
    if provider_config.api == OLLAMA:
        thinks = frozenset({"thinking"})
        can = frozenset({"tools", "vision"})
        if is_thinking_capable(model):
            return KnownModel(can=can | thinks)
        return KnownModel(can=can, cannot=thinks)
    return KnownModel()


def _capabilities(provider_config: ProviderConfig, known: KnownModel) -> frozenset[str] | None:
    """Return the capabilities whose parts of a request are kept; None if nothing is known.

    An unknown capability counts as one that the model has, so that nothing is removed without reason.
    """
    if provider_config.api == DEMO:
        return frozenset(CHECKED)
    if provider_config.api == NODE:
        return known.can - {"tools"}
    stated = {name: known.has(name) for name in CHECKED}
    if all(value is None for value in stated.values()):
        return None
    return known.can | frozenset(name for name, value in stated.items() if value is None)
