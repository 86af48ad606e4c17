"""Exact token counts, from the providers whose API has an endpoint for them.

The gateway uses them for its own counting endpoints where the provider's setting `counting` is
`auto`. A request for an answer is not counted this way: that would delay its first token by a
round trip. When the provider does not count in time, the caller falls back to an estimate.
"""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from toolbridge.core.codec import Outgoing
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import JsonObject, dump_bytes, maybe_object
from toolbridge.core.messages import Request
from toolbridge.routing.models import Route
from toolbridge.routing.sources import HttpRequest, RequestSender, merged_headers
from toolbridge.translate import RequestOptions, plan
from toolbridge.upstream.http import Upstream

COUNT_TIMEOUT = 5.0
"""Seconds. Claude Code's `/context` sends about 35 requests at once and waits for all of them."""
_NO_ENDPOINT = frozenset({404, 405, 501})
_MOST_UNCOUNTED = 256
"""Model names come from requests, so that their number must be limited."""

# Anthropic, Messages API, "Count tokens": the body of a message without `max_tokens`, `stream` and
# other fields that are not part of the prompt; an unknown field is an error.
_ANTHROPIC = ("model", "messages", "system", "tools", "tool_choice", "thinking")
# OpenAI, Responses API, "Get input token counts".
_RESPONSES = (
    "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning",
    "text", "truncation", "previous_response_id", "conversation",
)  # fmt: skip

_CONVERSE = ("messages", "system", "toolConfig", "additionalModelRequestFields")


def _only(body: JsonObject, fields: tuple[str, ...]) -> JsonObject:
    return {name: body[name] for name in fields if name in body}


def _anthropic(outgoing: Outgoing) -> tuple[str, JsonObject]:
    return f"{outgoing.path}/count_tokens", _only(outgoing.body, _ANTHROPIC)


def _responses(outgoing: Outgoing) -> tuple[str, JsonObject]:
    return f"{outgoing.path}/input_tokens", _only(outgoing.body, _RESPONSES)


def _gemini(outgoing: Outgoing) -> tuple[str, JsonObject]:
    # Gemini API, models.countTokens: system instruction and tools are counted only inside
    # `generateContentRequest`, which names the model again.
    path = outgoing.path.rpartition(":")[0]
    model = f"models/{path.rpartition('/models/')[2]}"
    return f"{path}:countTokens", {"generateContentRequest": {"model": model, **outgoing.body}}


def _bedrock(outgoing: Outgoing) -> tuple[str, JsonObject]:
    # Amazon Bedrock, CountTokens: a body of Converse without the settings of the answer.
    path = outgoing.path.rpartition("/")[0]
    return f"{path}/count-tokens", {"input": {"converse": _only(outgoing.body, _CONVERSE)}}


class _Endpoint(msgspec.Struct, frozen=True):
    encode: Callable[[Outgoing], tuple[str, JsonObject]]
    """Returns path and body of the request for a count."""
    fields: tuple[str, ...]
    """The fields of the response, one of which has the count."""


_ENDPOINTS = {
    "anthropic": _Endpoint(_anthropic, ("input_tokens", "inputTokens")),
    "openai_responses": _Endpoint(_responses, ("input_tokens",)),
    "gemini": _Endpoint(_gemini, ("totalTokens",)),
    "bedrock": _Endpoint(_bedrock, ("inputTokens",)),
}


class ProviderCounts:
    """Asks providers for token counts; remembers the models for which that failed with a 404."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._uncounted: set[str] = set()

    def may_count(self, address: str, api: str) -> bool:
        """Return whether the API has a counting endpoint, and this model is not known to lack it."""
        return api in _ENDPOINTS and address not in self._uncounted

    async def count(
        self, request: Request, route: Route, options: RequestOptions, headers: Mapping[str, str]
    ) -> int | None:
        """Return the provider's count of `request`; None when it does not answer with one."""
        endpoint = _ENDPOINTS[route.provider_config.api]
        try:
            async with asyncio.timeout(COUNT_TIMEOUT):
                whole = await self._ask(endpoint, request, route, options, headers)
        except TimeoutError:
            return None
        except ToolbridgeError as error:
            if error.problem.status in _NO_ENDPOINT and len(self._uncounted) < _MOST_UNCOUNTED:
                self._uncounted.add(route.address)
            return None
        found = maybe_object(whole) or {}
        counted = next((found[name] for name in endpoint.fields if name in found), None)
        return counted if type(counted) is int else None

    async def _ask(
        self,
        endpoint: _Endpoint,
        request: Request,
        route: Route,
        options: RequestOptions,
        headers: Mapping[str, str],
    ) -> bytes:
        prompt = msgspec.structs.replace(request, stream=False)
        outgoing = plan(prompt, route.request_encoder, route.target, options).outgoing
        path, body = endpoint.encode(outgoing)
        sent = HttpRequest(path, dump_bytes(body), merged_headers(outgoing.headers, headers))
        incoming = await RequestSender(self._upstream, route, sent).open()
        try:
            return await incoming.read_whole()
        finally:
            await incoming.release()
