"""Embeddings from the provider that serves the model, for the gateway and the SDK."""

import asyncio
import random
from collections.abc import Mapping

import msgspec

from toolbridge import codecs
from toolbridge.core.embeddings import EmbeddingRequest, Embeddings
from toolbridge.core.errors import BrokenWire, ToolbridgeError, Unsupported
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import Loss, Problem
from toolbridge.policy.retry import may_retry, wait
from toolbridge.routing.rejections import is_page, rejected
from toolbridge.routing.route import Route
from toolbridge.routing.sources import HttpRequest, RequestSender
from toolbridge.upstream.http import Upstream


async def embed(
    upstream: Upstream,
    route: Route,
    request: EmbeddingRequest,
    headers: Mapping[str, str] | None = None,
) -> tuple[Embeddings, tuple[Loss, ...]]:
    """Return one vector per input, and what the provider's API cannot express.

    `headers` are those of the client that the provider gets.
    """
    if route.is_demo:
        from toolbridge.demo.embed import embed as demo_embed

        return demo_embed(request), ()
    codec = None if route.is_node else codecs.load_embeddings(route.provider_config.api)
    if codec is None:
        raise Unsupported(
            f"{route.provider} has no embeddings ({_why(route)}); use a model of a provider "
            "that has them, such as ollama/nomic-embed-text or openai/text-embedding-3-small",
            where="model",
        )
    outgoing = codec.encode_request(request, route.target.model)
    sent = HttpRequest(outgoing.path, dump_bytes(outgoing.body), dict(headers or {}))
    attempt = 1
    while True:
        try:
            opening = RequestSender(upstream, route, sent)
            answer = codec.decode_answer(await _post(opening))
            break
        except ToolbridgeError as error:
            if not _may_repeat(error.problem, attempt, route):
                raise
            await asyncio.sleep(wait(error.problem, attempt, random.random()))  # noqa: S311  jitter
            attempt += 1
    if len(answer.vectors) != len(request.inputs):
        raise BrokenWire(
            f"{route.provider} returned {len(answer.vectors)} embeddings for "
            f"{len(request.inputs)} inputs; check that {route.target.model} makes embeddings",
            provider=route.provider,
        )
    return msgspec.structs.replace(answer, model=request.model), outgoing.losses


def _why(route: Route) -> str:
    return f"the API `{route.provider_config.api}` defines none"


def _may_repeat(problem: Problem, attempt: int, route: Route) -> bool:
    return attempt <= route.retries and may_retry(problem, attempt=attempt, content_sent=False)


async def _post(opening: RequestSender) -> bytes:
    incoming = await opening.open()
    try:
        whole = await incoming.read_whole()
        if is_page(whole):
            raise rejected(incoming, whole, opening.route)
    finally:
        await incoming.release()
    return whole
