"""JSON values, and the one way in which they are written.

Arguments are written compactly and with their keys in the order in which they came: a model server
finds its cached prefix again only if the same history gives the same bytes.
"""

import json
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
    JsonObject: TypeAlias = dict[str, Json]
else:
    # msgspec cannot follow an alias into itself. What it reads here is JSON in any case.
    Json = object
    JsonObject = dict[str, object]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def dumps(value: object) -> str:
    """Return `value` as compact JSON, keys in their own order, nothing escaped without need."""
    return dump_bytes(value).decode()


def dump_bytes(value: object) -> bytes:
    """Return `value` as compact JSON; half a surrogate pair, which UTF-8 cannot carry, replaced."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
        return replace_lone_surrogates(text).encode()


def loads(text: str | bytes) -> Json:
    """Return the value of `text`; raise `ValueError` when it is not strict JSON."""
    try:
        value: Json = _decoder.decode(text)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    except msgspec.DecodeError as error:  # a ValueError already; the name says where it came from
        raise ValueError(str(error)) from None
    return value


def maybe_object(text: str | bytes) -> JsonObject | None:
    """Return the object that `text` holds, or None when it holds anything else."""
    try:
        value = loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def replace_lone_surrogates(text: str) -> str:
    """Return `text` with every half of a surrogate pair replaced: UTF-8 cannot carry one."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
