"""Citations: the sources of the text of an answer.

A citation is an object in the shape of the API that made it. Every codec understands one shape:
`{"type": "url_citation", "url", "title", "start_index", "end_index"}`. The indexes count characters
of the text and are left out where they are unknown. Decoders turn links to web pages into that
shape, or into another one with a `url`; citations of documents and files belong to one API alone.
"""

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Text

LINK = "url_citation"


class Link(msgspec.Struct, frozen=True):
    """A web page that a passage of a text cites."""

    url: str
    title: str
    start: int
    end: int
    exact: bool = False
    """Whether the citation gives a passage; otherwise it covers the whole text."""


def link(url: str, title: Json = None, span: tuple[int, int] | None = None) -> JsonObject:
    """Return a citation of a web page in the shape that every codec understands."""
    named = title if isinstance(title, str) else ""
    cited: JsonObject = {"type": LINK, "url": url, "title": named}
    return cited if span is None else cited | {"start_index": span[0], "end_index": span[1]}


def maybe_link(citation: JsonObject, text: str) -> Link | None:
    """Return the web page that `citation` names; None where it cites something else."""
    url = _address(citation)
    if not url:
        return None
    title = citation.get("title")
    named = title if isinstance(title, str) else ""
    start, end = citation.get("start_index"), citation.get("end_index")
    if isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(text):
        return Link(url, named, start, end, exact=True)
    # Anthropic, Messages API: a cited passage is a text block of its own.
    return Link(url, named, 0, len(text), exact=citation.get("type") != LINK)


def links(part: Text) -> list[Link]:
    """Return the web pages that a text cites."""
    found = (maybe_link(citation, part.text) for citation in part.citations)
    return [one for one in found if one is not None]


def _address(citation: JsonObject) -> str:
    url = citation.get("url") or citation.get("uri")
    if isinstance(url, str):
        return url
    # Anthropic, Messages API: the `source` of a `search_result_location` is any text, often a URL.
    source = citation.get("source")
    found = isinstance(source, str) and source.startswith(("https://", "http://"))
    return str(source) if found else ""
