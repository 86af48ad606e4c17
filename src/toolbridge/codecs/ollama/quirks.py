"""Quirks of Ollama's API: what differs between servers and between models.

Providers and the configuration set them; `encode_request` reads them once per request.
"""

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.quirks import decode_quirks


class Quirks(msgspec.Struct, frozen=True):
    """The closed list of switches; the defaults fit most models of a local server."""

    think_levels: bool = False
    """True for models that take a level of thinking (gpt-oss) where others take true or false."""
    no_truncate: bool = False
    """Send `truncate: false`, so that the server rejects a prompt that is too long; by default it
    drops the oldest messages without an error."""


def read_quirks(given: JsonObject) -> Quirks:
    """Return the quirks of a target; raise `ConfigError` for one that does not exist."""
    return decode_quirks(given, Quirks)
