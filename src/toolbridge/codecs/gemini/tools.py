"""Tools and tool choice of the Gemini API, in both directions.

Gemini API, generateContent: an entry of `tools` holds `functionDeclarations`, built-in tools such
as `googleSearch`, or both. A built-in tool is hosted: Gemini runs it inside the answer.
"""

from typing import Literal

from msgspec.structs import replace

from toolbridge.codecs.gemini import shapes
from toolbridge.codecs.gemini.builtin_tools import MCP, check_server_tool, decode_server_tool
from toolbridge.codecs.gemini.quirks import Quirks
from toolbridge.codecs.gemini.schemas import decode_schema, project
from toolbridge.codecs.gemini.shapes import ORIGIN, decode_rest
from toolbridge.core.codec import Lose
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Foreign, Origin, Request, Tool, ToolChoice
from toolbridge.core.shared_fields import hosted_why
from toolbridge.core.source import own_words, sourced, unknown_fields
from toolbridge.core.tool_search import found_tools
from toolbridge.wire import shapes as wire

FUNCTIONS = "functionDeclarations"
_CHOICES: dict[str, Literal["auto", "none", "required"]] = {
    "AUTO": "auto",
    "VALIDATED": "auto",
    "ANY": "required",
    "NONE": "none",
}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}


def decode_tools(given: list[JsonObject] | None) -> tuple[Tool, ...]:
    """Return the functions and the built-in tools of a request."""
    tools: list[Tool] = []
    for i, entry in enumerate(given or ()):
        for key, value in entry.items():
            where = f"tools.{i}.{key}"
            if key == FUNCTIONS:
                declared = value if isinstance(value, list) else [value]
                tools += (_decode_tool(one, f"{where}.{j}") for j, one in enumerate(declared))
            elif value is not None:
                tools += _decode_builtin(key, value, where)
    return tuple(tools)


def _decode_builtin(key: str, value: Json, where: str) -> list[Tool]:
    """Return a built-in tool; of several MCP servers, each."""
    if key != MCP or not isinstance(value, list):
        check_server_tool(key, value, where)
        server = decode_server_tool(key, value)
        source = Origin(ORIGIN, where)
        return [Tool(key, origin=ORIGIN, hosted={key: value}, server=server, source=source)]
    found: list[Tool] = []
    for number, one in enumerate(value):
        server = decode_server_tool(key, [one])
        name = server.server if server is not None and server.server else key
        source = Origin(ORIGIN, f"{where}.{number}")
        found.append(Tool(name, origin=ORIGIN, hosted={key: [one]}, server=server, source=source))
    return found


def _decode_tool(declaration: Json, where: str) -> Tool:
    given = wire.convert_request(declaration, shapes.Declaration, where)
    if not given.name or not isinstance(declaration, dict):
        raise MalformedRequest("field required", where=f"{where}.name")
    schema = given.parameters_json_schema
    tool = Tool(
        given.name,
        description=given.description or "",
        schema=decode_schema(given.parameters) if schema is None else schema,
    )
    unknown = wire.unknown_keys(declaration, shapes.Declaration)
    return sourced(tool, Origin(ORIGIN, where, declaration, unknown))


def encode_tools(request: Request, quirks: Quirks, lose: Lose) -> list[JsonObject]:
    """Return the entries of `tools`: one for all functions, or the client's own entries."""
    choice = request.tool_choice
    found = found_tools(request)
    entries = _Entries()
    later: dict[str, tuple[Tool, JsonObject]] = {}
    for number, tool in enumerate(request.tools):
        where = f"tools.{number}"
        if tool.hosted is not None and tool.origin != ORIGIN:
            lose(where, hosted_why(tool))
        elif tool.hosted is not None:
            entries.add(tool, tool.hosted)
        elif not tool.deferred or (choice.mode == "named" and tool.name in choice.names):
            entries.declare(tool, _encode_function(tool, where, quirks, lose))
        elif tool.name in found:
            later[tool.name] = (tool, _encode_function(tool, where, quirks, lose))
    # Found tools go to the end: the beginning of the prompt stays the same, and its cache valid.
    for name in found:
        if name in later:
            entries.declare(*later[name])
    return entries.encode()


def _encode_function(tool: Tool, where: str, quirks: Quirks, lose: Lose) -> JsonObject:
    written = own_words(tool, ORIGIN)
    if written is not None:
        return written
    if tool.strict:
        # Gemini API, function calling: only the mode VALIDATED, for all functions, checks schemas.
        lose(f"{where}.strict", "Gemini cannot enforce the schema of a single tool")
    declaration: JsonObject = {"name": tool.name}
    if tool.description:
        declaration["description"] = tool.description
    return declaration | _encode_parameters(tool, quirks) | unknown_fields(tool, ORIGIN)


def _encode_parameters(tool: Tool, quirks: Quirks) -> JsonObject:
    if not tool.schema and not tool.freeform:
        return {}
    schema = tool.input_schema
    if quirks.json_schema:
        return {"parametersJsonSchema": schema}
    # Gemini API, Schema: an object without properties is a 400; no `parameters` means the same.
    projected = project(schema)
    return {"parameters": projected} if projected.get("properties") else {}


class _Entries:
    """The entries of `tools`; tools that shared an entry of the client's share one again."""

    def __init__(self) -> None:
        self._groups: dict[str, JsonObject] = {}

    def encode(self) -> list[JsonObject]:
        return sorted(self._groups.values(), key=lambda entry: FUNCTIONS not in entry)

    def add(self, tool: Tool, hosted: JsonObject) -> None:
        group = _group(tool) or f"hosted.{len(self._groups)}"
        entry = self._groups.setdefault(group, {})
        for key, value in hosted.items():
            servers = entry.get(key) if key == MCP else None
            if isinstance(servers, list) and isinstance(value, list):
                entry[key] = [*servers, *value]
            else:
                entry[key] = value

    def declare(self, tool: Tool, function: JsonObject) -> None:
        entry = self._groups.setdefault(_group(tool), {})
        declared = entry.setdefault(FUNCTIONS, [])
        if isinstance(declared, list):
            declared.append(function)


def _group(tool: Tool) -> str:
    """Return the path of the client's entry with this tool; "" for a tool of another API."""
    source = tool.source
    return ".".join(source.path.split(".")[:2]) if source and source.api == ORIGIN else ""


def decode_choice(given: JsonObject | None) -> tuple[ToolChoice, JsonObject]:
    """Return the tool choice, and the fields of `toolConfig` that only Gemini understands."""
    config = wire.convert_request(given or {}, shapes.ToolConfig, "toolConfig")
    where = "toolConfig.functionCallingConfig"
    calling = config.function_calling_config or {}
    asked = wire.convert_request(calling, shapes.CallingConfig, where)
    rest, fields = decode_rest(given, shapes.ToolConfig), decode_rest(calling, shapes.CallingConfig)
    names = tuple(asked.allowed_function_names or ())
    mode = _CHOICES.get(asked.mode or "AUTO")
    if asked.mode and (mode is None or (asked.mode == "VALIDATED" and not names)):
        fields["mode"] = asked.mode
    if fields:
        rest["functionCallingConfig"] = fields
    if mode == "required" and len(names) == 1:
        return ToolChoice("named", names), rest
    return ToolChoice(mode or "auto", names), rest


def choice_of_functions(request: Request, lose: Lose) -> ToolChoice:
    """Return the tool choice without built-in tools, which decide themselves when they run."""
    choice = request.tool_choice
    hosted = {tool.name for tool in request.tools if tool.hosted is not None}
    names = tuple(name for name in choice.names if name not in hosted)
    if names == choice.names:
        return choice
    own = any(tool.name in choice.names and tool.origin == ORIGIN for tool in request.tools)
    why = "Gemini cannot force a built-in tool" if own else "there is no tool to choose"
    lose("tool_choice", why)
    mode = "auto" if choice.mode == "named" else choice.mode
    return replace(choice, mode=mode, names=names)


def encode_choice(choice: ToolChoice, lose: Lose, *, any_function: bool) -> JsonObject:
    """Return the field `toolConfig`, to be merged into the body; nothing for the default."""
    if choice.parallel is False:
        lose("tool_choice.parallel", "Gemini's API cannot forbid parallel calls")
    if not any_function:
        if choice.mode in {"required", "named"}:
            lose("tool_choice", "there is no tool to choose")
        return {}
    if choice.mode == "auto" and not choice.names:
        return {}
    calling: JsonObject = {"mode": _MODES[choice.mode]}
    if choice.names and choice.mode == "none":
        lose("tool_choice.names", "no tool may be called, so the names have no meaning")
    elif choice.names:
        # Gemini API, function calling: `allowedFunctionNames` needs the mode ANY or VALIDATED.
        calling["mode"] = "VALIDATED" if choice.mode == "auto" else "ANY"
        calling["allowedFunctionNames"] = list(choice.names)
    return {"toolConfig": {"functionCallingConfig": calling}}


def encode_unavailable(_tool: Tool, _subject: str, _ids: Ids) -> tuple[Foreign | str, ...]:
    """Return no parts: the API has no result for a built-in tool that failed.

    Gemini CLI reads an answer without text as "no results", or fetches the page itself.
    """
    return ()
