"""Tools and tool choice of the Messages API, in both directions.

A tool has an `input_schema`, or a `type` that Anthropic defines. The client runs some of the typed
tools (`client_tools`); the others are server tools, which Anthropic runs inside the answer.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from toolbridge.codecs.anthropic import shapes
from toolbridge.codecs.anthropic.client_tools import read_client_tool
from toolbridge.codecs.anthropic.mcp_toolsets import TOOLSET, check_toolset
from toolbridge.codecs.anthropic.quirks import Quirks
from toolbridge.codecs.anthropic.server_blocks import read_declaration
from toolbridge.codecs.anthropic.shapes import (
    NULL,
    ORIGIN,
    decode_cache,
    decode_rest,
    encode_cache,
)
from toolbridge.core.codec import Lose
from toolbridge.core.declared_limits import (
    check_count,
    check_domains,
    check_flag,
    check_object,
    check_place,
)
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Foreign, Origin, Tool, ToolChoice
from toolbridge.core.shared_fields import hosted_why
from toolbridge.core.shared_tools import decoded_once
from toolbridge.core.source import own_words, sourced, unknown_fields
from toolbridge.wire import shapes as wire

_tools = msgspec.json.Decoder(shapes.Tool)
_objects = msgspec.json.Decoder(wire.AnyObject)
_choices = msgspec.json.Decoder(shapes.Choice | None)

_CHOICES: dict[str, Literal["auto", "none", "required", "named"]] = {
    "auto": "auto",
    "any": "required",
    "tool": "named",
    "none": "none",
}
_COMBINED = frozenset({"oneOf", "anyOf", "allOf"})
CHOICE_TYPES = {ours: theirs for theirs, ours in _CHOICES.items()}


@decoded_once
def decode_tools(given: Sequence[msgspec.Raw]) -> list[Tool]:
    """Return the tools of a request."""
    return [_decode_tool(raw, f"tools.{i}") for i, raw in enumerate(given)]


def _decode_tool(raw: msgspec.Raw, where: str) -> Tool:
    given = wire.decode_request(raw, _tools, where)
    names = wire.unknown_names(raw, shapes.Tool, where)
    tool = _decode_typed(given, raw, where) or _decode_custom(given, where)
    return sourced(tool, Origin(ORIGIN, where, raw, () if tool.hosted else names))


def _decode_typed(given: shapes.Tool, raw: msgspec.Raw, where: str) -> Tool | None:
    """Return a tool that its type defines; None for one with a schema."""
    # Anthropic, tool use: a tool without `type` is a custom one.
    if given.input_schema is not None or given.type in {None, "custom"}:
        return None
    declared = wire.decode_request(raw, _objects, where)
    known = read_client_tool(declared)
    if known is not None:
        return known
    if given.type == TOOLSET:
        check_toolset(declared, where)
    server = read_declaration(declared)
    if server is not None:
        _check_limits(declared, where)
    return Tool(given.name or given.type, origin=ORIGIN, hosted=declared, server=server)


def _check_limits(declared: JsonObject, where: str) -> None:
    check_count(declared, "max_uses", where)
    check_count(declared, "max_content_tokens", where)
    check_domains(declared, "allowed_domains", "blocked_domains", where)
    check_place(declared.get("user_location"), f"{where}.user_location")
    citations = declared.get("citations")
    check_object(citations, f"{where}.citations")
    if isinstance(citations, dict):
        check_flag(citations, "enabled", f"{where}.citations")


def _decode_custom(tool: shapes.Tool, where: str) -> Tool:
    if not tool.name:
        raise MalformedRequest("field required", where=f"{where}.name")
    if tool.input_schema is None:
        raise MalformedRequest("field required", where=f"{where}.input_schema")
    return Tool(
        tool.name,
        description=tool.description or "",
        schema=tool.input_schema,
        strict=tool.strict,
        deferred=bool(tool.defer_loading),
        cache=decode_cache(tool.cache_control),
    )


def encode_tools(tools: tuple[Tool, ...], lose: Lose) -> list[Json]:
    """Return the tools that Anthropic's API can offer."""
    found = (_encode_tool(tool, f"tools.{i}", lose) for i, tool in enumerate(tools))
    return [offer for offer in found if offer is not None]


def _encode_tool(tool: Tool, where: str, lose: Lose) -> JsonObject | None:
    written = own_words(tool, ORIGIN)
    if written is not None:
        flat = _COMBINED.isdisjoint(tool.schema)
        return written if flat else _with_flat_schema(written, where, lose)
    if tool.native and tool.origin == ORIGIN:
        return tool.native | {"name": tool.name}
    if tool.hosted is not None:
        if tool.origin == ORIGIN:
            return tool.hosted
        lose(where, hosted_why(tool))
        return None
    offer: JsonObject = {"name": tool.name}
    if tool.description:
        offer["description"] = tool.description
    offer["input_schema"] = tool.input_schema
    if not _COMBINED.isdisjoint(tool.schema):
        offer = _with_flat_schema(offer, where, lose)
    if tool.strict is not None:
        offer["strict"] = tool.strict
    # Anthropic, tool search tool: a deferred tool is loaded once a tool_reference names it.
    if tool.deferred:
        offer["defer_loading"] = True
    return unknown_fields(tool, ORIGIN) | offer | encode_cache(tool.cache)


def _with_flat_schema(offer: JsonObject, where: str, lose: Lose) -> JsonObject:
    from toolbridge.wire.flat_schema import flatten_root  # few requests need it

    # Anthropic, tool use: "input_schema does not support oneOf, allOf, or anyOf at the top level".
    schema = offer.get("input_schema")
    if not isinstance(schema, dict):
        return offer
    lose(f"{where}.schema", "Anthropic accepts no oneOf, anyOf or allOf at the root: merged")
    return offer | {"input_schema": flatten_root(schema)}


def decode_choice(raw: msgspec.Raw) -> tuple[ToolChoice, JsonObject]:
    """Return the tool choice, and the fields of it that only Anthropic understands."""
    if raw is NULL:
        return ToolChoice(), {}
    choice = wire.decode_request(raw, _choices, "tool_choice")
    if choice is None:
        return ToolChoice(), {}
    if choice.type == "tool" and not choice.name:
        raise MalformedRequest("field required", where="tool_choice.name")
    serial = choice.disable_parallel_tool_use
    decoded = ToolChoice(
        _CHOICES[choice.type],
        names=(choice.name,) if choice.type == "tool" else (),
        parallel=None if serial is None else not serial,
    )
    return decoded, decode_rest(raw, shapes.Choice)


def encode_choice(choice: ToolChoice, quirks: Quirks, lose: Lose) -> JsonObject:
    """Return the field `tool_choice`, to be merged into the body; nothing for the default."""
    mode, names = choice.mode, choice.names
    if mode == "required" and len(names) == 1:
        mode = "named"
    if names and mode != "named":
        lose("tool_choice.names", "Anthropic's tool_choice names exactly one tool or none")
    if mode in {"required", "named"} and not quirks.forced_tools:
        lose("tool_choice.mode", "this model rejects a forced tool choice")
        mode = "auto"
    encoded: JsonObject = {"type": CHOICE_TYPES[mode]}
    if mode == "named":
        encoded["name"] = names[0]
    # Anthropic, tool use: every type but "none" takes `disable_parallel_tool_use`.
    if choice.parallel is not None and mode != "none":
        encoded["disable_parallel_tool_use"] = not choice.parallel
    return {} if encoded == {"type": "auto"} else {"tool_choice": encoded}


# ── server tools ─────────────────────────────────────────────────────────────

_INPUTS = {
    "web_search": "query",
    "web_fetch": "url",
    "code_execution": "code",
    "tool_search_tool_regex": "query",
    "tool_search_tool_bm25": "query",
}
"""The parameter of each server tool, by its name in calls."""
_RESULTS = {
    "web_search": "web_search_tool_result",
    "web_fetch": "web_fetch_tool_result",
    "code_execution": "code_execution_tool_result",
    "tool_search_tool_regex": "tool_search_tool_result",
    "tool_search_tool_bm25": "tool_search_tool_result",
}


def encode_unavailable(tool: Tool, subject: str, ids: Ids) -> tuple[Foreign | str, ...] | None:
    """Return a call of `tool`, its failure, and a sentence about it; None for other tools.

    Anthropic, web search tool: an error is a result block; the status stays 200 and the answer
    goes on. Claude Code passes the error code and the sentence to the model that asked. Types end
    with a date, so a tool is recognized by the beginning of its type.
    """
    type = str((tool.hosted or {}).get("type", ""))
    name = next((name for name in _INPUTS if type.startswith(name)), None)
    if name is None:
        return None
    # Anthropic, web search tool: ids of server tools begin with "srvtoolu_".
    id = f"srvtoolu_{ids.draw(24)}"
    result = _RESULTS[name]
    call: JsonObject = {
        "type": "server_tool_use",
        "id": id,
        "name": name,
        "input": {_INPUTS[name]: subject},
    }
    error: JsonObject = {"type": f"{result}_error", "error_code": "unavailable"}
    answer: JsonObject = {"type": result, "tool_use_id": id, "content": error}
    return (
        Foreign(ORIGIN, "server_tool_use", call),
        Foreign(ORIGIN, result, answer),
        f"{name} is not available: the model behind this gateway has no such tool.",
    )
