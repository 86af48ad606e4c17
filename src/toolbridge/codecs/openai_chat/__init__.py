"""OpenAI's Chat Completions, and all the places that speak it."""

from toolbridge.codecs.openai_chat.decode_rejection import decode_rejection
from toolbridge.codecs.openai_chat.decode_request import decode_request
from toolbridge.codecs.openai_chat.decode_stream import StreamDecoder
from toolbridge.codecs.openai_chat.encode_completion import completes
from toolbridge.codecs.openai_chat.encode_rejection import encode_rejection
from toolbridge.codecs.openai_chat.encode_request import encode_request
from toolbridge.codecs.openai_chat.encode_stream import StreamEncoder, encode_message
from toolbridge.codecs.openai_chat.field_names import FIELD_NAMES
from toolbridge.codecs.openai_chat.shapes import SHOWS
from toolbridge.core.codec import Codec, Rules


def authorize(key: str) -> dict[str, str]:
    """Return the header that carries a key; a server at home needs none."""
    return {"authorization": f"Bearer {key}"} if key else {}


CODEC = Codec(
    name="openai_chat",
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
        # Older models take ids of 40 characters, newer ones of 64; of any characters.
        id_length=40,
        name_pattern=r"[a-zA-Z0-9_-]+",
        name_length=64,
        pairs=True,
        system_in_place=True,
    ),
    completes=completes,
    field_names=FIELD_NAMES,
)
