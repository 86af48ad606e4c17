"""OpenAI's Chat Completions API, which most providers and local servers offer."""

import dataclasses

from toolbridge.codecs.openai_chat.completions import (
    CompletionEncoder,
    completes,
    decode_completion,
    encode_completion,
)
from toolbridge.codecs.openai_chat.decode_request import decode_request
from toolbridge.codecs.openai_chat.decode_stream import StreamDecoder
from toolbridge.codecs.openai_chat.encode_request import encode_request
from toolbridge.codecs.openai_chat.encode_stream import StreamEncoder, encode_message
from toolbridge.codecs.openai_chat.field_names import FIELD_NAMES
from toolbridge.codecs.openai_chat.output import output_support
from toolbridge.codecs.openai_chat.rejections import decode_rejection, encode_rejection
from toolbridge.codecs.openai_chat.search_options import encode_server_tool
from toolbridge.codecs.openai_chat.shapes import SHOWS
from toolbridge.core.codec import Codec, Rules


def authorize(key: str) -> dict[str, str]:
    """Return the header with the API key; a local server needs none."""
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
        # OpenAI chat: call ids have at most 40 characters (older models) or 64 (newer ones).
        id_length=40,
        # OpenAI chat, tools: "Invalid 'tools[0].function.name'" for any other name.
        name_pattern=r"[a-zA-Z0-9_-]+",
        name_length=64,
        pairs=True,
        system_in_place=True,
    ),
    completes=completes,
    output_support=output_support,
    encode_server_tool=encode_server_tool,
    field_names=FIELD_NAMES,
)

COMPLETIONS = dataclasses.replace(
    CODEC,
    name="openai_completions",
    decode_request=decode_completion,
    stream_encoder=CompletionEncoder,
    encode_message=encode_completion,
)
"""The codec of `/v1/completions`: its own requests and answers, the errors of Chat Completions."""
