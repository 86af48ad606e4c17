"""Server tools of one API, translated to those that another vendor runs itself.

Anthropic's `web_search`, OpenAI's `web_search` and Gemini's `googleSearch` do the same. Where the
provider of a request has such a tool, it gets its own declaration instead of the client's, and the
gateway runs nothing. What the declaration cannot express is a loss.
"""

from collections.abc import Callable

from msgspec.structs import replace

from toolbridge.core.codec import RequestEncoder, Target
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Loss, Request, Tool


def native_tools(
    request: Request, codec: RequestEncoder, target: Target
) -> tuple[Request, list[Loss]]:
    """Return `request` with the provider's own tools in place of another API's, and the losses."""
    if not target.server_tools:
        return request, []
    losses: list[Loss] = []
    names: dict[str, str] = {}
    tools: list[Tool] = []
    for number, tool in enumerate(request.tools):
        declared = None
        if tool.server is not None and _is_translated(tool, codec.name, target):
            lose = _lose_inside(losses, f"tools.{number}")
            declared = codec.encode_server_tool(tool.server, request, target, lose)
        if declared is None:
            tools.append(tool)
            continue
        names[tool.name] = _name(declared, tool)
        tools.append(
            replace(tool, name=names[tool.name], origin=codec.name, hosted=declared, schema={})
        )
    if not names:
        return request, []
    chosen = tuple(names.get(name, name) for name in request.tool_choice.names)
    choice = replace(request.tool_choice, names=chosen)
    return replace(request, tools=tuple(tools), tool_choice=choice), losses


def translated_tools(request: Request, codec: RequestEncoder | None, target: Target) -> Request:
    """Return `request` with the tools of its provider; without a codec, as it is."""
    return request if codec is None else native_tools(request, codec, target)[0]


def _is_translated(tool: Tool, api: str, target: Target) -> bool:
    kind = tool.server.kind if tool.server is not None else ""
    return tool.hosted is not None and tool.origin != api and kind in target.server_tools


def _lose_inside(losses: list[Loss], path: str) -> Callable[[str, str], None]:
    """Return a function that records the loss of a field of a tool."""

    def lose(name: str, why: str) -> None:
        losses.append(Loss(f"{path}.{name}", why))

    return lose


def _name(declared: JsonObject, tool: Tool) -> str:
    """Return the name by which the target's codec knows a declaration.

    Anthropic declares a `name`, OpenAI a `type` or the label of an MCP server, Gemini one key.
    """
    for field in ("name", "server_label", "type"):
        if isinstance(name := declared.get(field), str):
            return name
    return (
        next(iter(declared), tool.name) if tool.server and tool.server.kind != "mcp" else tool.name
    )
