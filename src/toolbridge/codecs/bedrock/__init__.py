"""Amazon Bedrock's Converse API: `/model/ID/converse` and `/model/ID/converse-stream`.

It is the API of a provider only: no client of the gateway uses it, so that the folder has no
decoder of requests and no encoder of answers.
"""

from toolbridge.codecs.bedrock.decode_stream import StreamDecoder
from toolbridge.codecs.bedrock.encode_request import encode_request
from toolbridge.codecs.bedrock.output import output_support
from toolbridge.codecs.bedrock.rejections import decode_rejection
from toolbridge.core.codec import Rules, TargetCodec


def authorize(key: str) -> dict[str, str]:
    """Return the header with an API key of Amazon Bedrock; other credentials sign the request."""
    return {"authorization": f"Bearer {key}"}


CODEC = TargetCodec(
    name="bedrock",
    encode_request=encode_request,
    stream_decoder=StreamDecoder,
    decode_rejection=decode_rejection,
    authorize=authorize,
    rules=Rules(
        # Amazon Bedrock, ToolUseBlock: the pattern and the length of ids and names.
        id_pattern=r"[a-zA-Z0-9_.:-]+",
        id_length=64,
        name_pattern=r"[a-zA-Z0-9_-]+",
        name_length=64,
        # Amazon Bedrock, Converse: roles alternate, and the user is first.
        alternate=True,
        system_in_place=False,
        # Amazon Bedrock, Converse: "The text field in the ContentBlock object … is blank".
        empty_text=False,
        # Bedrock, Converse: a conversation needs a message.
        needs_turn=True,
        may_end_with_assistant=False,
        pairs=True,
        signed_thoughts=True,
    ),
    output_support=output_support,
)
