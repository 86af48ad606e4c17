"""Mistakes of the past, mended.

A model repeats what it sees. A past call with a wrong input teaches it to write such calls, and an
error that answers an input which is right by now teaches it nothing, so both go together.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from toolbridge.core.messages import Call, Loss, Request, Result, Text, Tool
from toolbridge.history.call_links import CallLinks, Place

Heal: TypeAlias = Callable[[Call, Tool], Call | None]
"""Returns the call as its tool's schema wants it, or None where nothing can be done."""

_MARK = "<tool_use_error>"
_REFUSED = ("inputvalidationerror", "mcp error -32602")
_CANCELLED = ("sibling tool call errored", "cancelled: parallel tool call")


class PastCalls(msgspec.Struct, frozen=True):
    calls: dict[Place, Call] = msgspec.field(default_factory=dict)
    """Calls that were mended."""
    dropped: frozenset[Place] = frozenset()
    """Calls and results that nobody needs to see again."""


def mend(request: Request, links: CallLinks, heal: Heal, losses: list[Loss]) -> PastCalls:
    """Mend past inputs; drop pairs that only tell of a mistake that is mended, or of no run."""
    tools = _by_name(request.tools)
    calls: dict[Place, Call] = {}
    dropped: set[Place] = set()
    for place, call in links.calls.items():
        at = links.result_of.get(place)
        if at and _begins(links.results[at], _CANCELLED):
            dropped |= {place, at}
            losses.append(_loss(place, "a call that was cancelled before it ran is left out"))
            continue
        healed = _healed(call, tools, heal)
        if healed is None:
            continue
        if at and _begins(links.results[at], _REFUSED):
            dropped |= {place, at}
            losses.append(_loss(place, "a refused input that can be mended is left out"))
        else:
            calls[place] = healed
    return PastCalls(calls, frozenset(dropped))


def _healed(call: Call, tools: dict[str, Tool], heal: Heal) -> Call | None:
    """Return the mended call, or None when it is right as it is or beyond help."""
    tool = tools.get(call.name) or tools.get(call.name.lower())
    if tool is None:
        return None
    healed = heal(_as_written(call), tool)
    if healed is None:
        return None
    healed = replace(healed, id=call.id)
    return None if healed == call else healed


def _as_written(call: Call) -> Call:
    """Return the call with what the model wrote, which Claude Code wraps when it is not JSON."""
    wrapped = call.arguments.get("__unparsedToolInput")
    if isinstance(wrapped, dict) and isinstance(raw := wrapped.get("raw"), str):
        return replace(call, arguments={}, raw=raw)
    return call


def _begins(result: Result, words: tuple[str, ...]) -> bool:
    """Whether the client itself, not the tool, says an error that begins with one of `words`."""
    text = next((part.text for part in result.content if isinstance(part, Text)), "")
    head = text[:200].lstrip().removeprefix(_MARK).lstrip().lower()
    return result.is_error and head.startswith(words)


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return the tools by name; the lower-case name finds one too, where it is no other's."""
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.hosted is None:
            named.setdefault(tool.name.lower(), tool)
    return named | {tool.name: tool for tool in tools if tool.hosted is None}


def _loss(place: Place, why: str) -> Loss:
    return Loss(f"turns.{place[0]}.content.{place[1]}", why)
