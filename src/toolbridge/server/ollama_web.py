"""Ollama's web search and page fetch, by the search engine and the page reader of the gateway.

Ollama, docs/web-search: `POST /api/web_search {"query": …, "max_results": …}` →
`{"results": [{"title", "url", "content"}]}`, at most ten results; `POST /api/web_fetch {"url": …}` →
`{"title", "content", "links"}`. A local Ollama has both below `/api/experimental`.
"""

import re
from typing import Annotated, Literal

import msgspec

from toolbridge.core.errors import (
    MalformedRequest,
    NotAllowed,
    RateLimited,
    ToolbridgeError,
    Unreachable,
    Unsupported,
)
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.server_tools import (
    FetchedPage,
    SearchHits,
    ServerCall,
    ServerTool,
    ServerToolError,
    ServerToolErrorCode,
    ServerToolOutcome,
)
from toolbridge.policy.key_scopes import allows_tool, tool_text
from toolbridge.server.app import App
from toolbridge.server.http import HttpExchange
from toolbridge.server.inner_call_meter import InnerCallMeter
from toolbridge.server.request_fields import note_caller
from toolbridge.server.request_log import Entry
from toolbridge.wire import shapes as wire

Tool = Literal["web_search", "web_fetch"]
_LINK = re.compile(r"\]\((https?://[^\s()]+)\)")


class SearchBody(msgspec.Struct):
    """The body of a search request."""

    query: Annotated[str, msgspec.Meta(min_length=1)]
    max_results: Annotated[int, msgspec.Meta(ge=1, le=10)] = 5


class FetchBody(msgspec.Struct):
    """The body of a fetch request."""

    url: Annotated[str, msgspec.Meta(min_length=1)]


_ERRORS: dict[ServerToolErrorCode, type[ToolbridgeError]] = {
    "too_many_requests": RateLimited,
    "invalid_tool_input": MalformedRequest,
    "query_too_long": MalformedRequest,
    "url_too_long": MalformedRequest,
    "url_not_allowed": NotAllowed,
    "unsupported_content_type": Unsupported,
}
_MISSING: dict[Tool, str] = {
    "web_search": "this gateway has no search engine; its operator can set one: `backend` in "
    "[server_tools.web_search]",
    "web_fetch": "this gateway fetches no pages; its operator can change that: `enabled` in "
    "[server_tools.web_fetch]",
}
_search_body = msgspec.json.Decoder(SearchBody)
_fetch_body = msgspec.json.Decoder(FetchBody)


async def web_search(app: App, exchange: HttpExchange, entry: Entry) -> None:
    """Answer one search."""
    asked = wire.decode_request(await exchange.body(app.config.max_body), _search_body)
    outcome = await _run("web_search", {"query": asked.query}, app, exchange, entry)
    hits = outcome.hits if isinstance(outcome, SearchHits) else ()
    results: list[Json] = [
        {"title": hit.title, "url": hit.url, "content": hit.snippet}
        for hit in hits[: asked.max_results]
    ]
    await exchange.reply(200, dump_bytes({"results": results}))


async def web_fetch(app: App, exchange: HttpExchange, entry: Entry) -> None:
    """Answer with one page. The caller names the address, so it need not occur in a conversation."""
    asked = wire.decode_request(await exchange.body(app.config.max_body), _fetch_body)
    page = await _run("web_fetch", {"url": asked.url}, app, exchange, entry)
    title, text = (page.title, page.text) if isinstance(page, FetchedPage) else ("", "")
    links: list[Json] = [*dict.fromkeys(_LINK.findall(text))]
    await exchange.reply(200, dump_bytes({"title": title, "content": text, "links": links}))


async def _run(
    tool: Tool, arguments: JsonObject, app: App, exchange: HttpExchange, entry: Entry
) -> ServerToolOutcome:
    """Run one call of a server tool for the caller; a failure is raised with its HTTP status."""
    note_caller(entry, exchange)
    entry.note(surface="ollama", gen_ai__operation__name=tool)
    key, gateway = exchange.access, app.gateway
    if key is not None and not allows_tool(key.scopes, tool):
        raise NotAllowed(tool_text(key.name, key.scopes, tool))
    if key is not None:
        await gateway.charges.check(key)
    if tool not in gateway.tools.runner.kinds:
        raise Unsupported(_MISSING[tool])
    meter = InnerCallMeter(
        exchange,
        tool,
        charges=gateway.charges,
        permit=gateway.permit_model,
        record=app.record_inner_call,
    )
    call = ServerCall("", tool, tool, arguments)
    with gateway.tools:
        outcome = await gateway.tools.run_with(meter)(call, ServerTool(tool))
    if isinstance(outcome, ServerToolError):
        what = "search" if tool == "web_search" else "fetch"
        raise _ERRORS.get(outcome.code, Unreachable)(f"the {what} failed: {outcome.text}")
    return outcome
