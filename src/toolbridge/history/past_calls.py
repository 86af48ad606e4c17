"""Corrects the arguments of past calls, and removes pairs that only document a mistake.

A model imitates its own history: a past call with wrong arguments makes it write more of them, and
the client's validation error no longer applies once the arguments are healed, so call and error are
removed together (PX-X3). Claude Code reports validation errors as `<tool_use_error>` results and
cancels the other calls of a turn when one of them fails.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from toolbridge.core.messages import Call, Loss, Request, Result, Text, Tool
from toolbridge.core.shared_tools import once_per_list
from toolbridge.history.call_links import CallLinks, PartIndex

Heal: TypeAlias = Callable[[Call, Tool], Call | None]
"""Returns the call with arguments that fit its tool's schema, or None if it cannot be healed."""

_MARK = "<tool_use_error>"
_REFUSED = ("inputvalidationerror", "mcp error -32602")
_CANCELLED = ("sibling tool call errored", "cancelled: parallel tool call")


class PastCalls(msgspec.Struct, frozen=True):
    """What healing changed in the past calls of a conversation."""

    calls: dict[PartIndex, Call] = msgspec.field(default_factory=dict)
    """The healed calls."""
    dropped: frozenset[PartIndex] = frozenset()
    """Calls and results that are removed."""


def heal_past_calls(
    request: Request, links: CallLinks, heal: Heal, losses: list[Loss]
) -> PastCalls:
    """Return the healed calls, and the pairs to remove: cancelled calls and healed refused ones."""
    tools = _by_name(request.tools)
    calls: dict[PartIndex, Call] = {}
    dropped: set[PartIndex] = set()
    for index, call in links.calls.items():
        at = links.result_of.get(index)
        if at and _begins(links.results[at], _CANCELLED):
            dropped |= {index, at}
            losses.append(_loss(index, "a call that was cancelled before it ran is left out"))
            continue
        healed = _healed(call, tools, heal)
        if healed is None:
            continue
        if at and _begins(links.results[at], _REFUSED):
            dropped |= {index, at}
            losses.append(
                _loss(
                    index, "a call that was rejected for arguments that are now healed is left out"
                )
            )
        else:
            calls[index] = healed
    return PastCalls(calls, frozenset(dropped))


def with_empty_arguments(
    past: PastCalls, links: CallLinks, losses: list[Loss], *, text: bool
) -> PastCalls:
    """Return `past` with empty arguments for calls with `null`; report other text unless `text`.

    APIs whose arguments are objects get such text as `{"raw": …}`, from their encoders.
    """
    found: dict[PartIndex, Call] = {}
    for index, written in links.calls.items():
        call = past.calls.get(index, written)
        if not call.raw or index in past.dropped:
            continue
        if call.raw.strip() == "null":
            found[index] = replace(call, raw="")
        elif not text:
            losses.append(
                _loss(index, 'arguments that are not a JSON object are sent as {"raw": "…"}')
            )
    return replace(past, calls=past.calls | found) if found else past


def _healed(call: Call, tools: dict[str, Tool], heal: Heal) -> Call | None:
    """Return the healed call, or None when nothing changes."""
    tool = tools.get(call.name) or tools.get(call.name.lower())
    if tool is None:
        return None
    healed = heal(_as_written(call), tool)
    if healed is None:
        return None
    healed = replace(healed, id=call.id)
    return None if healed == call else healed


def _as_written(call: Call) -> Call:
    """Return the call with the model's own text, which Claude Code wraps in `__unparsedToolInput`."""
    wrapped = call.arguments.get("__unparsedToolInput")
    if isinstance(wrapped, dict) and isinstance(raw := wrapped.get("raw"), str):
        return replace(call, arguments={}, raw=raw)
    return call


def _begins(result: Result, words: tuple[str, ...]) -> bool:
    """Whether `result` is an error of the client, not of the tool, that begins with one of `words`."""
    if not result.is_error:
        return False
    text = next((part.text for part in result.content if isinstance(part, Text)), "")
    head = text[:200].lstrip().removeprefix(_MARK).lstrip().lower()
    return head.startswith(words)


@once_per_list
def _by_name(tools: tuple[Tool, ...]) -> dict[str, Tool]:
    """Return the tools by name, and by lower-case name where that is free."""
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.hosted is None:
            named.setdefault(tool.name.lower(), tool)
    return named | {tool.name: tool for tool in tools if tool.hosted is None}


def _loss(index: PartIndex, why: str) -> Loss:
    return Loss(f"turns.{index[0]}.content.{index[1]}", why)
