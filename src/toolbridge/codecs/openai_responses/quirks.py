"""What differs from place to place: the closed list of quirks.

Each is a fact about a place, said in its file under `providers/` or in the configuration, also for
one model. The defaults are the API as OpenAI speaks it.
"""

from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.errors import ConfigError
from toolbridge.core.json import JsonObject

Retention: TypeAlias = Literal["none", "short", "long"]


class Quirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    openai: bool = False
    """Whether the place is OpenAI's own, which alone keeps a prefix for a day."""
    cache_retention: Retention = "short"
    """How long prefixes are kept: "none" sends no cache key, "long" asks for a day."""
    cache_breakpoints: bool = False
    """Whether parts may be marked as the end of a prefix to cache: gpt-5.6 and later."""
    sampling: bool = True
    """False where temperature, top_p and logprobs are refused: reasoning models."""
    effort_none: bool = True
    """False where a model cannot be told not to think."""
    custom_tools: bool = True
    """False where a tool with free text for input must be a function."""
    namespaces: bool = True
    """False where tools in namespaces must be laid flat."""
    user_field: Literal["safety_identifier", "user", ""] = "safety_identifier"


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
