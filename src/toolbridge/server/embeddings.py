"""The embedding endpoints: `/v1/embeddings`, `/api/embed`, `/api/embeddings`, Gemini's two."""

from collections.abc import Callable

from toolbridge import codecs
from toolbridge.core.embeddings import EmbeddingRequest
from toolbridge.core.messages import Message
from toolbridge.core.usage import Usage, plausible
from toolbridge.routing.charge import RequestSize
from toolbridge.routing.embedding import embed
from toolbridge.routing.pricing import has_price
from toolbridge.server.app import App
from toolbridge.server.client_turn import warning
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_fields import note_caller
from toolbridge.server.request_log import Entry

Decode = Callable[[bytes], EmbeddingRequest]


async def serve(app: App, exchange: HttpExchange, entry: Entry, decode: Decode) -> None:
    """Answer one request for embeddings in the format that `decode` reads."""
    request = decode(await exchange.body(app.config.max_body))
    codec = codecs.load_embeddings(request.origin)
    if codec is None:
        raise TypeError(f"{request.origin} has no embeddings")
    route = await app.gateway.model_routes.route(request.model)
    note_caller(entry, exchange)
    entry.free = not has_price(route)
    entry.fields |= {
        "surface": request.origin,
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": route.provider,
        "gen_ai.request.model": request.model,
        "gen_ai.response.model": route.target.model,
    }
    app.gateway.permit_model(exchange, route.address)
    exchange.extra_headers["x-toolbridge-model"] = route.address
    headers = app.gateway.client_headers.of(exchange, route.provider_config, request.origin)
    charge = app.gateway.charges.begin(exchange.access, entry)
    async with charge:
        await charge.fit(route, _size(request))
        answer, losses = await embed(app.upstream, route, request, headers)
        entry.losses = list(losses)
        if reported := [loss for loss in losses if not loss.minor]:
            exchange.extra_headers["x-toolbridge-warning"] = warning(reported)
        charge.message = Message(usage=plausible(Usage(input=answer.tokens)), stop="end")
        await charge.settle(charge.message)
        await exchange.reply(200, codec.encode_answer(answer, request))


def _size(request: EmbeddingRequest) -> RequestSize:
    """Return the size of the texts, estimated; an embedding has no output tokens."""
    sizes = [len(one) // 4 + 1 if isinstance(one, str) else len(one) for one in request.inputs]
    return RequestSize(sum(sizes), answers=0)


async def openai(app: App, exchange: HttpExchange, entry: Entry) -> None:
    from toolbridge.codecs.openai_chat.embeddings import decode_embedding_request

    await serve(app, exchange, entry, decode_embedding_request)


async def ollama(app: App, exchange: HttpExchange, entry: Entry) -> None:
    from toolbridge.codecs.ollama.embeddings import decode_embedding_request

    await serve(app, exchange, entry, decode_embedding_request)


async def ollama_legacy(app: App, exchange: HttpExchange, entry: Entry) -> None:
    from toolbridge.codecs.ollama.embeddings import decode_legacy_request

    await serve(app, exchange, entry, decode_legacy_request)


async def gemini(
    app: App, exchange: HttpExchange, entry: Entry, model: str, *, batch: bool
) -> None:
    from toolbridge.codecs.gemini import embeddings

    decode = embeddings.decode_batch_request if batch else embeddings.decode_embedding_request
    await serve(app, exchange, entry, lambda body: decode(body, model))
