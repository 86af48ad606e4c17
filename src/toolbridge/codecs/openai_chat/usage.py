"""Token counts of Chat Completions, in both directions.

OpenAI chat, usage: `prompt_tokens` includes the tokens that the cache read and wrote, and
`completion_tokens` includes the reasoning. Our `Usage` counts every input token once.
"""

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.usage import Cost, Usage
from toolbridge.wire.json_schema import is_number
from toolbridge.wire.shapes import convert_counts

_COUNTS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
_DETAILS: dict[str, frozenset[str]] = {
    "prompt_tokens_details": frozenset({"cached_tokens", "cache_write_tokens"}),
    "completion_tokens_details": frozenset({"reasoning_tokens"}),
}
"""The counts that `Usage` has a field for; all others are kept in `Usage.native`."""


_NO_PROMPT = shapes.PromptDetails()
_NO_COMPLETION = shapes.CompletionDetails()


def decode_usage(given: JsonObject) -> Usage:
    """Return the counts, with the provider's own in `native`."""
    # OpenRouter sends `cost` and `cost_details` here, DeepSeek `prompt_cache_miss_tokens`.
    native: JsonObject = {}
    for name, value in given.items():
        if name in _COUNTS:
            continue
        known = _DETAILS.get(name)
        if known is None:
            native[name] = value
        elif isinstance(value, dict) and not value.keys() <= known:
            native[name] = {n: v for n, v in value.items() if n not in known}
    usage = decode_counts(given)
    if not native:
        return usage
    cost = _decode_cost(native)
    return msgspec.structs.replace(usage, native={shapes.ORIGIN: native}, cost=cost)


def _decode_cost(given: JsonObject) -> Cost | None:
    """Return the cost that the provider reports, in US dollars; None without one.

    OpenRouter, usage accounting: `cost` is what the account was charged. With the user's own key
    (`is_byok`) that is OpenRouter's fee, and the provider behind it charges
    `cost_details.upstream_inference_cost`. Perplexity: `cost.total_cost`.
    """
    cost = given.get("cost")
    total = cost.get("total_cost") if isinstance(cost, dict) else cost
    if not is_number(total) or total < 0:
        return None
    details = given.get("cost_details")
    behind = details.get("upstream_inference_cost") if isinstance(details, dict) else None
    if given.get("is_byok") is True and is_number(behind) and behind > 0:
        total += behind
    return Cost(total=float(total))


def decode_counts(given: Json) -> Usage:
    """Return the counts that every provider of the API has."""
    counts = convert_counts(given, shapes.Counts)
    prompt = counts.prompt_tokens_details or _NO_PROMPT
    completion = counts.completion_tokens_details or _NO_COMPLETION
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
