"""The client's own JSON of parts and tools, for encoders of the same API.

Decoders attach an `Origin` to every part and tool. An encoder of the same API writes the client's
JSON again where the part has not changed, so that fields and types which toolbridge does not know
reach the provider as they were sent. Where history had to change a part, its unknown fields stay.
"""

from typing import TypeVar

import msgspec
from msgspec.structs import replace

from toolbridge.core.json import JsonObject, maybe_object
from toolbridge.core.messages import Origin, Part, Result, Tool, Turn

P = TypeVar("P", bound=Part | Tool | Turn)


def sourced(part: P, source: Origin) -> P:
    """Attach `source` to `part`, with a copy of the part as it is now.

    Both are changed in place, so no other code may hold them yet. That is several times faster
    than replacing, and every part of every request passes here.
    """
    was: P = part.__copy__()  # type: ignore[union-attr]  # every struct has it
    msgspec.structs.force_setattr(was, "source", None)
    msgspec.structs.force_setattr(source, "of", was)
    msgspec.structs.force_setattr(part, "source", source)
    return part


def own_words(part: Part | Tool | Turn, api: str) -> JsonObject | None:
    """Return the client's JSON of `part`; None for another API or a part that has changed."""
    source = part.source
    if source is None or source.raw is None or source.api != api or not _unchanged(part, source):
        return None
    return _object(source.raw)


def _unchanged(part: Part | Tool | Turn, source: Origin) -> bool:
    if source.of == part:
        return True
    was = source.of
    # History adds the name of the call to a result, which is not a change.
    if not isinstance(part, Result) or not isinstance(was, Result) or was.name:
        return False
    return replace(was, name=part.name) == part


def unknown_fields(part: Part | Tool | Turn, api: str) -> JsonObject:
    """Return the unknown fields of the client's JSON, for a part that has changed."""
    source = part.source
    if source is None or source.raw is None or source.api != api or not source.unknown:
        return {}
    written = _object(source.raw) or {}
    return {name: written[name] for name in source.unknown if name in written}


def without_sources(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return `turns` without the client's JSON and paths, for storing them."""
    return tuple(replace(turn, content=tuple(map(_bare, turn.content))) for turn in turns)


def _bare(part: Part) -> Part:
    if isinstance(part, Result):
        content = tuple(replace(inner, source=None) for inner in part.content)
        return replace(part, content=content, source=None)
    return replace(part, source=None)


def _object(raw: msgspec.Raw | JsonObject) -> JsonObject | None:
    return dict(raw) if isinstance(raw, dict) else maybe_object(bytes(raw))
