"""Quirks of Chat Completions: what differs between the providers of this API.

A provider's file in `providers/` or the configuration sets them, also for a single model. The
defaults fit most OpenAI-compatible servers; `encode_request` reads the quirks once per request.
"""

from typing import Literal

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort
from toolbridge.core.quirks import decode_quirks


class Quirks(msgspec.Struct, frozen=True, cache_hash=True):
    """The closed list of switches."""

    completions: str = ""
    """The path of the text completion endpoint, such as `/completions`; empty for a provider without one."""
    completion_suffix: bool = False
    """True if that endpoint accepts `suffix` and fills in the middle."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """OpenAI chat: reasoning models reject `max_tokens`; most other servers know nothing else."""
    max_stop: int = 4
    """How many stop sequences the provider accepts; 0 if it rejects the field (o3 and later)."""
    sampling: bool = True
    """False for models that reject temperature, top_p, penalties and logprobs (OpenAI, reasoning
    models: "Unsupported parameter: 'temperature' is not supported with this model")."""
    sampling_with_effort: bool = True
    """False for models that accept temperature and top_p only with the effort "none" (OpenAI,
    gpt-5.1 and later)."""
    default_effort: Effort = ""
    """The effort of a request without one; gpt-5.1, 5.2 and 5.4 do not think by default."""
    extra_sampling: tuple[
        Literal["top_k", "min_p", "repetition_penalty", "repeat_penalty"], ...
    ] = ()
    """The sampling fields beyond OpenAI's that the provider accepts (vLLM, llama.cpp, Together)."""
    user_field: Literal["user", "safety_identifier", ""] = "user"
    """OpenAI chat: `safety_identifier` replaces the deprecated `user`."""
    store: bool = False
    """Send `store: false`; servers that do not know the field may reject it."""
    stream_usage: bool = True
    """Send `stream_options.include_usage`, so that a stream ends with the token counts."""
    prompt_cache_key: bool = False
    """Send the session as `prompt_cache_key`, which routes a prefix to the same cache."""
    cache_retention: Literal["none", "short", "long"] = "short"
    """How long prefixes are cached: "none" sends no cache key, "long" requests 24 hours."""
    cache_breakpoints: bool = False
    """Mark cached prefixes with `prompt_cache_breakpoint` (OpenAI, gpt-5.6 and later)."""
    cache_control: bool = False
    """Mark cached prefixes with Anthropic's `cache_control` (OpenRouter, LiteLLM)."""
    fields: tuple[str, ...] = ()
    """Fields of OpenAI's beyond the common ones that the provider accepts: `metadata`, `verbosity` …
    They are carried over from clients of other APIs; a client of this API sends any field."""
    developer_role: bool = False
    """Send system messages with the role `developer`."""
    system_in_place: bool = True
    """False if a system message may only be the first one; later ones become user messages inside
    `<system-reminder>` tags."""
    images_in_results: bool = False
    """True if a tool message may contain images; otherwise they follow in a user message (OpenAI
    chat: tool messages contain text parts only)."""
    tool_result_name: bool = False
    """Send the tool's name in tool messages."""
    nine_character_ids: bool = False
    """Hash call ids to nine letters and digits (Mistral rejects all others)."""
    strict_tools: bool = True
    """True if the provider accepts `strict` in a tool."""
    custom_tools: bool = True
    """False if a tool with free text as its input must be offered as a function."""
    tool_choice_required: bool = True
    """False if the provider cannot force a tool call."""
    tool_choice_named: bool = True
    """False if the provider ignores a named tool: only that tool is offered then, as required."""
    allowed_tools: bool = False
    """True if `tool_choice` may list the allowed tools; otherwise only those are offered."""
    parallel_tool_calls: bool = True
    """True if the provider accepts the field."""
    web_search: Literal["", "options", "openrouter"] = ""
    """How the provider's own web search is enabled: by `web_search_options` (OpenAI, search models),
    or by the tool `openrouter:web_search`; empty if it has none."""
    json_schema: bool = True
    """False if `response_format` can be `json_object` only."""
    schema_subset: Literal["", "openai", "groq", "cerebras", "llamacpp", "xgrammar"] = ""
    """The subset of JSON Schema to which answers are constrained; empty if that is not known."""
    strict_models: tuple[str, ...] = ()
    """The models that accept `strict` in `response_format`; empty for all (Groq has two)."""
    schema_with_tools: bool = True
    """False if no tool is called while `response_format` has a schema, or both are an error."""
    structural_tags: bool = False
    """Whether `response_format` can constrain the JSON between two tags and leave other text free
    (vLLM and SGLang, `structural_tag`)."""
    thinking_field: Literal["reasoning_content", "reasoning", ""] = ""
    """The field in which thoughts of the history are sent back; empty if they are rejected.
    DeepSeek and Kimi, thinking mode: an assistant message with tool calls must have it."""
    reasoning_details: bool = False
    """Send sealed thoughts back as `reasoning_details` (OpenRouter)."""
    thinking_format: Literal["openai", "zai", "qwen", "openrouter", "llamacpp", "none"] = "openai"
    """The field that controls thinking: `reasoning_effort`, `thinking`, `enable_thinking`,
    `reasoning`, `chat_template_kwargs`, or none."""
    efforts: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")
    """The values of `reasoning_effort` that the provider accepts."""
    effort_none: bool = False
    """True if `reasoning_effort: "none"` turns thinking off."""
    effort_off: Effort = ""
    """The effort to send for a model that always thinks when thinking is off; empty sends none."""
    effort_with_tools: bool = True
    """False for models that accept tools only with the effort "none" (OpenAI chat, gpt-5.6 and
    later)."""


def read_quirks(given: JsonObject) -> Quirks:
    """Return the quirks of a target; raise `ConfigError` for one that does not exist."""
    return decode_quirks(given, Quirks)
