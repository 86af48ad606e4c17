"""Wire structs of Chat Completions, and the tables that both directions use.

Many providers offer this API, each with fields of its own. The structs list the fields that are
read, OpenAI's and those of other providers; a comment names who sends the latter.
"""

from typing import Literal

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.json import Json
from toolbridge.core.messages import StopReason
from toolbridge.core.usage import TokenLimit
from toolbridge.wire.shapes import AnyObject

ORIGIN = "openai_chat"
ANNOTATIONS = frozenset({"file"})
"""The types of annotation beside `url_citation`: OpenRouter's, for a file that it has parsed."""
SHOWS = AnswerFeatures(
    ORIGIN, images=frozenset({"data", "url"}), citations=ANNOTATIONS, alternatives=True
)
AUDIO = "audio"
"""The kind of a `Foreign` part with generated speech; its transcript is a text part."""
MESSAGE = "message"
"""The kind of a `Foreign` part with fields of a message that have no counterpart."""
ERROR_MARK = "Error: "
"""Begins the text of a failed result: tool messages have no field for errors."""
ANSWER_NAME = "response"
"""The name of an output schema without one. OpenAI, structured outputs: `name` is required."""

# ── requests ─────────────────────────────────────────────────────────────────


class Breakpoint(msgspec.Struct):
    """Marks the end of a cached prefix."""

    type: str | None = None
    mode: str | None = None
    ttl: str | None = None


class ImageUrl(msgspec.Struct):
    url: str
    detail: str | None = None


class InputAudio(msgspec.Struct):
    data: str
    format: str = ""


class File(msgspec.Struct):
    file_id: str | None = None
    file_data: str | None = None
    filename: str | None = None


class ContentPart(msgspec.Struct):
    """A content part with the fields of all known types."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | str | None = None
    input_audio: InputAudio | None = None
    file: File | None = None
    prompt_cache_breakpoint: Breakpoint | None = None
    cache_control: Breakpoint | None = None
    """Anthropic's mark, which OpenRouter and LiteLLM accept as well."""


class Function(msgspec.Struct):
    """The function of a tool call, whole or a piece of one."""

    name: str | None = None
    arguments: Json = None
    """OpenAI chat: JSON text. Some servers send the object itself."""


class Custom(msgspec.Struct):
    name: str | None = None
    input: str | None = None


class GoogleContent(msgspec.Struct):
    thought_signature: str | None = None


class ExtraContent(msgspec.Struct):
    google: GoogleContent | None = None


class ToolCall(msgspec.Struct):
    id: str | None = None
    type: str | None = None
    index: int | None = None
    function: Function | None = None
    custom: Custom | None = None
    extra_content: ExtraContent | None = None


class Detail(msgspec.Struct, omit_defaults=True):
    """One element of `reasoning_details` (OpenRouter, reasoning tokens)."""

    type: str = ""
    text: str | None = None
    summary: str | None = None
    data: str | None = None
    signature: str | None = None
    id: str | None = None
    format: str | None = None
    index: int | None = None


class Message(msgspec.Struct):
    role: str
    content: str | list[msgspec.Raw] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: Function | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Detail] | None = None
    annotations: Json = None
    """Citations of an earlier answer. No provider accepts them in a request; they are ignored."""


class ToolFunction(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: AnyObject | None = None
    strict: bool | None = None


class CustomTool(msgspec.Struct):
    name: str
    description: str | None = None


_NULL = msgspec.Raw(b"null")


class ToolDefinition(msgspec.Struct):
    """A tool with its nested structs, to find the fields that none of them has."""

    function: ToolFunction | None = None
    custom: CustomTool | None = None


class Tool(msgspec.Struct):
    type: str = "function"
    function: msgspec.Raw = _NULL
    custom: msgspec.Raw = _NULL


class Named(msgspec.Struct):
    name: str


class NamedTool(msgspec.Struct):
    type: str = "function"
    function: Named | None = None
    custom: Named | None = None
    name: str = ""
    """Where the Responses API has the name; some clients send this shape here."""


class AllowedTools(msgspec.Struct):
    mode: str = "auto"
    tools: list[NamedTool] = []


class Choice(NamedTool):
    """A `tool_choice` that is an object."""

    allowed_tools: AllowedTools | None = None


class JsonSchema(msgspec.Struct):
    name: str = ""
    schema: AnyObject | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct):
    type: str
    json_schema: JsonSchema | None = None


class Body(msgspec.Struct):
    """A request. Fields that are not listed are kept in `Request.extra`."""

    model: str | None = None
    messages: list[msgspec.Raw] | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = _NULL
    parallel_tool_calls: bool | None = None
    functions: list[ToolFunction] | None = None
    function_call: str | Named | None = None
    max_tokens: TokenLimit | None = None
    max_completion_tokens: TokenLimit | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    repeat_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    n: int | None = None
    reasoning_effort: str | None = None
    response_format: msgspec.Raw = _NULL
    stream: bool | None = None
    user: str | None = None
    safety_identifier: str | None = None


# ── answers ──────────────────────────────────────────────────────────────────


class PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class Counts(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    """Cached tokens at DeepSeek."""


class AudioPiece(msgspec.Struct, omit_defaults=True):
    """Generated speech and its transcript, whole or a piece of it."""

    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: Json = None


class Delta(msgspec.Struct):
    """The delta of a chunk, or the message of a whole answer."""

    content: str | list[AnyObject] | None = None
    reasoning_content: Json = None
    reasoning: Json = None
    thinking: Json = None
    reasoning_details: list[Detail] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None
    annotations: list[AnyObject] | None = None
    images: list[AnyObject] | None = None
    audio: AudioPiece | None = None


class AnswerChoice(msgspec.Struct):
    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    text: str | None = None
    """The text of an answer of `/completions`."""
    finish_reason: str | msgspec.UnsetType | None = msgspec.UNSET
    """In a whole body, null means that the model has not ended; some servers leave the field out."""
    stop_reason: Json = None
    """The stop sequence that ended the answer (vLLM)."""
    logprobs: Json = None
    usage: Json = None
    """Moonshot sends the usage of a stream inside the last choice."""
    error: Json = None


class GroqPart(msgspec.Struct):
    usage: Json = None
    error: Json = None


class Chunk(msgspec.Struct):
    """One chunk of a stream, or a whole body."""

    id: str | None = None
    model: str | None = None
    choices: list[AnswerChoice] | None = None
    usage: Json = None
    x_groq: GroqPart | None = None
    error: Json = None
    created: Json = None
    system_fingerprint: Json = None
    service_tier: Json = None
    provider: Json = None
    """The provider that served the request (OpenRouter)."""


class OnlyText(msgspec.Struct, gc=False):
    """A delta that has text and nothing else that is read."""

    content: str
    reasoning_content: None = None
    reasoning: None = None
    thinking: None = None
    reasoning_details: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    annotations: None = None
    images: None = None
    audio: None = None


class TextChoice(msgspec.Struct, gc=False):
    """The choice of a `TextChunk`."""

    delta: OnlyText
    index: Literal[0] | None = None
    message: None = None
    text: None = None
    finish_reason: None = None
    stop_reason: None = None
    logprobs: None = None
    usage: None = None
    error: None = None


class TextChunk(msgspec.Struct, gc=False):
    """A chunk that has text and nothing else that is read, as nearly every chunk of a stream.

    It lists the fields of `Chunk`, so that it decodes only what `Chunk` decodes.
    """

    choices: tuple[TextChoice]
    id: str | None = None
    model: str | None = None
    usage: None = None
    x_groq: None = None
    error: None = None
    created: Json = None
    system_fingerprint: Json = None
    service_tier: Json = None
    provider: Json = None


# ── tables ───────────────────────────────────────────────────────────────────

STOPS: dict[str, StopReason] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
    "model_length": "length",  # Mistral
    "max_tokens": "length",
    "sensitive": "refusal",  # GLM
    "safety": "refusal",
}
"""The stop reason for a `finish_reason`; every other value ends the answer like "stop"."""

BROKEN_STOPS = {
    "error": "rejected",
    "abort": "truncated",
    "network_error": "truncated",
    "insufficient_system_resource": "overloaded",
}
"""The kind of problem for a `finish_reason` of an incomplete answer: OpenRouter's "error", SGLang's
"abort", GLM's "network_error", DeepSeek's "insufficient_system_resource"."""

FINISH_REASONS: dict[StopReason, str] = {
    "tool_use": "tool_calls",
    "length": "length",
    "context_overflow": "length",
    "refusal": "content_filter",
}
"""The `finish_reason` for a stop reason; every other one is "stop"."""
