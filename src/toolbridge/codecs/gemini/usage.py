"""Token counts of the Gemini API, in both directions.

Gemini API, UsageMetadata: `promptTokenCount` includes what was cached and excludes the prompts of
built-in tools; `candidatesTokenCount` excludes thoughts.
"""

from toolbridge.codecs.gemini.shapes import Counts
from toolbridge.core.json import JsonObject
from toolbridge.core.usage import Usage


def decode_usage(counts: Counts, searches: int = 0) -> Usage:
    """Return the totals of an answer; the API does not count `searches`."""
    given = (counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0)
    cached = counts.cached_content_token_count or 0
    thoughts = counts.thoughts_token_count or 0
    return Usage(
        input=max(0, given - cached),
        output=(counts.candidates_token_count or 0) + thoughts,
        cache_read=cached,
        reasoning=thoughts,
        searches=searches,
    )


def encode_usage(usage: Usage, estimate: int) -> JsonObject:
    """Return the counts of an answer, with `estimate` where the input was not counted."""
    given = usage.input_total or estimate
    counts: JsonObject = {
        "promptTokenCount": given,
        "candidatesTokenCount": max(0, usage.output - usage.reasoning),
        "totalTokenCount": given + usage.output,
    }
    if usage.reasoning:
        counts["thoughtsTokenCount"] = usage.reasoning
    if usage.cache_read:
        counts["cachedContentTokenCount"] = usage.cache_read
    return counts
