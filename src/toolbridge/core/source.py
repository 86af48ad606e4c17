"""The client's own JSON of a part, for the API that it came in.

Decoders attach a `Origin` to every part and tool. An encoder of the same API writes the client's
JSON again where nothing has changed the part, so that fields, forms and types that are newer than
we are arrive as they were sent. Where history had to change a part, its unknown fields are kept.
"""

from copy import copy
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from toolbridge.core.json import JsonObject, maybe_object
from toolbridge.core.messages import Origin, Part, Result, Tool, Turn

P = TypeVar("P", bound=Part | Tool | Turn)


def sourced(part: P, source: Origin) -> P:
    """Return `part` with its source, which remembers the part as it is.

    Both must be newly made and nobody else's: they are changed in place, which is several times
    faster than replacing, and every part of every request passes here.
    """
    was = copy(part)
    msgspec.structs.force_setattr(was, "source", None)
    msgspec.structs.force_setattr(source, "of", was)
    msgspec.structs.force_setattr(part, "source", source)
    return part


def own_words(part: Part | Tool | Turn, api: str) -> JsonObject | None:
    """Return how the client wrote `part` in `api`; None where it did not, or the part has changed."""
    source = part.source
    if source is None or source.raw is None or source.api != api or not _unchanged(part, source):
        return None
    return _object(source.raw)


def _unchanged(part: Part | Tool | Turn, source: Origin) -> bool:
    if source.of == part:
        return True
    was = source.of
    # History gives a result the name of its call, which an API with names would have said.
    if not isinstance(part, Result) or not isinstance(was, Result) or was.name:
        return False
    return replace(was, name=part.name) == part


def unknown_fields(part: Part | Tool | Turn, api: str) -> JsonObject:
    """Return the fields of the client's JSON that only `api` understands, for a changed part."""
    source = part.source
    if source is None or source.raw is None or source.api != api or not source.unknown:
        return {}
    written = _object(source.raw) or {}
    return {name: written[name] for name in source.unknown if name in written}


def without_sources(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return `turns` as they can be stored: the paths and bytes of a past request mean nothing."""
    return tuple(replace(turn, content=tuple(map(_bare, turn.content))) for turn in turns)


def _bare(part: Part) -> Part:
    if isinstance(part, Result):
        content = tuple(replace(inner, source=None) for inner in part.content)
        return replace(part, content=content, source=None)
    return replace(part, source=None)


def _object(raw: msgspec.Raw | JsonObject) -> JsonObject | None:
    return dict(raw) if isinstance(raw, dict) else maybe_object(bytes(raw))
