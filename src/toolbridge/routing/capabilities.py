"""The capabilities and the context window of a model.

The configuration comes first, then what an Ollama server reports, then the prefix of the model's
name. `models.ModelRoutes` builds the `Target` of each route with this.
"""

from toolbridge.config import ModelConfig, ProviderConfig
from toolbridge.core.codec import Target
from toolbridge.policy.thinking import is_thinking_capable
from toolbridge.routing.nodes import NODE
from toolbridge.routing.providers import DEMO, OLLAMA, quirks_of_host, whose_files
from toolbridge.upstream.ollama import ModelDetails


def window_of(provider_config: ProviderConfig, settings: ModelConfig, shown: ModelDetails) -> int:
    """Return the context window in tokens; 0 if it is unknown."""
    window = settings.window or shown.window or provider_config.window
    if provider_config.window_cap and not settings.window:
        window = min(window, provider_config.window_cap) if window else provider_config.window_cap
    return window


def target_of(
    provider: str,
    provider_config: ProviderConfig,
    model: str,
    settings: ModelConfig,
    shown: ModelDetails,
) -> Target:
    """Return the target that requests for the model are encoded for."""
    return Target(
        model=model,
        provider=provider,
        window=window_of(provider_config, settings, shown),
        max_output=settings.max_output,
        capabilities=_capabilities(provider_config, model, settings, shown),
        quirks={**quirks_of_host(provider_config), **provider_config.quirks, **settings.quirks},
        options=settings.options,
        files=whose_files(provider, provider_config),
    )


def _capabilities(
    provider_config: ProviderConfig, model: str, settings: ModelConfig, shown: ModelDetails
) -> frozenset[str] | None:
    """Return the model's capabilities; None if nothing is known and nothing is to be removed."""
    if provider_config.api == DEMO:
        return frozenset({"tools", "thinking", "vision"})
    if provider_config.api == NODE:
        return _of_node(settings)
    # With `tool_mode = "native"` the tools are sent whatever the server reports about the model.
    tools = True if settings.tool_mode == "native" else settings.tools
    wanted = {"thinking": settings.thinking, "tools": tools, "vision": settings.vision}
    if shown.capabilities is not None:
        known = set(shown.capabilities)
    elif provider_config.api == OLLAMA:
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
    """Return the capabilities of a model on a node.

    Every node accepts thinking and none accepts tools. A host may describe pictures to its model,
    but does not announce it, so vision is on only if the configuration sets it.
    """
    thinks = {"thinking"} if settings.thinking is not False else set()
    return frozenset(thinks | ({"vision"} if settings.vision else set()))
