"""Token counts of the Messages API, in both directions.

Anthropic, Messages API: `input_tokens` excludes what was read from or written to the cache;
`output_tokens` includes thinking. In a stream the counts are totals so far, not increments.
"""

from toolbridge.codecs.anthropic.shapes import CacheCreation, Counts, OutputDetails, ServerToolUse
from toolbridge.core.json import JsonObject
from toolbridge.core.usage import Usage


def decode_usage(counts: Counts, before: Usage) -> Usage:
    """Return the totals after `counts`; a count that is 0 or missing stays as it was `before`."""
    creation = counts.cache_creation or CacheCreation()
    details = counts.output_tokens_details or OutputDetails()
    served = counts.server_tool_use or ServerToolUse()
    return Usage(
        input=counts.input_tokens or before.input,
        output=counts.output_tokens or before.output,
        cache_read=counts.cache_read_input_tokens or before.cache_read,
        cache_write=counts.cache_creation_input_tokens or before.cache_write,
        cache_write_long=creation.ephemeral_1h_input_tokens or before.cache_write_long,
        reasoning=details.thinking_tokens or before.reasoning,
        searches=served.web_search_requests or before.searches,
    )


def encode_usage(usage: Usage, estimate: int) -> JsonObject:
    """Return the counts of an answer, with `estimate` where the input was not counted.

    Claude Code compacts its history by these counts, so an input of 0 would fill the window.
    """
    counts: JsonObject = {
        "input_tokens": usage.input if usage.input_total else estimate,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
    if usage.cache_write:
        counts["cache_creation"] = {
            "ephemeral_5m_input_tokens": usage.cache_write - usage.cache_write_long,
            "ephemeral_1h_input_tokens": usage.cache_write_long,
        }
    if usage.reasoning:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    if usage.searches:
        # The SDKs require both counts; fetches are free, and are not counted here.
        counts["server_tool_use"] = {
            "web_search_requests": usage.searches,
            "web_fetch_requests": 0,
        }
    return counts
