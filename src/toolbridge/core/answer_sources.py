"""The web pages behind an answer, for APIs whose answers have no part for a search.

Where the text cites pages, those are its sources. Otherwise they are what the searches of the answer
found, so that no client of an API without search results loses the links.
"""

from toolbridge.core.citations import links
from toolbridge.core.fold import OWN_ENDS
from toolbridge.core.messages import Message, Part, Text
from toolbridge.core.server_tools import SearchHits, ServerResult


def found_pages(content: tuple[Part, ...]) -> dict[str, str]:
    """Return the titles of pages that searches found, by address; nothing if the text cites any."""
    if any(links(part) for part in content if isinstance(part, Text)):
        return {}
    results = (part.outcome for part in content if isinstance(part, ServerResult))
    hits = (hit for outcome in results if isinstance(outcome, SearchHits) for hit in outcome.hits)
    return {hit.url: hit.title for hit in hits}


def sources_text(message: Message) -> str:
    """Return a list of the sources that the text of a complete answer does not contain already."""
    if message.stop not in OWN_ENDS - {"tool_use"} or not message.text:
        return ""
    cited = (one for part in message.content if isinstance(part, Text) for one in links(part))
    pages = {one.url: one.title for one in cited} or found_pages(message.content)
    listed = [
        f"- [{title or url}]({url})" for url, title in pages.items() if url not in message.text
    ]
    return "\n\nSources:\n" + "\n".join(listed) if listed else ""
