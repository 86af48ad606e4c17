"""Requests to Ollama's `/api/chat`, as our `Request`.

Ollama, docs/api: sampling, limits and stop sequences are `options`; a request streams unless
`stream` is false; a request without messages only loads or unloads the model.
"""

import msgspec

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.decode_turns import TurnDecoder
from toolbridge.codecs.ollama.shapes import ORIGIN
from toolbridge.codecs.ollama.thinking import decode_thinking
from toolbridge.codecs.ollama.tools import decode_choice, decode_tools
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject, dumps
from toolbridge.core.messages import OutputFormat, Request, Sampling
from toolbridge.core.steps import Steps, stepwise
from toolbridge.wire import shapes as wire

_chats = msgspec.json.Decoder(shapes.ChatBody)


@stepwise
def decode_request(
    body: bytes,
    *,
    model: str = "",
    stream: bool | None = None,
    counting: bool = False,  # noqa: ARG001 (no field is required that a token counter could omit)
) -> Steps[Request]:
    """Return the request in a body of `/api/chat`."""
    asked = wire.decode_request(body, _chats)
    turns = TurnDecoder()
    for number, message in enumerate(asked.messages or ()):
        turns.add(number, message)
        yield
    extra = decode_extra(asked)
    for name, rest in wire.rest(body, shapes.ChatBody).items():
        before = extra.get(name)
        extra[name] = before | rest if isinstance(before, dict) and isinstance(rest, dict) else rest
    if not asked.messages:
        extra[shapes.LOAD] = True
    return msgspec.structs.replace(
        decode_settings(asked, model=model, stream=stream, extra=extra),
        system=tuple(turns.system),
        turns=turns.turns,
        tools=decode_tools(asked.tools),
        tool_choice=decode_choice(),
    )


def decode_settings(
    asked: shapes.Body, *, model: str, stream: bool | None, extra: JsonObject
) -> Request:
    """Return a request with everything but its prompt: what `/api/chat` and `/api/generate` share."""
    name = model or asked.model or ""
    if not name:
        raise MalformedRequest("model is required", where="model")
    options = asked.options or shapes.Options()
    if stream is None:
        stream = asked.stream is not False  # Ollama, docs/api: true by default
    return Request(
        model=name,
        max_tokens=_max_tokens(options),
        stop=_stop(options),
        sampling=_sampling(asked, options),
        think=decode_thinking(asked.think),
        output=_output(asked.format),
        stream=stream,
        origin=ORIGIN,
        extra=extra,
    )


def _max_tokens(options: shapes.Options) -> int | None:
    # Ollama, docs/modelfile: -1 is "no limit" and -2 "until the window is full"; both mean no limit here.
    given = int(options.num_predict or 0)
    return given if given > 0 else None


def _stop(options: shapes.Options) -> tuple[str, ...]:
    stop = options.stop or ()
    return (stop,) if isinstance(stop, str) else tuple(stop)


def _sampling(asked: shapes.Body, options: shapes.Options) -> Sampling:
    logprobs = asked.top_logprobs or 0
    # Ollama, server/routes.go: any other number is a 400.
    if not 0 <= logprobs <= 20:
        raise MalformedRequest("top_logprobs must be between 0 and 20", where="top_logprobs")
    return Sampling(
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=_count(options.top_k),
        min_p=options.min_p,
        seed=_count(options.seed),
        frequency_penalty=options.frequency_penalty,
        presence_penalty=options.presence_penalty,
        repeat_penalty=options.repeat_penalty,
        logprobs=logprobs if asked.logprobs else None,
    )


def _count(given: float | None) -> int | None:
    return None if given is None else int(given)


def _output(given: str | JsonObject | None) -> OutputFormat | None:
    # Ollama, structured outputs: `format` is "json" or a JSON schema.
    if isinstance(given, dict):
        return OutputFormat(schema=given)
    if given not in {None, "", "json"}:
        raise MalformedRequest(
            f'invalid format: {dumps(given)} (must be "json" or a JSON schema)', where="format"
        )
    return OutputFormat() if given else None


def decode_extra(asked: shapes.Body) -> JsonObject:
    """Return the fields that no other API has, by their own names."""
    extra: JsonObject = {}
    for name in shapes.CHAT_EXTRAS:
        if (value := getattr(asked, name.removeprefix("_"))) is not None:
            extra[name] = value
    options: JsonObject = {
        name: value
        for name in shapes.OTHER_OPTIONS
        if (value := getattr(asked.options, name, None)) is not None
    }
    if options:
        extra["options"] = options
    return extra
