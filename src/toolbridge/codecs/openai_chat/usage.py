"""Token counts of Chat Completions, in both directions.

OpenAI chat, usage: `prompt_tokens` includes the tokens that the cache read and wrote, and
`completion_tokens` includes the reasoning. Our `Usage` counts every input token once.
"""

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.core.json import JsonObject
from toolbridge.core.usage import Usage
from toolbridge.wire.shapes import AnyObject

_COUNTS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
_DETAILS: dict[str, frozenset[str]] = {
    "prompt_tokens_details": frozenset({"cached_tokens", "cache_write_tokens"}),
    "completion_tokens_details": frozenset({"reasoning_tokens"}),
}
"""The counts that `Usage` has a field for; all others are kept in `Usage.native`."""


def decode_usage(given: AnyObject) -> Usage | None:
    """Return the counts, with the provider's own in `native`; None if they cannot be read."""
    try:
        counts = msgspec.convert(given, shapes.Counts, strict=False)
    except msgspec.ValidationError:
        return None  # a wrong count must not fail the answer
    # OpenRouter sends `cost` and `cost_details` here, DeepSeek `prompt_cache_miss_tokens`.
    native: JsonObject = {}
    for name, value in given.items():
        if name in _DETAILS and isinstance(value, dict):
            rest = {n: v for n, v in value.items() if n not in _DETAILS[name]}
            native |= {name: rest} if rest else {}
        elif name not in _COUNTS and name not in _DETAILS:
            native[name] = value
    usage = decode_counts(counts)
    return msgspec.structs.replace(usage, native={shapes.ORIGIN: native}) if native else usage


def decode_counts(counts: shapes.Counts) -> Usage:
    """Return the counts that every provider of the API has."""
    prompt = counts.prompt_tokens_details or shapes.PromptDetails()
    completion = counts.completion_tokens_details or shapes.CompletionDetails()
    # DeepSeek, context caching: cached tokens are counted in `prompt_cache_hit_tokens`.
    read = max(prompt.cached_tokens or counts.prompt_cache_hit_tokens or 0, 0)
    write = max(prompt.cache_write_tokens or 0, 0)
    return Usage(
        input=max((counts.prompt_tokens or 0) - read - write, 0),
        output=max(counts.completion_tokens or 0, 0),
        cache_read=read,
        cache_write=write,
        reasoning=max(completion.reasoning_tokens or 0, 0),
    )


def encode_usage(usage: Usage, estimate: int) -> JsonObject:
    """Return the `usage` object; `estimate` replaces an input that the provider did not count."""
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


def _with_native(counts: JsonObject, native: JsonObject) -> JsonObject:
    """Return `counts` with the provider's own counts added, also inside the details."""
    written = native | counts
    for name in _DETAILS:
        extra, own = native.get(name), counts.get(name)
        if isinstance(extra, dict) and isinstance(own, dict):
            written[name] = extra | own
    return written
