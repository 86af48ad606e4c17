"""Ollama's web search: `POST /api/web_search`, by the search engine of the gateway.

Ollama, docs/web-search: `{"query": …, "max_results": …}` → `{"results": [{"title", "url",
"content"}]}`; at most ten results. A local Ollama has it at `/api/experimental/web_search`.
"""

from typing import Annotated

import msgspec

from toolbridge.core.errors import (
    MalformedRequest,
    NotAllowed,
    RateLimited,
    ToolbridgeError,
    Unreachable,
    Unsupported,
)
from toolbridge.core.json import Json, dump_bytes
from toolbridge.core.server_tools import (
    SearchHits,
    ServerCall,
    ServerTool,
    ServerToolError,
    ServerToolErrorCode,
)
from toolbridge.policy.key_scopes import allows_tool, tool_text
from toolbridge.server.app import App
from toolbridge.server.http import HttpExchange
from toolbridge.server.inner_call_meter import InnerCallMeter
from toolbridge.server.request_fields import note_caller
from toolbridge.server.request_log import Entry
from toolbridge.wire import shapes as wire

_TOOL = "web_search"


class SearchBody(msgspec.Struct):
    """The body of a search request."""

    query: Annotated[str, msgspec.Meta(min_length=1)]
    max_results: Annotated[int, msgspec.Meta(ge=1, le=10)] = 5


_ERRORS: dict[ServerToolErrorCode, type[ToolbridgeError]] = {
    "too_many_requests": RateLimited,
    "invalid_tool_input": MalformedRequest,
    "query_too_long": MalformedRequest,
}
_body = msgspec.json.Decoder(SearchBody)


async def web_search(app: App, exchange: HttpExchange, entry: Entry) -> None:
    """Answer one search."""
    asked = wire.decode_request(await exchange.body(app.config.max_body), _body)
    note_caller(entry, exchange)
    entry.note(surface="ollama", gen_ai__operation__name=_TOOL)
    key, gateway = exchange.access, app.gateway
    if key is not None and not allows_tool(key.scopes, _TOOL):
        raise NotAllowed(tool_text(key.name, key.scopes, _TOOL))
    if key is not None:
        await gateway.charges.check(key)
    if _TOOL not in gateway.tools.runner.kinds:
        raise Unsupported(
            "this gateway has no search engine; its operator can set one: `backend` in "
            "[server_tools.web_search]"
        )
    meter = InnerCallMeter(
        exchange,
        _TOOL,
        charges=gateway.charges,
        permit=gateway.permit_model,
        record=app.record_call,
    )
    call = ServerCall("", _TOOL, _TOOL, {"query": asked.query})
    with gateway.tools.in_use():
        outcome = await gateway.tools.run_with(meter)(call, ServerTool(_TOOL))
    hits = outcome.hits if isinstance(outcome, SearchHits) else ()
    if isinstance(outcome, ServerToolError):
        raise _ERRORS.get(outcome.code, Unreachable)(f"the search failed: {outcome.text}")
    results: list[Json] = [
        {"title": hit.title, "url": hit.url, "content": hit.snippet}
        for hit in hits[: asked.max_results]
    ]
    await exchange.reply(200, dump_bytes({"results": results}))
