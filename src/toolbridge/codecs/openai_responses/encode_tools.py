"""Our tools, and the choice among them, in the words of the Responses API."""

from toolbridge.codecs.openai_responses.marks import inner_name, name_fields
from toolbridge.codecs.openai_responses.quirks import Quirks
from toolbridge.codecs.openai_responses.shapes import ORIGIN
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Loss, Reference, Request, Result, Tool
from toolbridge.core.shared_fields import hosted_why
from toolbridge.core.source import own_words, unknown_fields


class ToolEncoder:
    """Writes the tools of one request and keeps what could not be said."""

    def __init__(self, request: Request, quirks: Quirks) -> None:
        self._request = request
        self._quirks = quirks
        self._own = request.origin == ORIGIN
        self.losses: list[Loss] = []

    def tools(self) -> list[Json]:
        """Return the offers; tools of one namespace that follow one another share an entry."""
        offers: list[Json] = []
        group: list[Json] = []
        current = ""
        for tool in self._offered():
            namespace = self._namespace(tool)
            if namespace and namespace != current:
                group = []
                offers.append(self._group(namespace, group))
            current = namespace
            (group if namespace else offers).append(self._tool(tool, namespace))
        return offers

    def _lose(self, what: str, why: str) -> None:
        self.losses.append(Loss(what, why))

    def _offered(self) -> list[Tool]:
        """Return the tools to offer. Only clients of this API know how to search deferred ones."""
        found = {} if self._own else _found(self._request)
        names = self._request.tool_choice.names
        now: list[Tool] = []
        later: dict[str, Tool] = {}
        for number, tool in enumerate(self._request.tools):
            if not _speakable(tool):
                self._lose(f"tools.{number}", hosted_why(tool))
            elif self._own and tool.native == {}:
                continue  # the output of the search that found it offers it
            elif self._own or not tool.deferred or tool.name in names:
                now.append(tool)
            elif tool.name in found:
                later[tool.name] = tool
        # What a search found goes to the end: the prompt's beginning stays as it was.
        return now + [later[name] for name in found if name in later]

    def _namespace(self, tool: Tool) -> str:
        inside = tool.hosted is not None or inner_name(tool.name, tool.namespace)
        return tool.namespace if self._quirks.namespaces and inside else ""

    def _group(self, namespace: str, tools: list[Json]) -> JsonObject:
        """Return a namespace with the fields that only this API knows."""
        kept = self._request.extra.get("namespaces") if self._own else None
        fields = kept.get(namespace) if isinstance(kept, dict) else None
        known: JsonObject = {"type": "namespace", "name": namespace}
        return known | (fields if isinstance(fields, dict) else {}) | {"tools": tools}

    def _tool(self, tool: Tool, namespace: str) -> JsonObject:
        said = own_words(tool, ORIGIN)
        if said is not None and self._may_be_said(tool, namespace):
            return said
        if tool.hosted is not None:
            return tool.hosted
        if tool.native and tool.origin == ORIGIN:
            return tool.native
        offer: JsonObject = {"name": inner_name(tool.name, namespace) or tool.name}
        if tool.description:
            offer["description"] = tool.description
        if self.is_custom(tool):
            return self._finish("custom", offer, tool)
        offer["parameters"] = _parameters(tool)
        if tool.strict is not None:
            offer["strict"] = tool.strict
        elif not self._own:
            offer["strict"] = False  # else the server makes the schema strict where it can
        return self._finish("function", offer, tool)

    def _finish(self, type: str, offer: JsonObject, tool: Tool) -> JsonObject:
        if tool.deferred and self._own:
            offer["defer_loading"] = True
        kept = unknown_fields(tool, ORIGIN)
        if tool.freeform and type == "function":
            kept = {name: value for name, value in kept.items() if name != "format"}
        return {"type": type, **offer, **kept}

    def _may_be_said(self, tool: Tool, namespace: str) -> bool:
        """Whether the provider takes a tool as a client of this API offers it."""
        return tool.namespace == namespace and (not tool.freeform or self._quirks.custom_tools)

    def is_custom(self, tool: Tool) -> bool:
        return tool.freeform and self._quirks.custom_tools

    # ── the choice ──

    def choice(self) -> JsonObject:
        """Return the fields that choose; what every server does by itself is not said."""
        choice = self._request.tool_choice
        fields: JsonObject = {}
        wanted = self._choice() if self._request.tools else None
        if not self._request.tools and choice.mode in {"required", "named"}:
            self._lose("tool_choice.mode", "there is no tool to choose")
            if choice.names:
                self._lose("tool_choice.names", "there is no tool to choose")
        if wanted is not None:
            fields["tool_choice"] = wanted
        if choice.parallel is not None:
            fields["parallel_tool_calls"] = choice.parallel
        return fields

    def _choice(self) -> Json:
        choice = self._request.tool_choice
        offered = {tool.name: tool for tool in self._request.tools if _speakable(tool)}
        missing = [name for name in choice.names if name not in offered]
        if missing:
            self._lose("tool_choice", f"there is no tool {missing[0]!r}")
            return None
        raw = self._request.extra.get("tool_choice") if self._own else None
        if choice.names and raw is not None:
            return raw
        if choice.mode == "named" and choice.names:
            return self._chosen(offered[choice.names[0]])
        if choice.names and choice.mode != "none":
            tools: list[Json] = [self._chosen(offered[name]) for name in choice.names]
            return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
        return None if choice.mode == "auto" else choice.mode

    def _chosen(self, tool: Tool) -> JsonObject:
        if tool.native and tool.origin == ORIGIN:
            return {"type": tool.native.get("type")}
        if tool.hosted is None:
            kind = "custom" if self.is_custom(tool) else "function"
            return {"type": kind, **name_fields(tool.name, self._namespace(tool))}
        label = tool.hosted.get("server_label")
        type = tool.hosted.get("type")
        return {"type": type} if label is None else {"type": type, "server_label": label}


def _speakable(tool: Tool) -> bool:
    return tool.hosted is None or tool.origin == ORIGIN


def _parameters(tool: Tool) -> JsonObject:
    if tool.freeform:
        text: JsonObject = {"type": "string"}
        return {"type": "object", "properties": {"input": text}, "required": ["input"]}
    if "type" in tool.schema:
        return tool.schema
    return {"type": "object", "properties": {}, **tool.schema}


def _found(request: Request) -> dict[str, None]:
    """Return the names of tools that a search has found, in the order of their finding."""
    found: dict[str, None] = {}
    for turn in request.turns:
        for part in turn.content:
            inside = part.content if isinstance(part, Result) else (part,)
            found |= {p.name: None for p in inside if isinstance(p, Reference)}
    return found
