"""What a client asks in the words of Chat Completions, in ours."""

import msgspec
from msgspec.structs import replace

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.decode_turns import Conversation
from toolbridge.codecs.openai_chat.shapes import EFFORTS, INSIDE, ORIGIN
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import (
    MAX_ANSWERS,
    OutputFormat,
    Request,
    Sampling,
    Think,
    Tool,
    ToolChoice,
)
from toolbridge.wire import shapes as wire

_bodies = msgspec.json.Decoder(shapes.Body)
_tools = msgspec.json.Decoder(shapes.Tool)
_functions = msgspec.json.Decoder(shapes.ToolFunction)
_customs = msgspec.json.Decoder(shapes.CustomTool)
_objects = msgspec.json.Decoder(wire.AnyObject)


def decode_request(
    body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
) -> Request:
    """Read a request. What is strange but harmless is kept or passed over, never refused."""
    asked = wire.decode_request(body, _bodies)
    _check(asked, model=model, counting=counting)
    conversation = Conversation()
    for number, message in enumerate(asked.messages or ()):
        conversation.add(number, message)
    tools, kept = _decode_tools(asked)
    extra = wire.leftovers(body, shapes.Body)
    if kept:
        extra["tools"] = kept
    think = _decode_think(asked.reasoning_effort, extra)
    return Request(
        model=model or asked.model or "",
        system=tuple(conversation.system),
        turns=conversation.turns,
        tools=tools,
        tool_choice=_decode_choice(asked),
        max_tokens=_decode_limit(asked),
        stop=(asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ()),
        sampling=_decode_sampling(asked),
        think=think,
        output=_decode_output(asked.response_format, extra),
        stream=bool(asked.stream if stream is None else stream),
        user=asked.safety_identifier or asked.user or "",
        origin=ORIGIN,
        extra=extra,
    )


def _check(asked: shapes.Body, *, model: str, counting: bool) -> None:
    if not (model or asked.model):
        raise MalformedRequest("field required", where="model")
    if asked.messages is None:
        raise MalformedRequest("field required", where="messages")
    if not asked.messages and not counting:
        raise MalformedRequest("at least one message is required", where="messages")


def _decode_limit(asked: shapes.Body) -> int | None:
    limit = asked.max_completion_tokens
    field = "max_tokens" if limit is None else "max_completion_tokens"
    limit = asked.max_tokens if limit is None else limit
    if limit is None or limit == -1:  # llama.cpp's "no limit"
        return None
    if limit < 1:
        raise MalformedRequest("must be at least 1", where=field)
    return limit


def _decode_sampling(asked: shapes.Body) -> Sampling:
    top = asked.top_logprobs or 0
    if not 0 <= top <= 20:
        raise MalformedRequest("must be between 0 and 20", where="top_logprobs")
    repeat = asked.repetition_penalty
    return Sampling(
        temperature=asked.temperature,
        top_p=asked.top_p,
        top_k=asked.top_k,
        min_p=asked.min_p,
        seed=asked.seed,
        frequency_penalty=asked.frequency_penalty,
        presence_penalty=asked.presence_penalty,
        repeat_penalty=asked.repeat_penalty if repeat is None else repeat,
        logprobs=top if asked.logprobs else None,
        n=_decode_count(asked.n),
    )


def _decode_count(n: int | None) -> int | None:
    """Return how many answers are wanted; one is what every API gives."""
    if n is not None and not 1 <= n <= MAX_ANSWERS:
        raise MalformedRequest(f"must be between 1 and {MAX_ANSWERS}", where="n")
    return None if n == 1 else n


def _decode_think(effort: str | None, extra: JsonObject) -> Think:
    if not effort:
        return Think()
    if effort == "none":
        return Think("off", effort="none")
    if effort not in EFFORTS:  # a level that is newer than we are
        extra["reasoning_effort"] = effort
        return Think("on")
    return Think("on", effort=EFFORTS[effort])


def _decode_output(format: shapes.ResponseFormat | None, extra: JsonObject) -> OutputFormat | None:
    if format is None or format.type == "text":
        return None
    if format.type == "json_object":
        return OutputFormat()
    if format.type == "json_schema":
        if format.json_schema is None:
            raise MalformedRequest("field required", where="response_format.json_schema")
        wanted = format.json_schema
        return OutputFormat(wanted.schema or {}, wanted.name, wanted.strict)
    extra["response_format"] = {"type": format.type}
    return None


# ── tools ────────────────────────────────────────────────────────────────────


def _decode_tools(asked: shapes.Body) -> tuple[tuple[Tool, ...], JsonObject]:
    """Return the tools, and by their names the fields that only this API understands."""
    tools: list[Tool] = []
    kept: JsonObject = {}
    for i, raw in enumerate(asked.tools or ()):
        tool, rest = _decode_tool(raw, f"tools.{i}")
        tools.append(tool)
        if rest:
            kept[tool.name] = rest
    for function in asked.functions or ():  # as tools were offered before there were any
        old: JsonObject = {"name": function.name}
        tools.append(replace(_function(function), origin=ORIGIN, native=old))
    return tuple(tools), kept


def _decode_tool(raw: msgspec.Raw, where: str) -> tuple[Tool, JsonObject]:
    tool = wire.decode_request(raw, _tools, where)
    rest = wire.leftovers(raw, shapes.Tool)
    if tool.type == "function":
        inner = f"{where}.function"
        function = wire.decode_request(_given(tool.function, inner), _functions, inner)
        return _function(function), _kept(rest, tool.function, shapes.ToolFunction)
    if tool.type == "custom":
        inner = f"{where}.custom"
        custom = wire.decode_request(_given(tool.custom, inner), _customs, inner)
        kept = _kept(rest, tool.custom, shapes.CustomTool)
        return Tool(custom.name, custom.description or "", freeform=True, origin=ORIGIN), kept
    hosted = wire.decode_request(raw, _objects, where)
    name = hosted.get("name")
    return Tool(name if isinstance(name, str) else tool.type, origin=ORIGIN, hosted=hosted), {}


def _kept(rest: JsonObject, raw: msgspec.Raw, shape: type[msgspec.Struct]) -> JsonObject:
    """Return the fields beside a definition, with those inside of it under the empty name."""
    inside = wire.leftovers(raw, shape)
    return rest | {INSIDE: inside} if inside else rest


def _given(raw: msgspec.Raw, where: str) -> msgspec.Raw:
    if bytes(raw) == b"null":
        raise MalformedRequest("field required", where=where)
    return raw


def _function(function: shapes.ToolFunction) -> Tool:
    return Tool(
        function.name,
        description=function.description or "",
        schema=function.parameters or {},
        strict=function.strict,
    )


def _decode_choice(asked: shapes.Body) -> ToolChoice:
    choice, parallel = asked.tool_choice, asked.parallel_tool_calls
    if asked.functions and parallel is None:
        parallel = False  # one call is all that such a client can be told
    if choice is None and asked.function_call is not None:
        legacy = asked.function_call
        choice = legacy if isinstance(legacy, str) else shapes.Choice(function=legacy)
    if isinstance(choice, shapes.Choice):
        return _decode_named(choice, parallel=parallel)
    match choice:
        case None | "auto":
            return ToolChoice("auto", parallel=parallel)
        case "none":
            return ToolChoice("none", parallel=parallel)
        case "required" | "any":  # Mistral's word for it
            return ToolChoice("required", parallel=parallel)
        case _:
            raise MalformedRequest(f"there is no choice {choice!r}", where="tool_choice")


def _decode_named(choice: shapes.Choice, *, parallel: bool | None) -> ToolChoice:
    if choice.type == "allowed_tools":
        allowed = choice.allowed_tools or shapes.AllowedTools()
        names = tuple(filter(None, map(_name, allowed.tools)))
        return ToolChoice("required" if allowed.mode == "required" else "auto", names, parallel)
    name = _name(choice)
    if not name:
        raise MalformedRequest("field required", where="tool_choice.function.name")
    return ToolChoice("named", (name,), parallel)


def _name(tool: shapes.NamedTool) -> str:
    named = tool.function or tool.custom
    return named.name if named else tool.name
