"""The text of the model inside an engine's error.

An engine that cannot parse the tool call of its own model answers with an error, and some of these
errors contain what the model wrote. `policy/rescue.py` reads calls from it.
"""

import re

from toolbridge.core.json import Json, loads
from toolbridge.core.lazy_pattern import lazy_pattern

# llama.cpp, from 2025-12 to 2026-06 (llama.cpp#24329): the rest of the output that was not parsed.
_LLAMA = lazy_pattern(r"Failed to parse input at pos \d+: (.*)\Z", re.DOTALL)
# Ollama, model/parsers: the arguments of a call. They may contain the words that end them.
_OLLAMA = lazy_pattern(r"error parsing tool call: raw='(.*)', err=", re.DOTALL)
# Groq, error codes: this text in `failed_generation` is Groq's own.
_NOT_GENERATED = "Tool use failed:"
_INSIDE = ("error", "metadata", "raw", "message")
_DEPTH = 6


def read_generated(error: Json, depth: int = _DEPTH) -> str:
    """Return the model's text in an error or in an object that contains one; empty without such text.

    Groq, error codes: `failed_generation`. OpenRouter, errors: `metadata.raw` is the error of the
    provider behind it, as an object or as JSON text.
    """
    if isinstance(error, dict):
        written = error.get("failed_generation")
        if isinstance(written, str):
            return "" if written.startswith(_NOT_GENERATED) else written
        inside = (error[name] for name in _INSIDE if name in error)
        return next(filter(None, (read_generated(one, depth - 1) for one in inside if depth)), "")
    if not isinstance(error, str):
        return ""
    if (found := _LLAMA.search(error) or _OLLAMA.search(error)) is not None:
        return found[1]
    if not error.lstrip().startswith("{"):
        return ""
    try:
        return read_generated(loads(error), depth - 1) if depth else ""
    except ValueError:
        return ""
