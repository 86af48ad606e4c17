"""Text completions: `/v1/completions`, for clients and at providers.

OpenAI calls the endpoint legacy. Editors still use it to fill in the middle (`prompt` and `suffix`),
and evaluation programs to continue a text. A request becomes one user turn with a `Completion`. A
provider whose quirk `completions` names the endpoint gets a text completion; for every other model
`policy.completion` makes a chat of it.
"""

import msgspec

from toolbridge.codecs.openai_chat.quirks import read_quirks
from toolbridge.codecs.openai_chat.rejections import encode_error
from toolbridge.codecs.openai_chat.shapes import FINISH_REASONS, ORIGIN
from toolbridge.codecs.openai_chat.usage import encode_usage
from toolbridge.core import events as ev
from toolbridge.core.codec import AnswerContext, Target
from toolbridge.core.errors import MalformedRequest, Unsupported
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.logprobs import write_token_logprobs
from toolbridge.core.messages import (
    Completion,
    Message,
    Request,
    Sampling,
    StopReason,
    Text,
    Turn,
)
from toolbridge.core.usage import TokenLimit, Usage
from toolbridge.wire import shapes as wire
from toolbridge.wire.sse import write_event

_DONE = write_event(b"[DONE]")


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Body(msgspec.Struct):
    prompt: Json = None
    model: str | None = None
    suffix: str | None = None
    max_tokens: TokenLimit | None = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    echo: bool | None = None
    n: int | None = None
    best_of: int | None = None
    logprobs: int | None = None
    user: str | None = None


_bodies = msgspec.json.Decoder(_Body)
_CHAT_ONLY = frozenset(
    {
        "messages", "max_completion_tokens", "reasoning_effort", "logprobs", "top_logprobs",
        "tools", "tool_choice",
    }
)  # fmt: skip
"""Fields of a chat request that `/completions` does not have, or has with another meaning."""

# ── requests ─────────────────────────────────────────────────────────────────


def completes(request: Request, target: Target) -> bool:
    """Return True if the provider has a completion endpoint that accepts this request."""
    if request.completion is None:
        return False
    quirks = read_quirks(target.quirks)
    return bool(quirks.completions) and (quirks.completion_suffix or not request.completion.suffix)


def encode_completion_request(body: JsonObject, request: Request) -> JsonObject:
    """Return the chat body `body` as a body of `/completions`: the same settings and a prompt."""
    kept = {name: value for name, value in body.items() if name not in _CHAT_ONLY}
    found: JsonObject = {**kept, "prompt": prompt_of(request)}
    if request.completion is not None and request.completion.suffix:
        found["suffix"] = request.completion.suffix
    if request.max_tokens is not None:
        found["max_tokens"] = request.max_tokens
    if request.sampling.logprobs is not None:
        # OpenAI, legacy completions: `logprobs` is a number here, not a switch.
        found["logprobs"] = request.sampling.logprobs
    return found


def prompt_of(request: Request) -> str:
    """Return the text to complete."""
    parts = request.turns[-1].content if request.turns else ()
    return "".join(part.text for part in parts if isinstance(part, Text))


def decode_completion(
    body: bytes,
    *,
    model: str = "",
    stream: bool | None = None,
    counting: bool = False,  # noqa: ARG001 (counting needs the same fields)
) -> Request:
    """Return a request of `/v1/completions`; raise `MalformedRequest` with the path of a fault."""
    asked = wire.decode_request(body, _bodies)
    name = model or asked.model or ""
    if not name:
        raise MalformedRequest("field required", where="model")
    if asked.max_tokens is not None and asked.max_tokens < 1:
        raise MalformedRequest("must be at least 1", where="max_tokens")
    for field, value in (("n", asked.n), ("best_of", asked.best_of)):
        if value not in {None, 1}:
            raise Unsupported("only one completion per request is supported", where=field)
    stop = asked.stop or ()
    options = asked.stream_options or _StreamOptions()
    extra = wire.rest(body, _Body)
    if options.include_usage:
        given = extra.get("stream_options")
        kept = given if isinstance(given, dict) else {}
        extra["stream_options"] = kept | {"include_usage": True}
    return Request(
        model=name,
        turns=(Turn("user", (Text(_prompt(asked.prompt)),)),),
        completion=Completion(suffix=asked.suffix or "", echo=bool(asked.echo)),
        max_tokens=asked.max_tokens,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        sampling=Sampling(
            temperature=asked.temperature,
            top_p=asked.top_p,
            frequency_penalty=asked.frequency_penalty,
            presence_penalty=asked.presence_penalty,
            seed=asked.seed,
            logprobs=asked.logprobs,
        ),
        stream=bool(asked.stream) if stream is None else stream,
        user=asked.user or "",
        origin=ORIGIN,
        extra=extra,
    )


def _prompt(given: Json) -> str:
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if isinstance(given, str):
        return given
    if given is None:
        raise MalformedRequest("field required", where="prompt")
    raise Unsupported(
        "only one text per request is supported, no token ids and no list of texts", where="prompt"
    )


# ── answers ──────────────────────────────────────────────────────────────────


class CompletionEncoder:
    """Events in, chunks of a text completion out. The endpoint has no calls and no thoughts."""

    def __init__(self, asked: AnswerContext) -> None:
        self._asked = asked
        self._id = ""
        self._model = asked.request.model
        options = asked.request.extra.get("stream_options")
        self._counts = isinstance(options, dict) and bool(options.get("include_usage"))
        self._usage = Usage()
        self._offset = 0
        """Characters before the next token, for `text_offset` of the log probabilities."""
        self._ended = False

    def feed(self, event: ev.Event, /) -> list[bytes]:
        if self._ended:
            return []
        match event:
            case ev.Started(id):
                self._id = self._id or _write_id(id)
                echo = _echo(self._asked.request)
                self._offset = len(echo)
                return [self._chunk(echo)] if echo else []
            case ev.TextDelta(_, piece):
                return [self._chunk(piece)]
            case ev.LogprobsReported(tokens):
                likely = write_token_logprobs(tokens, self._offset)
                self._offset += sum(len(token.token) for token in tokens)
                return [self._chunk("", logprobs=likely)]
            case ev.UsageReported(usage):
                self._usage = usage
                return []
            case ev.Finished(reason):
                return self._finish(reason, self._usage)
            case ev.Failed(problem):
                self._ended = True
                return [write_event(encode_error(problem))]
            case _:
                return []

    def close(self) -> list[bytes]:
        return []

    def keep_alive(self) -> bytes:
        """Return a chunk with an empty text."""
        return self._chunk("")

    def _finish(self, reason: StopReason, usage: Usage) -> list[bytes]:
        self._ended = True
        written = [self._chunk("", _finish_reason(reason))]
        if self._counts:
            counts = {"usage": encode_usage(usage, self._asked.estimate)}
            written.append(write_event(dump_bytes(self._head() | {"choices": []} | counts)))
        return [*written, _DONE]

    def _chunk(
        self, text: str, finish: str | None = None, logprobs: JsonObject | None = None
    ) -> bytes:
        choice: JsonObject = {
            "text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish,
        }  # fmt: skip
        return write_event(dump_bytes(self._head() | {"choices": [choice]}))

    def _head(self) -> JsonObject:
        # A keep-alive before the start of the answer needs an id as well.
        self._id = self._id or _write_id(Ids(str(self._asked.at)).message())
        return _head(self._id, self._asked)


def encode_completion(message: Message, asked: AnswerContext) -> bytes:
    """Return the answer as one body."""
    if message.problem is not None:
        return encode_error(message.problem)
    echo = _echo(asked.request)
    likely = write_token_logprobs(message.logprobs, len(echo)) if message.logprobs else None
    choice: JsonObject = {
        "text": echo + message.text,
        "index": 0,
        "logprobs": likely,
        "finish_reason": _finish_reason(message.stop or "end"),
    }
    counts = encode_usage(message.usage, asked.estimate)
    head = _head(_write_id(message.id), asked)
    return dump_bytes(head | {"choices": [choice], "usage": counts})


def _head(id: str, asked: AnswerContext) -> JsonObject:
    return {
        "id": id,
        "object": "text_completion",
        "created": int(asked.at),
        "model": asked.request.model,
    }


def _echo(request: Request) -> str:
    """Return the prompt if the client set `echo`; it comes before the completion."""
    return prompt_of(request) if request.completion and request.completion.echo else ""


def _write_id(id: str) -> str:
    return f"cmpl-{id.removeprefix('cmpl-').removeprefix('chatcmpl-').removeprefix('msg_')}"


def _finish_reason(reason: StopReason) -> str:
    found = FINISH_REASONS.get(reason, "stop")
    return "stop" if found == "tool_calls" else found
