"""Our `Request`, as a body for `:generateContent`.

Cache marks are not sent and not reported: Gemini keeps the prefix of a prompt by itself.
"""

from toolbridge.codecs.gemini.encode_turns import TurnEncoder
from toolbridge.codecs.gemini.output import encode_output
from toolbridge.codecs.gemini.quirks import read_quirks
from toolbridge.codecs.gemini.shapes import ALT, CONFIG, ORIGIN
from toolbridge.codecs.gemini.thinking import encode_thinking
from toolbridge.codecs.gemini.tools import (
    FUNCTIONS,
    choice_of_functions,
    encode_choice,
    encode_tools,
)
from toolbridge.core.codec import Outgoing, Target
from toolbridge.core.encoded_turns import EncodedTurns
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Loss, Request, Sampling
from toolbridge.core.shared_fields import carry
from toolbridge.core.source import own_words
from toolbridge.core.steps import Steps, stepwise
from toolbridge.wire.url_path import quote_path

VERSION = "/v1beta"
MAX_STOP = 5
"""Gemini API, GenerationConfig: at most five `stopSequences`."""
MAX_TEMPERATURE = 2.0
"""Gemini API, GenerationConfig: `temperature` is 0 to 2."""

_encoded: EncodedTurns[tuple[int, str]] = EncodedTurns()
_SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    "n": "candidateCount",
}
_IGNORED = frozenset({"temperature", "top_p", "top_k"})
"""Gemini 3.6 and later ignore these; Google has announced that later models reject them."""


@stepwise
def encode_request(request: Request, target: Target) -> Steps[Outgoing]:
    """Return the body for `target` and what the Gemini API cannot express."""
    return (yield from _RequestEncoder(request, target).encode())


class _RequestEncoder:
    def __init__(self, request: Request, target: Target) -> None:
        self._request = request
        self._target = target
        self._losses: list[Loss] = []
        self._quirks = read_quirks(target.model or request.model, target.quirks)

    def encode(self) -> Steps[Outgoing]:
        request = self._request
        body = yield from self._body()
        if request.user:
            self._losses.append(Loss("user", "Gemini's API has no field for the user", minor=True))
        path = _path(self._target.model or request.model, stream=request.stream)
        return Outgoing(path, body, tuple(self._losses), stops=request.stop[MAX_STOP:])

    def _lose(self, what: str, why: str) -> None:
        self._losses.append(Loss(what, why))

    def _body(self) -> Steps[JsonObject]:
        request = self._request
        body: JsonObject = {"contents": (yield from self._contents())}
        if request.system:
            texts: list[Json] = [
                own_words(part, ORIGIN) or {"text": part.text} for part in request.system
            ]
            body["systemInstruction"] = {"parts": texts}
        tools = encode_tools(request, self._quirks, self._lose)
        functions = any(FUNCTIONS in entry for entry in tools)
        if tools:
            body["tools"] = [*tools]
        choice = choice_of_functions(request, self._lose)
        body |= encode_choice(choice, self._lose, any_function=functions)
        body |= _joined(body, self._combine(tools))
        config = self._config(any_function=functions)
        if config:
            body[CONFIG] = config
        self._restore(body)
        return _joined(self._target.options, body)

    def _combine(self, tools: list[JsonObject]) -> JsonObject:
        """Return the setting that built-in tools of another API's client need beside functions.

        Gemini API, tool combination: `includeServerSideToolInvocations`, from Gemini 3 on.
        """
        kinds = {key for entry in tools for key in entry}
        combined = FUNCTIONS in kinds and len(kinds) > 1
        if not combined or self._request.origin == ORIGIN:
            return {}
        return {"toolConfig": {"includeServerSideToolInvocations": True}}

    def _contents(self) -> Steps[list[Json]]:
        encoder = TurnEncoder(self._request, self._quirks, self._losses)
        context = (self._request.origin, self._quirks)
        return _encoded.encode(self._request.turns, context, encoder)

    def _config(self, *, any_function: bool) -> JsonObject:
        request = self._request
        config = self._sampling(request.sampling)
        if request.max_tokens is not None:
            config["maxOutputTokens"] = request.max_tokens
        if request.stop:
            config["stopSequences"] = list(request.stop[:MAX_STOP])
        config |= encode_output(request, self._quirks, self._losses, any_function=any_function)
        if thinking := self._thinking():
            config["thinkingConfig"] = thinking
        return config

    def _thinking(self) -> JsonObject:
        think = self._request.think
        requested = think.mode not in {"off", "unset"} or think.effort not in {"", "none"}
        if requested and not self._target.can("thinking"):
            self._lose("think", f"{self._target.model} has no thinking mode")
            return {}
        return encode_thinking(think, self._quirks, self._lose)

    def _sampling(self, sampling: Sampling) -> JsonObject:
        encoded: JsonObject = {}
        for name in Sampling.__struct_fields__:
            value: float | None = getattr(sampling, name)
            if value is None or name == "logprobs":
                continue
            if name not in _SAMPLING or (name in _IGNORED and not self._quirks.sampling):
                self._lose(f"sampling.{name}", "this model does not take it")
                continue
            if name == "temperature" and value > MAX_TEMPERATURE:
                self._lose("sampling.temperature", f"lowered from {value} to {MAX_TEMPERATURE}")
                value = MAX_TEMPERATURE
            encoded[_SAMPLING[name]] = value
        if sampling.logprobs is not None:
            encoded["responseLogprobs"] = True
            encoded |= {"logprobs": sampling.logprobs} if sampling.logprobs else {}
        return encoded

    def _restore(self, body: JsonObject) -> None:
        """Put back the fields that only Gemini understands; report those of other APIs as lost."""
        request = self._request
        if request.origin != ORIGIN:
            fields, losses = carry(request, ORIGIN)
            body |= fields
            self._losses += losses
            return
        for name, kept in request.extra.items():
            if name != ALT:
                body |= _joined(body, {name: kept})


def _path(model: str, *, stream: bool) -> str:
    name = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
    # Gemini API, streamGenerateContent: without `alt=sse` the stream is one JSON array.
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"{VERSION}/{quote_path(name)}:{method}"


def _joined(first: JsonObject, second: JsonObject) -> JsonObject:
    """Return both objects as one, at every level; `first` wins where both are set."""
    joined = dict(second)
    for key, value in first.items():
        below = joined.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            joined[key] = _joined(value, below)
        else:
            joined[key] = value
    return joined
