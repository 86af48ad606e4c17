"""Tools and tool choice of Chat Completions, in both directions.

OpenAI chat, tools: a tool is `function` (a JSON schema) or `custom` (free text); any other type is
hosted, which means that the provider runs it. `functions` and `function_call` are the deprecated
predecessors of `tools` and `tool_choice`; they are read, and always written as tools.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.quirks import Quirks
from toolbridge.codecs.openai_chat.search_options import (
    decode_options,
    decode_server_tool,
    search_options,
)
from toolbridge.codecs.openai_chat.shapes import ORIGIN
from toolbridge.core.codec import Lose
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Origin, Request, Tool, ToolChoice
from toolbridge.core.shared_fields import hosted_why
from toolbridge.core.shared_tools import decoded_once, once_per_list, tool_traits
from toolbridge.core.source import own_words, sourced, unknown_fields
from toolbridge.core.tool_search import found_tools
from toolbridge.core.written_list import wholly_written
from toolbridge.wire import shapes as wire

_tools = msgspec.json.Decoder(shapes.Tool)
_functions = msgspec.json.Decoder(shapes.ToolFunction)
_customs = msgspec.json.Decoder(shapes.CustomTool)
_choices = msgspec.json.Decoder(str | shapes.Choice | None)
_objects = msgspec.json.Decoder(wire.AnyObject)

# ── theirs to ours ───────────────────────────────────────────────────────────


def decode_tools(asked: shapes.Body, options: Json = None) -> tuple[Tool, ...]:
    """Return the tools of a request: those of the deprecated `functions`, and the search, last.

    `options` is the field `web_search_options`.
    """
    listed = _decode_listed(asked.tools)
    if not asked.functions and options is None:
        return listed
    tools = [*listed]
    for i, function in enumerate(asked.functions or ()):
        native: JsonObject = {"name": function.name}
        source = Origin(ORIGIN, f"functions.{i}")
        tool = _decode_function(function)
        tools.append(replace(tool, origin=ORIGIN, native=native, source=source))
    names = {tool.name for tool in tools}
    return (*tools, *decode_options(options, names))


@decoded_once
def _decode_listed(given: Sequence[msgspec.Raw]) -> list[Tool]:
    return [_decode_tool(raw, f"tools.{i}") for i, raw in enumerate(given)]


def _decode_tool(raw: msgspec.Raw, where: str) -> Tool:
    given = wire.decode_request(raw, _tools, where)
    tool = _decode_definition(given, raw, where)
    unknown = () if tool.hosted else wire.unknown_names(raw, shapes.ToolDefinition, where)
    if given.type == "custom" and _takes_any_text(given.custom):
        unknown = tuple(name for name in unknown if name != "custom.format")
    return sourced(tool, Origin(ORIGIN, where, raw, unknown))


def _decode_definition(tool: shapes.Tool, raw: msgspec.Raw, where: str) -> Tool:
    if tool.type == "function":
        inner = f"{where}.function"
        given = wire.decode_request(_required(tool.function, inner), _functions, inner)
        return _decode_function(given)
    if tool.type == "custom":
        inner = f"{where}.custom"
        custom = wire.decode_request(_required(tool.custom, inner), _customs, inner)
        return Tool(custom.name, custom.description or "", freeform=True, origin=ORIGIN)
    hosted = wire.decode_request(raw, _objects, where)
    name = hosted.get("name")
    named = name if isinstance(name, str) else tool.type
    return Tool(named, origin=ORIGIN, hosted=hosted, server=decode_server_tool(hosted, where))


def _takes_any_text(custom: msgspec.Raw) -> bool:
    # OpenAI chat, custom tools: `format` is {"type": "text"} or a grammar; text is the default.
    return wire.leftovers(custom, shapes.CustomTool).get("format") == {"type": "text"}


def _required(raw: msgspec.Raw, where: str) -> msgspec.Raw:
    if bytes(raw) == b"null":
        raise MalformedRequest("field required", where=where)
    return raw


def _decode_function(function: shapes.ToolFunction) -> Tool:
    return Tool(
        function.name,
        description=function.description or "",
        schema=function.parameters or {},
        strict=function.strict,
    )


def decode_choice(asked: shapes.Body, extra: JsonObject) -> ToolChoice:
    """Return the tool choice; unknown fields of it are kept in `extra`."""
    choice = wire.decode_request(asked.tool_choice, _choices, "tool_choice")
    parallel = asked.parallel_tool_calls
    if isinstance(choice, shapes.Choice) and (
        rest := wire.rest(asked.tool_choice, shapes.Choice, "tool_choice")
    ):
        extra["tool_choice"] = rest
    if asked.functions and parallel is None:
        parallel = False  # an answer has only one `function_call`
    if choice is None and asked.function_call is not None:
        legacy = asked.function_call
        choice = legacy if isinstance(legacy, str) else shapes.Choice(function=legacy)
    if isinstance(choice, shapes.Choice):
        return _decode_object(choice, parallel=parallel)
    match choice:
        case None | "auto":
            return ToolChoice("auto", parallel=parallel)
        case "none":
            return ToolChoice("none", parallel=parallel)
        case "required" | "any":  # Mistral, chat completions: `any` means `required`
            return ToolChoice("required", parallel=parallel)
        case _:
            raise MalformedRequest(f"there is no choice {choice!r}", where="tool_choice")


def _decode_object(choice: shapes.Choice, *, parallel: bool | None) -> ToolChoice:
    if choice.type == "allowed_tools":
        allowed = choice.allowed_tools or shapes.AllowedTools()
        names = tuple(filter(None, map(_name, allowed.tools)))
        return ToolChoice("required" if allowed.mode == "required" else "auto", names, parallel)
    name = _name(choice)
    if not name:
        raise MalformedRequest("field required", where="tool_choice.function.name")
    return ToolChoice("named", (name,), parallel)


def _name(tool: shapes.NamedTool) -> str:
    named = tool.function or tool.custom
    return named.name if named else tool.name


# ── ours to theirs ───────────────────────────────────────────────────────────


class Offer(msgspec.Struct, frozen=True):
    """The tools on offer, in the client's own words where the provider accepts them."""

    tools: list[Json]
    names: dict[str, Tool]
    """The offered tools by their names."""
    losses: list[tuple[str, str]]


def encode_tools(request: Request, quirks: Quirks, lose: Lose) -> Offer:
    """Return the tools on offer. The offer is shared between requests: nothing may change it."""
    choice = request.tool_choice
    found = tuple(found_tools(request)) if tool_traits(request.tools).deferred else ()
    offer = _encode_all(request.tools, choice, quirks, request.origin, found)
    for what, why in offer.losses:
        lose(what, why)
    return offer


@once_per_list
def _encode_all(
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    quirks: Quirks,
    origin: str,
    found: tuple[str, ...],
) -> Offer:
    """Return the tools on offer. `found` are the tools that searches found."""
    losses: list[tuple[str, str]] = []

    def lose(what: str, why: str) -> None:
        losses.append((what, why))

    for number, tool in enumerate(tools):
        if not _is_withheld(choice, quirks, tool) and _is_elsewhere(tool):
            lose(f"tools.{number}", hosted_why(tool))
    listed = _offered(tools, choice, quirks, found)
    offered = [one for one in listed if not search_options(one[1])]
    encoded: list[Json] = [
        _encode_tool(number, tool, origin, quirks, lose) for number, tool in offered
    ]
    return Offer(wholly_written(encoded), {tool.name: tool for _, tool in offered}, losses)


def _offered(
    tools: tuple[Tool, ...], choice: ToolChoice, quirks: Quirks, found: tuple[str, ...]
) -> list[tuple[int, Tool]]:
    """Return the tools to offer with their numbers; those that a search found come last.

    The beginning of the prompt stays the same, and the provider's prefix cache valid.
    """
    now: list[tuple[int, Tool]] = []
    later: dict[str, tuple[int, Tool]] = {}
    for number, tool in enumerate(tools):
        if _is_withheld(choice, quirks, tool) or _is_elsewhere(tool):
            continue
        if not tool.deferred or (choice.mode == "named" and tool.name in choice.names):
            now.append((number, tool))
        elif tool.name in found:
            later[tool.name] = (number, tool)
    return now + [later[name] for name in found if name in later]


def _is_withheld(choice: ToolChoice, quirks: Quirks, tool: Tool) -> bool:
    """Return True for a tool outside a choice that the provider has no field for."""
    if not choice.names or tool.name in choice.names:
        return False
    return not (quirks.tool_choice_named if choice.mode == "named" else quirks.allowed_tools)


def _is_elsewhere(tool: Tool) -> bool:
    """Return True for a tool that only another API's servers can run."""
    return tool.hosted is not None and tool.origin != ORIGIN


def is_custom(tool: Tool | None, origin: str, quirks: Quirks) -> bool:
    """Return True for a tool that is offered as `custom`, and not as a function."""
    if tool is None or not tool.freeform:
        return False
    return origin == ORIGIN and quirks.custom_tools


def _encode_tool(number: int, tool: Tool, origin: str, quirks: Quirks, lose: Lose) -> JsonObject:
    if tool.hosted is not None:
        return tool.hosted
    custom = is_custom(tool, origin, quirks)
    written = own_words(tool, ORIGIN)
    accepted = (custom or not tool.freeform) and (not tool.strict or quirks.strict_tools)
    if written is not None and accepted:
        return written
    offer: JsonObject = {"name": tool.name}
    if tool.description:
        offer["description"] = tool.description
    beside = unknown_fields(tool, ORIGIN)
    if custom:
        return {"type": "custom", "custom": offer, **beside}
    offer["parameters"] = tool.input_schema
    if tool.strict is not None and _may_be_strict(number, tool, origin, quirks, lose):
        offer["strict"] = tool.strict
    return {"type": "function", "function": offer, **beside}


def _may_be_strict(number: int, tool: Tool, origin: str, quirks: Quirks, lose: Lose) -> bool:
    if not quirks.strict_tools:
        why = "this provider does not enforce the schema of a tool"
    elif tool.strict and origin != ORIGIN and not _is_closed(tool.schema):
        # OpenAI, structured outputs: with `strict`, every object lists all of its properties in
        # `required` and sets `additionalProperties: false`.
        why = "a strict schema must require all of its properties and allow no others"
    else:
        return True
    if tool.strict:
        lose(f"tools.{number}.strict", why)
    return False


def _is_closed(schema: Json) -> bool:
    """Return True if every object in a schema requires all properties and allows no others."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if isinstance(properties, dict):
        required = schema.get("required")
        named = set(properties) <= set(required) if isinstance(required, list) else not properties
        if not named or schema.get("additionalProperties") is not False:
            return False
    return all(map(_is_closed, schema.values()))


def encode_choice(
    request: Request, quirks: Quirks, offered: dict[str, Tool], lose: Lose
) -> JsonObject:
    """Return `tool_choice` and `parallel_tool_calls`, each only if it is not the default.

    OpenAI chat: both fields are rejected in a request without tools.
    """
    choice = request.tool_choice
    if not offered:
        if choice.mode in {"required", "named"}:
            lose("tool_choice", "there is no tool to choose")
        return {}
    fields: JsonObject = {}
    if choice.mode != "auto" or choice.names:
        value = _encode_choice(request, quirks, offered, lose)
        if value != "auto":
            fields["tool_choice"] = value
    if choice.parallel is not None and quirks.parallel_tool_calls:
        fields["parallel_tool_calls"] = choice.parallel
    elif choice.parallel is False:
        lose("tool_choice.parallel", "this provider cannot forbid parallel calls")
    return fields


def _encode_choice(request: Request, quirks: Quirks, offered: dict[str, Tool], lose: Lose) -> Json:
    choice = request.tool_choice

    def named(name: str) -> JsonObject:
        kind = "custom" if is_custom(offered[name], request.origin, quirks) else "function"
        return {"type": kind, kind: {"name": name}}

    mode: str = choice.mode
    if mode == "named" and choice.names[:1] and choice.names[0] not in offered:
        lose("tool_choice", f"there is no tool {choice.names[0]!r}")
        return "auto"
    if mode == "named" and quirks.tool_choice_named:
        return named(choice.names[0])
    mode = "required" if mode == "named" else mode
    if mode == "required" and not quirks.tool_choice_required:
        lose("tool_choice.mode", "this provider cannot force a tool call")
        mode = "auto"
    if choice.names and choice.mode != "named" and quirks.allowed_tools and mode != "none":
        tools: list[Json] = [named(name) for name in choice.names if name in offered]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
    return mode
