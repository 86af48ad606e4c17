"""Embeddings: texts in, one vector per text out, in no vendor's shape.

Three wire formats exist: OpenAI's `/v1/embeddings`, Ollama's `/api/embed` (and the older
`/api/embeddings`), and Gemini's `:embedContent` and `:batchEmbedContents`. Each codec folder that
has one offers an `EmbeddingCodec`. The Messages and Responses APIs define no embeddings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.codec import Outgoing
from toolbridge.core.json import JsonObject

EmbeddingInput: TypeAlias = str | tuple[int, ...]
"""A text, or the token ids of one, which only OpenAI-compatible providers accept."""


class EmbeddingRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    model: str
    inputs: tuple[EmbeddingInput, ...] = ()
    dimensions: int | None = None
    encoding: Literal["float", "base64"] = "float"
    """The format of the vectors for the client; the provider always gets `float`."""
    task: str = ""
    """Gemini's `taskType`: what the vectors are for."""
    title: str = ""
    truncate: bool | None = None
    """Whether a text that is too long is cut; false asks for an error instead."""
    user: str = ""
    origin: str = ""
    """The API of the client's request."""
    shape: str = ""
    """Which of its API's answer formats the client expects, where there are two."""
    extra: JsonObject = msgspec.field(default_factory=dict)
    """Fields that only the API `origin` has, under that API's names."""


class Embeddings(msgspec.Struct, frozen=True, omit_defaults=True):
    """One vector per input, in the order of the inputs."""

    model: str
    vectors: tuple[tuple[float, ...], ...]
    tokens: int = 0
    """Input tokens, where the provider reports them."""


@dataclass(frozen=True)
class EmbeddingCodec:
    encode_request: Callable[[EmbeddingRequest, str], Outgoing]
    """Takes the request and the model's name at the provider."""
    decode_answer: Callable[[bytes], Embeddings]
    encode_answer: Callable[[Embeddings, EmbeddingRequest], bytes]
