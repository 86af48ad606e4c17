"""Gemini's embeddings: `:embedContent` for one text, `:batchEmbedContents` for several.

Gemini API, embedContent: `taskType`, `title` and `outputDimensionality` are settings of each text;
a batch with different settings is rejected here.
"""

import msgspec

from toolbridge.codecs.gemini.spelling import camel
from toolbridge.core.codec import Outgoing
from toolbridge.core.embeddings import EmbeddingCodec, EmbeddingRequest, Embeddings
from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.messages import Loss
from toolbridge.wire import shapes as wire

SINGLE = "single"
"""The answer format of `:embedContent`: one vector."""


class _Part(msgspec.Struct):
    text: str | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] = []


class _One(msgspec.Struct, rename="camel"):
    content: _Content
    model: str = ""
    task_type: str = ""
    title: str = ""
    output_dimensionality: int | None = None


class _Values(msgspec.Struct):
    values: tuple[float, ...] = ()


class _Counts(msgspec.Struct, rename="camel"):
    prompt_token_count: int = 0


class _Answer(msgspec.Struct, rename="camel"):
    embeddings: list[_Values] | None = None
    embedding: _Values | None = None
    usage_metadata: _Counts | None = None


_objects = msgspec.json.Decoder(wire.AnyObject)
_answers = msgspec.json.Decoder(_Answer)


def decode_embedding_request(body: bytes, model: str) -> EmbeddingRequest:
    """Return the request in a body of `:embedContent`."""
    one = _one(wire.decode_request(body, _objects), "")
    return _request(model, one, (_text(one, "content"),), SINGLE)


def decode_batch_request(body: bytes, model: str) -> EmbeddingRequest:
    """Return the request in a body of `:batchEmbedContents`."""
    asked = wire.decode_request(body, _objects).get("requests")
    if not isinstance(asked, list) or not asked:
        raise MalformedRequest("expected a list of requests", where="requests")
    every = [_one(item, f"requests.{number}") for number, item in enumerate(asked)]
    texts = [_text(one, f"requests.{number}.content") for number, one in enumerate(every)]
    first = every[0]
    for number, one in enumerate(every):
        settings = (one.task_type, one.title, one.output_dimensionality)
        if settings != (first.task_type, first.title, first.output_dimensionality):
            raise MalformedRequest(
                "taskType, title and outputDimensionality must be the same in every request",
                where=f"requests.{number}",
            )
    return _request(model, first, tuple(texts), "")


def _one(given: Json, where: str) -> _One:
    if not isinstance(given, dict):
        raise MalformedRequest("expected an object", where=where)
    # Protocol buffers, JSON mapping: `task_type` is read like `taskType`.
    spelt = {camel(key) if "_" in key[1:] else key: value for key, value in given.items()}
    # Newer SDKs send the settings as an object `embedContentConfig`.
    config = spelt.pop("embedContentConfig", None)
    if isinstance(config, dict):
        spelt |= {camel(key) if "_" in key[1:] else key: value for key, value in config.items()}
    return wire.convert_request(spelt, _One, where)


def _text(one: _One, where: str) -> str:
    texts = [part.text for part in one.content.parts if part.text is not None]
    if len(texts) < len(one.content.parts) or not texts:
        raise MalformedRequest("only texts can be embedded here", where=f"{where}.parts")
    return "\n".join(texts)


def _request(model: str, one: _One, texts: tuple[str, ...], shape: str) -> EmbeddingRequest:
    dimensions = one.output_dimensionality
    if dimensions is not None and dimensions < 1:
        raise MalformedRequest("must be at least 1", where="outputDimensionality")
    return EmbeddingRequest(
        model=model or one.model.removeprefix("models/"),
        inputs=texts,
        dimensions=dimensions,
        task=one.task_type,
        title=one.title,
        origin="gemini",
        shape=shape,
    )


def encode_request(request: EmbeddingRequest, model: str) -> Outgoing:
    settings: JsonObject = {"model": f"models/{model}"}
    if request.task:
        settings["taskType"] = request.task
    if request.title:
        settings["title"] = request.title
    if request.dimensions is not None:
        settings["outputDimensionality"] = request.dimensions
    requests: list[Json] = []
    for number, text in enumerate(request.inputs):
        if not isinstance(text, str):
            raise MalformedRequest(
                "Gemini takes texts, not token ids; send the text itself", where=f"input.{number}"
            )
        requests.append({**settings, "content": {"parts": [{"text": text}]}})
    losses = [
        Loss(name, "Gemini's embeddings have no such field", minor=name in {"user", "truncate"})
        for name in (
            *(("user",) if request.user else ()),
            *(("truncate",) if request.truncate is not None else ()),
            *request.extra,
        )
    ]
    path = f"/v1beta/models/{model}:batchEmbedContents"
    return Outgoing(path, {"requests": requests}, tuple(losses))


def decode_answer(body: bytes) -> Embeddings:
    answer = wire.decode_chunk(body, _answers)
    every = answer.embeddings or ([answer.embedding] if answer.embedding else [])
    counts = answer.usage_metadata
    vectors = tuple(values.values for values in every)
    return Embeddings("", vectors, counts.prompt_token_count if counts else 0)


def encode_answer(answer: Embeddings, request: EmbeddingRequest) -> bytes:
    values: list[JsonObject] = [{"values": list(vector)} for vector in answer.vectors]
    shown: JsonObject = {"embeddings": [*values]}
    if request.shape == SINGLE:
        shown = {"embedding": values[0] if values else {"values": []}}
    if answer.tokens:
        shown["usageMetadata"] = {"promptTokenCount": answer.tokens}
    return dump_bytes(shown)


EMBEDDINGS = EmbeddingCodec(encode_request, decode_answer, encode_answer)
