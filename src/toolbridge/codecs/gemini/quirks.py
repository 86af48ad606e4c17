"""What differs from place to place and from model to model: the closed list of quirks.

The defaults are the API as the current models speak it. What older families do otherwise is known
here, as data; a configuration says it for any other name, and has the last word.
"""

from typing import Literal

import msgspec

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject

Level = Literal["MINIMAL", "LOW", "MEDIUM", "HIGH"]


class Quirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    thinking_style: Literal["level", "budget", "none"] = "level"
    """Whether thinking is measured by a level (Gemini 3) or in tokens (2.5); `none` where it is
    refused."""
    thinking_levels: tuple[Level, ...] = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
    least_budget: int = 0
    """The smallest budget for thinking; 0 where it can be turned off."""
    most_budget: int = 24_576
    sampling: bool = True
    """False where temperature, topP and topK are ignored or refused: Gemini 3.6 and later."""
    json_schema: bool = True
    """False where schemas must be sent in the subset of OpenAPI."""
    media_in_results: bool = True
    """False where a picture may not stand inside a function's response: it follows it then."""
    json_with_tools: bool = True
    """False where a JSON answer cannot be asked for beside functions."""


_OLD: JsonObject = {
    "thinking_style": "budget",
    "media_in_results": False,
    "json_with_tools": False,
}
_FAMILIES: dict[str, JsonObject] = {
    "gemini-1": _OLD | {"thinking_style": "none", "json_schema": False},
    "gemini-2.0": _OLD | {"thinking_style": "none", "json_schema": False},
    "gemini-2.5-pro": _OLD | {"least_budget": 128, "most_budget": 32_768},
    "gemini-2.5": _OLD,
    "gemini-3.5-flash-lite": {"sampling": False},
    "gemini-3.6": {"sampling": False},
    "gemini-3.7": {"sampling": False},
    "gemini-3.8": {"sampling": False, "thinking_levels": ["LOW", "MEDIUM", "HIGH"]},
    "gemini-4": {"sampling": False, "thinking_levels": ["LOW", "MEDIUM", "HIGH"]},
}
"""By the beginning of a model's name; the longest that fits counts."""

QUIRKS = Quirks.__struct_fields__


def read_quirks(model: str, given: JsonObject) -> Quirks:
    """Return the quirks of a model; raise `ConfigError` that names one that does not exist."""
    name = model.rpartition("/")[2]
    known = [family for family in _FAMILIES if name.startswith(family)]
    facts = _FAMILIES[max(known, key=len)] if known else {}
    try:
        return msgspec.convert(facts | given, Quirks)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `")
        hint = f"; there are {', '.join(QUIRKS)}" if "unknown field" in text else ""
        where = f"quirks.{at.removesuffix('`').removeprefix('$').strip('.')}".rstrip(".")
        raise ConfigError(f"{text}{hint}", where=where) from None
