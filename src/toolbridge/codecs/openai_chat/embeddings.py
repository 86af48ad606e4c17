"""Embeddings: OpenAI's `/v1/embeddings`, which OpenAI-compatible servers offer as well."""

import array
import base64
import binascii
import sys
from typing import Literal

import msgspec

from toolbridge.core.codec import Outgoing
from toolbridge.core.embeddings import EmbeddingCodec, EmbeddingInput, EmbeddingRequest, Embeddings
from toolbridge.core.errors import BrokenWire, MalformedRequest
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.messages import Loss
from toolbridge.wire import shapes as wire


class _Body(msgspec.Struct):
    model: str
    input: str | list[msgspec.Raw]
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None


class _Vector(msgspec.Struct):
    embedding: list[float] | str
    index: int | None = None


class _Counts(msgspec.Struct):
    prompt_tokens: int = 0


class _Answer(msgspec.Struct):
    data: list[_Vector]
    model: str = ""
    usage: _Counts | None = None


_bodies = msgspec.json.Decoder(_Body)
_answers = msgspec.json.Decoder(_Answer)
_texts = msgspec.json.Decoder(str)
_tokens = msgspec.json.Decoder(int)
_token_lists = msgspec.json.Decoder(tuple[int, ...])


def decode_embedding_request(body: bytes) -> EmbeddingRequest:
    """Return a request of `/v1/embeddings`; raise `MalformedRequest` with the path of a fault."""
    asked = wire.decode_request(body, _bodies)
    if asked.dimensions is not None and asked.dimensions < 1:
        raise MalformedRequest("must be at least 1", where="dimensions")
    return EmbeddingRequest(
        model=asked.model,
        inputs=_inputs(asked.input),
        dimensions=asked.dimensions,
        encoding=asked.encoding_format or "float",
        user=asked.user or "",
        origin="openai_chat",
        extra=wire.leftovers(body, _Body),
    )


def _inputs(given: str | list[msgspec.Raw]) -> tuple[EmbeddingInput, ...]:
    """Return the inputs: one text, several texts, or the token ids of one or several texts."""
    if isinstance(given, str):
        return (given,)
    if not given:
        raise MalformedRequest("input must not be empty", where="input")
    first = bytes(given[0]).lstrip()[:1]
    if first.isdigit():
        read = [wire.decode_request(g, _tokens, f"input.{n}") for n, g in enumerate(given)]
        return (tuple(read),)
    return tuple(_input(item, f"input.{number}") for number, item in enumerate(given))


def _input(raw: msgspec.Raw, where: str) -> EmbeddingInput:
    if bytes(raw).lstrip()[:1] == b"[":
        return wire.decode_request(raw, _token_lists, where)
    return wire.decode_request(raw, _texts, where)


def encode_request(request: EmbeddingRequest, model: str) -> Outgoing:
    inputs: list[Json] = [i if isinstance(i, str) else list(i) for i in request.inputs]
    body: JsonObject = {"model": model, "input": inputs, "encoding_format": "float"}
    if request.dimensions is not None:
        body["dimensions"] = request.dimensions
    if request.user:
        body["user"] = request.user
    losses = []
    if request.task:
        losses.append(Loss("taskType", "OpenAI's embeddings have no task type"))
    if request.title:
        losses.append(Loss("title", "OpenAI's embeddings have no title"))
    if request.truncate is False:
        why = "OpenAI's embeddings have no such field; a text that is too long is an error"
        losses.append(Loss("truncate", why, minor=True))
    if request.origin == "openai_chat":
        body |= request.extra
    else:
        losses += [Loss(n, "OpenAI's embeddings have no such field") for n in request.extra]
    # OpenAI, embeddings: vectors come as floats here; `encode_answer` packs them for the client.
    return Outgoing("/embeddings", body, tuple(losses))


def decode_answer(body: bytes) -> Embeddings:
    answer = wire.decode_chunk(body, _answers)
    # OpenAI, embeddings: `index` is the position of the input; the order of `data` is free.
    data = sorted(enumerate(answer.data), key=lambda d: d[0] if d[1].index is None else d[1].index)
    vectors = tuple(_floats(vector.embedding) for _, vector in data)
    return Embeddings(answer.model, vectors, answer.usage.prompt_tokens if answer.usage else 0)


def _floats(given: list[float] | str) -> tuple[float, ...]:
    if not isinstance(given, str):
        return tuple(given)
    try:
        packed = array.array("f", base64.b64decode(given, validate=True))
    except (ValueError, binascii.Error) as error:
        raise BrokenWire(f"the provider sent an embedding that is not base64: {error}") from None
    if sys.byteorder == "big":
        packed.byteswap()
    return tuple(packed)


def _base64(vector: tuple[float, ...]) -> str:
    """Return the vector as base64 of little-endian 32-bit floats (OpenAI, `encoding_format`)."""
    packed = array.array("f", vector)
    if sys.byteorder == "big":
        packed.byteswap()
    return base64.b64encode(packed.tobytes()).decode()


def encode_answer(answer: Embeddings, request: EmbeddingRequest) -> bytes:
    packed = request.encoding == "base64"
    data = [
        {
            "object": "embedding",
            "index": number,
            "embedding": _base64(vector) if packed else vector,
        }
        for number, vector in enumerate(answer.vectors)
    ]
    usage = {"prompt_tokens": answer.tokens, "total_tokens": answer.tokens}
    shown = {"object": "list", "data": data, "model": request.model, "usage": usage}
    return dump_bytes(shown)


EMBEDDINGS = EmbeddingCodec(encode_request, decode_answer, encode_answer)
