"""Their JSON into our structs, with the path of whatever does not fit.

Shapes list only the fields that somebody reads. Where an API keeps adding types, a shape holds the
member as `msgspec.Raw` and an `OpenUnion` reads it one level down: known types become structs,
everything else an `Unknown` that can be handed on but crashes nobody.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import (  # what no shape describes is Any to msgspec
    Any,
    Generic,
    TypeAlias,
    TypeVar,
    get_args,
)

import msgspec

from toolbridge.core.errors import BrokenWire, MalformedRequest
from toolbridge.core.json import JsonObject, loads, replace_lone_surrogates

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

AnyObject: TypeAlias = dict[str, Any]
"""A JSON object inside a shape that no shape describes; `JsonObject` to all who read it."""


class Unknown(msgspec.Struct, frozen=True):
    """A member of a type that we do not know."""

    type: str
    raw: JsonObject


class _Tagged(msgspec.Struct):
    type: str = ""


_tags = msgspec.json.Decoder(_Tagged)
_objects = msgspec.json.Decoder(AnyObject)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_lists = msgspec.json.Decoder(list[msgspec.Raw])


class StrictDecoder(Generic[S]):
    """Reads an object, and the names of fields that its shape does not list, mostly in one pass."""

    def __init__(self, shape: type[S]) -> None:
        self._shape = shape
        added = [] if "type" in shape.__struct_fields__ else [("type", str, "")]
        strict = msgspec.defstruct(
            shape.__name__, added, bases=(shape,), forbid_unknown_fields=True, kw_only=True
        )
        # A decoder of the subclass, which mypy cannot know to be one.
        self._strict: msgspec.json.Decoder[Any] = msgspec.json.Decoder(strict)
        self._decoder = msgspec.json.Decoder(shape)
        self._inside = [
            field.name
            for field in msgspec.structs.fields(shape)
            if field.encode_name in _known_names(shape)[1]
        ]

    def decode(self, raw: msgspec.Raw, where: str = "") -> tuple[S, tuple[str, ...]]:
        try:
            found: S = self._strict.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            found = decode_request(raw, self._decoder, where)
            return found, unknown_names(raw, self._shape, where)
        for name in self._inside:
            if getattr(found, name) is not None:
                return found, unknown_names(raw, self._shape, where)
        return found, ()


class OpenUnion(Generic[S]):
    """Structs by the value of their `type`, open to more."""

    def __init__(self, members: Mapping[str, type[S]]) -> None:
        self._decoders = {tag: msgspec.json.Decoder(shape) for tag, shape in members.items()}
        self._strict = {tag: StrictDecoder(shape) for tag, shape in members.items()}

    def decode_named(
        self, raw: msgspec.Raw, where: str = ""
    ) -> tuple[S | Unknown, tuple[str, ...]]:
        """Read one member as `decode` does; return it with the fields that its shape does not list."""
        try:
            tag = _tags.decode(raw).type
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise _malformed(error, where, raw) from None
        strict = self._strict.get(tag)
        return (self.decode(raw, where), ()) if strict is None else strict.decode(raw, where)

    def decode(self, raw: msgspec.Raw | bytes, where: str = "") -> S | Unknown:
        """Read one member; raise `MalformedRequest` at `where` when it does not fit its type."""
        try:
            tag = _tags.decode(raw).type
            decoder = self._decoders.get(tag)
            return Unknown(tag, _objects.decode(raw)) if decoder is None else decoder.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise _malformed(error, where, raw) from None

    def decode_frame(self, data: msgspec.Raw | bytes) -> S | Unknown:
        """Read one member of an upstream's frame, as the function of this name does."""
        data = bytes(data)
        tag = decode_frame(data, _tags).type
        decoder = self._decoders.get(tag)
        if decoder is None:
            return Unknown(tag, decode_frame(data, _objects))
        return decode_frame(data, decoder)


def decode_request(
    body: bytes | msgspec.Raw, decoder: "msgspec.json.Decoder[T]", where: str = ""
) -> T:
    """Read a client's request, or its member at `where`; a `MalformedRequest` has the path."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _malformed(error, where, body) from None


def convert_request(value: object, shape: type[T], where: str = "") -> T:
    """Read a part of a request that was parsed before, as `decode_request` reads bytes.

    Protocol buffers write numbers also as text, so such text is taken for the number.
    """
    try:
        return msgspec.convert(value, shape, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _malformed(error, where, b"") from None


def leftovers(raw: bytes | msgspec.Raw, shape: type[msgspec.Struct], where: str = "") -> JsonObject:
    """Return the fields of an object that `shape` does not list, by their own names."""
    known = shape.__struct_encode_fields__
    try:
        members = _members.decode(raw).items()
        return {name: loads(bytes(value)) for name, value in members if name not in known}
    except (ValueError, RecursionError) as error:  # nobody has looked at these fields before
        raise _malformed(error, where, raw) from None


def rest(raw: bytes | msgspec.Raw, shape: type[msgspec.Struct], where: str = "") -> JsonObject:
    """Return the fields of an object that `shape` does not list, at every level of it."""
    if not _begins(raw, b"{"):
        return {}
    known, inside = _known_names(shape)
    kept: JsonObject = {}
    try:
        for name, value in _members.decode(raw).items():
            if name not in known:
                kept[name] = loads(bytes(value))
            elif name in inside and (inner := rest(value, inside[name], where)):
                kept[name] = inner
    except (ValueError, RecursionError) as error:
        raise _malformed(error, where, raw) from None
    return kept


def unknown_names(
    raw: bytes | msgspec.Raw, shape: type[msgspec.Struct], where: str = ""
) -> tuple[str, ...]:
    """Return the names of fields that `shape` does not list, with a dot those of objects inside."""
    known, inside = _known_names(shape)
    try:
        members = _members.decode(raw)
    except (ValueError, RecursionError) as error:
        raise _malformed(error, where, raw) from None
    if known.issuperset(members) and inside.keys().isdisjoint(members):
        return ()
    found: list[str] = []
    for name, value in members.items():
        if name not in known:
            found.append(name)
        elif name in inside:
            found += (f"{name}.{inner}" for inner in _unknown_inside(value, inside[name], where))
    return tuple(found)


def unknown_keys(given: Mapping[str, Any], shape: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return what `unknown_names` does, of an object that was parsed before."""
    known, inside = _known_names(shape)
    found: list[str] = []
    for name, value in given.items():
        if name not in known:
            found.append(name)
        elif name in inside and isinstance(value, dict):
            found += (f"{name}.{inner}" for inner in unknown_keys(value, inside[name]))
    return tuple(found)


def _unknown_inside(
    value: msgspec.Raw, shape: type[msgspec.Struct], where: str
) -> tuple[str, ...] | list[str]:
    """Return the unknown names in an object of `shape`, or in a list of them."""
    if _begins(value, b"{"):
        return unknown_names(value, shape, where)
    if not _begins(value, b"["):
        return ()
    items = (item for item in enumerate(_lists.decode(value)) if _begins(item[1], b"{"))
    return [f"{i}.{name}" for i, item in items for name in unknown_names(item, shape, where)]


def _begins(raw: bytes | msgspec.Raw, mark: bytes) -> bool:
    return bytes(memoryview(raw)[:1]) == mark


@cache
def _known_names(
    shape: type[msgspec.Struct],
) -> tuple[frozenset[str], dict[str, type[msgspec.Struct]]]:
    """Return the names of a shape's fields, and the shapes of those that are objects."""
    inside: dict[str, type[msgspec.Struct]] = {}
    for field in msgspec.structs.fields(shape):
        kinds = [field.type, *get_args(field.type)]
        kinds += [inner for kind in kinds for inner in get_args(kind)]
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                inside[field.encode_name] = kind
    return frozenset({"type", *shape.__struct_encode_fields__}), inside


def decode_frame(data: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Read one frame of an upstream; raise `BrokenWire` when it is not JSON of the shape.

    Models write half surrogate pairs and servers pass them on, cut between two frames: such a frame
    is read the slow way, and the draft that is written from it joins the halves.
    """
    try:
        return decoder.decode(data)
    except RecursionError:
        raise BrokenWire("the upstream sent JSON that is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            loose = json.loads(data.decode("utf-8", "replace"))
            return msgspec.convert(_with_raws(loose, decoder.type), decoder.type)
        except (ValueError, RecursionError):
            shown = data[:200].decode("utf-8", "replace")
            raise BrokenWire(f"the upstream sent {shown!r}: {error}") from None


def _with_raws(loose: Any, shape: Any) -> Any:
    """Return `loose` with the fields that `shape` leaves raw written again, halves escaped."""
    if not isinstance(loose, dict) or not hasattr(shape, "__struct_fields__"):
        return loose
    raw = {f.encode_name for f in msgspec.structs.fields(shape) if f.type is msgspec.Raw}
    return {
        name: msgspec.Raw(json.dumps(value).encode()) if name in raw else value
        for name, value in loose.items()
    }


def _malformed(error: Exception, where: str, body: bytes | msgspec.Raw) -> MalformedRequest:
    if isinstance(error, RecursionError):
        return MalformedRequest("JSON is nested too deeply", where=where)
    text, _, at = str(error).partition(" - at `")
    missing = re.fullmatch(r"Object missing required field `([^`]*)`", text)
    text, field = ("field required", missing[1]) if missing else (text, "")
    path = ".".join(step for step in (where, _dotted(at.removesuffix("`")), field) if step)
    if not isinstance(error, msgspec.ValidationError):
        half = _half_pair(bytes(body))
        if half is not None:
            path = ".".join(step for step in (where, half) if step)
            return MalformedRequest("the text holds half of a surrogate pair", where=path)
        text = f"the request body is not valid JSON: {text}"
    return MalformedRequest(replace_lone_surrogates(text), where=path)


def _half_pair(body: bytes) -> str | None:
    """Return the path of a text that no UTF-8 can carry: such JSON is otherwise well-formed."""
    try:
        left = [("", json.loads(body))]
    except (ValueError, RecursionError):
        return None
    while left:
        path, value = left.pop()
        if isinstance(value, str) and replace_lone_surrogates(value) != value:
            return path.strip(".")
        if isinstance(value, dict):
            left += [(f"{path}.{name}", member) for name, member in value.items()]
        elif isinstance(value, list):
            left += [(f"{path}.{place}", member) for place, member in enumerate(value)]
    return None


def _dotted(path: str) -> str:
    """Return msgspec's `$.messages[0].role` as `messages.0.role`."""
    return re.sub(r"\[(\d+|\.\.\.)\]", r".\1", path).removeprefix("$").strip(".")
