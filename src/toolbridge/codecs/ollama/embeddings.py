"""Ollama's embeddings: `/api/embed`, and the older `/api/embeddings` that some clients use.

Ollama, docs/api: `/api/embed` takes one text or several; `/api/embeddings` takes one `prompt`.
"""

import msgspec

from toolbridge.core.codec import Outgoing
from toolbridge.core.embeddings import EmbeddingCodec, EmbeddingRequest, Embeddings
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.core.messages import Loss
from toolbridge.wire import shapes as wire

LEGACY = "legacy"
"""The answer format of `/api/embeddings`: one vector."""


class _Body(msgspec.Struct):
    model: str
    input: str | list[str] | None = None
    truncate: bool | None = None
    dimensions: int | None = None


class _LegacyBody(msgspec.Struct):
    model: str
    prompt: str = ""


class _Answer(msgspec.Struct):
    embeddings: list[tuple[float, ...]]
    model: str = ""
    prompt_eval_count: int = 0


_bodies = msgspec.json.Decoder(_Body)
_legacy_bodies = msgspec.json.Decoder(_LegacyBody)
_answers = msgspec.json.Decoder(_Answer)


def decode_embedding_request(body: bytes) -> EmbeddingRequest:
    """Return the request in a body of `/api/embed`."""
    asked = wire.decode_request(body, _bodies)
    given = asked.input
    if given is None:
        raise MalformedRequest("field required", where="input")
    return EmbeddingRequest(
        model=asked.model,
        inputs=(given,) if isinstance(given, str) else tuple(given),
        dimensions=asked.dimensions or None,
        truncate=asked.truncate,
        origin="ollama",
        extra=wire.leftovers(body, _Body),
    )


def decode_legacy_request(body: bytes) -> EmbeddingRequest:
    """Return the request in a body of `/api/embeddings`: one prompt."""
    asked = wire.decode_request(body, _legacy_bodies)
    return EmbeddingRequest(
        model=asked.model,
        inputs=(asked.prompt,),
        origin="ollama",
        shape=LEGACY,
        extra=wire.leftovers(body, _LegacyBody),
    )


def encode_request(request: EmbeddingRequest, model: str) -> Outgoing:
    body: JsonObject = {"model": model, "input": list(_texts(request))}
    if request.dimensions is not None:
        body["dimensions"] = request.dimensions
    # Ollama, docs/api: without `truncate: false` a long text is cut.
    if request.truncate is not None:
        body["truncate"] = request.truncate
    losses = [
        Loss(name, "Ollama's embeddings have no such field", minor=name == "user")
        for name, value in (
            ("taskType", request.task),
            ("title", request.title),
            ("user", request.user),
        )
        if value
    ]
    if request.origin == "ollama":
        body |= request.extra
    else:
        losses += [Loss(n, "Ollama's embeddings have no such field") for n in request.extra]
    return Outgoing("/api/embed", body, tuple(losses))


def _texts(request: EmbeddingRequest) -> tuple[str, ...]:
    texts = tuple(text for text in request.inputs if isinstance(text, str))
    if len(texts) < len(request.inputs):
        raise MalformedRequest(
            "Ollama takes texts, not token ids; send the text itself", where="input"
        )
    return texts


def decode_answer(body: bytes) -> Embeddings:
    answer = wire.decode_chunk(body, _answers)
    return Embeddings(answer.model, tuple(answer.embeddings), answer.prompt_eval_count)


def encode_answer(answer: Embeddings, request: EmbeddingRequest) -> bytes:
    if request.shape == LEGACY:
        return dump_bytes({"embedding": answer.vectors[0] if answer.vectors else ()})
    shown = {
        "model": request.model,
        "embeddings": answer.vectors,
        # Clients divide by durations, so none is 0.
        "total_duration": 2,
        "load_duration": 1,
        "prompt_eval_count": answer.tokens,
    }
    return dump_bytes(shown)


EMBEDDINGS = EmbeddingCodec(encode_request, decode_answer, encode_answer)
