"""What the words of an answer rest on.

A citation is an object in the words of the API that made it. One form is understood by every codec:
`{"type": "url_citation", "url", "title", "start_index", "end_index"}`, where the indexes are
characters of the text that it belongs to, and are left out where nobody knows them. Decoders bring
links to web pages into that form, or into one that has a `url` as well; a citation of a document or
a file is understood by its own API alone.
"""

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Text

LINK = "url_citation"


class Link(msgspec.Struct, frozen=True):
    """A web page that a passage rests on."""

    url: str
    title: str
    start: int
    end: int
    exact: bool = False
    """Whether the citation says which passage; else it is the whole text."""


def link(url: str, title: Json = None, span: tuple[int, int] | None = None) -> JsonObject:
    """Return a citation of a web page in the form that every codec understands."""
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
    # The passages of Anthropic are texts of their own.
    return Link(url, named, 0, len(text), exact=citation.get("type") != LINK)


def links(part: Text) -> list[Link]:
    """Return the web pages that a text cites."""
    found = (maybe_link(citation, part.text) for citation in part.citations)
    return [one for one in found if one is not None]


def _address(citation: JsonObject) -> str:
    url = citation.get("url") or citation.get("uri")
    if isinstance(url, str):
        return url
    # Anthropic's search_result_location: the source is whatever the client named, often a URL.
    source = citation.get("source")
    found = isinstance(source, str) and source.startswith(("https://", "http://"))
    return str(source) if found else ""
