"""JSON values, and the functions that read and write them.

JSON is written compactly and keeps the order of keys: a model server reuses its cached prefix only
if the same history is encoded as the same bytes.
"""

import json
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
    JsonObject: TypeAlias = dict[str, Json]
else:
    # msgspec does not support recursive aliases; the values are checked as JSON anyway.
    Json = object
    JsonObject = dict[str, object]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class WrittenList(list[Json]):
    """A list whose members from `begin` to `end` are written in `json`, without the brackets.

    Its members are shared between requests, so nothing may change it (`core/written_list.py`).
    """

    __slots__ = ("begin", "end", "json")

    begin: int
    end: int
    json: bytes

    def dump(self) -> msgspec.Raw:
        """Return the JSON of the whole list."""
        pieces = [self.json]
        if self.begin:
            pieces.insert(0, dump_members(self[: self.begin]))
        if self.end < len(self):
            pieces.append(dump_members(self[self.end :]))
        return msgspec.Raw(b"[%b]" % b",".join(pieces))


def dump_members(values: list[Json]) -> bytes:
    """Return the JSON of a list without its brackets; raise if a lone surrogate is in it."""
    return _encoder.encode(values)[1:-1]


def dumps(value: object) -> str:
    """Return `value` as compact JSON text."""
    return dump_bytes(value).decode()


def dump_bytes(value: object) -> bytes:
    """Return `value` as compact JSON. Lone surrogates, which UTF-8 cannot encode, are replaced."""
    try:
        if type(value) is dict and WrittenList in map(type, value.values()):
            return _encoder.encode(_with_written(value))
        return _encoder.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
        return replace_lone_surrogates(text).encode()


def _with_written(body: JsonObject) -> dict[str, object]:
    """Return a body with the JSON of its lists that were written before."""
    return {
        name: value.dump() if type(value) is WrittenList else value for name, value in body.items()
    }


def loads(text: str | bytes) -> Json:
    """Return the value of `text`; raise `ValueError` unless it is strict JSON."""
    try:
        value: Json = _decoder.decode(text)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    except msgspec.DecodeError as error:  # without the name of msgspec's class
        raise ValueError(str(error)) from None
    return value


def maybe_object(text: str | bytes) -> JsonObject | None:
    """Return the JSON object in `text`; None where it is anything else."""
    try:
        value = loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def replace_lone_surrogates(text: str) -> str:
    """Return `text` with U+FFFD for every lone surrogate, which UTF-8 cannot encode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# ── values that others wrote: one of another type counts as absent ───────────


def text_of(value: Json) -> str:
    return value if isinstance(value, str) else ""


def texts_of(value: Json) -> tuple[str, ...]:
    """Return the texts in a list; other values of it are left out."""
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def object_of(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def objects_of(value: Json) -> list[JsonObject]:
    """Return the objects in a list; other values of it are left out."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def text_in(fields: JsonObject, name: str) -> str:
    return text_of(fields.get(name))


def object_in(fields: JsonObject, name: str) -> JsonObject:
    return object_of(fields.get(name))


def list_in(fields: JsonObject, name: str) -> list[Json]:
    value = fields.get(name)
    return value if isinstance(value, list) else []
