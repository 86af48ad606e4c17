"""Counts and the envelope of Chat Completions: what is ours, and what only the same API reads."""

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Foreign
from toolbridge.core.usage import Usage
from toolbridge.wire.shapes import AnyObject

_TYPES: dict[str, type] = {
    "created": int, "system_fingerprint": str, "service_tier": str, "provider": str,
}  # fmt: skip
"""Members of a chunk that a client of the same API gets as they are."""


def read_envelope(chunk: shapes.Chunk) -> Foreign:
    found: JsonObject = {name: getattr(chunk, name) for name in _TYPES}
    kept = {name: value for name, value in found.items() if isinstance(value, _TYPES[name])}
    return Foreign(shapes.ORIGIN, "envelope", kept)


_OWN_COUNTS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
_OWN_DETAILS: dict[str, frozenset[str]] = {
    "prompt_tokens_details": frozenset({"cached_tokens", "cache_write_tokens"}),
    "completion_tokens_details": frozenset({"reasoning_tokens"}),
}


def maybe_all_counts(given: AnyObject) -> Usage | None:
    """Return the usage with the counts that have no name of ours; None if it cannot be read."""
    try:
        counts = msgspec.convert(given, shapes.Counts, strict=False)
    except msgspec.ValidationError:
        return None  # a server that cannot count does not spoil an answer
    native: JsonObject = {}
    for name, value in given.items():
        if name in _OWN_DETAILS and isinstance(value, dict):
            rest = {n: v for n, v in value.items() if n not in _OWN_DETAILS[name]}
            native |= {name: rest} if rest else {}
        elif name not in _OWN_COUNTS and name not in _OWN_DETAILS:
            native[name] = value
    usage = read_counts(counts)
    return msgspec.structs.replace(usage, native={shapes.ORIGIN: native}) if native else usage


def _with_native(counts: JsonObject, native: JsonObject) -> JsonObject:
    """Return `counts` with the provider's own beside ours."""
    written = native | counts
    for name in _OWN_DETAILS:
        extra, own = native.get(name), counts.get(name)
        if isinstance(extra, dict) and isinstance(own, dict):
            written[name] = extra | own
    return written


def read_counts(counts: shapes.Counts) -> Usage:
    """Return the usage; the prompt's tokens include what the cache read and wrote."""
    prompt = counts.prompt_tokens_details or shapes.PromptDetails()
    completion = counts.completion_tokens_details or shapes.CompletionDetails()
    read = max(prompt.cached_tokens or counts.prompt_cache_hit_tokens or 0, 0)
    write = max(prompt.cache_write_tokens or 0, 0)
    return Usage(
        input=max((counts.prompt_tokens or 0) - read - write, 0),
        output=max(counts.completion_tokens or 0, 0),
        cache_read=read,
        cache_write=write,
        reasoning=max(completion.reasoning_tokens or 0, 0),
    )


def write_counts(usage: Usage, estimate: int) -> JsonObject:
    """Return the counts: the prompt's include what the cache read and wrote."""
    prompt = usage.input_total or estimate
    counts: JsonObject = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    return _with_native(counts, usage.native.get(shapes.ORIGIN, {}))
