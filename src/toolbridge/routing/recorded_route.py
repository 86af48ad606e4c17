"""The route of a recorded request as JSON, and back.

A recording holds what the route knew about the provider and the model, without keys and addresses,
so that a replay needs no configuration and asks no provider.
"""

import msgspec

from toolbridge.config import ModelConfig, ProviderConfig
from toolbridge.core.codec import Target
from toolbridge.core.json import JsonObject
from toolbridge.environment import CALLER
from toolbridge.routing.providers import is_vendor_host, passes_through
from toolbridge.routing.route import Route

_URL = "http://recorded.invalid"


class _RecordedRoute(msgspec.Struct, frozen=True):
    provider: str
    config: ProviderConfig
    target: Target
    settings: ModelConfig = ModelConfig()
    engine: str = ""


def route_to_json(route: Route, tool_mode: str) -> JsonObject:
    """Return a route as JSON, with the tool mode that was used."""
    given = route.provider_config
    config = ProviderConfig(
        api=given.api,
        url=given.url if is_vendor_host(given) else _URL,
        key=CALLER if given.key == CALLER else "",
        quirks=given.quirks,
        window=given.window,
        window_cap=given.window_cap,
        passthrough=passes_through(given),
        midstream_failure=given.midstream_failure,
        counting=given.counting,
        retries=given.retries,
        files=given.files,
        server_tools=given.server_tools,
        tool_mode=given.tool_mode,
        constraint=given.constraint,
    )
    settings = route.settings
    if tool_mode in {"native", "prompt", "constrained"}:
        settings = msgspec.structs.replace(settings, tool_mode=tool_mode)
    made = _RecordedRoute(route.provider, config, route.target, settings, route.engine)
    found: JsonObject = msgspec.to_builtins(made)
    return found


def route_from_json(value: JsonObject) -> Route:
    """Return the route of a recording; raise `msgspec.ValidationError` for other JSON."""
    found = msgspec.convert(value, _RecordedRoute)
    return Route(
        provider=found.provider,
        provider_config=found.config,
        key="",
        target=found.target,
        settings=found.settings,
        engine=found.engine,
    )
