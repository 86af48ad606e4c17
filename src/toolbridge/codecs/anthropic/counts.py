"""Anthropic's token counts, in both directions."""

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.usage import Usage


class CacheCreation(msgspec.Struct):
    ephemeral_1h_input_tokens: int | None = None


class OutputDetails(msgspec.Struct):
    thinking_tokens: int | None = None


class ServerToolUse(msgspec.Struct):
    web_search_requests: int | None = None


class Counts(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    output_tokens_details: OutputDetails | None = None
    server_tool_use: ServerToolUse | None = None


def read_counts(before: Usage, counts: Counts) -> Usage:
    """Return the usage after `counts`, which are totals; zero means "not repeated"."""
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


def write_counts(usage: Usage, estimate: int) -> JsonObject:
    """Return the counts of an answer; a client that never learns its input never compacts."""
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
        counts["server_tool_use"] = {"web_search_requests": usage.searches}
    return counts
