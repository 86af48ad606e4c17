"""Wire structs of the Responses API, and the tables that both directions use.

OpenAI adds item types and fields without notice. The structs list only the fields that are read,
and the unions are open: an unknown type stays as it is.
"""

from typing import TypeAlias

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.json import Json
from toolbridge.core.messages import StopReason
from toolbridge.core.server_tools import ServerToolKind
from toolbridge.core.usage import TokenLimit
from toolbridge.wire.shapes import AnyObject, OpenUnion

ORIGIN = "openai_responses"
ERROR_MARK = "Error: "
"""Begins the text of a failed result: `function_call_output` has no field for errors."""
ANSWER_NAME = "response"
"""The name of an output schema without one. OpenAI, structured outputs: `name` is required."""
CONTENT = "content/"
"""Prefix for the kind of a foreign part inside a message; without it, the part is an item."""
FILENAME = "document"
"""The name of a file without one. OpenAI Responses: `file_data` needs a `filename`."""
ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""The value of `include` that returns thoughts encrypted, to be sent back without storage."""
LOGPROBS = "message.output_text.logprobs"
"""The value of `include` that returns the log probabilities of the output tokens."""

# ── requests ─────────────────────────────────────────────────────────────────


class Breakpoint(msgspec.Struct):
    mode: str | None = None
    ttl: str | None = None


class TextPart(msgspec.Struct):
    text: str
    annotations: list[AnyObject] | None = None
    prompt_cache_breakpoint: Breakpoint | None = None
    logprobs: Json = None
    """Log probabilities of an earlier answer; they are ignored in a request."""


class RefusalPart(msgspec.Struct):
    refusal: str


class ImageUrl(msgspec.Struct):
    url: str


class ImagePart(msgspec.Struct):
    image_url: str | ImageUrl | None = None
    file_id: str | None = None
    detail: str | None = None
    prompt_cache_breakpoint: Breakpoint | None = None


class FilePart(msgspec.Struct):
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    filename: str | None = None
    prompt_cache_breakpoint: Breakpoint | None = None


class InputAudio(msgspec.Struct):
    data: str
    format: str = ""


class AudioPart(msgspec.Struct):
    input_audio: InputAudio


AnyPart: TypeAlias = TextPart | RefusalPart | ImagePart | FilePart | AudioPart
PARTS: OpenUnion[AnyPart] = OpenUnion(
    {
        "input_text": TextPart,
        "output_text": TextPart,
        "text": TextPart,
        "refusal": RefusalPart,
        "input_image": ImagePart,
        "input_file": FilePart,
        "input_audio": AudioPart,
    }
)


class MessageItem(msgspec.Struct):
    type: str = ""
    role: str = ""
    content: str | list[msgspec.Raw] | None = None


class FunctionCall(msgspec.Struct):
    type: str
    call_id: str
    name: str
    arguments: str = ""
    namespace: str | None = None


class CustomCall(msgspec.Struct):
    type: str
    call_id: str
    name: str
    input: str = ""
    namespace: str | None = None


class Output(msgspec.Struct):
    type: str
    call_id: str
    output: str | list[msgspec.Raw] | None = None


class ReasoningText(msgspec.Struct):
    text: str = ""


class Reasoning(msgspec.Struct):
    type: str
    summary: list[ReasoningText] | None = None
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None


AnyItem: TypeAlias = MessageItem | FunctionCall | CustomCall | Output | Reasoning
ITEMS: OpenUnion[AnyItem] = OpenUnion(
    {
        "": MessageItem,
        "message": MessageItem,
        "function_call": FunctionCall,
        "custom_tool_call": CustomCall,
        "function_call_output": Output,
        "custom_tool_call_output": Output,
        "reasoning": Reasoning,
    }
)


class FunctionTool(msgspec.Struct):
    type: str = ""
    name: str = ""
    description: str | None = None
    parameters: AnyObject | None = None
    strict: bool | None = None
    defer_loading: bool | None = None


class Namespace(msgspec.Struct):
    type: str = ""
    name: str = ""
    tools: list[msgspec.Raw] = []


class Chosen(msgspec.Struct):
    """A tool in a `tool_choice`."""

    type: str = ""
    name: str = ""
    namespace: str | None = None
    server_label: str = ""


class Choice(Chosen):
    """A `tool_choice` that is an object."""

    mode: str = "auto"
    tools: list[Chosen] = []


class ReasoningConfig(msgspec.Struct):
    effort: str | None = None
    summary: str | None = None


class Format(msgspec.Struct):
    type: str
    name: str = ""
    schema: AnyObject | None = None
    strict: bool | None = None


_NULL = msgspec.Raw(b"null")


class TextConfig(msgspec.Struct):
    format: msgspec.Raw = _NULL


class Body(msgspec.Struct):
    """A request. Fields that are not listed are kept in `Request.extra`."""

    model: str | None = None
    input: str | list[msgspec.Raw] | None = None
    instructions: str | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = _NULL
    parallel_tool_calls: bool | None = None
    max_output_tokens: TokenLimit | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    reasoning: msgspec.Raw = _NULL
    text: msgspec.Raw = _NULL
    include: list[str] | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    stream: bool | None = None


# ── answers ──────────────────────────────────────────────────────────────────


class WriteDetails(msgspec.Struct):
    ttl_12h_tokens: int | None = None


class InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_tokens_details: WriteDetails | None = None


class OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class Counts(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


class Incomplete(msgspec.Struct):
    reason: str | None = None


class Error(msgspec.Struct):
    message: str | None = None
    type: str | None = None
    code: Json = None


class SearchUsage(msgspec.Struct):
    num_requests: int | None = None


class ToolUsage(msgspec.Struct):
    """How often hosted tools were used; searches are billed by number."""

    web_search: SearchUsage | None = None


class Reply(msgspec.Struct):
    """A response object, of a whole answer or inside an event."""

    id: str = ""
    model: str = ""
    status: str = ""
    output: list[AnyObject] | None = None
    usage: Json = None
    """`Counts`."""
    tool_usage: Json = None
    """`ToolUsage`."""
    error: Error | None = None
    incomplete_details: Incomplete | None = None


class Item(msgspec.Struct):
    """An output item with the fields of all known types, at its start or its end."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    encrypted_content: str | None = None
    content: list[AnyObject] | None = None
    summary: list[AnyObject] | None = None
    phase: str | None = None


class StreamEvent(msgspec.Struct):
    """An event with the fields of all known types, so that one pass decodes it."""

    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    content_index: int = 0
    summary_index: int = 0
    delta: Json = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    name: str | None = None
    item: AnyObject | None = None
    part: AnyObject | None = None
    annotation: AnyObject | None = None
    logprobs: Json = None
    response: Reply | None = None
    error: Error | None = None
    code: Json = None
    message: str | None = None


# ── tables ───────────────────────────────────────────────────────────────────

INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "length",
    "content_filter": "refusal",
    "steered": "end",
}
"""The stop reason for `incomplete_details.reason`; "length" for every other value."""

REASONS: dict[StopReason, str] = {
    "length": "max_output_tokens",
    "context_overflow": "max_output_tokens",
    "refusal": "content_filter",
}
"""The `incomplete_details.reason` for a stop reason; every other answer is `completed`."""

AUDIO_TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav"}
AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav"}

ANNOTATIONS = frozenset({"url_citation", "file_citation", "container_file_citation", "file_path"})
"""OpenAI Responses, annotations: flat objects, unlike `url_citation` of Chat Completions."""
SERVER_TOOLS: frozenset[ServerToolKind] = frozenset(
    {"web_search", "web_fetch", "tool_search", "code_execution", "mcp"}
)
SHOWS = AnswerFeatures(
    ORIGIN, images=frozenset({"data"}), citations=ANNOTATIONS, server_tools=SERVER_TOOLS
)
