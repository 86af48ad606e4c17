"""Corrections of an encoded request that its provider rejected.

A provider may reject one parameter of a request that is otherwise valid. `policy/rejection_rules.py`
finds the correction in the text of the rejection, this module applies it to the body, and
`routing/learned_corrections.py` remembers it for the model, so that the next request is accepted at
once. Corrections work on the body after the codec, and so for every API and in passthrough.
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from toolbridge.core.json import Json, JsonObject, dumps, maybe_object
from toolbridge.core.messages import Loss
from toolbridge.policy.schema_corrections import close_objects, not_strict, without_keywords
from toolbridge.policy.thinking_corrections import as_adaptive, as_budget, as_token_budget, nearest
from toolbridge.wire.json_paths import REMOVED, Removed, edit, remove, value_at

Kind: TypeAlias = Literal[
    "drop", "choose", "rename", "cap", "clamp", "api", "adaptive", "budget", "token_budget",
    "close_objects", "not_strict", "keywords", "json_object", "no_schema", "auto_choice",
    "nine_character_ids", "fill", "arguments", "role", "functions_only",
    "reminders",
]  # fmt: skip


class Correction(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of the body. It is stored as JSON, so it holds only names and values."""

    kind: Kind
    path: str = ""
    """A path of `wire.json_paths`; empty for a kind that has its own."""
    values: tuple[str | int | float, ...] = ()
    """`choose`: the allowed values; `rename`: the new name; `cap`: the largest value; `clamp`: the
    same, for this request only; `api`: the other API; `keywords`: keywords of schemas."""
    when: Literal["", "tools", "thinking"] = ""
    """The correction applies only to requests that offer tools, or ask for thinking."""

    @property
    def lasts(self) -> bool:
        """Whether the correction holds for later requests to the same model."""
        return self.kind != "clamp"

    def fits(self, body: JsonObject) -> bool:
        """Return whether the correction concerns this request."""
        if self.when == "tools":
            return bool(body.get("tools"))
        return thinks(body) if self.when == "thinking" else True


class CorrectedBody(NamedTuple):
    """A body after its corrections, and the losses that report them."""

    body: JsonObject
    losses: tuple[Loss, ...]


def apply(
    body: JsonObject, corrections: Iterable[Correction], api: str, target: str
) -> CorrectedBody:
    """Return `body` with all corrections; `target` is the model that rejected the request."""
    losses: dict[Loss, None] = {}
    for correction in corrections:
        changed = corrected(body, correction, api)
        if changed is not body:
            body = changed
            losses[loss_of(correction, target)] = None
    return CorrectedBody(body, tuple(losses))


def corrected(body: JsonObject, correction: Correction, api: str) -> JsonObject:
    """Return `body` with one correction; `body` itself if that changes nothing."""
    if not correction.fits(body):
        return body
    return _ACTIONS[correction.kind](body, correction, api)


def thinks(body: JsonObject) -> bool:
    """Return whether the request asks for thinking, in the field of any API."""
    effort = (
        body.get("reasoning_effort")
        or value_at(body, "reasoning.effort")
        or value_at(body, "output_config.effort")
    )
    if isinstance(effort, str) and effort != "none":
        return True
    kind = value_at(body, "thinking.type")
    if isinstance(kind, str):
        return kind != "disabled"
    budget = value_at(body, "generationConfig.thinkingConfig.thinkingBudget")
    return budget not in (None, 0) or bool(body.get("think"))


# ── one function per kind ────────────────────────────────────────────────────


def _drop(body: JsonObject, correction: Correction, api: str) -> JsonObject:
    path = correction.path
    if path == "tool_choice":
        return _auto_choice(body, correction, api)
    if path in {"response_format", "text.format", "output_config.format"}:
        return _no_schema(body, correction, api)
    dropped = remove(body, path)
    holder = path.rpartition(".")[0]
    # An object that is empty now is removed too: `reasoning: {}` may be rejected as well.
    if holder and "*" not in holder and value_at(dropped, holder) == {}:
        return remove(dropped, holder)
    return dropped


def _choose(body: JsonObject, correction: Correction, _: str) -> JsonObject:
    def choose(value: Json) -> Json | Removed:
        if value in correction.values:
            return value
        return nearest(value, correction.values) or REMOVED

    return edit(body, correction.path, choose)


def _rename(body: JsonObject, correction: Correction, _: str) -> JsonObject:
    old, new = correction.path, str(correction.values[0])
    if old not in body:
        return body
    if new in body:
        return remove(body, old)
    return {new if key == old else key: value for key, value in body.items()}


def _cap(body: JsonObject, correction: Correction, _: str) -> JsonObject:
    most = float(correction.values[0])
    most = int(most) if most.is_integer() else most

    def cap(value: Json) -> Json:
        return most if isinstance(value, int | float) and value > most else value

    capped = edit(body, correction.path, cap)
    budget = value_at(capped, "thinking.budget_tokens")
    if capped is body or not isinstance(budget, int) or budget < most:
        return capped
    # Anthropic, Messages API: `thinking.budget_tokens` >= 1024 and < `max_tokens`.
    if most <= 1024:
        return remove(capped, "thinking")
    return edit(capped, "thinking.budget_tokens", lambda _: int(most) - 1)


def _same(body: JsonObject, _: Correction, __: str) -> JsonObject:
    return body  # another API needs another codec, so `routing/` sends the request again


def _json_object(body: JsonObject, _: Correction, api: str) -> JsonObject:
    kind = value_at(body, "response_format.type")
    if kind != "json_schema":
        return body
    schema = value_at(body, "response_format.json_schema.schema")
    written = body | {"response_format": {"type": "json_object"}}
    return instruct(written, _shape(schema), api)


def _no_schema(body: JsonObject, _: Correction, api: str) -> JsonObject:
    """Return `body` with its output schema in the system prompt instead of a field."""
    for path, inside in _FORMATS.items():
        if (given := value_at(body, path)) is None:
            continue
        schema = value_at(given, inside) if isinstance(given, dict) else None
        return instruct(remove(body, path), _shape(schema), api)
    config = body.get("generationConfig")
    if not isinstance(config, dict):
        return body
    named = ("responseJsonSchema", "responseSchema", "responseMimeType")
    left = {key: value for key, value in config.items() if key not in named}
    if left == config:
        return body
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    return instruct(body | {"generationConfig": left}, _shape(schema), api)


_FORMATS = {
    "response_format": "json_schema.schema",
    "text.format": "schema",
    "output_config.format": "schema",
}


def _shape(schema: Json) -> str:
    shape = f", of the shape of this JSON Schema:\n{dumps(schema)}" if schema else "."
    return f"Answer with JSON only{shape}"


def _auto_choice(body: JsonObject, _: Correction, api: str) -> JsonObject:
    """Return `body` with a free choice of tools, and the forced tool in the system prompt."""
    choice = body.get("tool_choice")
    if isinstance(choice, str):
        forced, name = choice in {"required", "any"}, ""
    elif isinstance(choice, dict):
        function = choice.get("function")
        named = choice.get("name") or (function.get("name") if isinstance(function, dict) else "")
        forced, name = choice.get("type") not in {"auto", "none"}, str(named or "")
    else:
        return body
    if not forced:
        return remove(body, "tool_choice")
    sentence = f"Call the tool {name} now." if name else "Call one of the tools now."
    return instruct(remove(body, "tool_choice"), sentence, api)


def instruct(body: JsonObject, sentence: str, api: str) -> JsonObject:
    """Return `body` with a sentence at the end of the system prompt of `api`."""
    if field := {"anthropic": "system", "openai_responses": "instructions"}.get(api):
        return body | {field: _longer(body.get(field), sentence)}
    if api == "gemini":
        given = body.get("systemInstruction")
        parts = given.get("parts") if isinstance(given, dict) else None
        added: list[Json] = [*(parts if isinstance(parts, list) else []), {"text": sentence}]
        return body | {"systemInstruction": {"parts": added}}
    if api == "bedrock":  # Amazon Bedrock, Converse: a list of blocks
        system = body.get("system")
        return body | {
            "system": [*(system if isinstance(system, list) else []), {"text": sentence}]
        }
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    first = messages[0] if messages else None
    if isinstance(first, dict) and first.get("role") in {"system", "developer"}:
        longer = first | {"content": _longer(first.get("content"), sentence)}
        return body | {"messages": [longer, *messages[1:]]}
    return body | {"messages": [{"role": "system", "content": sentence}, *messages]}


def _longer(text: Json, sentence: str) -> Json:
    if isinstance(text, list):
        return [*text, {"type": "text", "text": sentence}]
    return f"{text}\n\n{sentence}" if isinstance(text, str) and text else sentence


def _nine_character_ids(body: JsonObject, _: Correction, __: str) -> JsonObject:
    def short(value: Json) -> Json:
        if not isinstance(value, str) or (len(value) == 9 and value.isalnum() and value.isascii()):
            return value
        return blake2b(value.encode(), digest_size=5).hexdigest()[:9]

    edited = edit(body, "messages.*.tool_call_id", short)
    return edit(edited, "messages.*.tool_calls.*.id", short)


def _fill(body: JsonObject, correction: Correction, _: str) -> JsonObject:
    """Return `body` with a blank in the field that every assistant message with calls must have."""
    name = correction.path

    def fill(message: Json) -> Json:
        if not isinstance(message, dict) or not message.get("tool_calls") or message.get(name):
            return message
        return message | {name: " "}

    return edit(body, "messages.*:assistant", fill)


def _arguments(body: JsonObject, _: Correction, __: str) -> JsonObject:
    def valid(value: Json) -> Json:
        if not isinstance(value, str) or maybe_object(value) is not None:
            return value
        return dumps({"raw": value}) if value.strip() else "{}"

    return edit(body, "messages.*.tool_calls.*.function.arguments", valid)


def _role(body: JsonObject, _: Correction, __: str) -> JsonObject:
    return edit(body, "messages.*:developer.role", lambda _: "system")


def _functions_only(body: JsonObject, _: Correction, __: str) -> JsonObject:
    def only(tool: Json) -> Json | Removed:
        other = isinstance(tool, dict) and tool.get("type", "function") != "function"
        return REMOVED if other else tool

    edited = edit(body, "tools.*", only)
    return edited if edited.get("tools") else remove(remove(edited, "tools"), "tool_choice")


def _reminders(body: JsonObject, _: Correction, api: str) -> JsonObject:
    """Return `body` with system messages as user messages, marked as `<system-reminder>`."""

    def marked(text: Json) -> Json:
        return f"<system-reminder>\n{text}\n</system-reminder>" if isinstance(text, str) else text

    def as_user(message: Json) -> Json:
        given = message.get("content") if isinstance(message, dict) else None
        user = edit({"role": "user", "content": given}, "content.*:text.text", marked)
        return user if isinstance(given, list) else edit(user, "content", marked)

    return edit(body, "messages.*:system", as_user) if api == "anthropic" else body


_ACTIONS: dict[Kind, Callable[[JsonObject, Correction, str], JsonObject]] = {
    "drop": _drop,
    "choose": _choose,
    "rename": _rename,
    "cap": _cap,
    "clamp": _cap,
    "api": _same,
    "adaptive": lambda body, *_: as_adaptive(body),
    "budget": lambda body, *_: as_budget(body),
    "token_budget": lambda body, *_: as_token_budget(body),
    "close_objects": lambda body, given, _: close_objects(body, require="required" in given.values),
    "not_strict": lambda body, *_: not_strict(body),
    "keywords": lambda body, given, _: without_keywords(body, frozenset(map(str, given.values))),
    "json_object": _json_object,
    "no_schema": _no_schema,
    "auto_choice": _auto_choice,
    "nine_character_ids": _nine_character_ids,
    "fill": _fill,
    "arguments": _arguments,
    "role": _role,
    "functions_only": _functions_only,
    "reminders": _reminders,
}

# ── the report ───────────────────────────────────────────────────────────────

_REPORTS: dict[Kind, tuple[str, str]] = {
    "choose": ("", "{target} rejects this value; the nearest of {values} was sent"),
    "rename": ("", "{target} rejects it; it was sent as {values}"),
    "cap": ("", "{target} rejects more than {values}"),
    "clamp": ("", "limited to {values}, which the context of {target} leaves for the answer"),
    "adaptive": ("thinking", "{target} rejects a budget; adaptive thinking was requested"),
    "budget": ("thinking", "{target} rejects adaptive thinking; a budget was sent"),
    "token_budget": ("thinking", "{target} rejects a level; a budget was sent"),
    "close_objects": ("schemas", "{target} accepts closed objects only; they were closed"),
    "not_strict": ("strict", "{target} rejects these schemas as strict; they were sent as a hint"),
    "keywords": ("schemas", "{target} rejects {values}; moved into the descriptions"),
    "json_object": ("output schema", "{target} has JSON mode only; the schema is in the prompt"),
    "no_schema": ("output schema", "{target} rejects it; the schema is in the prompt"),
    "auto_choice": ("tool_choice", "{target} cannot force a call; the prompt asks for it"),
    "nine_character_ids": ("tool call ids", "{target} accepts nine letters and digits only"),
    "fill": ("", "{target} needs it in messages with calls; a blank was sent"),
    "arguments": ("tool calls", "{target} accepts valid JSON only; broken arguments were wrapped"),
    "role": ("role developer", "{target} rejects it; system was sent"),
    "reminders": (
        "role system",
        "{target} rejects it; user messages marked as reminders were sent",
    ),
    "functions_only": ("tools", "{target} accepts functions only; other tools were left out"),
}
"""Kind → the field in the report, empty for the correction's own path, and the text."""


def field_of(correction: Correction) -> str:
    """Return the field that a correction changes, as the report names it."""
    return loss_of(correction, "").what


def loss_of(correction: Correction, target: str) -> Loss:
    """Return the report of a correction of requests to `target`."""
    if correction.path == "tool_choice":
        correction = Correction("auto_choice")
    what, why = _REPORTS.get(correction.kind, ("", "{target} rejects it; it was left out"))
    values = ", ".join(map(str, correction.values))
    return Loss(what or correction.path, why.format(target=target, values=values))
