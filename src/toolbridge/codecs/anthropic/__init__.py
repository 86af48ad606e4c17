"""Anthropic's Messages API: `/v1/messages` and `/v1/messages/count_tokens`."""

from toolbridge.codecs.anthropic.decode_request import decode_request
from toolbridge.codecs.anthropic.decode_stream import StreamDecoder
from toolbridge.codecs.anthropic.encode_request import encode_request
from toolbridge.codecs.anthropic.encode_stream import StreamEncoder, encode_message
from toolbridge.codecs.anthropic.field_names import FIELD_NAMES
from toolbridge.codecs.anthropic.output import output_support
from toolbridge.codecs.anthropic.rejections import decode_rejection, encode_rejection
from toolbridge.codecs.anthropic.shapes import SHOWS
from toolbridge.codecs.anthropic.tools import encode_unavailable
from toolbridge.codecs.anthropic.typed_tools import encode_server_tool
from toolbridge.core.codec import Codec, Rules


def authorize(key: str) -> dict[str, str]:
    """Return the header with the key; every version of the API accepts `x-api-key`."""
    return {"x-api-key": key}


CODEC = Codec(
    name="anthropic",
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
        # Anthropic, tool use: ids and names match these patterns; anything else is a 400.
        id_pattern=r"[a-zA-Z0-9_-]+",
        name_pattern=r"[a-zA-Z0-9_-]+",
        name_length=128,
        # Anthropic, Messages API: consecutive messages of one role are merged, the user is first.
        alternate=True,
        system_in_place=True,
        # Anthropic, Messages API: a system message follows a user message, and is the last one or
        # before one of the assistant.
        system_after_user=True,
        # Anthropic, Messages API: "text content blocks must contain non-whitespace text".
        empty_text=False,
        # Anthropic, Messages API: "messages: at least one message is required".
        needs_turn=True,
        # Anthropic, prefill: Claude 4.6 and later reject a last message of the assistant.
        may_end_with_assistant=False,
        # Anthropic, tool use: each tool_use needs its tool_result in the next message.
        pairs=True,
        signed_thoughts=True,
        cache_marks=True,
        defers=True,
    ),
    output_support=output_support,
    encode_server_tool=encode_server_tool,
    field_names=FIELD_NAMES,
    encode_unavailable=encode_unavailable,
)
