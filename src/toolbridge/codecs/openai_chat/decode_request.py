"""What a client asks in the words of Chat Completions, in ours."""

import msgspec
from msgspec.structs import replace

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.decode_turns import TurnDecoder
from toolbridge.codecs.openai_chat.shapes import EFFORTS, ORIGIN
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import (
    MAX_ANSWERS,
    Origin,
    OutputFormat,
    Request,
    Sampling,
    Think,
    Tool,
    ToolChoice,
)
from toolbridge.core.source import sourced
from toolbridge.wire import shapes as wire

_bodies = msgspec.json.Decoder(shapes.Body)
_tools = msgspec.json.Decoder(shapes.Tool)
_functions = msgspec.json.Decoder(shapes.ToolFunction)
_customs = msgspec.json.Decoder(shapes.CustomTool)
_choices = msgspec.json.Decoder(str | shapes.Choice | None)
_formats = msgspec.json.Decoder(shapes.ResponseFormat | None)
_objects = msgspec.json.Decoder(wire.AnyObject)


def decode_request(
    body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
) -> Request:
    """Read a request. What is strange but harmless is kept or passed over, never refused."""
    asked = wire.decode_request(body, _bodies)
    _check(asked, model=model, counting=counting)
    conversation = TurnDecoder()
    for number, message in enumerate(asked.messages or ()):
        conversation.add(number, message)
    extra = wire.leftovers(body, shapes.Body)
    think = _decode_think(asked.reasoning_effort, extra)
    return Request(
        model=model or asked.model or "",
        system=tuple(conversation.system),
        turns=conversation.turns,
        tools=_decode_tools(asked),
        tool_choice=_decode_choice(asked, extra),
        max_tokens=_decode_limit(asked),
        stop=(asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ()),
        sampling=_decode_sampling(asked),
        think=think,
        output=_decode_output(asked.response_format, extra),
        stream=bool(asked.stream if stream is None else stream),
        user=asked.safety_identifier or asked.user or "",
        session=key if isinstance(key := extra.get("prompt_cache_key"), str) else "",
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


def _decode_output(raw: msgspec.Raw, extra: JsonObject) -> OutputFormat | None:
    format = wire.decode_request(raw, _formats, "response_format")
    if format is None or format.type == "text":
        return None
    rest = wire.rest(raw, shapes.ResponseFormat)
    if format.type not in {"json_object", "json_schema"}:
        rest = wire.decode_request(raw, _objects)
    if rest:
        extra["response_format"] = rest
    if format.type == "json_object":
        return OutputFormat()
    if format.type != "json_schema":
        return None
    if format.json_schema is None:
        raise MalformedRequest("field required", where="response_format.json_schema")
    wanted = format.json_schema
    return OutputFormat(wanted.schema or {}, wanted.name, wanted.strict)


# ── tools ────────────────────────────────────────────────────────────────────


def _decode_tools(asked: shapes.Body) -> tuple[Tool, ...]:
    tools = [_decode_tool(raw, f"tools.{i}") for i, raw in enumerate(asked.tools or ())]
    for i, function in enumerate(asked.functions or ()):  # as tools were offered once
        old: JsonObject = {"name": function.name}
        source = Origin(ORIGIN, f"functions.{i}")
        tools.append(replace(_function(function), origin=ORIGIN, native=old, source=source))
    return tuple(tools)


def _decode_tool(raw: msgspec.Raw, where: str) -> Tool:
    given = wire.decode_request(raw, _tools, where)
    tool = _decode_definition(given, raw, where)
    unknown = () if tool.hosted else wire.unknown_names(raw, shapes.ToolDefinition, where)
    if given.type == "custom" and _takes_any_text(given.custom):
        unknown = tuple(name for name in unknown if name != "custom.format")
    return sourced(tool, Origin(ORIGIN, where, raw, unknown))


def _decode_definition(tool: shapes.Tool, raw: msgspec.Raw, where: str) -> Tool:
    if tool.type == "function":
        inner = f"{where}.function"
        return _function(wire.decode_request(_given(tool.function, inner), _functions, inner))
    if tool.type == "custom":
        inner = f"{where}.custom"
        custom = wire.decode_request(_given(tool.custom, inner), _customs, inner)
        return Tool(custom.name, custom.description or "", freeform=True, origin=ORIGIN)
    hosted = wire.decode_request(raw, _objects, where)
    name = hosted.get("name")
    return Tool(name if isinstance(name, str) else tool.type, origin=ORIGIN, hosted=hosted)


def _takes_any_text(custom: msgspec.Raw) -> bool:
    return wire.leftovers(custom, shapes.CustomTool).get("format") == {"type": "text"}


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


def _decode_choice(asked: shapes.Body, extra: JsonObject) -> ToolChoice:
    choice = wire.decode_request(asked.tool_choice, _choices, "tool_choice")
    parallel = asked.parallel_tool_calls
    if isinstance(choice, shapes.Choice) and (
        rest := wire.rest(asked.tool_choice, shapes.Choice, "tool_choice")
    ):
        extra["tool_choice"] = rest
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
