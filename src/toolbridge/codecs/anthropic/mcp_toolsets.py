"""MCP servers in requests of the Messages API.

Anthropic, MCP connector: `mcp_servers` lists servers by name and URL, and a tool of the type
`mcp_toolset` offers the tools of one of them.
"""

from msgspec.structs import replace

from toolbridge.core.declared_limits import check_flag, check_object
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject, object_of, objects_of
from toolbridge.core.messages import Tool
from toolbridge.core.server_tools import McpConnection, ServerTool
from toolbridge.core.shared_tools import once_per_list

TOOLSET = "mcp_toolset"


def check_toolset(declared: JsonObject, where: str) -> None:
    """Raise unless the fields of a toolset can be read: an unread one would enable every tool."""
    name = declared.get("mcp_server_name")
    if not isinstance(name, str) or not name:
        raise MalformedRequest("must be the name of a server", where=f"{where}.mcp_server_name")
    for field in ("default_config", "configs"):
        check_object(declared.get(field), f"{where}.{field}")
    configs = {
        f"configs.{one}": config for one, config in object_of(declared.get("configs")).items()
    }
    for field, config in {"default_config": declared.get("default_config"), **configs}.items():
        check_object(config, f"{where}.{field}")
        check_flag(object_of(config), "enabled", f"{where}.{field}")
        check_flag(object_of(config), "defer_loading", f"{where}.{field}")


def with_servers(tools: tuple[Tool, ...], listed: Json) -> tuple[Tool, ...]:
    """Return `tools` with the servers that their toolsets name."""
    if not _has_toolset(tools):
        return tools
    servers = {str(one.get("name")): one for one in objects_of(listed)}
    return tuple(_connected(tool, servers) for tool in tools)


@once_per_list
def _has_toolset(tools: tuple[Tool, ...]) -> bool:
    return any(tool.hosted is not None and tool.hosted.get("type") == TOOLSET for tool in tools)


def _connected(tool: Tool, servers: dict[str, JsonObject]) -> Tool:
    declared = tool.hosted
    if declared is None or declared.get("type") != TOOLSET:
        return tool
    name = str(declared.get("mcp_server_name", ""))
    default, configs = object_of(declared.get("default_config")), object_of(declared.get("configs"))
    enabled = default.get("enabled") is not False
    chosen = {one: object_of(config).get("enabled", enabled) for one, config in configs.items()}
    connection = replace(
        _connection(servers.get(name, {})),
        allowed=None if enabled else tuple(one for one, on in chosen.items() if on),
        denied=tuple(one for one, on in chosen.items() if not on),
        deferred=default.get("defer_loading") is True,
    )
    return replace(tool, server=ServerTool("mcp", server=name, mcp=connection))


def _connection(listed: JsonObject) -> McpConnection:
    token = listed.get("authorization_token")
    # Anthropic, MCP connector: an OAuth token, sent as a bearer token.
    headers = {"authorization": f"Bearer {token}"} if isinstance(token, str) and token else {}
    return McpConnection(str(listed.get("url", "")), headers)
