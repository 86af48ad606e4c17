"""Deferred tools, for targets without tool search.

Anthropic (`defer_loading`) and OpenAI Responses let a client declare tools that the model does not
see until a search returns a reference to them. Other APIs have only the list of tools, so a found
tool is added to that list.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from toolbridge.core.messages import Loss, Part, Reference, Request, Result, Tool
from toolbridge.core.shared_tools import once_per_list


def available_tools(request: Request) -> Request:
    """Return the request with the deferred tools that were found, and without the others.

    Found tools are appended in the order in which they were found, so that the cached prefix of the
    prompt stays valid.
    """
    deferred = {tool.name: tool for tool in request.tools if tool.deferred}
    if not deferred:
        return request
    found = [name for name in dict.fromkeys(_references(request)) if name in deferred]
    at_hand = [tool for tool in request.tools if not tool.deferred]
    late = [replace(deferred[name], deferred=False) for name in found]
    return replace(request, tools=(*at_hand, *late))


def offer_deferred(request: Request, *, same_api: bool, defers: bool) -> tuple[Request, list[Loss]]:
    """Return `request` with deferred tools for a target without tool search.

    If the client itself searches (Claude Code's ToolSearch, Codex's tool_search), a tool is offered
    once a search found it. If the search would run at the client's API, all tools are offered at
    once. A target that `defers` keeps tools deferred for a client's search.
    """
    deferred = _deferred(request.tools)
    if not deferred or same_api:
        return request, []
    searched = _client_searches(request)
    if searched and defers:
        return request, []
    names = list(dict.fromkeys([*_references(request), *request.tool_choice.names]))
    hidden = [tool for tool in deferred if tool.name not in names]
    losses: list[Loss] = []
    if searched and hidden:
        where = hidden[0].source.path if hidden[0].source else "tools"
        why = f"deferred tools are offered once a search names them ({len(hidden)} not yet)"
        losses.append(Loss(where, why, minor=True))
    elif not searched:
        names += [tool.name for tool in hidden]
    by_name = {tool.name: tool for tool in deferred}
    late = tuple(replace(by_name[name], deferred=False) for name in names if name in by_name)
    at_hand = tuple(tool for tool in request.tools if not tool.deferred)
    return replace(request, tools=(*at_hand, *late)), losses


@once_per_list
def _deferred(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    return tuple(tool for tool in tools if tool.deferred)


def _client_searches(request: Request) -> bool:
    """Whether the client runs a search among the deferred tools."""
    if any(True for _ in _references(request)):
        return True
    return any(tool.hosted is None and _is_search(tool) for tool in request.tools)


def _is_search(tool: Tool) -> bool:
    return tool.name.lower().replace("_", "").replace("-", "").endswith("toolsearch")


def _references(request: Request) -> Iterator[str]:
    for turn in request.turns:
        for part in turn.content:
            inner: tuple[Part, ...] = part.content if isinstance(part, Result) else (part,)
            yield from (p.name for p in inner if isinstance(p, Reference))
