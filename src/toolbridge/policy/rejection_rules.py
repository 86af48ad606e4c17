"""Rules that find the correction in the text of a rejection.

Providers reject a parameter with a 400, 404 or 422 and a sentence that names it. Each rule searches
the sentence for the wording of some providers (the comment quotes it) and returns alternatives: the
first one that changes the body and was not tried yet is used. A rule never removes the model, the
conversation or the tools.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from toolbridge.core.json import JsonObject
from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.core.messages import Problem
from toolbridge.policy.corrections import Correction, corrected, thinks
from toolbridge.policy.thinking_corrections import EFFORTS
from toolbridge.wire.json_paths import locate, locate_value, value_at

Corrections: TypeAlias = tuple[Correction, ...]
_Rule: TypeAlias = Callable[[str, JsonObject], Iterator[Corrections]]

STATUSES = frozenset({400, 404, 422})
_KINDS = frozenset({"rejected", "unsupported", "malformed_request", "context_overflow"})
_ESSENTIAL = frozenset(
    {
        "model", "messages", "input", "contents", "prompt", "system", "instructions", "tools",
        "systemInstruction", "stream", "generationConfig", "options", "role", "content", "parts",
        "type", "id", "name", "function", "arguments", "tool_calls", "tool_call_id", "tool_use_id",
        "call_id", "output", "functionCall", "functionResponse", "functionDeclarations",
        "parameters", "input_schema", "source", "signature",
    }
)  # fmt: skip
"""Fields without which a request has another meaning."""
_FOREIGN_TEXT = (":tool_use.text", ":tool_result.text", ":function_call.text")
"""Texts of items that have none."""
_SAMPLING = frozenset(
    {
        "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
        "logprobs", "top_logprobs", "stop", "seed",
    }
)  # fmt: skip


def find_corrections(
    problem: Problem, body: JsonObject, api: str, tried: Iterable[Correction] = ()
) -> Corrections:
    """Return the corrections for a rejection of `body`; nothing if no rule applies."""
    if problem.status not in STATUSES or problem.kind not in _KINDS:
        return ()
    known = frozenset(tried)
    for rule in _RULES:
        for alternative in rule(problem.text, body):
            fitting = tuple(
                one for one in alternative if one not in known and _changes(one, body, api)
            )
            if fitting:
                return fitting
    return ()


def _changes(correction: Correction, body: JsonObject, api: str) -> bool:
    if correction.kind == "api":
        return api == "openai_chat" and "messages" in body
    return corrected(body, correction, api) is not body


# ── other names, other APIs ──────────────────────────────────────────────────

_INSTEAD = lazy_pattern(r"use [`'\"]([a-z_]+)[`'\"] instead", re.IGNORECASE)
_SAME_MEANING = (
    frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"}),
    frozenset({"user", "safety_identifier"}),
)
# OpenAI: "This model is only supported in v1/responses and not in v1/chat/completions.", "Function
# tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use
# function tools, use /v1/responses or set reasoning_effort to 'none'."
_RESPONSES = lazy_pattern(r"(?:use|in|with) (?:the )?/?v1/responses", re.IGNORECASE)


def _other_name(text: str, body: JsonObject) -> Iterator[Corrections]:
    # OpenAI: "Unsupported parameter: 'max_tokens' is not supported with this model. Use
    # 'max_completion_tokens' instead."
    if found := _INSTEAD.search(text):
        new = found[1].lower()
        for names in _SAME_MEANING:
            if new in names:
                yield tuple(
                    Correction("rename", old, (new,))
                    for old in sorted(names - {new})
                    if old in body
                )


def _other_api(text: str, _: JsonObject) -> Iterator[Corrections]:
    if _RESPONSES.search(text):
        yield (Correction("api", values=("openai_responses",)),)
        if "reasoning_effort" in text:
            yield (Correction("choose", "reasoning_effort", ("none",), "tools"),)


# ── parameters and values ────────────────────────────────────────────────────

# OpenAI: "Unsupported value: 'temperature' does not support 0.1 with this model. Only the default
# (1) value is supported.", "Unsupported value: 'minimal' is not supported with the 'gpt-5.1' model.
# Supported values are: 'none', 'low', 'medium', and 'high'."
_UNSUPPORTED = lazy_pattern(r"unsupported (?:parameter|value)s?:? ?[`'\"]([^`'\"]+)", re.IGNORECASE)
_ALLOWED = lazy_pattern(
    r"(?:supported values are|must be one of|should be(?= [`'\"\[])|expected one of|one of:"
    r"|(?:allowed|valid|supported|possible) values(?: are)?)\W*(.{1,300})",
    re.IGNORECASE | re.DOTALL,
)
_WORD = lazy_pattern(r"[`'\"]?\b([a-z][a-z0-9_]*)\b[`'\"]?", re.IGNORECASE)


def _unsupported(text: str, body: JsonObject) -> Iterator[Corrections]:
    for found in _UNSUPPORTED.finditer(text):
        name = found[1]
        path = locate(body, name) or locate_value(body, name)
        yield from _leave_out(path, body, _allowed(text[found.end() :]))


def _one_of(text: str, body: JsonObject) -> Iterator[Corrections]:
    # Groq: "`reasoning_effort` must be one of `none` or `default`"; pydantic (Mistral, vLLM):
    # "reasoning_effort: Input should be 'low', 'medium' or 'high'".
    allowed = _allowed(text)
    if allowed and (
        found := re.search(
            r"[`'\"]?([\w.\[\]]+)[`'\"]?:? (?:must|input should) be", text, re.IGNORECASE
        )
    ):
        path = locate(body, found[1])
        if path == "tool_choice":
            yield (Correction("auto_choice"),)
        elif path:
            yield from _leave_out(path, body, allowed)


def _allowed(text: str) -> tuple[str, ...]:
    """Return the efforts that a text lists as the supported values."""
    found = _ALLOWED.search(text)
    words = _WORD.findall(found[1].partition(". ")[0]) if found else []
    return tuple(word.lower() for word in words if word.lower() in EFFORTS)


def _leave_out(path: str, body: JsonObject, allowed: tuple[str, ...] = ()) -> Iterator[Corrections]:
    """Yield the corrections that replace or remove the field at `path`."""
    last = path.rpartition(".")[2]
    if not path or last in _ESSENTIAL or (last == "text" and not path.endswith(_FOREIGN_TEXT)):
        return
    if path.startswith(("response_format", "text.format")) and last != "strict":
        yield (Correction("json_object"),)
        yield (Correction("no_schema"),)
        return
    if allowed:
        yield (Correction("choose", path, allowed),)
    # OpenAI, gpt-5.1 and later: sampling is rejected only while the model reasons.
    while_thinking = last in _SAMPLING and thinks(body)
    yield (Correction("drop", path, when="thinking" if while_thinking else ""),)


_NAMED = tuple(
    lazy_pattern(pattern, re.IGNORECASE)
    for pattern in (
        # Anthropic: "messages.65.content.1.tool_use.text: Extra inputs are not permitted"
        r"(?P<name>[\w.\[\]$-]+):? extra inputs are not permitted",
        # Fireworks: "Extra inputs are not permitted, field: 'stream_options', value: …"
        r"extra inputs are not permitted, field: [`'\"](?P<name>[^`'\"]+)",
        # OpenAI: "Unrecognized request argument supplied: x", "Unknown parameter: 'x'."
        r"unrecognized request arguments? supplied: (?P<names>[\w., ]+)",
        r"(?:unknown|unexpected|invalid|unrecognized) (?:parameter|field|argument|key)s?:? ?[`'\"]?(?P<name>[\w.\[\]]+)",
        # Gemini: "Unknown name \"x\" at 'generation_config': Cannot find field."
        r"unknown name \\?\"(?P<name>[^\"\\]+)\\?\"(?: at '(?P<at>[^']*)')?",
        # Groq: "'messages.1' : property 'reasoning_content' is unsupported"
        r"(?:'(?P<at>[\w.\[\]]+)' ?: ?)?property '(?P<name>[^']+)' is (?:unsupported|not supported)",
        # xAI: "Model grok-4.6 does not support parameter presencePenalty.", "Argument not supported
        # on this model: presencePenalty"
        r"does not support (?:the )?parameters?:? [`'\"]?(?P<name>\w+)",
        r"argument not supported on this model: (?P<name>\w+)",
        # Others: "The parameter `logprobs` is not supported", "'top_k' is not allowed"
        r"parameter:? [`'\"]?(?P<name>[\w.]+)[`'\"]? (?:is )?(?:not (?:supported|allowed)|unsupported)",
        r"[`'\"](?P<name>[\w.]+)[`'\"] is (?:not (?:supported|allowed|permitted)|unsupported)",
        # Anthropic: "This model does not support the effort parameter"
        r"does not support the (?P<name>\w+) parameter",
    )
)  # fmt: skip


def _named(text: str, body: JsonObject) -> Iterator[Corrections]:
    for pattern in _NAMED:
        every: dict[Correction, None] = {}
        for found in pattern.finditer(text):
            groups = found.groupdict()
            at = groups.get("at") or ""
            for name in re.split(r"[,\s]+", groups.get("names") or groups.get("name") or ""):
                path = _path_of(body, name.strip("."), at)
                for correction, *_ in _leave_out(path, body):
                    every[correction] = None
                    break
        if every:
            yield tuple(every)


def _path_of(body: JsonObject, name: str, at: str) -> str:
    if not name:
        return ""
    return (locate(body, f"{at}.{name}") if at else "") or locate(body, name)


def _together(text: str, _: JsonObject) -> Iterator[Corrections]:
    # Anthropic: "`temperature` and `top_p` cannot both be specified for this model."
    if re.search(r"`temperature` and `top_p` cannot both", text):
        yield (Correction("drop", "top_p"),)
    # Anthropic: "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
    # "`top_k` must be unset when thinking is enabled."
    if found := re.search(r"`(temperature|top_p|top_k)` (?:may|must)[^.]*thinking", text):
        yield (Correction("drop", found[1], when="thinking"),)


# ── schemas and formats ──────────────────────────────────────────────────────

_OPEN = lazy_pattern(
    r"additionalproperties[`'\"]? (?:is required to be supplied and to be false"
    r"|must be (?:explicitly )?set to false)",
    re.IGNORECASE,
)
_KEYWORDS = (
    # Cerebras: "Unsupported JSON schema fields: {'minItems', 'items'}"
    lazy_pattern(r"unsupported json schema fields: \{(?P<words>[^}]+)\}", re.IGNORECASE),
    # Groq: "invalid schema for response format: …/next_step: minItems is not supported"
    lazy_pattern(r"invalid schema\b.*?: (?P<words>\w+) is not supported", re.IGNORECASE | re.DOTALL),
    # OpenAI: "Invalid schema for function 'f': In context=(…), 'default' is not permitted."
    lazy_pattern(r"invalid schema\b.*?'(?P<words>\w+)' is not permitted", re.IGNORECASE | re.DOTALL),
    # Gemini: "Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters'"
    lazy_pattern(r"unknown name \\?\"(?P<words>[^\"\\]+)\\?\" at '[^']*(?:parameters|schema)\b", re.IGNORECASE),
)  # fmt: skip
_REQUIRED = lazy_pattern(r"'required' is required to be supplied", re.IGNORECASE)
_NOT_STRICT = lazy_pattern(
    # Cerebras: "Tools with mixed values for 'strict' are not allowed"; Anthropic: "The compiled
    # grammar is too large, …"
    r"mixed values for 'strict'|compiled grammar is too large|invalid schema for"
    r"|strict\b[^.]{0,40}not supported",
    re.IGNORECASE,
)


def _schemas(text: str, _: JsonObject) -> Iterator[Corrections]:
    for pattern in _KEYWORDS:
        words = {
            word.strip(" '\"")
            for found in pattern.finditer(text)
            for word in found["words"].split(",")
        }
        # A schema without `properties`, `items` or `type` describes nothing.
        if movable := sorted(words - {"", "properties", "items", "type"}):
            yield (Correction("keywords", values=tuple(movable)),)
    if _OPEN.search(text):
        yield (Correction("close_objects"),)
    # The arguments of a tool belong to the client, so its properties are not made required.
    if _REQUIRED.search(text) and "for function" not in text:
        yield (Correction("close_objects", values=("required",)),)
    if _OPEN.search(text) or _NOT_STRICT.search(text):
        yield (Correction("not_strict"),)


def _formats(text: str, _: JsonObject) -> Iterator[Corrections]:
    # DeepSeek: "This response_format type is unavailable now"
    if re.search(
        r"response_format.{0,40}(?:unavailable|not supported|unsupported)", text, re.IGNORECASE
    ):
        yield (Correction("json_object"),)
        yield (Correction("no_schema"),)
    # Groq: "response_format json_object cannot be combined with tool/function calling"; Gemini:
    # "… set 'tool_config.function_calling_config.mode' field to ANY instead of populating
    # 'response_mime_type' …", "Function calling with a response mime type … is unsupported"
    if re.search(
        r"cannot be combined with tool|populating 'response_mime_type'|with a response mime type",
        text,
        re.IGNORECASE,
    ):
        yield (Correction("no_schema", when="tools"),)


def _tool_choice(text: str, _: JsonObject) -> Iterator[Corrections]:
    # Anthropic: "Thinking may not be enabled when tool_choice forces tool use."; OpenRouter: "No
    # endpoints found that support the provided 'tool_choice' value."
    if re.search(r"tool_choice forces tool use", text, re.IGNORECASE):
        yield (Correction("auto_choice", when="thinking"),)
    elif re.search(r"tool_?choice", text, re.IGNORECASE):
        yield (Correction("auto_choice"),)


# ── the conversation ─────────────────────────────────────────────────────────

# DeepSeek: "Missing `reasoning_content` field in the assistant message at message index 2."; Kimi:
# "reasoning_content is missing in assistant tool call message at index 2"
_MISSING = lazy_pattern(
    r"missing [`'\"]?reasoning_content|reasoning_content[`'\"]? is missing", re.IGNORECASE
)


def _conversation(text: str, _: JsonObject) -> Iterator[Corrections]:
    # Mistral: "Tool call id was turn1_0 but must be a-z, A-Z, 0-9, with a length of 9."
    if re.search(r"tool call id .*length of 9", text, re.IGNORECASE):
        yield (Correction("nine_character_ids"),)
    if _MISSING.search(text):
        yield (Correction("fill", "reasoning_content"),)
    # xAI: "The arguments to a tool_call with ID 'x' are not a valid JSON string."
    if re.search(r"arguments .*not a valid json", text, re.IGNORECASE):
        yield (Correction("arguments"),)
    # DeepSeek: "messages[0].role: unknown variant `developer`, expected one of `system`, …"
    if re.search(r"\bdeveloper\b", text) and re.search(r"role|variant|one of", text):
        yield (Correction("role"),)
    # Anthropic: 'messages: Unexpected role "system". …', "role 'system' is not supported on …"
    if re.search(r"role [`'\"]system[`'\"]", text, re.IGNORECASE):
        yield (Correction("reminders"),)
    # DeepSeek: "tools[2]: unknown variant `custom`, expected `function`"
    if re.search(r"unknown variant .{1,60}expected [`'\"]function", text, re.IGNORECASE):
        yield (Correction("functions_only"),)


# ── thinking ─────────────────────────────────────────────────────────────────

_THINKING = "generationConfig.thinkingConfig"


def _thinking(text: str, body: JsonObject) -> Iterator[Corrections]:
    lower = text.lower()
    # Anthropic: "\"thinking.type.enabled\" is not supported for this model. Use
    # \"thinking.type.adaptive\" and \"output_config.effort\" …"
    if "thinking.type.enabled" in lower:
        yield (Correction("adaptive"),)
        yield (Correction("drop", "thinking"),)
    if "adaptive thinking is not supported" in lower:
        yield (Correction("budget"),)
        yield (Correction("drop", "thinking"),)
    # Gemini: "You can only set only one of thinking budget and thinking level."
    if "one of thinking budget and thinking level" in lower:
        yield (Correction("drop", f"{_THINKING}.thinkingBudget"),)
    elif re.search(r"thinking[ _]?level", lower):
        yield (Correction("token_budget"),)
        yield (Correction("drop", f"{_THINKING}.thinkingLevel"),)
    elif re.search(r"thinking[ _]?budget|thinking mode", lower):
        # Gemini 2.5 Pro: "The model does not support setting thinking_budget to 0"
        yield (Correction("drop", f"{_THINKING}.thinkingBudget"),)
    if re.search(r"reasoning[_ ]?effort", lower):
        path = locate(body, "reasoning_effort") or locate(body, "reasoning.effort")
        yield from _leave_out(path, body, _allowed(text))


# ── limits ───────────────────────────────────────────────────────────────────

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens",
           "generationConfig.maxOutputTokens", "options.num_predict")  # fmt: skip
# Anthropic: "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, …"; the
# codecs write the overflows of other servers in the same form.
_CONTEXT = lazy_pattern(r"exceed context limit: (\d+) \+ (\d+) > (\d+)")
_OUTPUT = (
    # Anthropic: "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens"
    lazy_pattern(r"max_tokens: \d+ > (?P<most>\d+)"),
    # OpenAI: "max_tokens is too large: 9999. This model supports at most 4096 completion tokens"
    lazy_pattern(r"supports at most (?P<most>\d+) (?:completion|output) tokens"),
    # Groq: "`max_tokens` must be less than or equal to `8192`"; pydantic: "Input should be less …"
    lazy_pattern(r"max_(?:completion_|output_)?tokens.{0,40}less than or equal to [`'\"]?(?P<most>\d+)"),
    # DeepSeek: "the valid range of max_tokens is [1, 8192]"
    lazy_pattern(r"range of max_(?:completion_)?tokens is \[\d+, ?(?P<most>\d+)\]"),
    # Gemini: "maxOutputTokens … the supported range is from 1 (inclusive) to 8193 (exclusive)"
    lazy_pattern(r"max_?output_?tokens.*?to (?P<over>\d+) \(exclusive\)", re.IGNORECASE | re.DOTALL),
)  # fmt: skip


_AT_MOST = lazy_pattern(
    r"([\w.]+): input should be less than or equal to (\d+(?:\.\d+)?)", re.IGNORECASE
)


def _limits(text: str, body: JsonObject) -> Iterator[Corrections]:
    # pydantic: "temperature: Input should be less than or equal to 1"
    for limit in _AT_MOST.finditer(text):
        if at := locate(body, limit[1]):
            yield (Correction("cap", at, (float(limit[2]),)),)
    path = next((path for path in _LIMITS if value_at(body, path) is not None), "")
    if not path:
        return
    if found := _CONTEXT.search(text):
        room = int(found[3]) - int(found[1])
        if room > 0:
            yield (Correction("clamp", path, (room,)),)
    for pattern in _OUTPUT:
        if found := pattern.search(text):
            groups = found.groupdict()
            most = int(groups.get("most") or 0) or int(groups.get("over") or 1) - 1
            if most > 0:
                yield (Correction("cap", path, (most,)),)


_RULES: tuple[_Rule, ...] = (
    _limits, _other_name, _other_api, _together, _schemas, _formats, _conversation, _thinking,
    _tool_choice, _one_of, _unsupported, _named,
)  # fmt: skip
