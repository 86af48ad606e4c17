"""Tools and tool choice of Ollama's API, in both directions.

Ollama, docs/api: there is no `tool_choice` and no switch for parallel calls, and no tool runs on
the server. A choice of ours becomes a shorter list of tools and a sentence in the system prompt.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.core.codec import Lose
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Origin, Request, Tool, ToolChoice
from toolbridge.core.shared_fields import hosted_why
from toolbridge.core.shared_tools import decoded_once, once_per_list
from toolbridge.core.source import own_words, sourced
from toolbridge.core.tool_search import found_tools
from toolbridge.core.written_list import wholly_written
from toolbridge.wire import shapes as wire
from toolbridge.wire.json_schema import inline

_tools = msgspec.json.Decoder(shapes.Tool)


@decoded_once
def decode_tools(given: Sequence[msgspec.Raw]) -> list[Tool]:
    """Return the tools of a request."""
    return [_decode_tool(raw, f"tools.{i}") for i, raw in enumerate(given)]


def _decode_tool(raw: msgspec.Raw, where: str) -> Tool:
    function = wire.decode_request(raw, _tools, where).function
    tool = Tool(function.name, function.description or "", function.parameters or {})
    unknown = wire.unknown_names(raw, shapes.Tool, where)
    return sourced(tool, Origin(ORIGIN, where, raw, unknown))


def decode_choice() -> ToolChoice:
    """Return the default: a request of this API cannot express a choice."""
    return ToolChoice()


def encode_tools(request: Request, lose: Lose) -> list[Json]:
    """Return the tools on offer: all, the named ones, or none. Nothing may change the list."""
    choice = request.tool_choice
    if choice.mode == "none" or not request.tools:
        return []
    named = choice.names
    if not named and (all_offers := _without_conditions(request.tools)) is not None:
        return all_offers
    encoded = _encode_all(request.tools)
    if choice.mode == "named" and not any(tool.name in named for tool in request.tools):
        named = ()  # the choice is lost, not the tools
    found = found_tools(request)
    now: list[Json] = []
    later: dict[str, Sequence[Json]] = {}
    for tool, (offer, losses) in zip(request.tools, encoded, strict=True):
        if named and tool.name not in named:
            continue
        if not tool.deferred or choice.mode == "named":
            now += offer
        elif tool.name in found:
            later[tool.name] = offer
        else:
            continue
        for what, why in losses:
            lose(what, why)
    # Found tools go to the end: the beginning of the prompt stays the same, and its cache valid.
    return now + [offered for name in found for offered in later.get(name, ())]


@once_per_list
def _without_conditions(tools: tuple[Tool, ...]) -> list[Json] | None:
    """Return what is offered if no tool is deferred and nothing is lost, as of most agents."""
    encoded = _encode_all(tools)
    if any(tool.deferred for tool in tools) or any(losses for _, losses in encoded):
        return None
    return wholly_written([offered for offer, _ in encoded for offered in offer])


_Losses: TypeAlias = list[tuple[str, str]]


@once_per_list
def _encode_all(tools: tuple[Tool, ...]) -> list[tuple[list[Json], _Losses]]:
    """Return what is offered for each tool, and the losses of that."""
    encoded: list[tuple[list[Json], _Losses]] = []
    for number, tool in enumerate(tools):
        losses: _Losses = []
        offer = _encode_tool(f"tools.{number}", tool, lambda *lost: losses.append(lost))  # noqa: B023
        encoded.append((offer, losses))
    return encoded


def _encode_tool(where: str, tool: Tool, lose: Lose) -> list[Json]:
    if tool.hosted is not None:
        lose(where, hosted_why(tool))
        return []
    written = own_words(tool, ORIGIN)
    if written is not None:
        return [written]
    if tool.strict:
        lose(f"{where}.strict", "Ollama does not enforce the schema of a tool")
    # Ollama, api/types.go: templates never see a `$ref` inside a property, so none is sent.
    schema, whole = inline(tool.input_schema)
    if not whole:
        lose(f"{where}.schema", "the schema refers to itself, or to a definition that is missing")
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "parameters": schema,
    }
    return [{"type": "function", "function": function}]


def encode_choice(request: Request, lose: Lose) -> str:
    """Return the sentence for the system prompt that stands for a tool choice; "" for none."""
    choice = request.tool_choice
    if choice.parallel is False:
        lose("tool_choice.parallel", "Ollama's API cannot forbid parallel calls")
    if choice.mode in {"auto", "none"}:
        return ""
    known = [tool.name for tool in request.tools if tool.hosted is None]
    if not any(name in known for name in choice.names or known):
        # A model that is ordered to call a missing tool invents a call.
        why = f"there is no tool {choice.names[0]!r}" if choice.names else "there is no tool"
        lose("tool_choice", why)
        return ""
    lose("tool_choice", "Ollama's API cannot force a call; the system prompt asks for it")
    if choice.mode == "named" and choice.names:
        return f"You must call the tool {choice.names[0]} now."
    return "You must call one of the tools now."
