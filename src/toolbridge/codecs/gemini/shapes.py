"""Gemini's wire structs, and the tables that both directions use.

The names are those of the Gemini API's GenerateContentRequest and GenerateContentResponse, in camel
case. Requests may also have keys in snake case; `spelling` makes them uniform first.
"""

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import StopReason
from toolbridge.core.usage import TokenLimit
from toolbridge.wire.shapes import AnyObject

ORIGIN = "gemini"
CITATION = "citation_source"
"""The type that this codec gives to a citation from `citationMetadata`: its entries have no type."""
SHOWS = AnswerFeatures(
    ORIGIN,
    images=frozenset({"data", "url"}),
    citations=frozenset({CITATION}),
    alternatives=True,
    server_tools=frozenset({"web_search", "web_fetch", "code_execution"}),
)
METADATA = frozenset({"groundingMetadata", "urlContextMetadata"})
"""Fields of a candidate that describe the work of built-in tools; in our message they are parts."""
ALT = "alt"
"""The key in `Request.extra` of the query parameter `alt`: "json" asks for an array, not SSE."""
FEEDBACK = "promptFeedback"
"""The field that a blocked prompt is answered with, in place of candidates."""
CONFIG = "generationConfig"
MESSAGE = "message"
"""The kind of the part that holds the unknown fields of a content."""

# ── parts ────────────────────────────────────────────────────────────────────


class Blob(msgspec.Struct, rename="camel"):
    """Gemini API, Blob: base64 with a media type."""

    mime_type: str | None = None
    data: str | None = None
    display_name: str | None = None


class FileData(msgspec.Struct, rename="camel"):
    """Gemini API, FileData: a file of the Files API, or a URL."""

    mime_type: str | None = None
    file_uri: str | None = None


class PartialArg(msgspec.Struct, rename="camel"):
    """A piece of an argument; one without any value is null. Only Vertex AI sends them."""

    json_path: str = ""
    string_value: str | None = None
    number_value: float | None = None
    bool_value: bool | None = None


class FunctionCall(msgspec.Struct, rename="camel"):
    """Gemini API, FunctionCall: `id` is optional, `args` an object."""

    id: str | None = None
    name: str | None = None
    args: AnyObject | None = None
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class FunctionResponse(msgspec.Struct, rename="camel"):
    """Gemini API, FunctionResponse: `parts` holds media, from Gemini 3 on."""

    id: str | None = None
    name: str | None = None
    response: AnyObject | None = None
    parts: list[AnyObject] | None = None


class MediaResolution(msgspec.Struct):
    """Gemini API, MediaResolution: how many tokens an image may take."""

    level: str | None = None


class Part(msgspec.Struct, rename="camel"):
    """A part of a content.

    Gemini API, Part: exactly one of the fields `text` to `functionResponse` is set. In a part of an
    unknown kind, each field is `None`.
    """

    thought: bool | None = None
    thought_signature: str | None = None
    text: str | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    media_resolution: MediaResolution | None = None


MODIFIERS = frozenset(
    {
        "thought", "thoughtSignature", "mediaResolution", "videoMetadata", "partMetadata",
        "mediaProcessing", "speechMetadata",
    }
)  # fmt: skip
"""The fields of a part that modify it; any other field is its kind."""


# ── requests ─────────────────────────────────────────────────────────────────


class Content(msgspec.Struct):
    """Gemini API, Content: `role` may be missing in a request of one turn."""

    role: str | None = None
    parts: list[AnyObject] | None = None


class Declaration(msgspec.Struct, rename="camel"):
    """Gemini API, FunctionDeclaration: `parameters` or `parametersJsonSchema`, never both."""

    name: str
    description: str | None = None
    parameters: AnyObject | None = None
    parameters_json_schema: AnyObject | None = None


class CallingConfig(msgspec.Struct, rename="camel"):
    """Gemini API, FunctionCallingConfig: AUTO, ANY, NONE or VALIDATED."""

    mode: str | None = None
    allowed_function_names: list[str] | None = None


class ToolConfig(msgspec.Struct, rename="camel"):
    """Gemini API, ToolConfig."""

    function_calling_config: AnyObject | None = None


class ThinkingConfig(msgspec.Struct, rename="camel"):
    """Gemini API, ThinkingConfig: a level or a budget, never both."""

    include_thoughts: bool | None = None
    thinking_budget: int | None = None
    thinking_level: str | None = None


class GenerationConfig(msgspec.Struct, rename="camel"):
    """Gemini API, GenerationConfig."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_output_tokens: TokenLimit | None = None
    stop_sequences: list[str] | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    candidate_count: int | None = None
    response_mime_type: str | None = None
    response_schema: AnyObject | None = None
    response_json_schema: AnyObject | None = None
    thinking_config: AnyObject | None = None


class Body(msgspec.Struct, rename="camel"):
    """Gemini API, GenerateContentRequest."""

    contents: list[AnyObject] | AnyObject | str | None = None
    system_instruction: AnyObject | list[AnyObject] | str | None = None
    tools: list[AnyObject] | None = None
    tool_config: AnyObject | None = None
    generation_config: AnyObject | None = None


# ── answers ──────────────────────────────────────────────────────────────────


class Counts(msgspec.Struct, rename="camel"):
    """Gemini API, UsageMetadata."""

    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class Candidate(msgspec.Struct, rename="camel"):
    """Gemini API, Candidate: one of the answers to a request."""

    index: int | None = None
    content: AnyObject | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    citation_metadata: AnyObject | None = None
    grounding_metadata: AnyObject | None = None
    url_context_metadata: AnyObject | None = None
    logprobs_result: AnyObject | None = None


class PromptFeedback(msgspec.Struct, rename="camel", omit_defaults=True):
    """Gemini API, PromptFeedback: set where the prompt was blocked."""

    block_reason: str | None = None
    block_reason_message: str | None = None
    safety_ratings: list[AnyObject] | None = None


class StreamChunk(msgspec.Struct, rename="camel"):
    """One piece of a streamed answer, or the whole answer."""

    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: Json = None
    """`Counts`."""
    model_version: str | None = None
    response_id: str | None = None
    error: AnyObject | str | None = None


# ── tables ───────────────────────────────────────────────────────────────────

# Gemini API, FinishReason; LiteLLM has seen ESCALATION and MISSING_THOUGHT_SIGNATURE as well.
FINISH_REASONS: dict[str, StopReason] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "refusal",
    "RECITATION": "refusal",
    "LANGUAGE": "refusal",
    "BLOCKLIST": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "SPII": "refusal",
    "OTHER": "refusal",
    "ESCALATION": "refusal",
    "IMAGE_SAFETY": "refusal",
    "IMAGE_PROHIBITED_CONTENT": "refusal",
    "IMAGE_RECITATION": "refusal",
    "IMAGE_OTHER": "refusal",
}
"""Our stop reason for a `finishReason`; "end" for any other."""

FAILURES = {
    "MALFORMED_FUNCTION_CALL": "broken_call",
    "UNEXPECTED_TOOL_CALL": "broken_call",
    "TOO_MANY_TOOL_CALLS": "broken_call",
    "MALFORMED_RESPONSE": "broken_call",
    "MISSING_THOUGHT_SIGNATURE": "rejected",
}
"""Finish reasons of answers without a usable result, with the kind of the problem."""

REFUSED = "SAFETY"
"""The `finishReason` for a refusal without a category."""

STOPS: dict[StopReason, str] = {
    "length": "MAX_TOKENS",
    "context_overflow": "MAX_TOKENS",
    "refusal": REFUSED,
    "error": "OTHER",
    "aborted": "OTHER",
}
"""The `finishReason` for our stop reason; "STOP" for any other, calls included."""

DETAILS = {"MEDIA_RESOLUTION_LOW": "low", "MEDIA_RESOLUTION_HIGH": "high"}


def decode_rest(given: JsonObject | None, shape: type[msgspec.Struct]) -> JsonObject:
    """Return the fields of an object that `shape` does not list."""
    known = shape.__struct_encode_fields__
    return {k: v for k, v in (given or {}).items() if k not in known and v is not None}
