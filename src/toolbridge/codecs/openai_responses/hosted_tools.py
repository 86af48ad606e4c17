"""Declarations of tools that the server runs, in both directions.

OpenAI Responses, built-in tools: `web_search` (with a date or `_preview` behind it), `mcp`,
`code_interpreter` and `tool_search` are declared by their type. Others, such as `file_search`,
exist at OpenAI alone.
"""

from toolbridge.codecs.openai_responses.shapes import ORIGIN
from toolbridge.core.codec import Lose, Target
from toolbridge.core.declared_limits import (
    check_choice,
    check_domains,
    check_flag,
    check_object,
    check_place,
    check_texts,
)
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject, object_in, text_in, texts_of
from toolbridge.core.messages import Request
from toolbridge.core.server_tools import CONTEXT_SIZES, McpConnection, ServerTool

_BEARER = "Bearer "


def check_server_tool(declared: JsonObject, where: str) -> None:
    """Raise unless the fields that limit a hosted tool can be read."""
    type = str(declared.get("type"))
    if type.startswith("web_search"):
        check_object(declared.get("filters"), f"{where}.filters")
        filters = object_in(declared, "filters")
        check_domains(filters, "allowed_domains", "blocked_domains", f"{where}.filters")
        check_place(declared.get("user_location"), f"{where}.user_location")
        check_choice(declared, "search_context_size", ("low", "medium", "high"), where)
        check_flag(declared, "external_web_access", where)
    elif type == "mcp":
        _check_mcp(declared, where)


def _check_mcp(declared: JsonObject, where: str) -> None:
    if not text_in(declared, "server_label"):
        raise MalformedRequest("must be the name of a server", where=f"{where}.server_label")
    _check_tools(declared.get("allowed_tools"), f"{where}.allowed_tools")
    asked = declared.get("require_approval")
    if not isinstance(asked, dict):
        check_choice(declared, "require_approval", ("always", "never"), where)
        return
    for name in ("always", "never"):
        inner = f"{where}.require_approval.{name}"
        check_object(asked.get(name), inner)
        _check_tools(asked.get(name), inner)


def _check_tools(tools: Json, where: str) -> None:
    """Raise unless `tools` is a list of names, or an object that has one."""
    if not isinstance(tools, dict):
        check_texts(tools, where)
        return
    check_texts(tools.get("tool_names"), f"{where}.tool_names")
    check_flag(tools, "read_only", where)


def decode_server_tool(declared: JsonObject, most_calls: int | None) -> ServerTool | None:
    """Return what a hosted tool does; None for a tool that only OpenAI has.

    OpenAI Responses: `max_tool_calls` limits the calls of all hosted tools in a response.
    """
    type = str(declared.get("type"))
    if type.startswith("web_search"):
        return _decode_search(declared, most_calls)
    if type == "code_interpreter":
        return ServerTool("code_execution", max_uses=most_calls)
    if type == "tool_search":
        return ServerTool("tool_search", max_uses=most_calls)
    if type == "mcp":
        label = text_in(declared, "server_label")
        return ServerTool("mcp", max_uses=most_calls, server=label, mcp=_decode_mcp(declared))
    return None


def _decode_search(declared: JsonObject, most_calls: int | None) -> ServerTool:
    place, filters = object_in(declared, "user_location"), object_in(declared, "filters")
    return ServerTool(
        "web_search",
        max_uses=most_calls,
        allow=texts_of(filters.get("allowed_domains")),
        block=texts_of(filters.get("blocked_domains")),
        live=declared.get("external_web_access") is not False,
        context=CONTEXT_SIZES.get(text_in(declared, "search_context_size"), ""),
    ).at(place)


def _decode_mcp(declared: JsonObject) -> McpConnection:
    headers = {k: v for k, v in object_in(declared, "headers").items() if isinstance(v, str)}
    # OpenAI Responses, MCP: `authorization` is an OAuth token, sent as a bearer token.
    if token := text_in(declared, "authorization"):
        headers["Authorization"] = _BEARER + token.removeprefix(_BEARER)
    allowed = declared.get("allowed_tools")
    names = object_in(declared, "allowed_tools").get("tool_names") or allowed
    asked = declared.get("require_approval")
    never = object_in(asked, "never") if isinstance(asked, dict) else {}
    return McpConnection(
        text_in(declared, "server_url"),
        headers,
        texts_of(names) if isinstance(names, list) else None,
        deferred=declared.get("defer_loading") is True,
        read_only=object_in(declared, "allowed_tools").get("read_only") is True,
        # OpenAI Responses, MCP: without `require_approval`, every call needs an approval.
        approval="never" if asked == "never" else "always",
        exempt=texts_of(never.get("tool_names")),
        exempt_read_only=never.get("read_only") is True,
    )


# ── ours to theirs ───────────────────────────────────────────────────────────


def encode_server_tool(
    tool: ServerTool, _request: Request, _target: Target, lose: Lose
) -> JsonObject | None:
    """Return the declaration of a server tool of another API; None where OpenAI has none."""
    match tool.kind:
        case "web_search":
            return _encode_search(tool, lose)
        case "code_execution":
            return {"type": "code_interpreter", "container": {"type": "auto"}}
        case "tool_search":
            return {"type": "tool_search"}
        case "mcp":
            known = tool.mcp is not None and bool(tool.mcp.url) and not tool.mcp.denied
            return _encode_mcp(tool.server, tool.mcp) if known and tool.mcp else None
        case "web_fetch":
            return None  # OpenAI's search opens pages, but cannot be restricted to that


def _encode_search(tool: ServerTool, lose: Lose) -> JsonObject:
    declared: JsonObject = {"type": "web_search"}
    if tool.allow:
        declared["filters"] = {"allowed_domains": [*tool.allow]}
    if tool.block:
        lose("blocked_domains", "OpenAI's search can only be limited to domains")
    if place := tool.place:
        declared["user_location"] = {"type": "approximate", **place}
    if tool.after or tool.before:
        lose("timeRangeFilter", "OpenAI's search has no range of dates")
    if tool.context:
        declared["search_context_size"] = tool.context
    if not tool.live:
        declared["external_web_access"] = False
    return declared


def _encode_mcp(label: str, server: McpConnection) -> JsonObject:
    declared: JsonObject = {"type": "mcp", "server_label": label, "server_url": server.url}
    if server.headers:
        declared["headers"] = {**server.headers}
    if server.allowed is not None:
        declared["allowed_tools"] = [*server.allowed]
    if server.deferred:
        declared["defer_loading"] = True
    exempt: JsonObject = {"tool_names": [*server.exempt]} if server.exempt else {}
    exempt |= {"read_only": True} if server.exempt_read_only else {}
    return declared | {"require_approval": {"never": exempt} if exempt else server.approval}


def encode_call_limit(request: Request, lose: Lose) -> JsonObject:
    """Return `max_tool_calls` for the limits of another API's tools, which are one by one."""
    tools = [tool.server for tool in request.tools if tool.origin == ORIGIN and tool.server]
    limits = [tool.max_uses for tool in tools if tool.max_uses is not None]
    if not limits:
        return {}
    if len(limits) < len(tools):
        lose("max_uses", "OpenAI limits the calls of all hosted tools together")
        return {}
    return {"max_tool_calls": sum(limits)}


_INCLUDED: dict[str, str] = {
    "web_search": "web_search_call.action.sources",
    "code_execution": "code_interpreter_call.outputs",
}
"""The value of `include` that returns what a tool found or printed; other APIs always return it."""


def include_of_tools(request: Request) -> list[Json]:
    """Return the values of `include` for the server tools of another API's client."""
    tools = (tool.server for tool in request.tools if tool.origin == ORIGIN)
    kinds = (tool.kind for tool in tools if tool is not None)
    return [_INCLUDED[kind] for kind in dict.fromkeys(kinds) if kind in _INCLUDED]
