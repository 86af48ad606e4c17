"""Tools that a search found, for targets that know nothing of tool search."""

from collections.abc import Iterator

from msgspec.structs import replace

from toolbridge.core.messages import Part, Reference, Request, Result


def available_tools(request: Request) -> Request:
    """Return the request with the deferred tools that were found on offer, and without the others.

    What was found stands at the end, in the order of finding: the tools in front of it keep their
    places, and with them the prefix that a server has cached.
    """
    deferred = {tool.name: tool for tool in request.tools if tool.deferred}
    if not deferred:
        return request
    found = [name for name in dict.fromkeys(_references(request)) if name in deferred]
    at_hand = [tool for tool in request.tools if not tool.deferred]
    late = [replace(deferred[name], deferred=False) for name in found]
    return replace(request, tools=(*at_hand, *late))


def _references(request: Request) -> Iterator[str]:
    for turn in request.turns:
        for part in turn.content:
            inner: tuple[Part, ...] = part.content if isinstance(part, Result) else (part,)
            yield from (p.name for p in inner if isinstance(p, Reference))
