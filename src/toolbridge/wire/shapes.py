"""
Their JSON into our structs, with the path of whatever does not fit.

Shapes list only the fields that somebody reads. Where an API keeps adding types, a shape holds the
member as `msgspec.Raw` and an `OpenUnion` reads it one level down: known types become structs,
everything else an `Unknown` that can be handed on but crashes nobody.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Generic, TypeVar  # a JSON value that no shape describes is Any to msgspec

import msgspec

from toolbridge.core.errors import BrokenWire, MalformedRequest
from toolbridge.core.json import JsonObject, replace_lone_surrogates

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class Unknown(msgspec.Struct, frozen=True):
    """A member of a type that we do not know."""

    type: str
    raw: JsonObject


class _Tagged(msgspec.Struct):
    type: str = ""


_tags = msgspec.json.Decoder(_Tagged)
_objects = msgspec.json.Decoder(dict[str, Any])


class OpenUnion(Generic[S]):
    """Structs by the value of their `type`, open to more."""

    def __init__(self, members: Mapping[str, type[S]]) -> None:
        self._decoders = {tag: msgspec.json.Decoder(shape) for tag, shape in members.items()}

    def decode(self, raw: msgspec.Raw | bytes, where: str = "") -> S | Unknown:
        """Read one member; raise `MalformedRequest` at `where` when it does not fit its type."""
        try:
            tag = _tags.decode(raw).type
            decoder = self._decoders.get(tag)
            return Unknown(tag, _objects.decode(raw)) if decoder is None else decoder.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise _malformed(error, where) from None


def decode_request(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Read a client's request; raise `MalformedRequest` with the path of the fault."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _malformed(error, "") from None


def decode_frame(data: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """
    Read one frame of an upstream; raise `BrokenWire` when it is not JSON of the shape.

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
            return msgspec.convert(loose, decoder.type)
        except (ValueError, RecursionError):
            shown = data[:200].decode("utf-8", "replace")
            raise BrokenWire(f"the upstream sent {shown!r}: {error}") from None


def _malformed(error: Exception, where: str) -> MalformedRequest:
    if isinstance(error, RecursionError):
        return MalformedRequest("JSON is nested too deeply", where=where)
    text, _, at = str(error).partition(" - at `")
    path = ".".join(step for step in (where, _dotted(at.removesuffix("`"))) if step)
    if not isinstance(error, msgspec.ValidationError):
        text = f"the request body is not valid JSON: {text}"
    return MalformedRequest(replace_lone_surrogates(text), where=path)


def _dotted(path: str) -> str:
    """Return msgspec's `$.messages[0].role` as `messages.0.role`."""
    return re.sub(r"\[(\d+|\.\.\.)\]", r".\1", path).removeprefix("$").strip(".")
