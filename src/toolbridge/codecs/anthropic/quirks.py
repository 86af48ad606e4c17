"""Quirks of the Messages API: what differs between providers and between models.

Providers and the configuration set them; `encode_request` reads them once per request.
"""

from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort
from toolbridge.core.quirks import decode_quirks

ThinkingType: TypeAlias = Literal["adaptive", "enabled", "disabled", "between_tools"]


class Quirks(msgspec.Struct, frozen=True):
    """The closed list of switches; with the defaults, everything is sent as the client wrote it."""

    sampling: bool = True
    """False for models that reject temperature, top_p and top_k: Claude 4.7 and later."""
    forced_tools: bool = True
    """False for models that reject `tool_choice` "any" and "tool": Opus 5.5, Sonnet 5.5."""
    thinking_types: tuple[ThinkingType, ...] = ("adaptive", "enabled", "disabled", "between_tools")
    """The values of `thinking.type` that the model accepts; without "disabled" it always thinks."""
    efforts: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")
    """The values of `output_config.effort` that it accepts; none for Sonnet 4.5 and Haiku 4.5."""
    prefill: bool = False
    """True for models that continue a last message of the assistant: Claude 4.5 and earlier."""
    system_in_place: bool = True
    """False for models that reject the role `system` in `messages`: those before Opus 4.8."""


def read_quirks(given: JsonObject) -> Quirks:
    """Return the quirks of a target; raise `ConfigError` for one that does not exist."""
    return decode_quirks(given, Quirks)
