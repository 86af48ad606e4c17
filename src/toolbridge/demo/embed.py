"""The embedded model's vectors: deterministic, and close to one another for similar texts.

Each word and each run of three letters adds ±1 to a component chosen by its hash (feature
hashing); the sum is scaled to length 1. Texts that share words have a large cosine, so that
a search index can be tried without a model.
"""

import hashlib
import math
import re

from toolbridge.core.embeddings import EmbeddingRequest, Embeddings
from toolbridge.core.errors import MalformedRequest

DIMENSIONS = 384
MOST_DIMENSIONS = 4096
_WORD = re.compile(r"\w+")


def embed(request: EmbeddingRequest) -> Embeddings:
    """Return the vectors of the texts in `request`."""
    size = request.dimensions or DIMENSIONS
    if size > MOST_DIMENSIONS:
        raise MalformedRequest(
            f"the demo model's vectors have at most {MOST_DIMENSIONS} dimensions",
            where="dimensions",
        )
    vectors, tokens = [], 0
    for number, text in enumerate(request.inputs):
        if not isinstance(text, str):
            raise MalformedRequest(
                "the demo model takes texts, not token ids", where=f"input.{number}"
            )
        vectors.append(_vector(text, size))
        tokens += max(1, len(text) // 4)
    return Embeddings(request.model, tuple(vectors), tokens)


def _vector(text: str, size: int) -> tuple[float, ...]:
    sums = [0.0] * size
    for feature in _features(text):
        digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
        sums[(digest >> 1) % size] += 1.0 if digest & 1 else -1.0
    length = math.sqrt(sum(value * value for value in sums))
    if not length:  # no features, or ones that cancel: any fixed unit vector will do
        return (1.0, *(0.0 for _ in range(size - 1)))
    return tuple(value / length for value in sums)


def _features(text: str) -> list[str]:
    words = _WORD.findall(text.lower())
    return words + [word[at : at + 3] for word in words for at in range(len(word) - 2)]
