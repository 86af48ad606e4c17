"""What we ask, in the words of the Responses API."""

from hashlib import blake2b

from toolbridge.codecs.openai_responses.encode_items import ItemEncoder
from toolbridge.codecs.openai_responses.encode_tools import ToolEncoder
from toolbridge.codecs.openai_responses.quirks import Retention, read_quirks
from toolbridge.codecs.openai_responses.shapes import ANSWER_NAME, LOGPROBS, ORIGIN, SEALED
from toolbridge.core.codec import Outgoing, Target
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Effort, Loss, OutputFormat, Request, Text, Think
from toolbridge.core.shared_fields import carry

PATH = "/responses"
LEAST_TOKENS = 16
"""A smaller limit is refused."""
MAX_USER = 64
JSON_ASKED = "Answer with JSON."

_BUDGETS: tuple[tuple[int, Effort], ...] = ((1_024, "low"), (8_192, "medium"), (24_576, "high"))
"""The effort that a budget of thinking tokens stands for; above the last, "xhigh"."""
_STATEFUL = ("previous_response_id", "conversation", "background")
"""Fields that need an answer to be stored; with one of them, the client decides about storing."""
_PLACED = frozenset({"namespaces", "tool_choice", "include"})
"""Kept fields that stand in their places already."""
_RETENTIONS: dict[Json, Retention] = {"none": "none", "short": "short", "long": "long"}


def encode_request(request: Request, target: Target) -> Outgoing:
    return _RequestEncoder(request, target).encode()


class _RequestEncoder:
    def __init__(self, request: Request, target: Target) -> None:
        self._request = request
        self._target = target
        self._quirks = read_quirks(target.quirks)
        self._body: JsonObject = {"model": target.model or request.model}
        self._losses: list[Loss] = []

    def encode(self) -> Outgoing:
        request, body = self._request, self._body
        self._converse()
        self._limit()
        self._sample()
        if reasoning := self._reasoning(request.think):
            body["reasoning"] = reasoning
        if request.output is not None:
            body["text"] = {"format": encode_format(request.output)}
        self._remember()
        self._identify()
        if request.stream:
            body["stream"] = True
        self._restore()
        body |= self._target.options
        return Outgoing(PATH, body, tuple(self._losses), stops=request.stop)

    def _lose(self, what: str, why: str, *, minor: bool = False) -> None:
        self._losses.append(Loss(what, why, minor))

    def _converse(self) -> None:
        items = ItemEncoder(self._request, self._target, self._quirks)
        instructions, said = items.encode()
        if self._must_say_json():
            asked: JsonObject = {"type": "message", "role": "developer", "content": JSON_ASKED}
            said.insert(0, asked)
        if instructions:
            self._body["instructions"] = instructions
        if said or not any(name in self._request.extra for name in _STATEFUL):
            self._body["input"] = said
        tools = ToolEncoder(self._request, self._quirks)
        if offers := tools.tools():
            self._body["tools"] = offers
        self._body |= tools.choice()
        self._losses += items.losses + tools.losses

    def _must_say_json(self) -> bool:
        """Whether the word is missing without which OpenAI refuses to write JSON.

        Clients of this API know that; those of others have no need to say it. The instructions do
        not count: the word must stand in the input.
        """
        request = self._request
        if request.output is None or request.output.schema is not None or request.origin == ORIGIN:
            return False
        said = (request.system[1:], *(turn.content for turn in request.turns))
        texts = (part.text for parts in said for part in parts if isinstance(part, Text))
        return not any("json" in text.lower() for text in texts)

    # ── settings ──

    def _limit(self) -> None:
        request = self._request
        if request.max_tokens is not None:
            limit = max(request.max_tokens, LEAST_TOKENS)
            if limit != request.max_tokens:
                self._lose("max_tokens", f"raised to {limit}, the least that OpenAI takes")
            self._body["max_output_tokens"] = limit

    def _sample(self) -> None:
        sampling = self._request.sampling
        taken = {"temperature": "temperature", "top_p": "top_p", "logprobs": "top_logprobs"}
        taken = taken if self._quirks.sampling else {}
        for name in type(sampling).__struct_fields__:
            value: float | None = getattr(sampling, name)
            if value is not None and name in taken:
                self._body[taken[name]] = value
            elif value is not None:
                self._lose(f"sampling.{name}", "this API does not take it")

    def _reasoning(self, think: Think) -> JsonObject:
        if think.mode == "off" or think.effort == "none":
            if not self._quirks.effort_none:
                self._lose("think", "this model cannot be told not to think")
                return {}
            return {"effort": "none"} | self._summary(think)
        if think.mode == "unset" and not think.effort:
            return self._summary(think) if think.show else {}
        if not self._target.can("thinking"):
            self._lose("think", f"{self._target.model} cannot think")
            return {}
        effort = self._effort(think)
        return ({"effort": effort} if effort else {}) | self._summary(think)

    def _effort(self, think: Think) -> Effort:
        if think.mode == "between_tools":
            self._lose("think.mode", "when to think is left to the model")
        if think.effort or think.budget is None:
            return think.effort or ("medium" if think.mode == "on" else "")
        most: Effort = "xhigh"
        effort = next((level for limit, level in _BUDGETS if think.budget <= limit), most)
        self._lose("think", f"a budget of {think.budget} tokens became the effort {effort!r}")
        return effort

    def _summary(self, think: Think) -> JsonObject:
        """Return the wish to see thoughts; a client of this API says it, any other just looks."""
        if think.show in {"full", "updates"}:
            self._lose("think.show", "OpenAI shows a summary at most")
        if think.show == "omitted" or (not think.show and self._request.origin == ORIGIN):
            return {}
        return {} if think.mode == "off" and not think.show else {"summary": "auto"}

    # ── who asks, and what is kept ──

    def _remember(self) -> None:
        """Ask that nothing is stored, and for the seals that then must be sent back."""
        extra = self._request.extra if self._request.origin == ORIGIN else {}
        if not any(extra.get(name) for name in _STATEFUL):
            self._body["store"] = False
        include: list[Json] = [SEALED]
        asked = extra.get("include")
        include += asked if isinstance(asked, list) else []
        if "top_logprobs" in self._body and self._request.origin != ORIGIN:
            include.append(LOGPROBS)
        if LOGPROBS in include and self._body.get("top_logprobs") == 0:
            del self._body["top_logprobs"]  # what `include` alone asks for
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
                why = f"a name of more than {MAX_USER} characters is sent as a hash"
                self._lose("user", why, minor=True)
        elif user:
            self._lose("user", "this place does not ask who the user is", minor=True)

    def _restore(self) -> None:
        """Put back the fields that only this API knows; a request from elsewhere loses its own."""
        request, body = self._request, self._body
        if request.origin != ORIGIN:
            fields, losses = carry(request, ORIGIN)
            body |= {name: _joined(value, body.get(name)) for name, value in fields.items()}
            self._losses += losses
            return
        for name, value in request.extra.items():
            if name == "cache_retention":
                continue
            if name in {"reasoning", "text"}:
                body[name] = _joined(value, body.get(name))
            elif name not in _PLACED:
                body[name] = value


def encode_format(output: OutputFormat) -> JsonObject:
    if output.schema is None:
        return {"type": "json_object"}
    wanted: JsonObject = {"type": "json_schema", "name": output.name or ANSWER_NAME}
    wanted["schema"] = output.schema
    if output.strict is not None:
        wanted["strict"] = output.strict
    return wanted


def _joined(kept: Json, ours: Json) -> Json:
    """Return an object of ours with the fields that were kept beside it, which know better."""
    if isinstance(kept, dict) and isinstance(ours, dict):
        return ours | {name: _joined(value, ours.get(name)) for name, value in kept.items()}
    return kept


def _word(fields: JsonObject, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _short(user: str) -> str:
    if len(user) <= MAX_USER:
        return user
    return blake2b(user.encode(), digest_size=16).hexdigest()
