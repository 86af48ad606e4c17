"""Web search by a model whose provider searches itself.

The model gets the query and its provider's search tool. The hits are the results that the answer
contains, and the pages that its text cites, each with the passage that cites it.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from toolbridge.core.citations import links
from toolbridge.core.errors import RateLimited, ToolbridgeError
from toolbridge.core.messages import Message, Request, Text, Tool, Turn
from toolbridge.core.server_tools import (
    SearchHit,
    SearchHits,
    ServerResult,
    ServerTool,
    ServerToolError,
)
from toolbridge.routing.charge import InnerCharges
from toolbridge.tools.web.search_query import SearchQuery

AskSearcher: TypeAlias = Callable[[str, Request, InnerCharges | None], Awaitable[Message]]
"""Sends a request to the model of a name or address that searches itself, and charges it."""
_MOST_OUTPUT = 8000
"""The most output tokens of a search, which the key of the caller must have left."""
_PROMPT = "Search the web for the following query and list what you found, with sources: "


async def search_by_model(
    ask: AskSearcher, meter: InnerCharges | None, model: str, query: SearchQuery
) -> SearchHits | ServerToolError:
    """Return the hits of a search by `model`."""
    search = ServerTool(
        "web_search", allow=query.allow, block=query.block, country=query.country,
        after=f"{query.after}T00:00:00Z" if query.after else "",
        before=f"{query.before}T23:59:59Z" if query.before else "",
    )  # fmt: skip
    tool = Tool("web_search", origin="gateway", hosted={"type": "web_search"}, server=search)
    said = Turn("user", (Text(_PROMPT + query.text),))
    try:
        asked = Request(model, (said,), tools=(tool,), max_tokens=_MOST_OUTPUT)
        message = await ask(model, asked, meter)
    except RateLimited as error:
        return ServerToolError("too_many_requests", str(error))
    except ToolbridgeError as error:
        return ServerToolError("unavailable", str(error))
    return SearchHits(tuple(hits_of(message).values())[: query.count])


def hits_of(message: Message) -> dict[str, SearchHit]:
    """Return the pages of an answer by their addresses; cited ones first."""
    found: dict[str, SearchHit] = {}
    for part in message.content:
        for link in links(part) if isinstance(part, Text) else ():
            passage = part.text[link.start : link.end] if isinstance(part, Text) else ""
            found.setdefault(link.url, SearchHit(link.url, link.title, passage.strip()))
    for part in message.content:
        if isinstance(part, ServerResult) and isinstance(part.outcome, SearchHits):
            for hit in part.outcome.hits:
                found.setdefault(hit.url, hit)
    return found
