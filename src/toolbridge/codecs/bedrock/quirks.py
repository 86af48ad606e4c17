"""Quirks of the Converse API: what differs between the models of its many vendors.

The configuration sets them for a model; for Claude and Nova the provider knows them. `encode_request`
reads them once per request.
"""

from typing import Literal

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.quirks import decode_quirks


class Quirks(msgspec.Struct, frozen=True):
    """The closed list of switches; the defaults fit every model of the API."""

    thinking_style: Literal["none", "effort", "anthropic"] = "none"
    """How thinking is requested: not at all, by `outputConfig.effort`, or as in Anthropic's API."""
    extra_sampling: tuple[str, ...] = ()
    """Sampling fields that the model takes in `additionalModelRequestFields`, such as `top_k`."""
    cache_breakpoints: bool = False
    """True for models that take `cachePoint` blocks: Claude and Nova."""
    json_schema: bool = True
    """False for models that reject `outputConfig.textFormat`."""


def read_quirks(given: JsonObject) -> Quirks:
    """Return the quirks of a target; raise `ConfigError` for one that does not exist."""
    return decode_quirks(given, Quirks)
