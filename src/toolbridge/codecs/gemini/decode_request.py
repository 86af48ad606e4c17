"""What a client asks in Gemini's words, in ours.

The path says the model and whether to stream. What is strange but harmless is kept or passed over,
never refused.
"""

from typing import Literal

import msgspec

from toolbridge.codecs.gemini import shapes
from toolbridge.codecs.gemini.decode_turns import TurnDecoder, decode_system
from toolbridge.codecs.gemini.schemas import decode_schema
from toolbridge.codecs.gemini.shapes import ALT, CHOICES, LEVELS, ORIGIN
from toolbridge.codecs.gemini.spelling import respell
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import (
    MAX_ANSWERS,
    Effort,
    Origin,
    OutputFormat,
    Request,
    Sampling,
    Think,
    Tool,
    ToolChoice,
    Turn,
)
from toolbridge.core.source import sourced
from toolbridge.wire import shapes as wire

_objects = msgspec.json.Decoder(wire.AnyObject)
_CONFIG = "generationConfig"
_JSON = "application/json"


def decode_request(
    body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
) -> Request:
    try:
        whole = respell(wire.decode_request(body, _objects))
        return _decode(whole, model=model, stream=stream, counting=counting)
    except RecursionError:
        raise MalformedRequest("JSON is nested too deeply") from None


def _decode(whole: JsonObject, *, model: str, stream: bool | None, counting: bool) -> Request:
    inner = whole.get("generateContentRequest")
    if counting and isinstance(
        inner, dict
    ):  # what a token counter is sent may be wrapped once more
        whole = respell(inner)
    asked = wire.convert_request(whole, shapes.Body)
    name = model or _text(whole.get("model"))
    if not name:
        raise MalformedRequest("field required", where="model")
    system, system_fields = decode_system(asked.system_instruction)
    choice, choice_fields = _decode_choice(asked.tool_config)
    config = wire.convert_request(asked.generation_config or {}, shapes.GenerationConfig, _CONFIG)
    think, thinking_fields = _decode_thinking(config.thinking_config)
    output, output_fields = _decode_output(config)
    fields = _rest(asked.generation_config, shapes.GenerationConfig) | output_fields
    if thinking_fields:
        fields["thinkingConfig"] = thinking_fields
    kept = {"systemInstruction": system_fields, "toolConfig": choice_fields, _CONFIG: fields}
    return Request(
        model=name.removeprefix("models/"),
        turns=_decode_contents(asked.contents),
        system=system,
        tools=_decode_tools(asked.tools or []),
        tool_choice=choice,
        max_tokens=_max_tokens(config),
        stop=tuple(config.stop_sequences or ()),
        sampling=_decode_sampling(config),
        think=think,
        output=output,
        stream=bool(stream),
        origin=ORIGIN,
        extra=_extra(whole) | {key: rest for key, rest in kept.items() if rest},
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _extra(whole: JsonObject) -> JsonObject:
    rest = _rest(whole, shapes.Body)
    return {key: value for key, value in rest.items() if key not in {"model", "stream", ALT}}


def _rest(given: JsonObject | None, shape: type[msgspec.Struct]) -> JsonObject:
    """Return the fields of an object that `shape` does not list."""
    known = shape.__struct_encode_fields__
    return {k: v for k, v in (given or {}).items() if k not in known and v is not None}


def _decode_contents(contents: list[JsonObject] | JsonObject | str | None) -> tuple[Turn, ...]:
    if isinstance(contents, str):
        contents = {"parts": [{"text": contents}]}
    if isinstance(contents, dict):
        contents = [contents]
    if not contents:
        raise MalformedRequest("contents is not specified", where="contents")
    conversation = TurnDecoder()
    return tuple(conversation.turn(i, content) for i, content in enumerate(contents))


# ── tools ────────────────────────────────────────────────────────────────────


def _decode_tools(given: list[JsonObject]) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for i, entry in enumerate(given):
        for key, value in entry.items():
            where = f"tools.{i}.{key}"
            if key == "functionDeclarations":
                declared = value if isinstance(value, list) else [value]
                tools += (_decode_tool(one, f"{where}.{j}") for j, one in enumerate(declared))
            elif value is not None:
                hosted: JsonObject = {key: value}
                tools.append(Tool(key, origin=ORIGIN, hosted=hosted, source=Origin(ORIGIN, where)))
    return tuple(tools)


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


def _decode_choice(given: JsonObject | None) -> tuple[ToolChoice, JsonObject]:
    config = wire.convert_request(given or {}, shapes.ToolConfig, "toolConfig")
    where = "toolConfig.functionCallingConfig"
    calling = config.function_calling_config or {}
    asked = wire.convert_request(calling, shapes.CallingConfig, where)
    rest, fields = _rest(given, shapes.ToolConfig), _rest(calling, shapes.CallingConfig)
    names = tuple(asked.allowed_function_names or ())
    mode = CHOICES.get(asked.mode or "AUTO")
    if asked.mode and (mode is None or (asked.mode == "VALIDATED" and not names)):
        fields["mode"] = asked.mode
    if fields:
        rest["functionCallingConfig"] = fields
    if mode == "required" and len(names) == 1:
        return ToolChoice("named", names), rest
    return ToolChoice(mode or "auto", names), rest


# ── settings ─────────────────────────────────────────────────────────────────


def _max_tokens(config: shapes.GenerationConfig) -> int | None:
    limit = config.max_output_tokens
    if limit is not None and limit <= 0:
        raise MalformedRequest("must be greater than 0", where=f"{_CONFIG}.maxOutputTokens")
    return limit


def _decode_sampling(config: shapes.GenerationConfig) -> Sampling:
    return Sampling(
        temperature=config.temperature,
        top_p=config.top_p,
        top_k=config.top_k,
        seed=config.seed,
        frequency_penalty=config.frequency_penalty,
        presence_penalty=config.presence_penalty,
        logprobs=(config.logprobs or 0) if config.response_logprobs else None,
        n=_decode_count(config.candidate_count),
    )


def _decode_count(count: int | None) -> int | None:
    """Return how many answers are wanted; one is what every API gives."""
    if count is not None and not 1 <= count <= MAX_ANSWERS:
        where = f"{_CONFIG}.candidateCount"
        raise MalformedRequest(f"must be between 1 and {MAX_ANSWERS}", where=where)
    return None if count == 1 else count


def _decode_thinking(given: JsonObject | None) -> tuple[Think, JsonObject]:
    if given is None:
        return Think(), {}
    where = f"{_CONFIG}.thinkingConfig"
    config = wire.convert_request(given, shapes.ThinkingConfig, where)
    rest = _rest(given, shapes.ThinkingConfig)
    effort: Effort = LEVELS.get((config.thinking_level or "").upper(), "")
    if config.thinking_level and not effort:  # a level that is newer than we are
        rest["thinkingLevel"] = config.thinking_level
    show: Literal["summarized", "omitted"] = "summarized" if config.include_thoughts else "omitted"
    budget = config.thinking_budget
    if budget == 0:
        return Think("off"), rest
    if budget is not None and budget > 0:
        return Think("on", budget, effort, show), rest
    if budget is None and not effort and not config.include_thoughts:
        return Think(), rest
    return Think("auto", effort=effort, show=show), rest


def _decode_output(config: shapes.GenerationConfig) -> tuple[OutputFormat | None, JsonObject]:
    """Return the form of the answer, and what is said of it that only Gemini understands."""
    kind = config.response_mime_type or ""
    schema = config.response_json_schema
    if schema is None and config.response_schema is not None:
        schema = decode_schema(config.response_schema)
    rest: JsonObject = {}
    if kind == _JSON or (schema is not None and not kind):
        if config.response_json_schema is None and config.response_schema is not None:
            rest["responseSchema"] = config.response_schema
        return OutputFormat(schema=schema), rest
    if kind not in {"", "text/plain"}:
        rest["responseMimeType"] = kind
        if config.response_schema is not None:
            rest["responseSchema"] = config.response_schema
    return None, rest
