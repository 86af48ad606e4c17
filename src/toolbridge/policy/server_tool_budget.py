"""Limits the calls of server tools in one answer.

A call beyond `max_uses` fails with the error of the vendor's API, and the model goes on without the
tool. The same call again gets the first result; a third time it fails, because a model that
repeats itself would use up every limit.
"""

from collections import Counter

import msgspec

from toolbridge.core.json import dumps
from toolbridge.core.server_tools import ServerCall, ServerTool, ServerToolError, ServerToolOutcome

_REPEATED = 2
"""How often the same call is answered."""


class LoopLimits(msgspec.Struct, frozen=True):
    """The limits of one answer."""

    max_uses: int = 8
    """Calls of one tool, where the request does not allow fewer."""
    max_passes: int = 8
    """Requests to the model."""
    found_tools: int = 5
    """Tools that one tool search finds."""


class ToolBudget:
    """The calls of one answer so far."""

    def __init__(self, limits: LoopLimits) -> None:
        self._limits = limits
        self._uses: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._known: dict[str, ServerToolOutcome] = {}
        self.exhausted = False
        """Whether a call was refused, so that the model must answer without the tools."""

    def maybe_known(
        self, call: ServerCall, name: str, tool: ServerTool
    ) -> ServerToolOutcome | None:
        """Return the outcome of a call that must not run, or that has run before; None to run it.

        `name` is that of the function.
        """
        key = _key(call, name)
        self._calls[key] += 1
        if self._calls[key] > _REPEATED:
            self.exhausted = True
            text = "this call was made before; use its earlier result"
            return ServerToolError("max_uses_exceeded", text)
        if key in self._known:
            return self._known[key]
        most = self._limits.max_uses
        if tool.max_uses is not None and tool.kind != "mcp":
            most = min(most, tool.max_uses)
        if self._uses[name] >= most and tool.kind != "mcp":
            self.exhausted = True
            text = f"{name} may be called {most} times in one answer; answer without it"
            return ServerToolError("max_uses_exceeded", text)
        self._uses[name] += 1
        return None

    def keep(self, call: ServerCall, name: str, outcome: ServerToolOutcome) -> None:
        """Keep the outcome of a call that has run, for the same call again."""
        if call.kind in {"web_search", "web_fetch", "tool_search"}:
            self._known[_key(call, name)] = outcome


def _key(call: ServerCall, name: str) -> str:
    return f"{name} {dumps(call.arguments)}"
