"""What we ask, in the words of Chat Completions, and of the place that is asked.

Cache marks that a place does not know are not sent and not lost: it keeps prefixes by itself.
"""

from hashlib import blake2b

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.encode_completion import completes, encode_completion_request
from toolbridge.codecs.openai_chat.encode_thinking import encode_thinking
from toolbridge.codecs.openai_chat.encode_turns import TurnEncoder
from toolbridge.codecs.openai_chat.quirks import read_quirks
from toolbridge.codecs.openai_chat.shapes import ORIGIN
from toolbridge.core.codec import Outgoing, Target
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import (
    Loss,
    OutputFormat,
    Reference,
    Request,
    Result,
    Text,
    Tool,
)
from toolbridge.core.shared_fields import carry, hosted_why
from toolbridge.core.source import own_words, unknown_fields

PATH = "/chat/completions"
MAX_USER = 64
"""The longest name of a user that OpenAI takes."""
JSON_ASKED = "Answer with JSON."

_SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_EXTRA_SAMPLING = {
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
    "repeat_penalty": "repeat_penalty",
}
"""The fields that some places take beyond OpenAI's, and our names for them."""


def encode_request(request: Request, target: Target) -> Outgoing:
    return _RequestEncoder(request, target).encode()


class _RequestEncoder:
    def __init__(self, request: Request, target: Target) -> None:
        self._request = request
        self._target = target
        self._quirks = read_quirks(target.quirks)
        self._turns = TurnEncoder(request, target, self._quirks)
        self._losses: list[Loss] = self._turns.losses
        self._body: JsonObject = {"model": target.model or request.model}

    def encode(self) -> Outgoing:
        body = self._body
        body["messages"] = self._messages()
        offered = self._offered()
        if offered:
            body["tools"] = [self._tool(number, tool) for number, tool in offered]
        self._choose([tool for _, tool in offered])
        self._limit()
        self._sample()
        thinking, losses = encode_thinking(
            self._request.think, self._quirks, self._target, tools=bool(offered)
        )
        body |= thinking
        self._losses += losses
        if self._request.output is not None:
            body["response_format"] = self._format(self._request.output)
        self._identify()
        body["stream"] = self._request.stream
        self._restore()
        body |= self._target.options
        left = self._request.stop[self._quirks.max_stop :]
        if completes(self._request, self._target):
            body = encode_completion_request(body, self._request)
            return Outgoing(self._quirks.completions, body, tuple(self._losses), stops=left)
        return Outgoing(PATH, body, tuple(self._losses), stops=left)

    def _lose(self, what: str, why: str, *, minor: bool = False) -> None:
        self._losses.append(Loss(what, why, minor))

    def _messages(self) -> list[Json]:
        said = self._request.system
        if self._must_say_json():
            said = (*said, Text(JSON_ASKED))
        messages = self._turns.system(said)
        for number, turn in enumerate(self._request.turns):
            messages += self._turns.encode(number, turn)
        return messages

    def _must_say_json(self) -> bool:
        """Whether the word is missing without which OpenAI refuses to write JSON.

        Clients of this API know that; those of others have no need to say it.
        """
        request = self._request
        if request.output is None or request.origin == ORIGIN:
            return False
        if request.output.schema is not None and self._quirks.json_schema:
            return False
        said = (request.system, *(turn.content for turn in request.turns))
        texts = (part.text for parts in said for part in parts if isinstance(part, Text))
        return not any("json" in text.lower() for text in texts)

    # ── tools ──

    def _offered(self) -> list[tuple[int, Tool]]:
        """Return the tools to offer: what a search has found stands last, the rest keeps its place.

        A prompt that begins as before is found again in the place's cache.
        """
        choice = self._request.tool_choice
        found = _found(self._request)
        now: list[tuple[int, Tool]] = []
        later: dict[str, tuple[int, Tool]] = {}
        for number, tool in enumerate(self._request.tools):
            if self._withheld(tool) or not self._speakable(number, tool):
                continue
            if not tool.deferred or (choice.mode == "named" and tool.name in choice.names):
                now.append((number, tool))
            elif tool.name in found:
                later[tool.name] = (number, tool)
        return now + [later[name] for name in found if name in later]

    def _withheld(self, tool: Tool) -> bool:
        """Whether a tool is not offered because the choice, which cannot be said, leaves it out."""
        choice = self._request.tool_choice
        if not choice.names or tool.name in choice.names:
            return False
        if choice.mode == "named":
            return not self._quirks.tool_choice_named
        return not self._quirks.allowed_tools

    def _speakable(self, number: int, tool: Tool) -> bool:
        if tool.hosted is None or tool.origin == ORIGIN:
            return True
        self._lose(f"tools.{number}", hosted_why(tool))
        return False

    def _tool(self, number: int, tool: Tool) -> JsonObject:
        if tool.hosted is not None:
            return tool.hosted
        where = f"tools.{number}"
        said = own_words(tool, ORIGIN)
        if said is not None and self._may_be_said(tool):
            return said
        offer: JsonObject = {"name": tool.name}
        if tool.description:
            offer["description"] = tool.description
        beside = unknown_fields(tool, ORIGIN)
        if self._turns.is_custom(tool.name):
            return {"type": "custom", "custom": offer, **beside}
        offer["parameters"] = _parameters(tool)
        if tool.strict is not None and self._strict(where, tool):
            offer["strict"] = tool.strict
        return {"type": "function", "function": offer, **beside}

    def _may_be_said(self, tool: Tool) -> bool:
        """Whether the provider takes a tool as a client of this API offers it."""
        if tool.freeform and not self._turns.is_custom(tool.name):
            return False
        return not tool.strict or self._quirks.strict_tools

    def _strict(self, where: str, tool: Tool) -> bool:
        if not self._quirks.strict_tools:
            why = "this place does not hold a model to a tool's schema"
        elif tool.strict and self._request.origin != ORIGIN and not _is_closed(tool.schema):
            why = "a strict schema must require all of its properties and allow no other"
        else:
            return True
        if tool.strict:
            self._lose(f"{where}.strict", why)
        return False

    def _choose(self, offered: list[Tool]) -> None:
        choice = self._request.tool_choice
        if not offered:
            if choice.mode in {"required", "named"}:
                self._lose("tool_choice", "there is no tool to choose")
            return
        wanted = self._choice([tool.name for tool in offered])
        if wanted != "auto":
            self._body["tool_choice"] = wanted
        if choice.parallel is None:
            return
        if self._quirks.parallel_tool_calls:
            self._body["parallel_tool_calls"] = choice.parallel
        elif not choice.parallel:
            self._lose("tool_choice.parallel", "this place cannot be held to one call at a time")

    def _choice(self, offered: list[str]) -> Json:
        choice, quirks = self._request.tool_choice, self._quirks
        mode: str = choice.mode
        if mode == "named" and choice.names[:1] and choice.names[0] not in offered:
            self._lose("tool_choice", f"there is no tool {choice.names[0]!r}")
            return "auto"
        if mode == "named" and quirks.tool_choice_named:
            return self._named(choice.names[0])
        mode = "required" if mode == "named" else mode
        if mode == "required" and not quirks.tool_choice_required:
            self._lose("tool_choice.mode", "this place cannot be made to call a tool")
            mode = "auto"
        if choice.names and choice.mode != "named" and quirks.allowed_tools and mode != "none":
            tools: list[Json] = [self._named(name) for name in choice.names if name in offered]
            return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
        return mode

    def _named(self, name: str) -> JsonObject:
        kind = "custom" if self._turns.is_custom(name) else "function"
        return {"type": kind, kind: {"name": name}}

    # ── settings ──

    def _limit(self) -> None:
        request, quirks = self._request, self._quirks
        if request.max_tokens is not None:
            self._body[quirks.max_tokens_field] = request.max_tokens
        kept: list[Json] = list(request.stop[: quirks.max_stop])
        if kept:
            self._body["stop"] = kept

    def _sample(self) -> None:
        sampling, quirks = self._request.sampling, self._quirks
        taken = {name: name for name in _SAMPLING} if quirks.sampling else {}
        taken |= {"seed": "seed", "n": "n"}
        taken |= {_EXTRA_SAMPLING[field]: field for field in quirks.extra_sampling}
        for name in type(sampling).__struct_fields__:
            value: float | None = getattr(sampling, name)
            if value is None:
                continue
            if name == "logprobs" and quirks.sampling:
                self._body |= {"logprobs": True, "top_logprobs": value}
            elif name in taken:
                self._body[taken[name]] = value
            else:
                self._lose(f"sampling.{name}", "this place does not take it")

    def _format(self, output: OutputFormat) -> JsonObject:
        if output.schema is None:
            return {"type": "json_object"}
        if not self._quirks.json_schema:
            self._lose("output.schema", "this place writes JSON, but not by a schema")
            return {"type": "json_object"}
        wanted: JsonObject = {"name": output.name or shapes.ANSWER_NAME, "schema": output.schema}
        if output.strict is not None:
            wanted["strict"] = output.strict
        return {"type": "json_schema", "json_schema": wanted}

    def _identify(self) -> None:
        request, quirks, body = self._request, self._quirks, self._body
        if request.user and quirks.user_field:
            body[quirks.user_field] = _short(request.user)
            if len(request.user) > MAX_USER:
                why = f"a name of more than {MAX_USER} characters is sent as a hash"
                self._lose("user", why, minor=True)
        elif request.user:
            self._lose("user", "this place does not ask who the user is", minor=True)
        if quirks.store:
            body["store"] = False
        if request.session and quirks.prompt_cache_key and quirks.cache_retention != "none":
            body["prompt_cache_key"] = request.session
        if quirks.cache_retention == "long":
            body["prompt_cache_retention"] = "24h"

    def _restore(self) -> None:
        """Put back the fields that only this API knows; a request from elsewhere loses its own."""
        request, body = self._request, self._body
        if request.origin != ORIGIN:
            fields, losses = carry(request, ORIGIN, frozenset(self._quirks.fields))
            body |= fields
            self._losses += losses
        for name, value in request.extra.items() if request.origin == ORIGIN else ():
            if name != "tool_choice" or name in body:
                body[name] = _joined(value, body.get(name))
        options = body.pop("stream_options", None)
        if not request.stream:
            return
        options = options if isinstance(options, dict) else {}
        if self._quirks.stream_usage:
            options = options | {"include_usage": True}
        if options:
            body["stream_options"] = options


def _joined(kept: Json, ours: Json) -> Json:
    """Return an object of ours with the fields that were kept beside it, at every level."""
    if isinstance(kept, dict) and isinstance(ours, dict):
        return ours | {name: _joined(value, ours.get(name)) for name, value in kept.items()}
    return kept


def _found(request: Request) -> dict[str, None]:
    """Return the names of tools that a search has found, in the order of their finding."""
    found: dict[str, None] = {}
    for turn in request.turns:
        for part in turn.content:
            inside = part.content if isinstance(part, Result) else (part,)
            found |= {p.name: None for p in inside if isinstance(p, Reference)}
    return found


def _parameters(tool: Tool) -> JsonObject:
    if tool.freeform:
        text: JsonObject = {"type": "string"}
        return {"type": "object", "properties": {"input": text}, "required": ["input"]}
    return (
        tool.schema
        if "type" in tool.schema
        else {"type": "object", "properties": {}, **tool.schema}
    )


def _is_closed(schema: Json) -> bool:
    """Whether every object in a schema requires all of its properties and allows no other."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if isinstance(properties, dict):
        required = schema.get("required")
        named = set(properties) <= set(required) if isinstance(required, list) else not properties
        if not named or schema.get("additionalProperties") is not False:
            return False
    return all(map(_is_closed, schema.values()))


def _short(user: str) -> str:
    if len(user) <= MAX_USER:
        return user
    return blake2b(user.encode(), digest_size=16).hexdigest()
