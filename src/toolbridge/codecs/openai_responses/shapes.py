"""The shapes of OpenAI's Responses, and the tables that both directions read."""

from typing import TypeAlias

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.json import Json
from toolbridge.core.messages import Effort, StopReason
from toolbridge.wire.shapes import AnyObject, OpenUnion

ORIGIN = "openai_responses"
ERROR_MARK = "Error: "
"""How a result says that it is an error: the API has no field for it."""
ANSWER_NAME = "response"
"""The name of an output schema that nobody named; the API demands one."""
CONTENT = "content/"
"""Begins the kind of a foreign part that stands inside a message; others are items of their own."""
FILENAME = "document"
"""The name of a file that has none; the API demands one beside the data."""
SEALED = "reasoning.encrypted_content"
"""What `include` says so that thoughts can be sent back where nothing is stored."""
LOGPROBS = "message.output_text.logprobs"
"""What `include` says so that the answer holds the log probabilities of its tokens."""

# ── requests ─────────────────────────────────────────────────────────────────


class Breakpoint(msgspec.Struct):
    mode: str | None = None
    ttl: str | None = None


class TextPart(msgspec.Struct):
    text: str
    annotations: list[AnyObject] | None = None
    prompt_cache_breakpoint: Breakpoint | None = None
    logprobs: Json = None
    """Of what the model said; it is never read again."""


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
    """A tool that a choice names."""

    type: str = ""
    name: str = ""
    namespace: str | None = None
    server_label: str = ""


class Choice(Chosen):
    """A tool choice that is more than a word."""

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
    """A request. Fields that are not listed are kept by their own names."""

    model: str | None = None
    input: str | list[msgspec.Raw] | None = None
    instructions: str | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = _NULL
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
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


class Reply(msgspec.Struct):
    """A whole answer, or the beginning of one."""

    id: str = ""
    model: str = ""
    status: str = ""
    output: list[AnyObject] | None = None
    usage: Counts | None = None
    error: Error | None = None
    incomplete_details: Incomplete | None = None


class Item(msgspec.Struct):
    """An item of an answer: in a stream its start or its end."""

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
    """One event of a stream, of whatever type: one pass over the bytes reads it."""

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

EFFORTS: dict[str, Effort] = {
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}

INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "length",
    "content_filter": "refusal",
    "steered": "end",
}
"""Why an answer is incomplete; any other reason cut it as a limit does."""

REASONS: dict[StopReason, str] = {
    "length": "max_output_tokens",
    "context_overflow": "max_output_tokens",
    "refusal": "content_filter",
}
"""The stops that leave an answer incomplete; after every other one it is completed."""

AUDIO_TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav"}
AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav"}

ANNOTATIONS = frozenset({"url_citation", "file_citation", "container_file_citation", "file_path"})
SHOWS = AnswerFeatures(ORIGIN, images=frozenset({"data"}), citations=ANNOTATIONS)

ERROR_KINDS = {
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
    "requests": "rate_limited",
    "tokens": "rate_limited",
    "insufficient_quota": "rejected",  # comes with 429, but waiting does not help
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "model_not_found": "unknown_model",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "overloaded_error": "overloaded",
    "timeout": "timed_out",
}
"""Error types and codes that say what to do; of the others, the status says it."""

FAILURE_CODES = {
    "rate_limited": "rate_limit_exceeded",
    "context_overflow": "context_length_exceeded",
    "overloaded": "server_is_overloaded",
    "malformed_request": "invalid_prompt",
    "unsupported": "invalid_prompt",
}
"""The code of a failure in mid-answer, as Codex knows them; any other is a server's error."""

ERROR_TYPES: dict[str, tuple[str, str | None]] = {
    "malformed_request": ("invalid_request_error", None),
    "unsupported": ("invalid_request_error", "unsupported_value"),
    "thinking_not_supported": ("invalid_request_error", "thinking_not_supported"),
    "context_overflow": ("invalid_request_error", "context_length_exceeded"),
    "too_large": ("invalid_request_error", "request_too_large"),
    "unknown_model": ("invalid_request_error", "model_not_found"),
    "unknown_route": ("invalid_request_error", "unknown_url"),
    "wrong_method": ("invalid_request_error", "method_not_supported"),
    "not_allowed": ("permission_error", None),
    "unauthenticated": ("invalid_request_error", "invalid_api_key"),
    "rate_limited": ("requests", "rate_limit_exceeded"),
    "overloaded": ("server_error", "server_is_overloaded"),
    "timed_out": ("server_error", "timeout"),
}
"""The type and the code of a problem; what is not here is told by its status."""
