"""The tools of a request: which names are calls, and which types their parameters have."""

import re
from collections.abc import Sequence

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Tool
from toolbridge.dialects.engines.values import types_of

_SEPARATORS = re.compile(r"[.:/]|__")
_NOISE = re.compile(r"[^0-9a-z]+")


class Toolbox:
    """The declared tools.

    `None` means that they are unknown, so every name is accepted; an empty list, that nothing may
    be called.
    """

    def __init__(self, tools: Sequence[Tool] | None) -> None:
        self.known = tools is not None
        self.offered = tools is None or bool(tools)
        self._tools = {tool.name: tool for tool in tools or ()}
        self._loose = {_NOISE.sub("", name.lower()): name for name in self._tools}

    @property
    def names(self) -> list[str]:
        return list(self._tools)

    def resolve(self, name: str) -> str | None:
        """Return the declared name for `name`: exact, then without case or namespace."""
        name = name.strip()
        if not self.known:
            return name or None
        if name in self._tools:
            return name
        loose = _NOISE.sub("", name.lower())
        if loose in self._loose:
            return self._loose[loose]
        for bare in _without_namespace(name):
            if bare in self._tools:
                return bare
            if _NOISE.sub("", bare.lower()) in self._loose:
                return self._loose[_NOISE.sub("", bare.lower())]
        return name if self._is_member(name) else None

    def _is_member(self, name: str) -> bool:
        """Whether `name` belongs to a declared MCP server, as in `mcp__server__tool`."""
        owners = (name[: match.start()] for match in _SEPARATORS.finditer(name))
        return any(owner in self._tools and _SEPARATORS.search(owner) for owner in owners)

    def schema(self, name: str) -> JsonObject:
        tool = self._tools.get(name)
        return tool.schema if tool is not None else {}

    def parameters(self, name: str) -> frozenset[str]:
        return frozenset(self._properties(name))

    def declares(self, name: str, key: str) -> bool:
        return key in self._properties(name)

    def types(self, name: str, key: str) -> frozenset[str]:
        return types_of(self.parameter(name, key), self.schema(name))

    def parameter(self, name: str, key: str) -> Json:
        return self._properties(name).get(key)

    def _properties(self, name: str) -> JsonObject:
        properties = self.schema(name).get("properties")
        return properties if isinstance(properties, dict) else {}


def _without_namespace(name: str) -> list[str]:
    """Return `name` without each of its namespaces."""
    return [name[match.end() :] for match in _SEPARATORS.finditer(name)]
