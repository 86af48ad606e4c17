"""Whether a node provider could serve: its settings, its key, and somebody who answers."""

import os

from toolbridge.config import ProviderConfig
from toolbridge.core.errors import ToolbridgeError
from toolbridge.routing import nodes


async def problem_of(name: str, provider_config: ProviderConfig) -> tuple[str, str]:
    """Return what is wrong and what to do about it, both empty when all is well.

    Nothing is paid, and no session is opened: to leave one would end its job.
    """
    try:
        if nodes.read_node_settings(name, provider_config).direct:
            return await _silence(name, provider_config)
        nodes.read_key(name, provider_config, os.environ)
    except ToolbridgeError as error:
        return f"{name}: {error}", f"mend [providers.{name}], or export CLAUDE_BRIDGE_PRIVATE_KEY"
    try:
        async with nodes.open_node(name, provider_config, os.environ) as opened:
            found = await opened.hosts(measure=True)
    except ToolbridgeError as error:
        return f"{name}: {error}", "see `toolbridge node hosts`"
    if any(host.latency is not None for host in found.candidates):
        return "", ""
    return (
        f"{name}: no host that serves {nodes.model_of(provider_config)} answers",
        "`toolbridge node hosts`",
    )


async def _silence(name: str, provider_config: ProviderConfig) -> tuple[str, str]:
    """Return what is wrong with a host that is known in full: that it does not answer."""
    from toolbridge.node.hosts.probing import HostSilent, Prober

    url = nodes.read_node_settings(name, provider_config).host_url
    try:
        async with Prober() as prober:
            await prober.latency(url)
    except HostSilent as error:
        return f"{name}: the node at {url}: {error}", "start it, or mend `host_url`"
    return "", ""
