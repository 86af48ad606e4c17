"""Token counts of the Converse API.

Amazon Bedrock, TokenUsage: `inputTokens` excludes what was read from or written to the cache.
"""

from toolbridge.codecs.bedrock.shapes import Counts
from toolbridge.core.usage import Usage


def decode_usage(counts: Counts) -> Usage:
    """Return the counts of an answer."""
    long = [
        entry.get("inputTokens") for entry in counts.cache_details or () if entry.get("ttl") == "1h"
    ]
    return Usage(
        input=counts.input_tokens or 0,
        output=counts.output_tokens or 0,
        cache_read=counts.cache_read_input_tokens or 0,
        cache_write=counts.cache_write_input_tokens or 0,
        cache_write_long=sum(count for count in long if isinstance(count, int)),
    )
