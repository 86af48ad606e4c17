"""Citations in the text of an answer.

Anthropic, citations: a citation is an object with one of five types. A web page that another
model cites is written as a `web_search_result_location` with an index of ours.
"""

from toolbridge.codecs.anthropic.shapes import CITATIONS
from toolbridge.codecs.anthropic.signatures import OWN
from toolbridge.core.citations import maybe_link
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Text


def encode_citations(part: Text) -> list[JsonObject]:
    """Return the citations of Anthropic's own types, and links as one of those."""
    found: list[JsonObject] = []
    for citation in part.citations:
        if str(citation.get("type")) in CITATIONS:
            found.append(citation)
        elif cited := maybe_link(citation, part.text):
            found.append(_own_citation(cited.url, cited.title))
    return found


def _own_citation(url: str, title: str) -> JsonObject:
    return {
        "type": "web_search_result_location",
        "url": url,
        "title": title or None,
        "encrypted_index": OWN,  # SDKs reject a citation without an index
        "cited_text": "",
    }


def is_own_citation(citation: JsonObject) -> bool:
    """Return whether this gateway made the citation: Anthropic rejects an index of ours."""
    return str(citation.get("encrypted_index") or "").startswith(OWN)
