"""Exact token counts, from the providers whose API or engine has an endpoint for them.

The gateway uses them for its own counting endpoints where the provider's setting `counting` is
`auto`. Counts are cached by the content of the request: Claude Code asks for the same ones again. A request for an answer is not counted this way: that would delay its first token by a
round trip. When the provider does not count in time, the caller falls back to an estimate.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b

import msgspec

from toolbridge.core.codec import Outgoing
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.json import JsonObject, dump_bytes, maybe_object
from toolbridge.core.messages import Request
from toolbridge.core.steps import Steps
from toolbridge.routing.loop_turns import in_turns
from toolbridge.routing.route import Route
from toolbridge.routing.sources import HttpRequest, RequestSender, merged_headers
from toolbridge.translate import RequestOptions, plan
from toolbridge.upstream.http import Upstream

COUNT_TIMEOUT = 5.0
"""Seconds. Claude Code's `/context` sends about 35 requests at once and waits for all of them."""
_NO_ENDPOINT = frozenset({404, 405, 501})
_MOST_KEPT = 2048
"""Counts that are cached."""
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


# The messages and tools of a chat request; other fields are settings of the answer.
_CHAT = ("model", "messages", "tools", "tool_choice", "chat_template_kwargs")
_TOKENIZED = ("model", "messages", "tools", "chat_template_kwargs")


def _llamacpp(outgoing: Outgoing) -> tuple[str, JsonObject]:
    # llama.cpp server, `POST /v1/chat/completions/input_tokens`.
    return f"{outgoing.path}/input_tokens", _only(outgoing.body, _CHAT)


def _vllm(outgoing: Outgoing) -> tuple[str, JsonObject]:
    # vLLM, `POST /tokenize` beside `/v1`: the chat template is applied to the messages.
    body: JsonObject = {**_only(outgoing.body, _TOKENIZED), "add_generation_prompt": True}
    return "/../tokenize", body


def _sglang(outgoing: Outgoing) -> tuple[str, JsonObject]:
    # SGLang, `POST /v1/tokenize`.
    return "/tokenize", _only(outgoing.body, _TOKENIZED)


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


_ENGINES = {
    "llama.cpp": _Endpoint(_llamacpp, ("input_tokens",)),
    "vllm": _Endpoint(_vllm, ("count",)),
    "sglang": _Endpoint(_sglang, ("count",)),
}
"""Engines of the API `openai_chat`, which itself has no endpoint for counts."""


class ProviderCounts:
    """Asks providers for token counts; remembers the models for which that failed with a 404."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._uncounted: set[str] = set()
        self._kept: OrderedDict[bytes, int] = OrderedDict()
        """The hash of a request for a count → the count."""

    def may_count(self, address: str, api: str) -> bool:
        """Return whether the API may have a counting endpoint, and the model is not known to lack it."""
        return (api in _ENDPOINTS or api == "openai_chat") and address not in self._uncounted

    async def count(
        self, request: Request, route: Route, options: RequestOptions, headers: Mapping[str, str]
    ) -> int | None:
        """Return the provider's count of `request`; None when it does not answer with one."""
        api = route.provider_config.api
        endpoint = _ENGINES.get(route.engine) if api == "openai_chat" else _ENDPOINTS.get(api)
        if endpoint is None:
            return None
        sent = await in_turns(_request(endpoint, request, route, options, headers))
        content = (route.address, sent.path, sorted(sent.headers.items()))
        key = blake2b(repr(content).encode() + sent.body, digest_size=16).digest()
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        counted = await self._count(endpoint, route, sent)
        if counted is not None:
            self._kept[key] = counted
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return counted

    async def _count(self, endpoint: _Endpoint, route: Route, sent: HttpRequest) -> int | None:
        try:
            async with asyncio.timeout(COUNT_TIMEOUT):
                whole = await self._ask(route, sent)
        except TimeoutError:
            return None
        except ToolbridgeError as error:
            if error.problem.status in _NO_ENDPOINT and len(self._uncounted) < _MOST_UNCOUNTED:
                self._uncounted.add(route.address)
            return None
        found = maybe_object(whole) or {}
        counted = next((found[name] for name in endpoint.fields if name in found), None)
        return counted if type(counted) is int else None

    async def _ask(self, route: Route, sent: HttpRequest) -> bytes:
        incoming = await RequestSender(self._upstream, route, sent).open()
        try:
            return await incoming.read_whole()
        finally:
            await incoming.release()


def _request(
    endpoint: _Endpoint,
    request: Request,
    route: Route,
    options: RequestOptions,
    headers: Mapping[str, str],
) -> Steps[HttpRequest]:
    prompt = msgspec.structs.replace(request, stream=False)
    ready = yield from plan.steps(prompt, route.request_encoder, route.target, options)
    yield
    outgoing = ready.outgoing
    path, body = endpoint.encode(outgoing)
    return HttpRequest(path, dump_bytes(body), merged_headers(outgoing.headers, headers))
