"""A request body of `/v1/responses` to a `Request`.

Fields that have no counterpart in `Request` are kept in `extra` and written back when the request
goes to the same API.
"""

import msgspec

from toolbridge.codecs.openai_responses import shapes
from toolbridge.codecs.openai_responses.decode_turns import TurnDecoder
from toolbridge.codecs.openai_responses.shapes import (
    ANSWER_NAME,
    ENCRYPTED_REASONING,
    LOGPROBS,
    ORIGIN,
)
from toolbridge.codecs.openai_responses.thinking import decode_thinking
from toolbridge.codecs.openai_responses.tools import decode_choice, decode_tools
from toolbridge.core.declared_limits import check_count
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Origin, OutputFormat, Request, Sampling, Text
from toolbridge.core.steps import Steps, stepwise
from toolbridge.wire import shapes as wire

_bodies = msgspec.json.Decoder(shapes.Body)
_texts = msgspec.json.Decoder(shapes.TextConfig | None)
_formats = msgspec.json.Decoder(shapes.Format | None)
_objects = msgspec.json.Decoder(wire.AnyObject)

_STORED_INPUT = ("previous_response_id", "conversation", "prompt")
"""OpenAI Responses: `input` is optional with one of these."""


@stepwise
def decode_request(
    body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
) -> Steps[Request]:
    """Return the request; raise `MalformedRequest` with the path of a fault.

    Unknown fields, items and content types are kept, not rejected.
    """
    asked = wire.decode_request(body, _bodies)
    extra = wire.leftovers(body, shapes.Body)
    _check(asked, extra, model=model, counting=counting)
    conversation = yield from _decode_input(asked)
    check_count(extra, "max_tool_calls")
    limit = extra.get("max_tool_calls")
    most_calls = limit if isinstance(limit, int) else None
    tools, namespaces = decode_tools(asked.tools or [], conversation.found, most_calls)
    extra |= namespaces
    think = decode_thinking(asked.reasoning, extra)
    output = _decode_text(asked.text, extra)
    choice = decode_choice(asked, extra)
    if included := _included(asked):
        extra["include"] = included
    # OpenAI Responses: `safety_identifier` replaces the deprecated `user`.
    user = asked.safety_identifier or _take_text(extra, "user")
    return Request(
        model=model or asked.model or "",
        system=tuple(conversation.system),
        turns=conversation.turns,
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
    # OpenAI Responses: `model` is optional with `prompt`, a stored template that names one.
    if not (model or asked.model or extra.get("prompt")):
        raise MalformedRequest("field required", where="model")
    if not (asked.input or counting or any(extra.get(name) for name in _STORED_INPUT)):
        text = "field required" if asked.input is None else "at least one item is required"
        raise MalformedRequest(text, where="input")
    if asked.max_output_tokens is not None and asked.max_output_tokens < 1:
        raise MalformedRequest("must be greater than 0", where="max_output_tokens")


def _decode_input(asked: shapes.Body) -> Steps[TurnDecoder]:
    conversation = TurnDecoder()
    # OpenAI Responses: `instructions` come before all items, as a system message.
    if asked.instructions:
        text = Text(asked.instructions, source=Origin(ORIGIN, "instructions"))
        conversation.system.append(text)
    if isinstance(asked.input, str):
        conversation.add_text(asked.input)
        return conversation
    for i, raw in enumerate(asked.input or ()):
        conversation.add(raw, f"input.{i}")
        yield
    return conversation


def _included(asked: shapes.Body) -> list[Json]:
    """Return the values of `include` except encrypted reasoning, which is always requested."""
    return [name for name in asked.include or () if name != ENCRYPTED_REASONING]


def _decode_logprobs(asked: shapes.Body) -> int | None:
    """Return the number of alternatives per token: 0 if only `include` names log probabilities."""
    included = LOGPROBS in (asked.include or ())
    return 0 if included and asked.top_logprobs is None else asked.top_logprobs


def _take_text(extra: JsonObject, name: str) -> str:
    """Remove a string from `extra` and return it; "" for a missing field or another type."""
    value = extra.get(name)
    if not isinstance(value, str):
        return ""
    del extra[name]
    return value


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
    described = wire.leftovers(raw, shapes.Format, "text.format")  # `description`, for example
    if described:
        rest["format"] = described
    name = "" if format.name == ANSWER_NAME else format.name
    return OutputFormat(format.schema, name, format.strict)
