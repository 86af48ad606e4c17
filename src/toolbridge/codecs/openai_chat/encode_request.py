"""A `Request` to a request body of `/chat/completions`.

Quirks decide which fields the provider accepts; a field that it does not accept becomes a loss.
Cache marks are left out without a loss: providers without marks cache prefixes automatically.
"""

from hashlib import blake2b

import msgspec

from toolbridge.codecs.openai_chat.completions import completes, encode_completion_request
from toolbridge.codecs.openai_chat.content import tools_by_name
from toolbridge.codecs.openai_chat.encode_turns import TurnEncoder
from toolbridge.codecs.openai_chat.output import encode_output
from toolbridge.codecs.openai_chat.quirks import Quirks, read_quirks
from toolbridge.codecs.openai_chat.search_options import all_search_options
from toolbridge.codecs.openai_chat.shapes import ORIGIN
from toolbridge.codecs.openai_chat.thinking import accepts_sampling, encode_thinking
from toolbridge.codecs.openai_chat.tools import encode_choice, encode_tools
from toolbridge.core.codec import Outgoing, Target
from toolbridge.core.encoded_turns import EncodedTurns, encode_few
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Loss, OutputFormat, Request, Sampling, Text, Think
from toolbridge.core.prefix_memo import LONG
from toolbridge.core.shared_fields import LIMITS, NO_LIMIT, carry
from toolbridge.core.shared_tools import identity_of
from toolbridge.core.steps import Steps, stepwise
from toolbridge.core.written_list import preceded

PATH = "/chat/completions"
MAX_USER = 64
"""OpenAI chat: `safety_identifier` has at most 64 characters."""
JSON_PROMPT = "Answer with JSON."

_SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_EXTRA_SAMPLING = {
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
    "repeat_penalty": "repeat_penalty",
}
"""Sampling fields beyond OpenAI's (vLLM, llama.cpp, Together), and our names for them."""
_encoded: EncodedTurns[tuple[int, str]] = EncodedTurns()
_NO_QUIRKS = Quirks()
_NO_SAMPLING = Sampling()
_NO_THINKING = Think()


@stepwise
def encode_request(request: Request, target: Target) -> Steps[Outgoing]:
    """Return the path, the body and the losses of a request."""
    quirks = read_quirks(target.quirks) if target.quirks else _NO_QUIRKS
    tools = tools_by_name(request.tools) if request.tools else {}
    turns = TurnEncoder(request.origin, tools, target, quirks, request.origin == ORIGIN)
    model = target.model or request.model
    encoder = _RequestEncoder(request, target, quirks, turns, turns.losses, model, {"model": model})
    first = encoder.system() if request.system or request.output is not None else []
    if len(request.turns) < LONG:
        messages = encode_few(request.turns, turns)
    else:
        context = (
            target.model,
            target.capabilities,
            request.origin,
            quirks,
            identity_of(request.tools),
        )
        messages = yield from _encoded.encode(request.turns, context, turns)
    return encoder.encode(preceded(first, messages) if first else messages)


class _RequestEncoder(msgspec.Struct, eq=False):
    _request: Request
    _target: Target
    _quirks: Quirks
    _turns: TurnEncoder
    _losses: list[Loss]
    _model: str
    _body: JsonObject

    def encode(self, messages: list[Json]) -> Outgoing:
        request, quirks, body = self._request, self._quirks, self._body
        body["messages"] = messages
        if request.tools or request.tool_choice.mode != "auto":
            self._offer()
        self._limit()
        thinking: JsonObject = {}
        losses: list[Loss] = []
        if request.think != _NO_THINKING or not quirks.effort_with_tools:
            tools = "tools" in body
            thinking, losses = encode_thinking(request.think, quirks, self._target, tools=tools)
        if request.sampling != _NO_SAMPLING:
            self._sample(accepted=accepts_sampling(thinking, quirks))
        body |= thinking
        self._losses += losses
        if request.output is not None:
            body |= encode_output(request, quirks, self._losses, model=self._model)
        if request.user or request.session or quirks.store or quirks.cache_retention == "long":
            self._identify()
        body["stream"] = request.stream
        self._restore()
        body |= self._target.options
        left = request.stop[quirks.max_stop :] if request.stop else ()
        if request.completion is not None and completes(request, self._target):
            body = encode_completion_request(body, request)
            return Outgoing(quirks.completions, body, tuple(self._losses), stops=left)
        return Outgoing(PATH, body, tuple(self._losses), stops=left)

    def _lose(self, what: str, why: str) -> None:
        self._losses.append(Loss(what, why))

    def _lose_minor(self, what: str, why: str) -> None:
        self._losses.append(Loss(what, why, minor=True))

    def system(self) -> list[Json]:
        """Return the messages before the conversation."""
        system, output = self._request.system, self._request.output
        if output is not None and self._needs_json_prompt(output):
            system = (*system, Text(JSON_PROMPT))
        return self._turns.system(system) if system else []

    def _needs_json_prompt(self, output: OutputFormat) -> bool:
        """Return True if no message contains the word "JSON".

        OpenAI chat, `response_format: json_object`: a request without the word is rejected. Clients
        of this API follow that rule; other APIs have no such rule.
        """
        request = self._request
        if output.schema is not None and self._quirks.json_schema:
            return False
        if request.origin == ORIGIN or output.tagged is not None:
            return False
        contents = (request.system, *(turn.content for turn in request.turns))
        texts = (part.text for parts in contents for part in parts if isinstance(part, Text))
        return not any("json" in text.lower() for text in texts)

    # ── settings ──

    def _offer(self) -> None:
        request, quirks, body = self._request, self._quirks, self._body
        offer = encode_tools(request, quirks, self._lose)
        if offer.tools:
            body["tools"] = offer.tools
        body |= encode_choice(request, quirks, offer.names, self._lose)
        body |= all_search_options(request.tools)

    def _limit(self) -> None:
        request, quirks = self._request, self._quirks
        if request.max_tokens is not None:
            self._body[quirks.max_tokens_field] = request.max_tokens
        # OpenAI chat: at most 4 stop sequences. The gateway searches the answer for the others.
        if request.stop and (stop := request.stop[: quirks.max_stop]):
            self._body["stop"] = list(stop)

    def _sample(self, *, accepted: bool) -> None:
        sampling = self._request.sampling
        fields = {name: name for name in _SAMPLING} if accepted else {}
        fields |= {"seed": "seed", "n": "n"}
        fields |= {_EXTRA_SAMPLING[field]: field for field in self._quirks.extra_sampling}
        for name in type(sampling).__struct_fields__:
            value: float | None = getattr(sampling, name)
            if value is None:
                continue
            if name == "logprobs" and accepted:
                self._body |= {"logprobs": True, "top_logprobs": value}
            elif name in fields:
                self._body[fields[name]] = value
            else:
                self._lose(f"sampling.{name}", "this provider does not accept the field")

    def _identify(self) -> None:
        request, quirks, body = self._request, self._quirks, self._body
        if request.user and quirks.user_field:
            body[quirks.user_field] = _short(request.user)
            if len(request.user) > MAX_USER:
                why = f"an id of more than {MAX_USER} characters is sent as a hash"
                self._lose_minor("user", why)
        elif request.user:
            self._lose_minor("user", "this provider has no field for the user's id")
        if quirks.store:
            body["store"] = False
        if request.session and quirks.prompt_cache_key and quirks.cache_retention != "none":
            body["prompt_cache_key"] = request.session
        # OpenAI, prompt caching: a prefix is kept for minutes, or for 24 hours on request.
        if quirks.cache_retention == "long":
            body["prompt_cache_retention"] = "24h"

    def _restore(self) -> None:
        """Add the fields of `extra`: all for a client of this API, else those that both APIs have."""
        request, body = self._request, self._body
        if request.extra and request.origin != ORIGIN:
            fields, losses = carry(request, ORIGIN, frozenset(self._quirks.fields))
            body |= fields
            self._losses += losses
        for name, value in request.extra.items() if request.origin == ORIGIN else ():
            if name in LIMITS:
                self._losses.append(Loss(name, NO_LIMIT))
            elif name != "tool_choice" or name in body:
                body[name] = _merged(value, body.get(name))
        # OpenAI chat: `stream_options` is allowed only with `stream: true`.
        options = body.pop("stream_options", None)
        if not request.stream:
            return
        options = options if isinstance(options, dict) else {}
        if self._quirks.stream_usage:
            options = options | {"include_usage": True}
        if options:
            body["stream_options"] = options


def _merged(kept: Json, ours: Json) -> Json:
    """Return `ours` with the fields of `kept` added at every level; `kept` wins."""
    if isinstance(kept, dict) and isinstance(ours, dict):
        return ours | {name: _merged(value, ours.get(name)) for name, value in kept.items()}
    return kept


def _short(user: str) -> str:
    if len(user) <= MAX_USER:
        return user
    return blake2b(user.encode(), digest_size=16).hexdigest()
