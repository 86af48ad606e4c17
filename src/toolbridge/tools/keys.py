"""Idempotency keys of tool calls."""

from hashlib import blake2b

import msgspec

from toolbridge.core.json import Json, JsonObject, replace_lone_surrogates

_encoder = msgspec.json.Encoder(order="sorted")
_EXACT = 2.0**53


def canonical(value: Json) -> bytes:
    """Return `value` as canonical JSON: sorted keys, and 3 for 3.0."""
    return _encoder.encode(_plain(value))


def derive_key(request_key: str, tool: str, arguments: JsonObject) -> str:
    """Return the key of a tool call: the same for the same request key, tool and arguments."""
    # Encoded as a list, so that the border between two parts is unambiguous.
    written = canonical([request_key, tool, arguments])
    return blake2b(written, digest_size=16).hexdigest()


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {replace_lone_surrogates(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value
