"""Token counts and durations of Ollama's API, in both directions.

Ollama, docs/api: `prompt_eval_count` and `eval_count` are the only counts, without a split for
caching or thinking; a count of 0 is left out. Durations are nanoseconds.
"""

import msgspec

from toolbridge.codecs.ollama import shapes
from toolbridge.core.codec import AnswerTimes
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.usage import Usage

_MOST = 2**53
_DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


def decode_usage(chunk: shapes.Chunk) -> Usage | None:
    """Return the counts and durations of a line; None for a line without, as all but the last.

    A count that is missing or cannot be one is 0.
    """
    prompt, output = _count(chunk.prompt_eval_count), _count(chunk.eval_count)
    if not chunk.total_duration:
        return Usage(prompt, output) if prompt or output else None
    durations: JsonObject = {}
    for name in _DURATIONS:
        if value := _count(getattr(chunk, name)):
            durations[name] = value
    return Usage(prompt, output, native={shapes.ORIGIN: durations})


def _count(given: Json) -> int:
    if not given:
        return 0
    try:
        count = msgspec.convert(given, int, strict=False)  # servers write `12.0` and `"12"`, too
    except msgspec.ValidationError:
        return 0
    return count if 0 < count < _MOST else 0


def encode_usage(usage: Usage, estimate: int, durations: JsonObject) -> JsonObject:
    """Return the counts of the last line, with the durations of an Ollama server or else the given."""
    return {
        **(usage.native.get(shapes.ORIGIN) or durations),
        "prompt_eval_count": usage.input_total or estimate,
        "eval_count": usage.output,
    }


def stream_durations(times: AnswerTimes | None) -> JsonObject:
    """Return the measured durations of a stream: reading ends with the first token."""
    if times is None:
        return {}
    total = _nanoseconds(times.seconds)
    reading = _nanoseconds(times.first_token or 0.0)
    return {
        "total_duration": total,
        "prompt_eval_duration": reading,
        "eval_duration": max(total - reading, 1),
    }


def whole_durations(times: AnswerTimes | None) -> JsonObject:
    """Return the measured duration of an answer that came at once; all of it counts as writing."""
    if times is None:
        return {}
    total = _nanoseconds(times.seconds)
    return {"total_duration": total, "eval_duration": total}


def _nanoseconds(seconds: float) -> int:
    # Clients compute tokens per second as `eval_count / eval_duration`.
    return max(int(seconds * 1e9), 1)
