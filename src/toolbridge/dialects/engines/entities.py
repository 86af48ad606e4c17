"""XML's entities in a text that arrives in pieces: `&lt;`, `&amp;`, `&#60;` and their relatives."""

import re

from toolbridge.wire.tags import Sink

_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_BEGUN = re.compile(r"&[#A-Za-z0-9]{0,8}\Z")


class Entities:
    """Decodes entities and passes the text to `sink`; any other `&` is text."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._held = ""

    def feed(self, piece: str) -> None:
        text = self._held + piece
        begun = _BEGUN.search(text)
        self._held = "" if begun is None else begun.group()
        self._sink(_ENTITY.sub(_decoded, text[: len(text) - len(self._held)]))

    def end(self) -> None:
        self._sink(self._held)
        self._held = ""


def _decoded(entity: "re.Match[str]") -> str:
    from html import unescape  # its table is large, and entities are rare

    return unescape(entity.group())
