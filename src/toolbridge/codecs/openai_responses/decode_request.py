"""What a client asks in the words of the Responses API, in ours."""

import msgspec

from toolbridge.codecs.openai_responses import shapes
from toolbridge.codecs.openai_responses.builtins import read_tool
from toolbridge.codecs.openai_responses.decode_items import TurnDecoder
from toolbridge.codecs.openai_responses.marks import full_name
from toolbridge.codecs.openai_responses.shapes import (
    ANSWER_NAME,
    EFFORTS,
    LOGPROBS,
    ORIGIN,
    SEALED,
)
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import (
    Origin,
    OutputFormat,
    Request,
    Sampling,
    Text,
    Think,
    Tool,
    ToolChoice,
)
from toolbridge.core.source import sourced
from toolbridge.wire import shapes as wire

_bodies = msgspec.json.Decoder(shapes.Body)
_types = msgspec.json.Decoder(shapes.Chosen)
_functions = msgspec.json.Decoder(shapes.FunctionTool)
_namespaces = msgspec.json.Decoder(shapes.Namespace)
_choices = msgspec.json.Decoder(str | shapes.Choice | None)
_reasoning = msgspec.json.Decoder(shapes.ReasoningConfig | None)
_texts = msgspec.json.Decoder(shapes.TextConfig | None)
_formats = msgspec.json.Decoder(shapes.Format | None)
_objects = msgspec.json.Decoder(wire.AnyObject)

_REMEMBERED = ("previous_response_id", "conversation", "prompt")
"""The fields that stand in for an input."""


def decode_request(
    body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
) -> Request:
    """Read a request. What is strange but harmless is kept or passed over, never refused."""
    asked = wire.decode_request(body, _bodies)
    extra = wire.leftovers(body, shapes.Body)
    _check(asked, extra, model=model, counting=counting)
    said = _decode_input(asked)
    tools, kept = _decode_tools(asked.tools or [], said.found)
    extra |= kept
    think = _decode_think(asked.reasoning, extra)
    output = _decode_text(asked.text, extra)
    choice = _decode_choice(asked, extra)
    if included := _included(asked):
        extra["include"] = included
    user = asked.safety_identifier or _take_text(extra, "user")
    return Request(
        model=model or asked.model or "",
        system=tuple(said.system),
        turns=said.turns,
        tools=tools,
        tool_choice=choice,
        max_tokens=asked.max_output_tokens,
        sampling=Sampling(asked.temperature, asked.top_p, logprobs=_decode_logprobs(asked)),
        think=think,
        output=output,
        stream=bool(asked.stream if stream is None else stream),
        user=user,
        session=asked.prompt_cache_key or "",
        origin=ORIGIN,
        extra=extra,
    )


def _check(asked: shapes.Body, extra: JsonObject, *, model: str, counting: bool) -> None:
    if not (model or asked.model or extra.get("prompt")):
        raise MalformedRequest("field required", where="model")
    if not (asked.input or counting or any(extra.get(name) for name in _REMEMBERED)):
        text = "field required" if asked.input is None else "at least one item is required"
        raise MalformedRequest(text, where="input")
    if asked.max_output_tokens is not None and asked.max_output_tokens < 1:
        raise MalformedRequest("must be greater than 0", where="max_output_tokens")


def _decode_input(asked: shapes.Body) -> TurnDecoder:
    said = TurnDecoder()
    if asked.instructions:
        said.system.append(Text(asked.instructions, source=Origin(ORIGIN, "instructions")))
    if isinstance(asked.input, str):
        said.say(asked.input)
        return said
    for i, raw in enumerate(asked.input or ()):
        said.add(raw, f"input.{i}")
    return said


def _included(asked: shapes.Body) -> list[Json]:
    """Return what else the answer should hold; sealed thoughts are what we always ask for."""
    return [name for name in asked.include or () if name != SEALED]


def _decode_logprobs(asked: shapes.Body) -> int | None:
    """Return how many alternatives per token are wanted: `include` alone asks for none."""
    included = LOGPROBS in (asked.include or ())
    return 0 if included and asked.top_logprobs is None else asked.top_logprobs


def _take_text(extra: JsonObject, name: str) -> str:
    value = extra.get(name)
    if not isinstance(value, str):
        return ""
    del extra[name]
    return value


# ── tools ────────────────────────────────────────────────────────────────────


def _decode_tools(
    raws: list[msgspec.Raw], found: list[tuple[str, msgspec.Raw]]
) -> tuple[tuple[Tool, ...], JsonObject]:
    """Return the tools, and by their names what only this API says of namespaces."""
    shelf = _Shelf()
    for i, raw in enumerate(raws):
        shelf.add(raw, f"tools.{i}")
    later = _Shelf()
    for where, raw in found:
        later.add(raw, where)
    kept: JsonObject = {"namespaces": shelf.namespaces} if shelf.namespaces else {}
    return (*_settled(shelf.tools), *_found(later.tools, shelf.tools)), kept


def _settled(tools: list[Tool]) -> list[Tool]:
    """Return `tools`; a built-in one whose name a function bears can be offered by its API alone."""
    names = {tool.name for tool in tools if tool.native is None}
    return [
        Tool(tool.name, origin=ORIGIN, hosted=tool.native)
        if tool.native is not None and tool.name in names
        else tool
        for tool in tools
    ]


def _found(found: list[Tool], offered: list[Tool]) -> list[Tool]:
    """Return the tools that searches found: the item that lists them offers them already."""
    names = {tool.name for tool in offered}
    once = {tool.name: tool for tool in found if tool.hosted is None and tool.name not in names}
    return [
        msgspec.structs.replace(tool, deferred=True, origin=ORIGIN, native={})
        for tool in once.values()
    ]


class _Shelf:
    """The tools of a request, namespaces laid flat."""

    def __init__(self) -> None:
        self.tools: list[Tool] = []
        self.namespaces: JsonObject = {}

    def add(self, raw: msgspec.Raw, where: str, namespace: str = "") -> None:
        found = wire.decode_request(raw, _types, where)
        if found.type in {"function", "custom"}:
            self._offer(raw, where, namespace)
        elif found.type == "namespace" and not namespace:
            self._open(raw, where)
        elif found.type:
            self._add_typed(raw, found, where, namespace)
        else:
            raise MalformedRequest("field required", where=f"{where}.type")

    def _add_typed(
        self, raw: msgspec.Raw, found: shapes.Chosen, where: str, namespace: str
    ) -> None:
        declared = wire.decode_request(raw, _objects, where)
        builtin = None if namespace else read_tool(declared)
        name = found.name or found.server_label or found.type
        hosted = Tool(name, origin=ORIGIN, hosted=declared, namespace=namespace)
        self.tools.append(sourced(builtin or hosted, Origin(ORIGIN, where, raw)))

    def _offer(self, raw: msgspec.Raw, where: str, namespace: str) -> None:
        tool = wire.decode_request(raw, _functions, where)
        if not tool.name:
            raise MalformedRequest("field required", where=f"{where}.name")
        name = full_name(tool.name, namespace)
        offered = Tool(
            name,
            description=tool.description or "",
            schema=tool.parameters or {},
            strict=tool.strict,
            deferred=bool(tool.defer_loading),
            freeform=tool.type == "custom",
            namespace=namespace,
        )
        unknown = wire.unknown_names(raw, shapes.FunctionTool, where)
        if offered.freeform:  # the grammar of free text is said to no other model
            unknown = tuple(n for n in unknown if n != "format" or _has_grammar(raw))
        self.tools.append(sourced(offered, Origin(ORIGIN, where, raw, unknown)))

    def _open(self, raw: msgspec.Raw, where: str) -> None:
        space = wire.decode_request(raw, _namespaces, where)
        if not space.name:
            raise MalformedRequest("field required", where=f"{where}.name")
        for i, inner in enumerate(space.tools):
            self.add(inner, f"{where}.tools.{i}", space.name)
        rest = wire.leftovers(raw, shapes.Namespace, where)
        if rest:
            self.namespaces[space.name] = rest


def _has_grammar(raw: msgspec.Raw) -> bool:
    format = wire.leftovers(raw, shapes.FunctionTool).get("format")
    return format != {"type": "text"}


def _decode_choice(asked: shapes.Body, extra: JsonObject) -> ToolChoice:
    parallel = asked.parallel_tool_calls
    choice = wire.decode_request(asked.tool_choice, _choices, "tool_choice")
    if isinstance(choice, shapes.Choice):
        known = choice.type in {"function", "custom", "allowed_tools"}
        if not known or wire.unknown_names(asked.tool_choice, shapes.Choice, "tool_choice"):
            extra["tool_choice"] = wire.decode_request(asked.tool_choice, _objects)
        return _decode_named(choice, parallel=parallel)
    match choice:
        case None | "auto":
            return ToolChoice("auto", parallel=parallel)
        case "none":
            return ToolChoice("none", parallel=parallel)
        case "required":
            return ToolChoice("required", parallel=parallel)
        case _:
            raise MalformedRequest(f"there is no choice {choice!r}", where="tool_choice")


def _decode_named(choice: shapes.Choice, *, parallel: bool | None) -> ToolChoice:
    if choice.type == "allowed_tools":
        names = tuple(filter(None, map(_chosen, choice.tools)))
        return ToolChoice("required" if choice.mode == "required" else "auto", names, parallel)
    if not choice.type:
        raise MalformedRequest("field required", where="tool_choice.type")
    if choice.type in {"function", "custom"} and not choice.name:
        raise MalformedRequest("field required", where="tool_choice.name")
    return ToolChoice("named", (_chosen(choice),), parallel)


def _chosen(choice: shapes.Chosen) -> str:
    name = choice.name if choice.type != "mcp" else ""
    return full_name(name, choice.namespace) if name else choice.server_label or choice.type


# ── settings ─────────────────────────────────────────────────────────────────


def _decode_think(raw: msgspec.Raw, extra: JsonObject) -> Think:
    """Read how to think. Clients attach this by themselves, so the model may as well not."""
    config = wire.decode_request(raw, _reasoning, "reasoning")
    if config is None:
        return Think()
    rest = wire.leftovers(raw, shapes.ReasoningConfig, "reasoning")
    if config.summary not in {None, "auto"}:
        rest["summary"] = config.summary
    if config.effort not in {None, "none", *EFFORTS}:  # a level that is newer than we are
        rest["effort"] = config.effort
    if rest:
        extra["reasoning"] = rest
    if config.effort == "none":
        return Think("off", show="summarized" if config.summary else "")
    if config.effort is None and config.summary is None:
        return Think()
    effort = EFFORTS.get(config.effort or "", "")
    return Think("auto", effort=effort, show="summarized" if config.summary else "")


def _decode_text(raw: msgspec.Raw, extra: JsonObject) -> OutputFormat | None:
    config = wire.decode_request(raw, _texts, "text")
    if config is None:
        return None
    rest = wire.leftovers(raw, shapes.TextConfig, "text")
    output = _decode_format(config.format, rest)
    if rest:
        extra["text"] = rest
    return output


def _decode_format(raw: msgspec.Raw, rest: JsonObject) -> OutputFormat | None:
    format = wire.decode_request(raw, _formats, "text.format")
    if format is None or format.type == "text":
        return None
    if format.type == "json_object":
        return OutputFormat()
    if format.type != "json_schema":
        rest["format"] = wire.decode_request(raw, _objects, "text.format")
        return None
    if format.schema is None:
        raise MalformedRequest("field required", where="text.format.schema")
    described = wire.leftovers(raw, shapes.Format, "text.format")
    if described:
        rest["format"] = described
    name = "" if format.name == ANSWER_NAME else format.name
    return OutputFormat(format.schema, name, format.strict)
