"""Server tools of other APIs, as the typed tools that Anthropic runs.

Anthropic, tool use: the type of a server tool ends with a date. The first version is accepted by
every model that has the tool; later ones only change how results are filtered. An MCP server is a
toolset, and its connection is in the field `mcp_servers` of the body.
"""

from toolbridge.codecs.anthropic.mcp_toolsets import TOOLSET
from toolbridge.codecs.anthropic.shapes import ORIGIN
from toolbridge.core.codec import Lose, Target
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Request
from toolbridge.core.server_tools import McpConnection, ServerTool

_BEARER = "Bearer "
_TYPES: dict[str, tuple[str, str]] = {
    "web_search": ("web_search_20250305", "web_search"),
    "web_fetch": ("web_fetch_20250910", "web_fetch"),
    "code_execution": ("code_execution_20250825", "code_execution"),
}
"""The type and the name of a tool, by its kind."""


def encode_server_tool(
    tool: ServerTool, _request: Request, _target: Target, lose: Lose
) -> JsonObject | None:
    """Return the declaration of a server tool of another API; None where Anthropic has none."""
    if tool.kind == "mcp":
        return _encode_toolset(tool.server, tool.mcp) if tool.mcp else None
    if tool.kind == "tool_search":
        name = f"tool_search_tool_{tool.ranking}"
        return {"type": f"{name}_20251119", "name": name}
    type, name = _TYPES[tool.kind]
    declared: JsonObject = {"type": type, "name": name}
    if tool.kind != "code_execution" and tool.max_uses is not None:
        declared["max_uses"] = tool.max_uses
    return declared | _encode_limits(tool, lose)


def _encode_limits(tool: ServerTool, lose: Lose) -> JsonObject:
    limits: JsonObject = {}
    # Anthropic, web search tool: allowed and blocked domains together are a 400.
    if tool.allow:
        limits["allowed_domains"] = [*tool.allow]
    if tool.block and tool.allow:
        lose("blocked_domains", "Anthropic takes either allowed or blocked domains")
    elif tool.block:
        limits["blocked_domains"] = [*tool.block]
    if place := tool.place:
        limits["user_location"] = {"type": "approximate", **place}
    if tool.context:
        lose("search_context_size", "Anthropic's search has no such setting")
    if tool.after or tool.before:
        lose("timeRangeFilter", "Anthropic's search has no range of dates")
    if not tool.live:
        lose("external_web_access", "Anthropic's search always uses the web")
    if tool.content_tokens:
        limits["max_content_tokens"] = tool.content_tokens
    return limits | {"citations": {"enabled": True}} if tool.cite else limits


def _encode_toolset(label: str, server: McpConnection) -> JsonObject | None:
    """Return a toolset; None if approvals or headers cannot be expressed.

    Anthropic, MCP connector: a server has a token and no other headers, and calls need no approval.
    """
    others = [name for name in server.headers if name.lower() != "authorization"]
    if others or not server.url or server.approval == "always" or server.read_only:
        return None
    declared: JsonObject = {"type": TOOLSET, "mcp_server_name": label}
    default: JsonObject = {"defer_loading": True} if server.deferred else {}
    if server.allowed is not None:
        default["enabled"] = False
        declared["configs"] = {name: {"enabled": True} for name in server.allowed}
    elif server.denied:
        declared["configs"] = {name: {"enabled": False} for name in server.denied}
    return declared | {"default_config": default} if default else declared


def encode_mcp_servers(request: Request) -> JsonObject:
    """Return the field `mcp_servers` for toolsets that another API's client declared otherwise."""
    if request.origin == ORIGIN:
        return {}
    servers: list[Json] = []
    for tool in request.tools:
        known = tool.origin == ORIGIN and tool.server is not None and tool.server.mcp is not None
        if known and tool.server is not None and tool.server.mcp is not None:
            servers.append(_encode_connection(tool.server.server, tool.server.mcp))
    return {"mcp_servers": servers} if servers else {}


def _encode_connection(label: str, server: McpConnection) -> JsonObject:
    connection: JsonObject = {"type": "url", "name": label, "url": server.url}
    tokens = (value for name, value in server.headers.items() if name.lower() == "authorization")
    token = next(tokens, "").removeprefix(_BEARER)
    return connection | {"authorization_token": token} if token else connection
