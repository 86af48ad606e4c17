"""Declarations of tools that Gemini runs, in both directions.

Gemini API, Tool: `googleSearch`, `urlContext`, `codeExecution` and `mcpServers` are keys of an entry
of `tools`. None of them has a limit of uses, and none can be forced.
"""

from toolbridge.codecs.gemini.quirks import read_quirks
from toolbridge.core.codec import Lose, Target
from toolbridge.core.declared_limits import check_domain_list, check_object, check_time
from toolbridge.core.json import Json, JsonObject, object_in, text_in, texts_of
from toolbridge.core.messages import Request
from toolbridge.core.server_tools import McpConnection, ServerTool

MCP = "mcpServers"
_SEARCHES = frozenset({"googleSearch", "googleSearchRetrieval", "enterpriseWebSearch"})
_TIMES = "timeRangeFilter"
_OBJECTS = _SEARCHES | {"urlContext", "codeExecution"}


def check_server_tool(key: str, value: Json, where: str) -> None:
    """Raise unless the fields that limit a built-in tool can be read."""
    if key in _OBJECTS:
        check_object(value, where)
    if key in _SEARCHES and isinstance(value, dict):
        check_domain_list(value, "excludeDomains", where)
        check_object(value.get(_TIMES), f"{where}.{_TIMES}")
        for name in ("startTime", "endTime"):
            check_time(object_in(value, _TIMES).get(name), f"{where}.{_TIMES}.{name}")


def decode_server_tool(key: str, value: Json) -> ServerTool | None:
    """Return what a built-in tool does; None for a tool that only Gemini has."""
    fields = value if isinstance(value, dict) else {}
    if key in _SEARCHES:
        # Vertex AI, googleSearch: `excludeDomains`.
        block, times = texts_of(fields.get("excludeDomains")), object_in(fields, _TIMES)
        after, before = text_in(times, "startTime"), text_in(times, "endTime")
        return ServerTool("web_search", block=block, after=after, before=before)
    if key == "urlContext":
        return ServerTool("web_fetch")
    if key == "codeExecution":
        return ServerTool("code_execution")
    if key == MCP:
        server = value[0] if isinstance(value, list) and value else None
        return _decode_mcp(server) if isinstance(server, dict) else None
    return None


def _decode_mcp(server: JsonObject) -> ServerTool:
    given = server.get("streamableHttpTransport")
    transport = given if isinstance(given, dict) else {}
    sent = transport.get("headers")
    headers = (
        {k: v for k, v in sent.items() if isinstance(v, str)} if isinstance(sent, dict) else {}
    )
    url, name = transport.get("url"), server.get("name")
    connection = McpConnection(url if isinstance(url, str) else "", headers)
    return ServerTool("mcp", server=name if isinstance(name, str) else "", mcp=connection)


def encode_server_tool(
    tool: ServerTool, request: Request, target: Target, lose: Lose
) -> JsonObject | None:
    """Return the declaration of a server tool of another API; None where Gemini has none."""
    quirks = read_quirks(target.model or request.model, target.quirks)
    # Gemini API: before Gemini 3, built-in tools together with functions are a 400.
    functions = any(one.hosted is None for one in request.tools)
    if functions and not quirks.search_with_functions:
        return None
    declared = _encode(tool, exclude=quirks.exclude_domains)
    if declared is not None:
        _lose_limits(tool, lose, exclude=quirks.exclude_domains)
    return declared


def _encode(tool: ServerTool, *, exclude: bool) -> JsonObject | None:
    match tool.kind:
        case "web_search":
            limits: JsonObject = {}
            if tool.block and exclude:
                limits["excludeDomains"] = [*tool.block]
            if tool.after or tool.before:
                times = {"startTime": tool.after, "endTime": tool.before}
                limits[_TIMES] = {name: time for name, time in times.items() if time}
            return {"googleSearch": limits}
        case "web_fetch":
            return {"urlContext": {}}
        case "code_execution":
            return {"codeExecution": {}}
        case "mcp":
            return _encode_mcp(tool.server, tool.mcp) if tool.mcp and tool.mcp.url else None
        case "tool_search":
            return None


def _encode_mcp(name: str, server: McpConnection) -> JsonObject | None:
    # A call that the client must approve, or tools that are left out, cannot be expressed.
    limited = server.allowed is not None or server.denied or server.read_only
    if server.approval == "always" or limited:
        return None
    transport: JsonObject = {"url": server.url}
    if server.headers:
        transport["headers"] = {**server.headers}
    return {MCP: [{"name": name, "streamableHttpTransport": transport}]}


def _lose_limits(tool: ServerTool, lose: Lose, *, exclude: bool) -> None:
    if tool.max_uses is not None:
        lose("max_uses", "Gemini's tools have no limit of uses")
    if tool.allow:
        lose("allowed_domains", "Gemini's search cannot be limited to domains")
    if tool.block and not exclude:
        lose("blocked_domains", "Gemini's search cannot leave out domains; Vertex AI's can")
    if tool.place:
        lose("user_location", "Gemini's search has no approximate location")
