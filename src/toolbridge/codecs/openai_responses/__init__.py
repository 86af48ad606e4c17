"""OpenAI's Responses API."""

from toolbridge.codecs.openai_responses.decode_request import decode_request
from toolbridge.codecs.openai_responses.decode_stream import StreamDecoder, decode_rejection
from toolbridge.codecs.openai_responses.encode_request import encode_request
from toolbridge.codecs.openai_responses.encode_stream import (
    StreamEncoder,
    encode_message,
    encode_rejection,
)
from toolbridge.codecs.openai_responses.field_names import FIELD_NAMES
from toolbridge.codecs.openai_responses.server_tools import encode_unavailable
from toolbridge.codecs.openai_responses.shapes import SHOWS
from toolbridge.core.codec import Codec, Rules


def authorize(key: str) -> dict[str, str]:
    """Return the header of the key; a server at home needs none."""
    return {"authorization": f"Bearer {key}"} if key else {}


CODEC = Codec(
    name="openai_responses",
    decode_request=decode_request,
    encode_request=encode_request,
    stream_decoder=StreamDecoder,
    stream_encoder=StreamEncoder,
    encode_message=encode_message,
    shows=SHOWS,
    decode_rejection=decode_rejection,
    encode_rejection=encode_rejection,
    authorize=authorize,
    content_type="text/event-stream",
    rules=Rules(
        id_length=64,
        name_pattern=r"[a-zA-Z0-9_-]+",
        name_length=128,
        pairs=True,
        signed_thoughts=True,
        system_in_place=True,
    ),
    field_names=FIELD_NAMES,
    # Codex compacts at `response.failed` with this code, and shows the body of a 400 as it is.
    fails_in_stream=frozenset({"context_overflow"}),
    encode_unavailable=encode_unavailable,
)
