"""Gemini's shapes, and the tables that both directions read.

Keys are written in camel case; protocol buffers read snake case as well, and clients mix both.
Request shapes are read from what `spelling` made uniform.
"""

from typing import Literal

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Effort, Opaque, StopReason
from toolbridge.wire.shapes import AnyObject

ORIGIN = "gemini"
CITATION = "citation_source"
"""The type that we give to an entry of `citationMetadata`, which has none."""
SHOWS = AnswerFeatures(
    ORIGIN,
    images=frozenset({"data", "url"}),
    citations=frozenset({CITATION}),
    alternatives=True,
)
METADATA = frozenset({"groundingMetadata", "urlContextMetadata"})
"""Fields of a candidate that say how its tools worked. Between codecs they are parts of the answer."""
ALT = "alt"
"""The name, in `Request.extra`, of how a stream is framed: "json" for an array instead of SSE."""

SKIP = "skip_thought_signature_validator"
"""The documented signature for a call that Gemini did not sign itself."""
_NO_SIGNATURES = frozenset(
    {
        "", SKIP, "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
        "context_engineering_is_the_way_to_go", "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv",
    }
)  # fmt: skip
"""What stands where a signature belongs and is none: the words, and their base64 as SDKs write it."""


# ── parts ────────────────────────────────────────────────────────────────────


class Blob(msgspec.Struct, rename="camel"):
    mime_type: str | None = None
    data: str | None = None
    display_name: str | None = None


class FileData(msgspec.Struct, rename="camel"):
    mime_type: str | None = None
    file_uri: str | None = None


class PartialArg(msgspec.Struct, rename="camel"):
    """A piece of an argument, on Vertex; without a value the null value is meant."""

    json_path: str = ""
    string_value: str | None = None
    number_value: float | None = None
    bool_value: bool | None = None


class FunctionCall(msgspec.Struct, rename="camel"):
    id: str | None = None
    name: str | None = None
    args: AnyObject | None = None
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class FunctionResponse(msgspec.Struct, rename="camel"):
    id: str | None = None
    name: str | None = None
    response: AnyObject | None = None
    parts: list[AnyObject] | None = None


class MediaResolution(msgspec.Struct):
    level: str | None = None


class Part(msgspec.Struct, rename="camel"):
    """One of the fields after the first two is set; none in a part of a kind that we do not know."""

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
"""The fields of a part that do not say what it is."""


# ── requests ─────────────────────────────────────────────────────────────────


class Content(msgspec.Struct):
    role: str | None = None
    parts: list[AnyObject] | None = None


class Declaration(msgspec.Struct, rename="camel"):
    name: str
    description: str | None = None
    parameters: AnyObject | None = None
    parameters_json_schema: AnyObject | None = None


class CallingConfig(msgspec.Struct, rename="camel"):
    mode: str | None = None
    allowed_function_names: list[str] | None = None


class ToolConfig(msgspec.Struct, rename="camel"):
    function_calling_config: AnyObject | None = None


class ThinkingConfig(msgspec.Struct, rename="camel"):
    include_thoughts: bool | None = None
    thinking_budget: int | None = None
    thinking_level: str | None = None


class GenerationConfig(msgspec.Struct, rename="camel"):
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_output_tokens: int | None = None
    stop_sequences: list[str] | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    candidate_count: int | None = None
    response_mime_type: str | None = None
    response_schema: AnyObject | None = None
    response_json_schema: AnyObject | None = None
    thinking_config: AnyObject | None = None


class Body(msgspec.Struct, rename="camel"):
    contents: list[AnyObject] | AnyObject | str | None = None
    system_instruction: AnyObject | list[AnyObject] | str | None = None
    tools: list[AnyObject] | None = None
    tool_config: AnyObject | None = None
    generation_config: AnyObject | None = None


# ── answers ──────────────────────────────────────────────────────────────────


class Counts(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class Candidate(msgspec.Struct, rename="camel"):
    index: int | None = None
    content: AnyObject | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    citation_metadata: AnyObject | None = None
    grounding_metadata: AnyObject | None = None
    url_context_metadata: AnyObject | None = None
    logprobs_result: AnyObject | None = None


class PromptFeedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class StreamChunk(msgspec.Struct, rename="camel"):
    """One piece of an answer, or the whole of it."""

    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: Counts | None = None
    model_version: str | None = None
    response_id: str | None = None
    error: AnyObject | str | None = None


# ── tables ───────────────────────────────────────────────────────────────────

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
"""Why an answer ended; any other reason is an end like any other."""

FAILURES = {
    "MALFORMED_FUNCTION_CALL": "broken_call",
    "UNEXPECTED_TOOL_CALL": "broken_call",
    "TOO_MANY_TOOL_CALLS": "broken_call",
    "MALFORMED_RESPONSE": "broken_call",
    "MISSING_THOUGHT_SIGNATURE": "rejected",
}
"""Finish reasons of answers that nobody can use."""

REFUSED = "SAFETY"
"""The finish reason of a refusal of which no more is known."""

STOPS: dict[StopReason, str] = {
    "length": "MAX_TOKENS",
    "context_overflow": "MAX_TOKENS",
    "refusal": REFUSED,
    "error": "OTHER",
    "aborted": "OTHER",
}
"""The finish reason of a stop; every other one, calls included, is "STOP"."""

LEVELS: dict[str, Effort] = {
    "MINIMAL": "minimal",
    "LOW": "low",
    "MEDIUM": "medium",
    "HIGH": "high",
}
CHOICES: dict[str, Literal["auto", "none", "required"]] = {
    "AUTO": "auto",
    "VALIDATED": "auto",
    "ANY": "required",
    "NONE": "none",
}
DETAILS = {"MEDIA_RESOLUTION_LOW": "low", "MEDIA_RESOLUTION_HIGH": "high"}

ERROR_KINDS = {
    "RESOURCE_EXHAUSTED": "rate_limited",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timed_out",
}
"""The statuses that say what to do; of the others, the number says it."""

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""What a number is called; any other is invalid below 500 and internal from there."""


# ── small readings that both directions share ────────────────────────────────


def read_signature(signature: str | None) -> tuple[Opaque, ...]:
    """Return the token that Gemini wants back; a placeholder is none."""
    if not signature or signature in _NO_SIGNATURES:
        return ()
    return (Opaque(ORIGIN, "thought_signature", signature),)


def write_signature(opaque: tuple[Opaque, ...]) -> JsonObject:
    """Return the field of the last token that Gemini made, to be merged into a part."""
    own = [
        token.value
        for token in opaque
        if token.kind == "thought_signature" and token.origin.partition("/")[0] == ORIGIN
    ]
    return {"thoughtSignature": own[-1]} if own else {}
