"""Quirks of the Gemini API: what differs between providers and between models.

The defaults fit the current models. The families before them are listed here, so that a model's
name is enough; the configuration overrides both. `encode_request` reads them once per request.
"""

from typing import Literal

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.quirks import decode_quirks

Level = Literal["MINIMAL", "LOW", "MEDIUM", "HIGH"]


class Quirks(msgspec.Struct, frozen=True):
    """The closed list of switches."""

    thinking_style: Literal["level", "budget", "none"] = "level"
    """How thinking is requested: by a level (Gemini 3), by a budget in tokens (2.5), not at all."""
    thinking_levels: tuple[Level, ...] = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
    least_budget: int = 0
    """The smallest budget for thinking; 0 for models with thinking that can be turned off."""
    most_budget: int = 24_576
    thinking_off: bool = False
    """True for models with a smallest budget whose thinking can be turned off all the same."""
    sampling: bool = True
    """False for models that ignore or reject temperature, topP and topK: Gemini 3.6 and later."""
    json_schema: bool = True
    """False for models that take schemas only in the subset of OpenAPI, as `parameters`."""
    media_in_results: bool = True
    """False for models that take media only after a function's response, not inside it."""
    json_with_tools: bool = True
    """False for models that reject `responseMimeType` application/json together with functions."""
    search_with_functions: bool = True
    """False for models that reject built-in tools together with functions: before Gemini 3."""
    exclude_domains: bool = False
    """True if `googleSearch` takes `excludeDomains` (Vertex AI)."""


_OLD: JsonObject = {
    "thinking_style": "budget",
    "media_in_results": False,
    "json_with_tools": False,
    "search_with_functions": False,
}
_NO_MINIMAL: JsonObject = {"thinking_levels": ["LOW", "MEDIUM", "HIGH"]}
# Gemini API, thinking: 2.5 Pro takes 128 to 32768 tokens and cannot be turned off, 2.5 Flash-Lite
# takes 0 or 512 to 24576; Pro models from 3 on, 3.7 and later have no level MINIMAL.
_FAMILIES: dict[str, JsonObject] = {
    "gemini-1": _OLD | {"thinking_style": "none", "json_schema": False},
    "gemini-2.0": _OLD | {"thinking_style": "none", "json_schema": False},
    "gemini-2.5-pro": _OLD | {"least_budget": 128, "most_budget": 32_768},
    "gemini-2.5-flash-lite": _OLD | {"least_budget": 512, "thinking_off": True},
    "gemini-2.5": _OLD,
    "gemini-3-pro": _NO_MINIMAL,
    "gemini-3.1-pro": _NO_MINIMAL,
    "gemini-3.5-flash-lite": {"sampling": False},
    "gemini-3.6": {"sampling": False},
    "gemini-3.7": {"sampling": False} | _NO_MINIMAL,
    "gemini-3.8": {"sampling": False} | _NO_MINIMAL,
    "gemini-4": {"sampling": False} | _NO_MINIMAL,
    "gemma-4": {"thinking_levels": ["MINIMAL", "HIGH"]},
    "gemma-3": _OLD | {"thinking_style": "none"},
}
"""Quirks by the beginning of a model's name; the longest matching beginning counts."""


def read_quirks(model: str, given: JsonObject) -> Quirks:
    """Return the quirks of a model; raise `ConfigError` for one that does not exist."""
    name = model.rpartition("/")[2]
    known = [family for family in _FAMILIES if name.startswith(family)]
    facts = _FAMILIES[max(known, key=len)] if known else {}
    return decode_quirks(facts | given, Quirks)
