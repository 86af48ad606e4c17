"""The shapes of OpenAI's Chat Completions, and the tables that both directions read.

Many places speak this API, each with a few words of its own. What a request may say and what an
answer may hold is listed here once, whoever invented it.
"""

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.json import Json
from toolbridge.core.messages import Cache, Effort, Opaque, StopReason
from toolbridge.wire.shapes import AnyObject

ORIGIN = "openai_chat"
ANNOTATIONS = frozenset({"file"})
"""The types of annotation beside links: OpenRouter's, for a file that it has read."""
SHOWS = AnswerFeatures(
    ORIGIN, images=frozenset({"data", "url"}), citations=ANNOTATIONS, alternatives=True
)
AUDIO = "audio"
"""The kind of a part that holds speech; its transcript is a text of its own."""
ERROR_MARK = "Error: "
"""How a result says that it is an error: the API has no field for it."""
ANSWER_NAME = "response"
"""The name of an output schema that nobody named; the API demands one."""

# ── requests ─────────────────────────────────────────────────────────────────


class Breakpoint(msgspec.Struct):
    """The end of a prefix to cache."""

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
    """A part of a message, of whatever type."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | str | None = None
    input_audio: InputAudio | None = None
    file: File | None = None
    prompt_cache_breakpoint: Breakpoint | None = None
    cache_control: Breakpoint | None = None
    """Anthropic's mark, which OpenRouter and LiteLLM take too."""


class Function(msgspec.Struct):
    """A function that is called, whole or in pieces."""

    name: str | None = None
    arguments: Json = None
    """Text that holds an object; careless servers send the object itself."""


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
    """A piece of reasoning, as OpenRouter tells it."""

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
    """What the model cited. No place takes it back, so nobody reads it."""


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
    """A tool with the shapes inside it, to see what is in none of them."""

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
    """Where the Responses API has the name; some clients mix the two up."""


class AllowedTools(msgspec.Struct):
    mode: str = "auto"
    tools: list[NamedTool] = []


class Choice(NamedTool):
    """A tool choice that is more than a word."""

    allowed_tools: AllowedTools | None = None


class JsonSchema(msgspec.Struct):
    name: str = ""
    schema: AnyObject | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct):
    type: str
    json_schema: JsonSchema | None = None


class Body(msgspec.Struct):
    """A request. Fields that are not listed are kept by their own names."""

    model: str | None = None
    messages: list[msgspec.Raw] | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = _NULL
    parallel_tool_calls: bool | None = None
    functions: list[ToolFunction] | None = None
    function_call: str | Named | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
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
    """DeepSeek's word for the cached ones."""


class AudioPiece(msgspec.Struct, omit_defaults=True):
    """Speech, whole or in pieces; the transcript is what is said in it."""

    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: Json = None


class Delta(msgspec.Struct):
    """What a chunk adds, or the whole message of an answer that came at once."""

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
    """In answers of `/completions`."""
    finish_reason: str | None = None
    stop_reason: Json = None
    """At vLLM, the stop sequence that was met."""
    logprobs: Json = None
    usage: Counts | None = None
    """Where Moonshot counts."""
    error: Json = None


class GroqPart(msgspec.Struct):
    usage: Counts | None = None
    error: Json = None


class Chunk(msgspec.Struct):
    """One event of a stream, or a whole body."""

    id: str | None = None
    model: str | None = None
    choices: list[AnswerChoice] | None = None
    usage: AnyObject | None = None
    x_groq: GroqPart | None = None
    error: Json = None
    created: Json = None
    system_fingerprint: Json = None
    service_tier: Json = None
    provider: Json = None
    """Who served it, at OpenRouter."""


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
"""What a `finish_reason` means; any other is an end like "stop"."""

BROKEN_STOPS = {
    "error": "rejected",
    "abort": "truncated",
    "network_error": "truncated",
    "insufficient_system_resource": "overloaded",
}
"""Reasons by which a place says that the answer is not whole, and what is wrong then."""

FINISH_REASONS: dict[StopReason, str] = {
    "tool_use": "tool_calls",
    "length": "length",
    "context_overflow": "length",
    "refusal": "content_filter",
}
"""The `finish_reason` of a stop; every other one is "stop"."""

EFFORTS: dict[str, Effort] = {
    "none": "none",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}

ERROR_KINDS = {
    "requests": "rate_limited",
    "tokens": "rate_limited",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "insufficient_quota": "rejected",  # comes with 429, but waiting does not help
    "exceed_context_size_error": "context_overflow",
    "context_length_exceeded": "context_overflow",
    "model_not_found": "unknown_model",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "engine_overloaded": "overloaded",
    "service_unavailable": "overloaded",
    "timeout": "timed_out",
}
"""Error types and codes that say what to do; of the others, the status says it."""

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
    "overloaded": ("server_error", "overloaded"),
    "timed_out": ("server_error", "timeout"),
}
"""The type and the code of a problem; what is not here is told by its status."""

# ── small readings that both directions share ────────────────────────────────


def read_cache(part: ContentPart) -> Cache:
    given = part.prompt_cache_breakpoint or part.cache_control
    if given is None:
        return ""
    return "1h" if given.ttl in {"1h", "12h"} else "5m"


def write_cache(cache: Cache) -> str:
    """Return the lifetime that stands for ours: this API keeps a prefix longer."""
    return "12h" if cache == "1h" else "30m"


def split_data_url(url: str) -> tuple[str, str]:
    """Return the media type and the base64 of a `data:` URL; two empty texts for any other."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        return "", ""
    return head.removeprefix("data:").partition(";")[0], data


def read_seal(detail: Detail) -> Opaque | None:
    """Return the token that a piece of reasoning carries, with all that must be sent back.

    OpenRouter wants its details as they were, so a token with a name or a number is kept whole.
    """
    token = detail.signature or detail.data
    if not token:
        return None
    if (detail.id, detail.format, detail.index) == (None, None, None):
        return Opaque(ORIGIN, "signature" if detail.signature else "redacted", token)
    bare = msgspec.structs.replace(detail, text=None, summary=None)
    return Opaque(ORIGIN, "item", msgspec.json.encode(bare).decode())


def write_seal(opaque: Opaque) -> Detail | None:
    """Return a token as the detail that it came in; one of another API has no place here."""
    if opaque.origin.partition("/")[0] != ORIGIN:
        return None
    if opaque.kind == "signature":
        return Detail("reasoning.text", signature=opaque.value)
    if opaque.kind == "item":
        return msgspec.json.decode(opaque.value, type=Detail)
    return Detail("reasoning.encrypted", data=opaque.value)
