"""Google's Gemini API: `generateContent`, `streamGenerateContent`, `countTokens`, embeddings."""

from toolbridge.codecs.gemini.builtin_tools import encode_server_tool
from toolbridge.codecs.gemini.decode_request import decode_request
from toolbridge.codecs.gemini.decode_stream import StreamDecoder
from toolbridge.codecs.gemini.encode_request import encode_request
from toolbridge.codecs.gemini.encode_stream import StreamEncoder, encode_message
from toolbridge.codecs.gemini.field_names import FIELD_NAMES
from toolbridge.codecs.gemini.output import output_support
from toolbridge.codecs.gemini.rejections import decode_rejection, encode_rejection
from toolbridge.codecs.gemini.shapes import SHOWS
from toolbridge.codecs.gemini.tools import encode_unavailable
from toolbridge.core.codec import Codec, Rules


def authorize(key: str) -> dict[str, str]:
    """Return the header with the key."""
    return {"x-goog-api-key": key} if key else {}


CODEC = Codec(
    name="gemini",
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
        # Gemini API, FunctionDeclaration: the pattern and the length of a name.
        name_pattern=r"[a-zA-Z_][a-zA-Z0-9_.:-]*",
        name_length=128,
        # Gemini API, function calling: a call must follow a content of the user.
        alternate=True,
        # Gemini API, Content: there is no role "system"; `systemInstruction` comes first.
        system_in_place=False,
        empty_text=False,
        # Gemini API: "contents is not specified".
        needs_turn=True,
        # Gemini API, generateContent: Gemini 3.6 and later reject a last content of the model.
        may_end_with_assistant=False,
        pairs=True,
    ),
    output_support=output_support,
    encode_server_tool=encode_server_tool,
    field_names=FIELD_NAMES,
    encode_unavailable=encode_unavailable,
)
