"""Requests to the Gemini API, as our `Request`.

The model and the choice between stream and whole answer are in the path, not in the body. Fields
that this codec does not know are kept in `Request.extra` and never rejected.
"""

import msgspec

from toolbridge.codecs.gemini import shapes
from toolbridge.codecs.gemini.decode_turns import TurnDecoder, decode_system
from toolbridge.codecs.gemini.schemas import decode_schema
from toolbridge.codecs.gemini.shapes import ALT, CONFIG, ORIGIN, decode_rest
from toolbridge.codecs.gemini.spelling import respell
from toolbridge.codecs.gemini.thinking import decode_thinking
from toolbridge.codecs.gemini.tools import decode_choice, decode_tools
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject, text_of
from toolbridge.core.messages import MAX_ANSWERS, OutputFormat, Request, Sampling, Turn
from toolbridge.core.steps import Steps, stepwise
from toolbridge.wire import shapes as wire

_objects = msgspec.json.Decoder(wire.AnyObject)
_JSON = "application/json"


@stepwise
def decode_request(
    body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
) -> Steps[Request]:
    """Return the request in a body of `:generateContent`, or of `:countTokens`."""
    try:
        whole = respell(wire.decode_request(body, _objects))
        yield
        return (yield from _decode(whole, model=model, stream=stream, counting=counting))
    except RecursionError:
        raise MalformedRequest("JSON is nested too deeply") from None


def _decode(
    whole: JsonObject, *, model: str, stream: bool | None, counting: bool
) -> Steps[Request]:
    # Gemini API, countTokens: the body has `contents`, or all of it in `generateContentRequest`.
    inner = whole.get("generateContentRequest")
    if counting and isinstance(inner, dict):
        whole = respell(inner)
    asked = wire.convert_request(whole, shapes.Body)
    name = model or text_of(whole.get("model"))
    if not name:
        raise MalformedRequest("field required", where="model")
    system, system_fields = decode_system(asked.system_instruction)
    choice, choice_fields = decode_choice(asked.tool_config)
    config = wire.convert_request(asked.generation_config or {}, shapes.GenerationConfig, CONFIG)
    think, thinking_fields = decode_thinking(config.thinking_config)
    output, output_fields = _decode_output(config)
    fields = decode_rest(asked.generation_config, shapes.GenerationConfig) | output_fields
    if thinking_fields:
        fields["thinkingConfig"] = thinking_fields
    kept = {"systemInstruction": system_fields, "toolConfig": choice_fields, CONFIG: fields}
    turns = yield from _decode_contents(asked.contents)
    return Request(
        model=name.removeprefix("models/"),
        turns=turns,
        system=system,
        tools=decode_tools(asked.tools),
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


def _extra(whole: JsonObject) -> JsonObject:
    rest = decode_rest(whole, shapes.Body)
    return {key: value for key, value in rest.items() if key not in {"model", "stream", ALT}}


def _decode_contents(
    contents: list[JsonObject] | JsonObject | str | None,
) -> Steps[tuple[Turn, ...]]:
    if isinstance(contents, str):
        contents = {"parts": [{"text": contents}]}
    if isinstance(contents, dict):
        contents = [contents]
    if not contents:
        raise MalformedRequest("contents is not specified", where="contents")
    turns = TurnDecoder()
    for number, content in enumerate(contents):
        turns.add(number, content)
        yield
    return turns.turns


def _max_tokens(config: shapes.GenerationConfig) -> int | None:
    limit = config.max_output_tokens
    if limit is not None and limit <= 0:
        raise MalformedRequest("must be greater than 0", where=f"{CONFIG}.maxOutputTokens")
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
    """Return how many answers are requested; None for one, which is the default everywhere."""
    # Gemini API, GenerationConfig: `candidateCount` is 1 to 8.
    if count is not None and not 1 <= count <= MAX_ANSWERS:
        where = f"{CONFIG}.candidateCount"
        raise MalformedRequest(f"must be between 1 and {MAX_ANSWERS}", where=where)
    return None if count == 1 else count


def _decode_output(config: shapes.GenerationConfig) -> tuple[OutputFormat | None, JsonObject]:
    """Return the output format, and the fields of it that only Gemini understands."""
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
