"""Keys under which a tool's call is the same call again."""

from hashlib import blake2b

import msgspec

from toolbridge.core.json import Json, JsonObject, replace_lone_surrogates

_encoder = msgspec.json.Encoder(order="sorted")
_EXACT = 2.0**53


def canonical(value: Json) -> bytes:
    """Return `value` as JSON that does not depend on the order of keys, nor on 3 or 3.0."""
    return _encoder.encode(_plain(value))


def derive_key(request_key: str, tool: str, arguments: JsonObject) -> str:
    """Return the key of one tool's call: the same for the same request key, tool and arguments."""
    # A list, so that no part can pretend to be the end of the one before.
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
