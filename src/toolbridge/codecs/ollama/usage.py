"""Token counts and durations of Ollama's API, in both directions.

Ollama, docs/api: `prompt_eval_count` and `eval_count` are the only counts, without a split for
caching or thinking; a count of 0 is left out. Durations are nanoseconds.
"""

from toolbridge.codecs.ollama import shapes
from toolbridge.core.json import JsonObject
from toolbridge.core.usage import Usage

_NOMINAL = 1_000_000
"""Nanoseconds per token, for an answer whose duration was not measured."""


def decode_usage(chunk: shapes.Chunk) -> Usage:
    """Return the counts of a line; 0 for a count that is missing or cannot be one."""
    return Usage(_count(chunk.prompt_eval_count), _count(chunk.eval_count))


def _count(given: float | None) -> int:
    return int(given) if given is not None and 0 < given < 2**53 else 0


def encode_usage(usage: Usage, estimate: int, elapsed: float = 0.0) -> JsonObject:
    """Return the counts and durations of the last line; `elapsed` is in seconds.

    No duration is 0: clients compute tokens per second as `eval_count / eval_duration`.
    """
    given = usage.input_total or estimate
    nominal = (given + usage.output) * _NOMINAL
    total = max(2, int(elapsed * 1e9) or nominal)
    reading = max(1, total * given // (given + usage.output + 1))
    return {
        "total_duration": total,
        "load_duration": 1,
        "prompt_eval_count": given,
        "prompt_eval_duration": reading,
        "eval_count": usage.output,
        "eval_duration": max(1, total - reading),
    }
