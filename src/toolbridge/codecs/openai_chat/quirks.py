"""What differs from place to place: the closed list of quirks.

Each is a fact about a place, said in its file under `providers/` or in the configuration, also for
one model. The defaults are the API as most places speak it.
"""

from typing import Literal

import msgspec

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort


class Quirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    completions: str = ""
    """The path of the text completion endpoint, such as `/completions`; empty where there is none."""
    completion_suffix: bool = False
    """Whether that endpoint fills in the middle: takes a `suffix`."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    max_stop: int = 4
    """How many stop sequences are taken; 0 where the field is refused."""
    sampling: bool = True
    """False where temperature, top_p, penalties and logprobs are refused: reasoning models."""
    extra_sampling: tuple[
        Literal["top_k", "min_p", "repetition_penalty", "repeat_penalty"], ...
    ] = ()
    """Which fields beyond OpenAI's the place takes."""
    user_field: Literal["user", "safety_identifier", ""] = "user"
    store: bool = False
    """Whether to send `store: false`; places that do not know the field may refuse it."""
    stream_usage: bool = True
    """Whether to ask for the counts at the end of a stream."""
    prompt_cache_key: bool = False
    """Whether the session is sent as the key under which a prefix is cached."""
    cache_retention: Literal["none", "short", "long"] = "short"
    """How long prefixes are kept: "none" sends no cache key, "long" asks for a day."""
    cache_breakpoints: bool = False
    """Whether parts may be marked as the end of a prefix to cache: gpt-5.6 and later."""
    cache_control: bool = False
    """Whether parts may be marked in Anthropic's way: OpenRouter, LiteLLM."""
    fields: tuple[str, ...] = ()
    """Fields of OpenAI's beyond the common ones that the provider takes: `metadata`, `verbosity` …
    A client of another API has them carried here; a client of this one sends what it likes."""
    developer_role: bool = False
    """Whether the system speaks as `developer`."""
    system_in_place: bool = True
    """False where a system message may only stand in front: the user says later ones, marked."""
    images_in_results: bool = False
    """Whether a result may hold pictures; else they follow in a user message."""
    tool_result_name: bool = False
    """Whether a result is sent with the name of its tool."""
    nine_character_ids: bool = False
    """Whether call ids must be nine letters and digits; others are hashed into that."""
    strict_tools: bool = True
    """Whether a tool may ask that its schema is kept to."""
    custom_tools: bool = True
    """False where a tool with free text for input must be a function."""
    tool_choice_required: bool = True
    """False where a model cannot be made to call a tool."""
    tool_choice_named: bool = True
    """False where a named tool is ignored: that tool alone is then offered, and required."""
    allowed_tools: bool = False
    """Whether a choice may list the tools that are allowed; else only they are offered."""
    parallel_tool_calls: bool = True
    """Whether the field is taken."""
    json_schema: bool = True
    """False where only `json_object` is known."""
    thinking_field: Literal["reasoning_content", "reasoning", ""] = ""
    """The field in which thoughts of the past are sent back; empty where they are refused."""
    reasoning_details: bool = False
    """Whether sealed thoughts are sent back as OpenRouter's details."""
    thinking_format: Literal["openai", "zai", "qwen", "openrouter", "llamacpp", "none"] = "openai"
    """How thinking is asked for: `reasoning_effort`, `thinking`, `enable_thinking`, `reasoning`,
    `chat_template_kwargs`, or not at all."""
    efforts: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")
    """The levels of `reasoning_effort` that the place knows."""
    effort_none: bool = False
    """Whether the effort "none" turns thinking off."""
    effort_off: Effort = ""
    """The effort that stands for no thinking where a model always thinks; empty sends none."""
    effort_with_tools: bool = True
    """False where tools are refused unless the effort is "none": gpt-5.6 and later."""


def read_quirks(given: JsonObject) -> Quirks:
    """Return the quirks of a target; raise `ConfigError` that names one that does not exist."""
    try:
        return msgspec.convert(given, Quirks)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `")
        name = at.removesuffix("`").removeprefix("$.")
        known = ", ".join(Quirks.__struct_fields__)
        hint = f"; there are {known}" if "unknown field" in text else ""
        raise ConfigError(f"{text}{hint}", where=f"quirks.{name}".rstrip(".$")) from None
