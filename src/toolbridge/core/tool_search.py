"""Deferred tools that a tool search has found.

A deferred tool is declared but not offered. A search tool of the client returns a `Reference` to
each tool that fits; from then on the tool is offered. Only some APIs load tools by themselves, so
the encoders of the others add the found tools to the list.
"""

from toolbridge.core.messages import Reference, Request, Result


def found_tools(request: Request) -> dict[str, None]:
    """Return the names of the tools that searches have found, in the order of the findings."""
    found: dict[str, None] = {}
    for turn in request.turns:
        for part in turn.content:
            if isinstance(part, Reference):
                found[part.name] = None
            elif isinstance(part, Result):
                for inner in part.content:
                    if isinstance(inner, Reference):
                        found[inner.name] = None
    return found
