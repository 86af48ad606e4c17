"""Check a node provider for `toolbridge doctor`: settings, key, and a host that answers."""

import os

from toolbridge.config import ProviderConfig
from toolbridge.core.errors import ToolbridgeError
from toolbridge.routing import nodes


async def problem_of(name: str, provider_config: ProviderConfig) -> tuple[str, str]:
    """Return a problem and its remedy; both are empty for a usable provider.

    Nothing is paid and no session is opened, because closing it would end its job.
    """
    try:
        if nodes.read_node_settings(name, provider_config).direct:
            return await _probe_direct(name, provider_config)
        nodes.read_key(name, provider_config, os.environ)
    except ToolbridgeError as error:
        return (
            f"{name}: {error}",
            f"correct [providers.{name}], or export CLAUDE_BRIDGE_PRIVATE_KEY",
        )
    try:
        async with nodes.open_node(name, provider_config, os.environ) as opened:
            found = await opened.hosts(measure=True)
    except ToolbridgeError as error:
        return f"{name}: {error}", "run `toolbridge node hosts` for details"
    if any(host.latency is not None for host in found.candidates):
        return "", ""
    return (
        f"{name}: no host that serves {nodes.model_of(provider_config)} answers",
        "run `toolbridge node hosts` for details",
    )


async def _probe_direct(name: str, provider_config: ProviderConfig) -> tuple[str, str]:
    """Return the problem and remedy of a direct host that does not answer."""
    from toolbridge.node.hosts.probing import HostProber, HostSilent

    settings = nodes.read_node_settings(name, provider_config)
    url = settings.host_url
    try:
        async with HostProber(settings.access) as prober:
            await prober.latency(url)
    except HostSilent as error:
        return f"{name}: the node at {url}: {error}", "start it, or correct `host_url`"
    return "", ""
