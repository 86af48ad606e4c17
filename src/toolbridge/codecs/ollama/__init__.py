"""Ollama's own API: `/api/chat`, and `/api/generate` for those who still ask it."""

from toolbridge.codecs.ollama.decode_request import decode_generate, decode_request
from toolbridge.codecs.ollama.decode_stream import StreamDecoder, decode_rejection
from toolbridge.codecs.ollama.encode_request import QUIRKS, completes, encode_request
from toolbridge.codecs.ollama.encode_stream import StreamEncoder, encode_message, encode_rejection
from toolbridge.codecs.ollama.field_names import FIELD_NAMES
from toolbridge.codecs.ollama.shapes import SHOWS
from toolbridge.core.codec import Codec, Rules

__all__ = ["CODEC", "QUIRKS", "authorize", "decode_generate"]


def authorize(key: str) -> dict[str, str]:
    """Return the header of ollama.com; a server at home needs none."""
    return {"authorization": f"Bearer {key}"} if key else {}


CODEC = Codec(
    name="ollama",
    decode_request=decode_request,
    encode_request=encode_request,
    stream_decoder=StreamDecoder,
    stream_encoder=StreamEncoder,
    encode_message=encode_message,
    shows=SHOWS,
    decode_rejection=decode_rejection,
    encode_rejection=encode_rejection,
    authorize=authorize,
    content_type="application/x-ndjson",
    rules=Rules(pairs=True, system_in_place=True),
    completes=completes,
    field_names=FIELD_NAMES,
)
