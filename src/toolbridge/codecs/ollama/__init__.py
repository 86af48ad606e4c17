"""Ollama's native API: `/api/chat`, `/api/generate` and `/api/embed`."""

from toolbridge.codecs.ollama.decode_request import decode_request
from toolbridge.codecs.ollama.decode_stream import StreamDecoder
from toolbridge.codecs.ollama.encode_request import encode_request
from toolbridge.codecs.ollama.encode_stream import StreamEncoder, encode_message
from toolbridge.codecs.ollama.field_names import FIELD_NAMES
from toolbridge.codecs.ollama.generate import completes
from toolbridge.codecs.ollama.output import output_support
from toolbridge.codecs.ollama.rejections import decode_rejection, encode_rejection
from toolbridge.codecs.ollama.shapes import SHOWS
from toolbridge.core.codec import Codec, Rules


def authorize(key: str) -> dict[str, str]:
    """Return the header that ollama.com requires; a local server needs none."""
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
    output_support=output_support,
    field_names=FIELD_NAMES,
)
