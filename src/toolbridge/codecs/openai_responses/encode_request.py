"""A `Request` to a request body of `/responses`.

The gateway keeps the history, so it requests `store: false` and encrypted reasoning, which can be
sent back without a stored response. What the API has no field for becomes a loss.
"""

from hashlib import blake2b

from toolbridge.codecs.openai_responses.encode_turns import TurnEncoder
from toolbridge.codecs.openai_responses.hosted_tools import encode_call_limit, include_of_tools
from toolbridge.codecs.openai_responses.output import encode_output
from toolbridge.codecs.openai_responses.quirks import Retention, read_quirks
from toolbridge.codecs.openai_responses.shapes import (
    ENCRYPTED_REASONING,
    LOGPROBS,
    ORIGIN,
)
from toolbridge.codecs.openai_responses.thinking import accepts_sampling, encode_thinking
from toolbridge.codecs.openai_responses.tools import encode_choice, encode_tools
from toolbridge.core.codec import Outgoing, Target
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Loss, Request, Text
from toolbridge.core.shared_fields import carry
from toolbridge.core.steps import Steps, stepwise

PATH = "/responses"
MIN_TOKENS = 16
"""OpenAI Responses: `max_output_tokens` is at least 16."""
MAX_USER = 64
"""OpenAI Responses: `safety_identifier` has at most 64 characters."""
JSON_PROMPT = "Answer with JSON."

_STATEFUL = ("previous_response_id", "conversation", "background")
"""Fields that require a stored response; with one of them, the client decides about `store`."""
_WRITTEN = frozenset({"namespaces", "tool_choice", "include"})
"""Fields of `extra` that are written elsewhere in the body."""
_RETENTIONS: dict[Json, Retention] = {"none": "none", "short": "short", "long": "long"}


@stepwise
def encode_request(request: Request, target: Target) -> Steps[Outgoing]:
    """Return the path, the body and the losses of a request."""
    return (yield from _RequestEncoder(request, target).encode())


class _RequestEncoder:
    def __init__(self, request: Request, target: Target) -> None:
        self._request = request
        self._target = target
        self._quirks = read_quirks(target.quirks)
        self._body: JsonObject = {"model": target.model or request.model}
        self._losses: list[Loss] = []

    def encode(self) -> Steps[Outgoing]:
        request, body = self._request, self._body
        yield from self._converse()
        self._limit()
        reasoning = encode_thinking(request, self._target, self._quirks, self._lose)
        self._sample(accepted=accepts_sampling(reasoning, self._quirks))
        if reasoning:
            body["reasoning"] = reasoning
        if format := encode_output(request, self._losses):
            body["text"] = {"format": format}
        self._store()
        self._identify()
        if request.stream:
            body["stream"] = True
        self._restore()
        body |= self._target.options
        # OpenAI Responses has no `stop`: the gateway searches the answer for the sequences.
        return Outgoing(PATH, body, tuple(self._losses), stops=request.stop)

    def _lose(self, what: str, why: str) -> None:
        self._losses.append(Loss(what, why))

    def _lose_minor(self, what: str, why: str) -> None:
        self._losses.append(Loss(what, why, minor=True))

    def _converse(self) -> Steps[None]:
        turns = TurnEncoder(self._request, self._target, self._quirks)
        instructions, items = yield from turns.encode()
        self._losses += turns.losses
        if self._needs_json_prompt():
            prompt: JsonObject = {"type": "message", "role": "developer", "content": JSON_PROMPT}
            items.insert(0, prompt)
        if instructions:
            self._body["instructions"] = instructions
        if items or not any(name in self._request.extra for name in _STATEFUL):
            self._body["input"] = items
        if tools := encode_tools(self._request, self._quirks, self._lose):
            self._body["tools"] = tools
        self._body |= encode_choice(self._request, self._quirks, self._lose)
        if self._request.origin != ORIGIN:
            self._body |= encode_call_limit(self._request, self._lose)

    def _needs_json_prompt(self) -> bool:
        """Return True if no item of the input contains the word "JSON".

        OpenAI Responses, `text.format: json_object`: a request without the word in `input` is
        rejected; `instructions` do not count. Clients of this API follow that rule; other APIs
        have no such rule.
        """
        request = self._request
        if request.output is None or request.output.schema is not None or request.origin == ORIGIN:
            return False
        contents = (request.system[1:], *(turn.content for turn in request.turns))
        texts = (part.text for parts in contents for part in parts if isinstance(part, Text))
        return not any("json" in text.lower() for text in texts)

    # ── settings ──

    def _limit(self) -> None:
        request = self._request
        if request.max_tokens is not None:
            limit = max(request.max_tokens, MIN_TOKENS)
            if limit != request.max_tokens:
                self._lose("max_tokens", f"raised to {limit}, OpenAI's minimum")
            self._body["max_output_tokens"] = limit

    def _sample(self, *, accepted: bool) -> None:
        sampling = self._request.sampling
        # OpenAI Responses has no penalties, seed, top_k or n.
        fields = {"temperature": "temperature", "top_p": "top_p", "logprobs": "top_logprobs"}
        for name in type(sampling).__struct_fields__:
            value: float | None = getattr(sampling, name)
            if value is None:
                continue
            if name in fields and accepted:
                self._body[fields[name]] = value
            elif name in fields:
                self._lose(f"sampling.{name}", "this model does not accept it while it reasons")
            else:
                self._lose(f"sampling.{name}", "this API does not accept the field")

    # ── storage, caching and the user ──

    def _store(self) -> None:
        """Write `store`, `include` and the cache key.

        OpenAI Responses: `store` defaults to true. With false, reasoning items can be sent back
        only with their `encrypted_content`.
        """
        extra = self._request.extra if self._request.origin == ORIGIN else {}
        if not any(extra.get(name) for name in _STATEFUL):
            self._body["store"] = False
        include: list[Json] = [ENCRYPTED_REASONING]
        asked = extra.get("include")
        include += asked if isinstance(asked, list) else []
        if self._request.origin != ORIGIN:
            include += include_of_tools(self._request)
            include += [LOGPROBS] if "top_logprobs" in self._body else []
        if LOGPROBS in include and self._body.get("top_logprobs") == 0:
            del self._body["top_logprobs"]  # `include` alone means no alternatives
        self._body["include"] = include
        retention = _RETENTIONS.get(_word(self._request.extra, "cache_retention"))
        retention = retention or self._quirks.cache_retention
        if self._request.session and retention != "none":
            self._body["prompt_cache_key"] = self._request.session
        if retention == "long" and self._quirks.openai:
            self._body["prompt_cache_retention"] = "24h"

    def _identify(self) -> None:
        user, field = self._request.user, self._quirks.user_field
        if user and field:
            self._body[field] = _short(user)
            if len(user) > MAX_USER:
                why = f"an id of more than {MAX_USER} characters is sent as a hash"
                self._lose_minor("user", why)
        elif user:
            self._lose_minor("user", "this provider has no field for the user's id")

    def _restore(self) -> None:
        """Add the fields of `extra`: all for a client of this API, else those that both APIs have."""
        request, body = self._request, self._body
        if request.origin != ORIGIN:
            fields, losses = carry(request, ORIGIN)
            body |= {name: _merged(value, body.get(name)) for name, value in fields.items()}
            self._losses += losses
            return
        for name, value in request.extra.items():
            if name == "cache_retention":
                continue
            if name in {"reasoning", "text"}:
                body[name] = _merged(value, body.get(name))
            elif name not in _WRITTEN:
                body[name] = value


def _merged(kept: Json, ours: Json) -> Json:
    """Return `ours` with the fields of `kept` added at every level; `kept` wins."""
    if isinstance(kept, dict) and isinstance(ours, dict):
        return ours | {name: _merged(value, ours.get(name)) for name, value in kept.items()}
    return kept


def _word(fields: JsonObject, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _short(user: str) -> str:
    if len(user) <= MAX_USER:
        return user
    return blake2b(user.encode(), digest_size=16).hexdigest()
