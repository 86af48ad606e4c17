"""Decode JSON of an API into structs ("shapes"), with the path of a field that does not fit.

Shapes list only the fields that are read. Where vendors keep adding types, a shape holds the member
as `msgspec.Raw` and an `OpenUnion` decodes it: known types become structs, any other an `Unknown`
that can be forwarded. Requests of clients raise `MalformedRequest`, chunks of providers
`BrokenWire`.
"""

import json
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import (  # msgspec needs Any for members that no shape describes
    Any,
    Generic,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
)

import msgspec

from toolbridge.core.allowed_values import with_allowed
from toolbridge.core.errors import BrokenWire, MalformedRequest
from toolbridge.core.json import Json, JsonObject, loads, replace_lone_surrogates

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

AnyObject: TypeAlias = dict[str, Any]
"""A JSON object inside a shape that no shape describes; readers annotate it as `JsonObject`."""


class Unknown(msgspec.Struct, frozen=True):
    """A member of a type that no shape describes."""

    type: str
    raw: JsonObject


class _Tagged(msgspec.Struct):
    type: str = ""


_tags = msgspec.json.Decoder(_Tagged)
_objects = msgspec.json.Decoder(AnyObject)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_lists = msgspec.json.Decoder(list[msgspec.Raw])


class StrictDecoder(Generic[S]):
    """Decodes an object and finds the fields that its shape does not list, mostly in one pass."""

    def __init__(self, shape: type[S]) -> None:
        self._shape = shape
        added = [] if "type" in shape.__struct_fields__ else [("type", str, "")]
        strict = msgspec.defstruct(
            shape.__name__, added, bases=(shape,), forbid_unknown_fields=True, kw_only=True
        )
        # mypy does not see that `strict` is a subclass of `shape`.
        self._strict: msgspec.json.Decoder[Any] = msgspec.json.Decoder(strict)
        self._decoder = msgspec.json.Decoder(shape)
        self._inside = _fields_with_objects(shape)

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


def _fields_with_objects(shape: type[msgspec.Struct]) -> list[str]:
    """Return the fields of a shape that hold objects of another shape."""
    inside = _known_names(shape)[1]
    return [field.name for field in msgspec.structs.fields(shape) if field.encode_name in inside]


def _tagged_shape(shape: type[S], tag: str) -> type[S]:
    """Return `shape` with the value of `type` that stands for it, and without unknown fields."""
    made: type[S] = msgspec.defstruct(  # type: ignore[assignment]  # a subclass of `shape`
        shape.__name__, [], bases=(shape,), forbid_unknown_fields=True, kw_only=True,
        tag=tag, tag_field="type",
    )  # fmt: skip
    return made


class OpenUnion(Generic[S]):
    """Structs by the value of `type`; any other value decodes to `Unknown`."""

    def __init__(self, members: Mapping[str, type[S]]) -> None:
        self._decoders = {tag: msgspec.json.Decoder(shape) for tag, shape in members.items()}
        self._strict = {tag: StrictDecoder(shape) for tag, shape in members.items()}
        self._members = members

    @cached_property
    def _tagged(self) -> tuple["msgspec.json.Decoder[Any]", dict[type, list[str]]]:
        """A decoder of all members, and their fields with objects inside.

        msgspec reads the tag and the member in one pass over the bytes.
        """
        kinds = [_tagged_shape(shape, tag) for tag, shape in self._members.items()]
        return (
            msgspec.json.Decoder(Union[tuple(kinds)]),  # noqa: UP007  from a list
            {kind: inside for kind in kinds if (inside := _fields_with_objects(kind))},
        )

    def decode_named(
        self, raw: msgspec.Raw, where: str = ""
    ) -> tuple[S | Unknown, tuple[str, ...]]:
        """Decode one member as `decode` does; return it with the fields that its shape does not list."""
        decoder, inside = self._tagged
        try:
            found: S = decoder.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return self._decode_other(raw, where)
        for name in inside.get(type(found), ()):
            if getattr(found, name) is not None:
                return self._decode_other(raw, where)
        return found, ()

    def _decode_other(self, raw: msgspec.Raw, where: str) -> tuple[S | Unknown, tuple[str, ...]]:
        """Decode a member of an unknown type, or one with fields that may be unknown."""
        try:
            tag = _tags.decode(raw).type
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise _malformed(error, where, raw) from None
        strict = self._strict.get(tag)
        return (self.decode(raw, where), ()) if strict is None else strict.decode(raw, where)

    def decode(self, raw: msgspec.Raw | bytes, where: str = "") -> S | Unknown:
        """Decode one member; raise `MalformedRequest` at `where` when it does not fit its type."""
        try:
            tag = _tags.decode(raw).type
            decoder = self._decoders.get(tag)
            return Unknown(tag, _objects.decode(raw)) if decoder is None else decoder.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise _malformed(error, where, raw) from None

    def decode_chunk(self, data: msgspec.Raw | bytes) -> S | Unknown:
        """Decode one member of a provider's chunk; raise `BrokenWire` when it does not fit its type."""
        data = bytes(data)
        tag = decode_chunk(data, _tags).type
        decoder = self._decoders.get(tag)
        if decoder is None:
            return Unknown(tag, decode_chunk(data, _objects))
        return decode_chunk(data, decoder)


def decode_request(
    body: bytes | msgspec.Raw, decoder: "msgspec.json.Decoder[T]", where: str = ""
) -> T:
    """Decode a client's request, or its member at `where`; raise `MalformedRequest` with the path."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _malformed(error, where, body, decoder.type) from None


def convert_request(value: object, shape: type[T], where: str = "") -> T:
    """Convert a parsed part of a request into `shape`; raise `MalformedRequest` with the path.

    A number may be a string: ProtoJSON, which Gemini's API uses, writes 64-bit integers so.
    """
    try:
        return msgspec.convert(value, shape, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _malformed(error, where, b"", shape) from None


def leftovers(raw: bytes | msgspec.Raw, shape: type[msgspec.Struct], where: str = "") -> JsonObject:
    """Return the fields of an object that `shape` does not list, by their own names."""
    known = shape.__struct_encode_fields__
    try:
        members = _members.decode(raw).items()
        return {name: loads(bytes(value)) for name, value in members if name not in known}
    except (ValueError, RecursionError) as error:  # fields that no shape lists were not validated
        raise _malformed(error, where, raw) from None


def rest(raw: bytes | msgspec.Raw, shape: type[msgspec.Struct], where: str = "") -> JsonObject:
    """Return the fields that `shape` does not list, also those of objects inside it."""
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
    """Return the names of fields that `shape` does not list; `a.b` for those of objects inside."""
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
    """Return what `unknown_names` does, for an object that is parsed already."""
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
    """Return the JSON names of a shape's fields, and the shapes of its fields that are objects."""
    inside: dict[str, type[msgspec.Struct]] = {}
    for field in msgspec.structs.fields(shape):
        kinds = [field.type, *get_args(field.type)]
        kinds += [inner for kind in kinds for inner in get_args(kind)]
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                inside[field.encode_name] = kind
    return frozenset({"type", *shape.__struct_encode_fields__}), inside


def decode_chunk(data: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Decode one SSE event or NDJSON line of a provider; raise `BrokenWire` if it does not fit.

    Models emit surrogate pairs as two tokens, and servers write each half into a chunk of its own.
    RFC 8259, section 8.2 allows that in JSON, but msgspec rejects it, so such a chunk is decoded
    with `json`; `Draft` joins the halves.
    """
    try:
        return decoder.decode(data)
    except RecursionError:
        raise BrokenWire("the provider sent JSON that is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            loose = json.loads(data.decode("utf-8", "replace"))
            return msgspec.convert(_with_raws(loose, decoder.type), decoder.type)
        except (ValueError, RecursionError):
            shown = data[:200].decode("utf-8", "replace")
            raise BrokenWire(f"the provider sent {shown!r}: {error}") from None


def convert_counts(given: Json, shape: type[S]) -> S:
    """Return the token counts of an answer as `shape`; what is no count is as if it was missing.

    Servers that imitate an API write counts as `12.0` and `"12"`; no count fails an answer.
    """
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError:
        return _readable_counts(given if isinstance(given, dict) else {}, shape)


def _readable_counts(given: JsonObject, shape: type[S]) -> S:
    found: dict[str, Any] = {}
    inside = _known_names(shape)[1]
    for field in msgspec.structs.fields(shape):
        value, inner = given.get(field.encode_name), inside.get(field.encode_name)
        try:
            found[field.name] = msgspec.convert(value, field.type, strict=False)
        except msgspec.ValidationError:
            if inner is not None and isinstance(value, dict):
                found[field.name] = _readable_counts(value, inner)
    return shape(**found)


def _with_raws(loose: Any, shape: Any) -> Any:
    """Return `loose` with the fields that `shape` keeps as `Raw` encoded again, halves escaped."""
    if not isinstance(loose, dict) or not hasattr(shape, "__struct_fields__"):
        return loose
    raw = {f.encode_name for f in msgspec.structs.fields(shape) if f.type is msgspec.Raw}
    return {
        name: msgspec.Raw(json.dumps(value).encode()) if name in raw else value
        for name, value in loose.items()
    }


def _malformed(
    error: Exception, where: str, body: bytes | msgspec.Raw, shape: Any = None
) -> MalformedRequest:
    if isinstance(error, RecursionError):
        return MalformedRequest("JSON is nested too deeply", where=where)
    text, _, at = with_allowed(str(error), shape).partition(" - at `")
    missing = re.fullmatch(r"Object missing required field `([^`]*)`", text)
    text, field = ("field required", missing[1]) if missing else (text, "")
    path = ".".join(step for step in (where, _dotted(at.removesuffix("`")), field) if step)
    if not isinstance(error, msgspec.ValidationError):
        half = _half_pair(bytes(body))
        if half is not None:
            path = ".".join(step for step in (where, half) if step)
            return MalformedRequest("the text contains half of a surrogate pair", where=path)
        text = f"the request body is not valid JSON: {text}"
    return MalformedRequest(replace_lone_surrogates(text), where=path)


def _half_pair(body: bytes) -> str | None:
    """Return the path of half a surrogate pair, which UTF-8 cannot encode, or None.

    It is in a string, or in a name, which the path has with U+FFFD.
    """
    try:
        left = [("", json.loads(body))]
    except (ValueError, RecursionError):
        return None
    while left:
        path, value = left.pop()
        if isinstance(value, str) and replace_lone_surrogates(value) != value:
            return path.strip(".")
        if isinstance(value, dict):
            for name, member in value.items():
                if (shown := replace_lone_surrogates(name)) != name:
                    return f"{path}.{shown}".strip(".")
                left.append((f"{path}.{name}", member))
        elif isinstance(value, list):
            left += [(f"{path}.{index}", member) for index, member in enumerate(value)]
    return None


def _dotted(path: str) -> str:
    """Return a path of msgspec, `$.messages[0].role`, as `messages.0.role`."""
    return re.sub(r"\[(\d+|\.\.\.)\]", r".\1", path).removeprefix("$").strip(".")
