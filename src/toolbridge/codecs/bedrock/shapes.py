"""The wire structs of the Converse API, and its tables.

The names are those of the API. Only the fields that the codec reads are listed. A content block is a
union with one key (`{"text": …}`, `{"toolUse": …}`), here a struct whose other fields are empty.
"""

import msgspec

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import StopReason

ORIGIN = "bedrock"

STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "refusal",
    "content_filtered": "refusal",
    "model_context_window_exceeded": "context_overflow",
}
MALFORMED = frozenset({"malformed_model_output", "malformed_tool_use"})
"""Stop reasons of an answer that the model broke: Bedrock has no usable content for it."""


class ReasoningText(msgspec.Struct):
    text: str | None = None
    signature: str | None = None


class Reasoning(msgspec.Struct, rename="camel"):
    """`reasoningText` in a whole answer; `text` and `signature` in a delta."""

    reasoning_text: ReasoningText | None = None
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class ToolUse(msgspec.Struct, rename="camel"):
    """`input` is an object in a whole answer and a piece of JSON text in a delta."""

    tool_use_id: str | None = None
    name: str | None = None
    input: Json = None


class Block(msgspec.Struct, rename="camel"):
    """A content block, the start of one, or a delta."""

    text: str | None = None
    tool_use: ToolUse | None = None
    reasoning_content: Reasoning | None = None
    citations_content: JsonObject | None = None
    citation: JsonObject | None = None
    image: JsonObject | None = None


class Counts(msgspec.Struct, rename="camel"):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    cache_details: list[JsonObject] | None = None


class StreamEvent(msgspec.Struct, rename="camel"):
    """The payload of an event of a stream; its type is in a header of the message."""

    content_block_index: int = 0
    start: Block | None = None
    delta: Block | None = None
    stop_reason: str | None = None
    usage: Json = None
    """`Counts`."""


class Message(msgspec.Struct):
    content: list[Block] | None = None


class Output(msgspec.Struct):
    message: Message | None = None


class Reply(msgspec.Struct, rename="camel"):
    """A whole answer."""

    output: Output | None = None
    stop_reason: str | None = None
    usage: Json = None
    """`Counts`."""
