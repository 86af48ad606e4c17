"""A request body of `/v1/chat/completions` to a `Request`.

Fields of OpenAI's or of another provider that have no counterpart in `Request` are kept in `extra`
and written back when the request goes to the same API.
"""

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.decode_turns import TurnDecoder
from toolbridge.codecs.openai_chat.search_options import OPTIONS
from toolbridge.codecs.openai_chat.shapes import ORIGIN
from toolbridge.codecs.openai_chat.thinking import decode_thinking
from toolbridge.codecs.openai_chat.tools import decode_choice, decode_tools
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import MAX_ANSWERS, OutputFormat, Request, Sampling
from toolbridge.core.steps import EVERY, Steps, stepwise
from toolbridge.wire import shapes as wire

_bodies = msgspec.json.Decoder(shapes.Body)
_formats = msgspec.json.Decoder(shapes.ResponseFormat | None)
_objects = msgspec.json.Decoder(wire.AnyObject)


@stepwise
def decode_request(
    body: bytes, *, model: str = "", stream: bool | None = None, counting: bool = False
) -> Steps[Request]:
    """Return the request; raise `MalformedRequest` with the path of a fault.

    Unknown fields and unknown content types are kept, not rejected.
    """
    asked = wire.decode_request(body, _bodies)
    _check(asked, model=model, counting=counting)
    conversation = TurnDecoder()
    for number, message in enumerate(asked.messages or ()):
        conversation.add(number, message)
        if number % EVERY == EVERY - 1:
            yield
    extra = wire.leftovers(body, shapes.Body)
    think = decode_thinking(asked.reasoning_effort, extra)
    return Request(
        model=model or asked.model or "",
        system=tuple(conversation.system),
        turns=conversation.turns,
        tools=decode_tools(asked, extra.pop(OPTIONS, None)),
        tool_choice=decode_choice(asked, extra),
        max_tokens=_decode_limit(asked, extra),
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


def _decode_limit(asked: shapes.Body, extra: JsonObject) -> int | None:
    # OpenAI chat: `max_completion_tokens` replaces the deprecated `max_tokens`.
    limit = asked.max_completion_tokens
    field = "max_tokens" if limit is None else "max_completion_tokens"
    limit = asked.max_tokens if limit is None else limit
    if limit == -1:  # llama.cpp, server: -1 means no limit, as does a request without the field
        extra[field] = limit
    if limit is None or limit == -1:
        return None
    if limit < 1:
        raise MalformedRequest("must be at least 1", where=field)
    return limit


def _decode_sampling(asked: shapes.Body) -> Sampling:
    top = asked.top_logprobs or 0  # OpenAI chat: 0 to 20, and only together with `logprobs`
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
    """Return the number of answers; None for one, which is the default of every API."""
    if n is not None and not 1 <= n <= MAX_ANSWERS:
        raise MalformedRequest(f"must be between 1 and {MAX_ANSWERS}", where="n")
    return None if n == 1 else n


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
