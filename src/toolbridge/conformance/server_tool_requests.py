"""Server tools in the requests of the cases, as each client API declares and repeats them."""

from toolbridge.conformance.client_requests import CasePart, CaseRequest, CaseServerTool
from toolbridge.core.json import Json, JsonObject

_DATED = {
    "web_search": "web_search_20250305",
    "web_fetch": "web_fetch_20250910",
    "code_execution": "code_execution_20250825",
    "tool_search": "tool_search_tool_bm25_20251119",
}
_GEMINI = {
    "web_search": "googleSearch",
    "web_fetch": "urlContext",
    "code_execution": "codeExecution",
}
SEALED = "vendor-sealed"
"""What a vendor has encrypted: only the API that made it may get it back."""


def anthropic_fields(wanted: CaseRequest) -> tuple[list[Json], JsonObject]:
    """Return the tools, and the fields of the body beside them."""
    tools: list[Json] = []
    servers: list[Json] = []
    for tool in wanted.server_tools:
        if tool.kind == "mcp":
            servers.append({"type": "url", "name": tool.label, "url": tool.url})
            tools.append({"type": "mcp_toolset", "mcp_server_name": tool.label})
            continue
        type = _DATED[tool.kind]
        name = "tool_search_tool_bm25" if tool.kind == "tool_search" else tool.kind
        declared: JsonObject = {"type": type, "name": name}
        if tool.max_uses:
            declared["max_uses"] = tool.max_uses
        declared |= {"allowed_domains": [*tool.allow]} if tool.allow else {}
        declared |= {"blocked_domains": [*tool.block]} if tool.block else {}
        tools.append(declared | _location(tool))
    return tools, {"mcp_servers": servers} if servers else {}


def responses_fields(wanted: CaseRequest) -> tuple[list[Json], JsonObject]:
    """Return the tools, and the fields of the body beside them."""
    tools: list[Json] = []
    fields: JsonObject = {}
    for tool in wanted.server_tools:
        tools.append(_responses_tool(tool))
        if tool.max_uses:
            fields["max_tool_calls"] = tool.max_uses
    # Cline asks for the sources; without `include` they are left out.
    asked: list[Json] = ["web_search_call.action.sources", "code_interpreter_call.outputs"]
    return tools, fields | {"include": asked} if tools else {}


def _responses_tool(tool: CaseServerTool) -> JsonObject:
    match tool.kind:
        case "code_execution":
            return {"type": "code_interpreter", "container": {"type": "auto"}}
        case "tool_search":
            return {"type": "tool_search"}
        case "mcp":
            declared: JsonObject = {"type": "mcp", "server_label": tool.label}
            return declared | {"server_url": tool.url, "require_approval": "never"}
        case _:
            limits: JsonObject = {"allowed_domains": [*tool.allow]} if tool.allow else {}
            search: JsonObject = {"type": "web_search"}
            return search | ({"filters": limits} if limits else {}) | _location(tool)


def gemini_tools(wanted: CaseRequest) -> list[Json]:
    """Return the entries of `tools`."""
    found: list[Json] = []
    for tool in wanted.server_tools:
        if tool.kind in _GEMINI:
            found.append({_GEMINI[tool.kind]: {}})
        elif tool.kind == "mcp":
            transport: JsonObject = {"url": tool.url}
            server: JsonObject = {"name": tool.label, "streamableHttpTransport": transport}
            found.append({"mcpServers": [server]})
    return found


def chat_fields(wanted: CaseRequest) -> JsonObject:
    """Return the fields of the body; this API has web search alone."""
    for tool in wanted.server_tools:
        if tool.kind == "web_search":
            place = _location(tool).get("user_location")
            near: JsonObject = {}
            if isinstance(place, dict):
                inner: JsonObject = {k: v for k, v in place.items() if k != "type"}
                near = {"user_location": {"type": "approximate", "approximate": inner}}
            return {"web_search_options": near}
    return {}


def _location(tool: CaseServerTool) -> JsonObject:
    if not tool.city:
        return {}
    return {"user_location": {"type": "approximate", "city": tool.city}}


# ── earlier searches ─────────────────────────────────────────────────────────


def anthropic_search(part: CasePart) -> list[JsonObject]:
    """Return a search of an earlier answer, as Anthropic's clients send it back."""
    found: list[Json] = [
        {
            "type": "web_search_result",
            "url": url,
            "title": "Found",
            "encrypted_content": SEALED,
            "page_age": None,
        }
        for url in part.found
    ]
    return [
        {
            "type": "server_tool_use",
            "id": part.id,
            "name": "web_search",
            "input": {"query": part.search},
        },
        {"type": "web_search_tool_result", "tool_use_id": part.id, "content": found},
    ]


def responses_search(part: CasePart) -> JsonObject:
    """Return a search of an earlier answer, as clients that keep the sources send it back."""
    sources: list[Json] = [{"type": "url", "url": url} for url in part.found]
    action: JsonObject = {"type": "search", "query": part.search, "sources": sources}
    return {"type": "web_search_call", "id": part.id, "status": "completed", "action": action}
