"""Token counts of the Responses API, in both directions.

OpenAI Responses, usage: `input_tokens` includes the tokens that the cache read and wrote, and
`output_tokens` includes the reasoning. Our `Usage` counts every input token once.
"""

from toolbridge.codecs.openai_responses.shapes import (
    Counts,
    InputDetails,
    OutputDetails,
    ToolUsage,
    WriteDetails,
)
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.usage import Usage
from toolbridge.wire.shapes import convert_counts


def decode_usage(given: Json, tools: Json = None, searches: int = 0) -> Usage:
    """Return the counts of a response; `searches` were seen where the server counts none."""
    counts = convert_counts(given, Counts)
    details = counts.input_tokens_details or InputDetails()
    kept = details.cache_write_tokens_details or WriteDetails()
    output = counts.output_tokens_details or OutputDetails()
    read = max(details.cached_tokens or 0, 0)
    write = max(details.cache_write_tokens or 0, 0)
    return Usage(
        input=max((counts.input_tokens or 0) - read - write, 0),
        output=max(counts.output_tokens or 0, 0),
        cache_read=read,
        cache_write=write,
        cache_write_long=min(max(kept.ttl_12h_tokens or 0, 0), write),
        reasoning=max(output.reasoning_tokens or 0, 0),
        searches=_searches(tools) or searches,
    )


def _searches(tools: Json) -> int:
    counted = convert_counts(tools, ToolUsage).web_search if tools else None
    return max(counted.num_requests or 0, 0) if counted is not None else 0


def encode_tool_usage(usage: Usage) -> JsonObject:
    """Return the field `tool_usage` of a response; nothing without searches."""
    if not usage.searches:
        return {}
    # The SDKs require the counts of generated images, too.
    details: JsonObject = {"image_tokens": 0, "text_tokens": 0}
    images: JsonObject = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    images |= {"input_tokens_details": details, "output_tokens_details": details}
    return {"tool_usage": {"image_gen": images, "web_search": {"num_requests": usage.searches}}}


def encode_usage(usage: Usage, estimate: int) -> JsonObject:
    """Return the `usage` object; `estimate` replaces an input that the provider did not count."""
    read = usage.input_total or estimate
    return {
        "input_tokens": read,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
            # OpenAI, prompt caching: a prefix is written for 30 minutes or for 12 hours.
            "cache_write_tokens_details": {
                "ttl_30m_tokens": usage.cache_write - usage.cache_write_long,
                "ttl_12h_tokens": usage.cache_write_long,
            },
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": read + usage.output,
    }
