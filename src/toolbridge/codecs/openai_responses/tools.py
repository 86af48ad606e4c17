"""Tools and tool choice of the Responses API, in both directions.

OpenAI Responses, tools: a tool is a `function` or `custom` (free text), both without a wrapper, a
`namespace` of such tools, a built-in tool that the client runs (`builtins`), or hosted, which means
that OpenAI runs it. Other APIs have no namespaces: a tool is named `namespace__name` there.
"""

import msgspec

from toolbridge.codecs.openai_responses import shapes
from toolbridge.codecs.openai_responses.builtins import decode_builtin
from toolbridge.codecs.openai_responses.hosted_tools import check_server_tool, decode_server_tool
from toolbridge.codecs.openai_responses.item_fields import full_name, inner_name, name_fields
from toolbridge.codecs.openai_responses.quirks import Quirks
from toolbridge.codecs.openai_responses.shapes import ORIGIN
from toolbridge.core.codec import Lose
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Foreign, Origin, Request, Tool, ToolChoice
from toolbridge.core.shared_fields import hosted_why
from toolbridge.core.source import own_words, sourced, unknown_fields
from toolbridge.core.tool_search import found_tools
from toolbridge.wire import shapes as wire

_types = msgspec.json.Decoder(shapes.Chosen)
_functions = msgspec.json.Decoder(shapes.FunctionTool)
_namespaces = msgspec.json.Decoder(shapes.Namespace)
_choices = msgspec.json.Decoder(str | shapes.Choice | None)
_objects = msgspec.json.Decoder(wire.AnyObject)

# ── theirs to ours ───────────────────────────────────────────────────────────


def decode_tools(
    raws: list[msgspec.Raw],
    found: list[tuple[str, msgspec.Raw]],
    most_calls: int | None = None,
) -> tuple[tuple[Tool, ...], JsonObject]:
    """Return the tools, and the fields of namespaces for `Request.extra`.

    `found` are the tools in the outputs of tool searches, with their paths; `most_calls` is the
    limit of calls of hosted tools.
    """
    declared = _ToolDecoder(most_calls)
    for i, raw in enumerate(raws):
        declared.add(raw, f"tools.{i}")
    loaded = _ToolDecoder()
    for where, raw in found:
        loaded.add(raw, where)
    extra: JsonObject = {"namespaces": declared.namespaces} if declared.namespaces else {}
    return (*_unambiguous(declared.tools), *_loaded(loaded.tools, declared.tools)), extra


def _unambiguous(tools: list[Tool]) -> list[Tool]:
    """Return `tools`; a built-in tool with the name of a function is hosted: only here it has both."""
    names = {tool.name for tool in tools if tool.native is None}
    return [
        Tool(tool.name, origin=ORIGIN, hosted=tool.native)
        if tool.native is not None and tool.name in names
        else tool
        for tool in tools
    ]


def _loaded(found: list[Tool], declared: list[Tool]) -> list[Tool]:
    """Return the tools that searches found, each once; the search output declares them here."""
    names = {tool.name for tool in declared}
    once = {tool.name: tool for tool in found if tool.hosted is None and tool.name not in names}
    return [
        msgspec.structs.replace(tool, deferred=True, origin=ORIGIN, native={})
        for tool in once.values()
    ]


class _ToolDecoder:
    """Collects tools; those inside a namespace are added to the same list."""

    def __init__(self, most_calls: int | None = None) -> None:
        self._most_calls = most_calls
        self.tools: list[Tool] = []
        self.namespaces: JsonObject = {}
        """By name the fields of a namespace that `Tool` does not have."""

    def add(self, raw: msgspec.Raw, where: str, namespace: str = "") -> None:
        found = wire.decode_request(raw, _types, where)
        if found.type in {"function", "custom"}:
            self._add_function(raw, where, namespace)
        elif found.type == "namespace" and not namespace:
            self._add_namespace(raw, where)
        elif found.type:
            self._add_typed(raw, found, where, namespace)
        else:
            raise MalformedRequest("field required", where=f"{where}.type")

    def _add_typed(
        self, raw: msgspec.Raw, found: shapes.Chosen, where: str, namespace: str
    ) -> None:
        declared = wire.decode_request(raw, _objects, where)
        builtin = None if namespace else decode_builtin(declared)
        name = found.name or found.server_label or found.type
        check_server_tool(declared, where)
        server = decode_server_tool(declared, self._most_calls)
        hosted = Tool(name, origin=ORIGIN, hosted=declared, server=server, namespace=namespace)
        self.tools.append(sourced(builtin or hosted, Origin(ORIGIN, where, raw)))

    def _add_function(self, raw: msgspec.Raw, where: str, namespace: str) -> None:
        given = wire.decode_request(raw, _functions, where)
        if not given.name:
            raise MalformedRequest("field required", where=f"{where}.name")
        tool = Tool(
            full_name(given.name, namespace),
            description=given.description or "",
            schema=given.parameters or {},
            strict=given.strict,
            deferred=bool(given.defer_loading),
            freeform=given.type == "custom",
            namespace=namespace,
        )
        unknown = wire.unknown_names(raw, shapes.FunctionTool, where)
        if tool.freeform:  # `format` is lost elsewhere only if it is a grammar
            unknown = tuple(name for name in unknown if name != "format" or _has_grammar(raw))
        self.tools.append(sourced(tool, Origin(ORIGIN, where, raw, unknown)))

    def _add_namespace(self, raw: msgspec.Raw, where: str) -> None:
        given = wire.decode_request(raw, _namespaces, where)
        if not given.name:
            raise MalformedRequest("field required", where=f"{where}.name")
        for i, inner in enumerate(given.tools):
            self.add(inner, f"{where}.tools.{i}", given.name)
        rest = wire.leftovers(raw, shapes.Namespace, where)
        if rest:
            self.namespaces[given.name] = rest


def _has_grammar(raw: msgspec.Raw) -> bool:
    format = wire.leftovers(raw, shapes.FunctionTool).get("format")
    return format != {"type": "text"}


def decode_choice(asked: shapes.Body, extra: JsonObject) -> ToolChoice:
    """Return the tool choice; one with unknown fields is kept in `extra` as well."""
    parallel = asked.parallel_tool_calls
    choice = wire.decode_request(asked.tool_choice, _choices, "tool_choice")
    if isinstance(choice, shapes.Choice):
        known = choice.type in {"function", "custom", "allowed_tools"}
        if not known or wire.unknown_names(asked.tool_choice, shapes.Choice, "tool_choice"):
            extra["tool_choice"] = wire.decode_request(asked.tool_choice, _objects)
        return _decode_object(choice, parallel=parallel)
    match choice:
        case None | "auto":
            return ToolChoice("auto", parallel=parallel)
        case "none":
            return ToolChoice("none", parallel=parallel)
        case "required":
            return ToolChoice("required", parallel=parallel)
        case _:
            raise MalformedRequest(f"there is no choice {choice!r}", where="tool_choice")


def _decode_object(choice: shapes.Choice, *, parallel: bool | None) -> ToolChoice:
    if choice.type == "allowed_tools":
        names = tuple(filter(None, map(_chosen_name, choice.tools)))
        return ToolChoice("required" if choice.mode == "required" else "auto", names, parallel)
    if not choice.type:
        raise MalformedRequest("field required", where="tool_choice.type")
    if choice.type in {"function", "custom"} and not choice.name:
        raise MalformedRequest("field required", where="tool_choice.name")
    return ToolChoice("named", (_chosen_name(choice),), parallel)


def _chosen_name(choice: shapes.Chosen) -> str:
    # OpenAI Responses, tool choice: an MCP server is chosen by its label, other hosted tools by type.
    name = choice.name if choice.type != "mcp" else ""
    return full_name(name, choice.namespace) if name else choice.server_label or choice.type


# ── ours to theirs ───────────────────────────────────────────────────────────


def encode_tools(request: Request, quirks: Quirks, lose: Lose) -> list[Json]:
    """Return the tools on offer; consecutive tools of one namespace share an entry."""
    tools: list[Json] = []
    group: list[Json] = []
    current = ""
    for tool in _offered(request, lose):
        namespace = _namespace(tool, quirks)
        if namespace and namespace != current:
            group = []
            tools.append(_encode_namespace(namespace, group, request))
        current = namespace
        encoded = _encode_tool(tool, namespace, request, quirks)
        (group if namespace else tools).append(encoded)
    return tools


def _offered(request: Request, lose: Lose) -> list[Tool]:
    """Return the tools to offer.

    Deferred tools are offered to clients of this API only: they run OpenAI's tool search.
    """
    own = request.origin == ORIGIN
    found = {} if own else found_tools(request)
    names = request.tool_choice.names
    now: list[Tool] = []
    later: dict[str, Tool] = {}
    for number, tool in enumerate(request.tools):
        if _is_elsewhere(tool):
            lose(f"tools.{number}", hosted_why(tool))
        elif own and tool.native == {}:
            continue  # the output of the tool search declares it
        elif own or not tool.deferred or tool.name in names:
            now.append(tool)
        elif tool.name in found:
            later[tool.name] = tool
    # Found tools go to the end: the beginning of the prompt stays the same, and its cache valid.
    return now + [later[name] for name in found if name in later]


def _is_elsewhere(tool: Tool) -> bool:
    """Return True for a tool that only another API's servers can run."""
    return tool.hosted is not None and tool.origin != ORIGIN


def _namespace(tool: Tool, quirks: Quirks) -> str:
    inside = tool.hosted is not None or inner_name(tool.name, tool.namespace)
    return tool.namespace if quirks.namespaces and inside else ""


def _encode_namespace(namespace: str, tools: list[Json], request: Request) -> JsonObject:
    kept = request.extra.get("namespaces") if request.origin == ORIGIN else None
    fields = kept.get(namespace) if isinstance(kept, dict) else None
    known: JsonObject = {"type": "namespace", "name": namespace}
    return known | (fields if isinstance(fields, dict) else {}) | {"tools": tools}


def _encode_tool(tool: Tool, namespace: str, request: Request, quirks: Quirks) -> JsonObject:
    written = own_words(tool, ORIGIN)
    accepted = tool.namespace == namespace and (not tool.freeform or quirks.custom_tools)
    if written is not None and accepted:
        return written
    if tool.hosted is not None:
        return tool.hosted
    if tool.native and tool.origin == ORIGIN:
        return tool.native
    own = request.origin == ORIGIN
    offer: JsonObject = {"name": inner_name(tool.name, namespace) or tool.name}
    if tool.description:
        offer["description"] = tool.description
    custom = tool.freeform and quirks.custom_tools
    if not custom:
        offer["parameters"] = tool.input_schema
        if tool.strict is not None:
            offer["strict"] = tool.strict
        elif not own:
            # OpenAI Responses, function tools: without `strict` the server makes the schema strict.
            offer["strict"] = False
    if tool.deferred and own:
        offer["defer_loading"] = True
    kept = unknown_fields(tool, ORIGIN)
    if tool.freeform and not custom:
        kept = {name: value for name, value in kept.items() if name != "format"}
    return {"type": "custom" if custom else "function", **offer, **kept}


def encode_choice(request: Request, quirks: Quirks, lose: Lose) -> JsonObject:
    """Return `tool_choice` and `parallel_tool_calls`, each only if it is not the default."""
    choice = request.tool_choice
    fields: JsonObject = {}
    value = _encode_choice(request, quirks, lose) if request.tools else None
    if not request.tools and choice.mode in {"required", "named"}:
        lose("tool_choice.mode", "there is no tool to choose")
        if choice.names:
            lose("tool_choice.names", "there is no tool to choose")
    if value is not None:
        fields["tool_choice"] = value
    if choice.parallel is not None:
        fields["parallel_tool_calls"] = choice.parallel
    return fields


def _encode_choice(request: Request, quirks: Quirks, lose: Lose) -> Json:
    choice = request.tool_choice
    offered = {tool.name: tool for tool in request.tools if not _is_elsewhere(tool)}
    missing = [name for name in choice.names if name not in offered]
    if missing:
        lose("tool_choice", f"there is no tool {missing[0]!r}")
        return None
    written = request.extra.get("tool_choice") if request.origin == ORIGIN else None
    if choice.names and written is not None:
        return written
    if choice.mode == "named" and choice.names:
        return _encode_chosen(offered[choice.names[0]], quirks)
    if choice.names and choice.mode != "none":
        tools: list[Json] = [_encode_chosen(offered[name], quirks) for name in choice.names]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
    return None if choice.mode == "auto" else choice.mode


def _encode_chosen(tool: Tool, quirks: Quirks) -> JsonObject:
    if tool.native and tool.origin == ORIGIN:
        return {"type": tool.native.get("type")}
    if tool.hosted is None:
        kind = "custom" if tool.freeform and quirks.custom_tools else "function"
        return {"type": kind, **name_fields(tool.name, _namespace(tool, quirks))}
    label = tool.hosted.get("server_label")
    type = tool.hosted.get("type")
    return {"type": type} if label is None else {"type": type, "server_label": label}


# ── hosted tools that this gateway cannot run ────────────────────────────────


def encode_unavailable(tool: Tool, subject: str, ids: Ids) -> tuple[Foreign | str, ...] | None:
    """Return a failed call of a hosted tool and a sentence; None for a tool of another type.

    OpenAI Responses, output items: the call of a hosted tool is an item with `status: failed`.
    """
    type = str((tool.hosted or {}).get("type", ""))
    fields: dict[str, tuple[str, JsonObject]] = {
        "web_search": ("ws", {"action": {"type": "search", "query": subject}}),
        "file_search": ("fs", {"queries": [subject], "results": None}),
        "code_interpreter": ("ci", {"code": "", "container_id": "", "outputs": None}),
        "image_generation": ("ig", {"result": None}),
    }
    name = next((name for name in fields if type.startswith(name)), None)
    if name is None:
        return None
    prefix, own = fields[name]
    item: JsonObject = {
        "type": f"{name}_call",
        "id": f"{prefix}_{ids.draw(24)}",
        "status": "failed",
        **own,
    }
    return (
        Foreign(ORIGIN, f"{name}_call", item),
        f"{name} is not available: the model behind this gateway has no such tool.",
    )
