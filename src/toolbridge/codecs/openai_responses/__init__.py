"""OpenAI's Responses API."""

from toolbridge.codecs.openai_responses.decode_request import decode_request
from toolbridge.codecs.openai_responses.decode_stream import StreamDecoder
from toolbridge.codecs.openai_responses.encode_request import encode_request
from toolbridge.codecs.openai_responses.encode_stream import StreamEncoder, encode_message
from toolbridge.codecs.openai_responses.field_names import FIELD_NAMES
from toolbridge.codecs.openai_responses.hosted_tools import encode_server_tool
from toolbridge.codecs.openai_responses.output import output_support
from toolbridge.codecs.openai_responses.rejections import decode_rejection, encode_rejection
from toolbridge.codecs.openai_responses.shapes import SHOWS
from toolbridge.codecs.openai_responses.tools import encode_unavailable
from toolbridge.core.codec import Codec, Rules


def authorize(key: str) -> dict[str, str]:
    """Return the header with the API key; a local server needs none."""
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
        # OpenAI Responses: `call_id` has at most 64 characters, the name of a function 128.
        id_length=64,
        name_pattern=r"[a-zA-Z0-9_-]+",
        name_length=128,
        pairs=True,
        # OpenAI Responses, reasoning items: accepted only with `encrypted_content` or a stored id.
        signed_thoughts=True,
        system_in_place=True,
        # OpenAI Responses: `input` needs an item; the system prompt is in `instructions`.
        needs_turn=True,
        # OpenAI Responses: `arguments` is a string that the API does not parse.
        text_arguments=True,
    ),
    output_support=output_support,
    encode_server_tool=encode_server_tool,
    field_names=FIELD_NAMES,
    # Codex compacts at `response.failed` with this code; the body of a 400 it only prints.
    fails_in_stream=frozenset({"context_overflow"}),
    encode_unavailable=encode_unavailable,
)
