"""Tools and tool choice of the Converse API.

Amazon Bedrock, ToolConfiguration: `toolChoice` is `auto`, `any` or one tool; there is no choice
"none". A conversation that contains calls needs `toolConfig`, also when no tool is offered.
"""

from toolbridge.codecs.bedrock.quirks import Quirks
from toolbridge.core.codec import Lose
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Cache, Call, Loss, Request, Tool, ToolChoice
from toolbridge.core.shared_fields import hosted_why


def encode_tools(request: Request, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """Return the object `toolConfig`, to be merged into the body; empty without tools."""

    def lose(what: str, why: str) -> None:
        losses.append(Loss(what, why))

    past = _past_names(request)
    tools: list[Json] = []
    for number, tool in enumerate(request.tools):
        tools += _encode_tool(f"tools.{number}", tool, quirks, lose)
    if request.tool_choice.mode == "none" and not past:
        return {}
    if not tools and past:
        why = "Bedrock needs the tools of past calls; they are declared without their schemas"
        losses.append(Loss("tools", why, minor=True))
        tools = [_spec(name) for name in past]
    if not tools:
        if request.tool_choice.mode in {"required", "named"}:
            lose("tool_choice", "there is no tool to choose")
        return {}
    config: JsonObject = {"tools": tools, **encode_choice(request.tool_choice, lose)}
    return {"toolConfig": config}


def encode_choice(choice: ToolChoice, lose: Lose) -> JsonObject:
    """Return the field `toolChoice`, to be merged into `toolConfig`; nothing for the default."""
    mode, names = choice.mode, choice.names
    if mode == "required" and len(names) == 1:
        mode = "named"
    if names and mode != "named":
        lose("tool_choice.names", "Bedrock's toolChoice names exactly one tool or none")
    if choice.parallel is False:
        lose("tool_choice.parallel", "Converse cannot forbid parallel calls")
    if mode == "none":
        lose("tool_choice.mode", "Bedrock has no choice none, and past calls need their tools")
    if mode == "required":
        return {"toolChoice": {"any": {}}}
    return {"toolChoice": {"tool": {"name": names[0]}}} if mode == "named" else {}


def cache_point(cache: Cache, quirks: Quirks) -> list[Json]:
    """Return the block that ends a prefix to cache; nothing for models without them."""
    if not cache or not quirks.cache_breakpoints:
        return []
    # Amazon Bedrock, CachePointBlock: `ttl` is "5m", the default, or "1h".
    point: JsonObject = {"type": "default"}
    return [{"cachePoint": point | ({"ttl": "1h"} if cache == "1h" else {})}]


def _encode_tool(where: str, tool: Tool, quirks: Quirks, lose: Lose) -> list[Json]:
    if tool.hosted is not None:
        lose(where, hosted_why(tool))
        return []
    spec = _spec(tool.name, tool.description, tool.input_schema, strict=bool(tool.strict))
    return [spec, *cache_point(tool.cache, quirks)]


def _spec(
    name: str, description: str = "", schema: JsonObject | None = None, *, strict: bool = False
) -> JsonObject:
    spec: JsonObject = {"name": name, "inputSchema": {"json": schema or {"type": "object"}}}
    if description:  # Amazon Bedrock, ToolSpecification: a description has at least one character
        spec["description"] = description
    return {"toolSpec": spec | ({"strict": True} if strict else {})}


def _past_names(request: Request) -> list[str]:
    """Return the names of the tools that the conversation has called, in their order."""
    calls = (p for turn in request.turns for p in turn.content if isinstance(p, Call))
    return [*dict.fromkeys(call.name for call in calls)]
