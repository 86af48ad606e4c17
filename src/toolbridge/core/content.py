"""The basic parts of messages: texts, images, opaque tokens, and the origin of a part.

`core.server_tools` and `core.messages` build on them; other code imports them from `core.messages`.
A part is created after everything inside it, so that parts form no cycles: `gc=False` spares the
garbage collector the thousands of parts in the conversations that are kept.
"""

from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.json import JsonObject

Cache: TypeAlias = Literal["", "5m", "1h"]
"""How long to cache the prompt up to this part. Anthropic, Messages API: `cache_control.ttl`."""


class Opaque(msgspec.Struct, frozen=True, gc=False):
    """A token that only its provider can read: a signature or encrypted thinking.

    It is sent back unchanged to the provider, API and model that made it, and to no other.
    """

    origin: str
    """The API that made it, with provider and model where known: `anthropic`, `gemini/google`."""
    kind: Literal["signature", "redacted", "encrypted", "thought_signature", "item"]
    value: str


class Origin(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The position of a part, turn or tool in the client's request, and its JSON there.

    An encoder of the same API writes the client's JSON again unless the part has changed. For
    other APIs, `path` names a loss and `unknown` lists the fields that are lost. Parts that differ
    only in their origins are equal.
    """

    api: str
    path: str
    """As the client would write it: `messages.0.content.1`."""
    raw: msgspec.Raw | JsonObject | None = None
    unknown: tuple[str, ...] = ()
    """The fields of `raw` that toolbridge does not know; `a.b` is a field of the object `a`."""
    around: tuple[str, ...] = ()
    """Paths of unknown fields of the message whose first part this is."""
    of: object = None
    """The part as it was decoded, for detecting changes."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Origin)

    def __hash__(self) -> int:
        return 0


class Text(msgspec.Struct, frozen=True, gc=False, tag="text", omit_defaults=True):
    text: str
    citations: tuple[JsonObject, ...] = ()
    """The sources of the text; `core.citations` defines the form that every codec understands."""
    cache: Cache = ""
    opaque: tuple[Opaque, ...] = ()
    source: Origin | None = None


class Image(msgspec.Struct, frozen=True, gc=False, tag="image", omit_defaults=True):
    """One of `data` (base64), `url` and `file_id` is set."""

    data: str = ""
    media_type: str = ""
    url: str = ""
    file_id: str = ""
    detail: str = ""
    cache: Cache = ""
    opaque: tuple[Opaque, ...] = ()
    source: Origin | None = None
