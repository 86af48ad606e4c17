"""Quirks of the Messages API: what differs between providers and between models.

Providers and the configuration set them; `encode_request` reads them once per request.
"""

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.quirks import decode_quirks


class Quirks(msgspec.Struct, frozen=True):
    """The closed list of switches; the defaults fit every model up to Claude 4.6."""

    sampling: bool = True
    """False for models that reject temperature, top_p and top_k: Claude 4.7 and later."""
    forced_tools: bool = True
    """False for models that reject `tool_choice` "any" and "tool": Opus 5.5, Sonnet 5.5."""


def read_quirks(given: JsonObject) -> Quirks:
    """Return the quirks of a target; raise `ConfigError` for one that does not exist."""
    return decode_quirks(given, Quirks)
