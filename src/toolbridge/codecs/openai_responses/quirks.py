"""Quirks of the Responses API: what differs between providers and between models.

A provider's file in `providers/` or the configuration sets them, also for a single model. The
defaults fit OpenAI's own servers; `encode_request` reads the quirks once per request.
"""

from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort
from toolbridge.core.quirks import decode_quirks

Retention: TypeAlias = Literal["none", "short", "long"]


class Quirks(msgspec.Struct, frozen=True):
    """The closed list of switches."""

    openai: bool = False
    """True for OpenAI's own servers; only these accept `prompt_cache_retention: "24h"`."""
    cache_retention: Retention = "short"
    """How long prefixes are cached: "none" sends no cache key, "long" requests 24 hours."""
    cache_breakpoints: bool = False
    """Mark cached prefixes with `prompt_cache_breakpoint` (OpenAI, gpt-5.6 and later)."""
    sampling: bool = True
    """False for models that reject temperature, top_p and logprobs (OpenAI, reasoning models)."""
    sampling_with_effort: bool = True
    """False for models that accept temperature and top_p only with the effort "none" (OpenAI,
    gpt-5.1 and later)."""
    default_effort: Effort = ""
    """The effort of a request without one; gpt-5.1, 5.2 and 5.4 do not think by default."""
    efforts: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")
    """The values of `reasoning.effort` that the model accepts, apart from "none"; empty for a model
    that rejects `reasoning`."""
    effort_none: bool = True
    """False for models that reject `reasoning.effort: "none"`: they always think."""
    custom_tools: bool = True
    """False if a tool with free text as its input must be offered as a function."""
    namespaces: bool = True
    """False if tools in namespaces must be offered as `namespace__name`."""
    user_field: Literal["safety_identifier", "user", ""] = "safety_identifier"
    """OpenAI Responses: `safety_identifier` replaces the deprecated `user`."""


def read_quirks(given: JsonObject) -> Quirks:
    """Return the quirks of a target; raise `ConfigError` for one that does not exist."""
    return decode_quirks(given, Quirks)
