"""The tool mode of each model: what the configuration sets, and what the provider can do.

`policy/tool_modes.py` decides; this module collects what it decides by.
"""

from toolbridge.core.messages import Request
from toolbridge.policy.tool_modes import Constraint, ToolMode, ToolSupport, choose_mode
from toolbridge.routing.models import Route
from toolbridge.routing.providers import DEMO, OLLAMA


def tool_mode(request: Request, route: Route) -> ToolMode:
    """Return the mode in which the tools of `request` reach the model of `route`."""
    setting = route.settings.tool_mode or route.provider_config.tool_mode
    if setting != "auto":
        return setting
    return choose_mode(request.tool_choice, support_of(route))


def support_of(route: Route) -> ToolSupport:
    """Return what the provider and the model of `route` can do with tools."""
    constraint = constraint_of(route)
    # Ollama, docs/api: `/api/chat` has no tool choice. Others that cannot force a call have a quirk.
    quirk = route.target.quirks.get("tool_choice_required", True)
    ignores = route.provider_config.api == OLLAMA or quirk is False
    return ToolSupport(
        native=route.target.can("tools"),
        # A constraint that is only assumed is no reason to give up the native tools.
        binds=not (ignores and route.provider_config.constraint),
        constraint=constraint,
    )


def constraint_of(route: Route) -> Constraint:
    """Return how the provider constrains an answer: its setting, else what its API has."""
    if route.provider_config.constraint is not None:
        return route.provider_config.constraint
    has_none = route.is_node or route.provider_config.api == DEMO
    return "" if has_none or route.target.quirks.get("json_schema") is False else "json_schema"
