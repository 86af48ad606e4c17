"""What a created key may use: models, routes and tools, as patterns.

A pattern is a glob (`claude-*`, `ollama/*`, `/v1/chat/*`). Models are compared by what serves the
request and by the names that `[map]` has for it, never by the name that the client sends: a client
may send any name, and an unknown one is served by the default model.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

import msgspec

from toolbridge.core.errors import NotAllowed
from toolbridge.core.messages import Loss, Request, Tool, ToolChoice

ModelMap: TypeAlias = Mapping[str, str | tuple[str, ...]]
"""The setting `map`: name → address, or a chain of addresses."""
OPERATORS = ("/metrics", "/v1/runs")
"""Routes that show the requests of all keys; a key needs them by name in its `routes`."""


class KeyScopes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Patterns of what a key may use; an empty tuple allows everything."""

    models: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


def allows_model(scopes: KeyScopes, address: str, table: ModelMap) -> bool:
    """Return whether a key may use the model at `address`; `table` is the setting `map`."""
    if not scopes.models:
        return True
    names = [address, address.partition("/")[2], *_names_of(address, table)]
    return any(_matches(name, scopes.models) for name in names)


def check_model(key: str, scopes: KeyScopes, address: str, table: ModelMap) -> None:
    """Raise `NotAllowed` if the key with the name `key` may not use the model."""
    if not allows_model(scopes, address, table):
        raise NotAllowed(
            f"the key {key!r} may not use {address}; it may use: {', '.join(scopes.models)}. "
            f"To allow more, the gateway's operator runs `toolbridge key set {key} --models …`",
            where="model",
        )


def check_route(key: str, scopes: KeyScopes, path: str) -> None:
    """Raise `NotAllowed` if the key may not use the route at `path`."""
    if scopes.routes and not _matches(path, scopes.routes):
        allowed = ", ".join(scopes.routes)
        raise NotAllowed(f"the key {key!r} may not use {path[:200]}; it may use: {allowed}")
    for route in OPERATORS:
        of_route = path == route or path.startswith(f"{route}/")
        # A wide pattern such as `/v1/*` is not enough.
        if of_route and not any(pattern.startswith(route) for pattern in scopes.routes):
            raise NotAllowed(
                f"the key {key!r} may not use {route}, which shows the use of all keys; create a key "
                f"with `--routes '{route}*'`, or use the key of the configuration"
            )


def allowed_tools(
    key: str, scopes: KeyScopes, request: Request
) -> tuple[Request, tuple[Loss, ...]]:
    """Return the request without the tools that the key may not use, and the losses.

    Raise `NotAllowed` if the request demands a call of such a tool.
    """
    if not scopes.tools or not request.tools:
        return request, ()
    kept = tuple(tool for tool in request.tools if allows_tool(scopes, tool.name))
    if len(kept) == len(request.tools):
        return request, ()
    removed = [tool for tool in request.tools if tool not in kept]
    choice = request.tool_choice
    refused = [name for name in choice.names if not allows_tool(scopes, name)]
    if choice.mode == "named" and refused:
        raise NotAllowed(tool_text(key, scopes, refused[0]), where="tool_choice")
    named = tuple(name for name in choice.names if name not in refused)
    if choice.mode == "required" and (not kept or (refused and not named)):
        raise NotAllowed(tool_text(key, scopes, removed[0].name), where="tools")
    if not kept:
        choice = ToolChoice()
    elif refused:
        choice = msgspec.structs.replace(choice, names=named)
    return msgspec.structs.replace(request, tools=kept, tool_choice=choice), tuple(
        _losses(key, removed)
    )


def _losses(key: str, removed: Iterable[Tool]) -> Iterable[Loss]:
    for tool in removed:
        yield Loss("tools", f"{tool.name} was removed: the key {key!r} may not use it")


def allows_tool(scopes: KeyScopes, name: str) -> bool:
    """Return whether a key may use the tool."""
    return not scopes.tools or _matches(name, scopes.tools)


def tool_text(key: str, scopes: KeyScopes, name: str) -> str:
    """Return the text of the error for a tool that the key may not use."""
    return f"the key {key!r} may not use the tool {name}; it may use: {', '.join(scopes.tools)}"


def _names_of(address: str, table: ModelMap) -> Iterable[str]:
    return (name for name, target in table.items() if address in _targets(target))


def _targets(target: str | tuple[str, ...]) -> tuple[str, ...]:
    return (target,) if isinstance(target, str) else target


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    # In fnmatch `[` begins a set; in a model's name it is part of the suffix `[1m]`.
    name = re.sub(r"\[1m\]$", "", name)
    return any(fnmatchcase(name, pattern) for pattern in patterns)
