"""Anthropic's shapes, and the tables that both directions read."""

from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from toolbridge.codecs.anthropic.counts import Counts
from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.json import Json, JsonObject, dumps, maybe_object
from toolbridge.core.messages import Cache, Call, Opaque, StopDetails, StopReason, Thinking
from toolbridge.wire.shapes import AnyObject, OpenUnion

ORIGIN = "anthropic"
VERSION = "2023-06-01"
"""Version 2026-10-21 differs only in what it refuses; this one is served by every place."""

# ── requests ─────────────────────────────────────────────────────────────────


class CacheControl(msgspec.Struct):
    ttl: str | None = None


class TextBlock(msgspec.Struct):
    text: str
    citations: list[AnyObject] | AnyObject | None = None
    cache_control: CacheControl | None = None


class Source(msgspec.Struct):
    """Where the bytes of an image or a document are."""

    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""
    file_id: str = ""


class ImageBlock(msgspec.Struct):
    source: Source
    cache_control: CacheControl | None = None


class DocumentBlock(msgspec.Struct):
    source: Source
    title: str | None = None
    context: str | None = None
    citations: Json = None
    cache_control: CacheControl | None = None


class ThinkingBlock(msgspec.Struct):
    thinking: str = ""
    signature: str | None = None


class RedactedBlock(msgspec.Struct):
    data: str


class ToolUseBlock(msgspec.Struct):
    id: str
    name: str
    input: AnyObject
    cache_control: CacheControl | None = None
    caller: Json = None


class ToolResultBlock(msgspec.Struct):
    tool_use_id: str
    content: str | list[msgspec.Raw] | None = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None


class ReferenceBlock(msgspec.Struct):
    tool_name: str


AnyBlock: TypeAlias = (
    TextBlock
    | ImageBlock
    | DocumentBlock
    | ThinkingBlock
    | RedactedBlock
    | ToolUseBlock
    | ToolResultBlock
    | ReferenceBlock
)
BLOCKS: OpenUnion[AnyBlock] = OpenUnion(
    {
        "text": TextBlock,
        "image": ImageBlock,
        "document": DocumentBlock,
        "thinking": ThinkingBlock,
        "redacted_thinking": RedactedBlock,
        "tool_use": ToolUseBlock,
        "tool_result": ToolResultBlock,
        "tool_reference": ReferenceBlock,
    }
)


class SystemBlock(msgspec.Struct):
    type: Literal["text"]
    text: str
    cache_control: CacheControl | None = None


class Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[msgspec.Raw] | None


class Tool(msgspec.Struct):
    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: AnyObject | None = None
    strict: bool | None = None
    defer_loading: bool | None = None
    cache_control: CacheControl | None = None


class Choice(msgspec.Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool | None = None


class ThinkingConfig(msgspec.Struct):
    type: str
    budget_tokens: int | None = None
    display: str | None = None


class Format(msgspec.Struct):
    type: Literal["json_schema"]
    schema: AnyObject


_NULL = msgspec.Raw(b"null")


class OutputConfig(msgspec.Struct):
    effort: str | None = None
    format: msgspec.Raw = _NULL


class Metadata(msgspec.Struct):
    user_id: str | None = None


class Body(msgspec.Struct):
    """A request. What is held raw has fields that we keep without reading them."""

    model: str = ""
    messages: list[msgspec.Raw] | None = None
    max_tokens: int | None = None
    system: str | list[msgspec.Raw] | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = _NULL
    thinking: msgspec.Raw = _NULL
    output_config: msgspec.Raw = _NULL
    output_format: Format | None = None
    metadata: msgspec.Raw = _NULL
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stream: bool | None = None


# ── answers ──────────────────────────────────────────────────────────────────


class Reply(msgspec.Struct):
    """A whole answer, or the beginning of one."""

    id: str = ""
    model: str = ""
    content: list[AnyObject] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: AnyObject | None = None
    usage: Counts | None = None


class Block(msgspec.Struct):
    """A block of an answer: in a stream its start, in a whole answer all of it."""

    text: str | None = None
    citations: list[AnyObject] | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str = ""
    id: str = ""
    name: str = ""
    input: AnyObject | None = None
    caller: Json = None


class Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    citation: AnyObject | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: AnyObject | None = None


class Error(msgspec.Struct):
    type: str | None = None
    message: str | None = None


class StreamEvent(msgspec.Struct):
    """One event of a stream, of whatever type: one pass over the bytes reads it."""

    type: str = ""
    index: int = 0
    delta: Delta | None = None
    content_block: AnyObject | None = None
    message: Reply | None = None
    usage: Counts | None = None
    error: Error | None = None


# ── tables ───────────────────────────────────────────────────────────────────

STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "max_tokens": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_overflow",
}
STOPS = {ours: theirs for theirs, ours in STOP_REASONS.items()}

CHOICES: dict[str, Literal["auto", "none", "required", "named"]] = {
    "auto": "auto",
    "any": "required",
    "tool": "named",
    "none": "none",
}
MODES = {ours: theirs for theirs, ours in CHOICES.items()}

THINKING_TYPES: dict[str, Literal["on", "auto", "off", "between_tools"]] = {
    "enabled": "on",
    "adaptive": "auto",
    "disabled": "off",
    "between_tools": "between_tools",
}
THINKING_MODES = {ours: theirs for theirs, ours in THINKING_TYPES.items()}

ERROR_KINDS = {
    "rate_limit_error": "rate_limited",
    "overloaded_error": "overloaded",
    "timeout_error": "timed_out",
    "request_too_large": "too_large",
}
"""The error types that say what to do; of the others, the status says it."""

ERROR_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "api_error": 500,
}
"""The error types of what is, to us, a rejection."""

ERROR_TYPES = {ours: theirs for theirs, ours in ERROR_KINDS.items()} | {
    "malformed_request": "invalid_request_error",
    "bad_http": "invalid_request_error",
    "busy": "overloaded_error",
    "unsupported": "invalid_request_error",
    "unknown_encoding": "invalid_request_error",
    "thinking_not_supported": "thinking_not_supported",
    "context_overflow": "invalid_request_error",
    "unknown_model": "not_found_error",
    "unknown_route": "not_found_error",
    "wrong_method": "invalid_request_error",
    "not_allowed": "permission_error",
    "unauthenticated": "authentication_error",
}

REJECTION_TYPES = {status: type for type, status in ERROR_STATUSES.items()}

BETAS = {
    "context_management": "context-management-2025-06-27",
    "mcp_servers": "mcp-client-2025-11-20",
    "compaction": "compact-2026-09-04",
    "fallbacks": "server-side-fallback-2026-06-01",
    "thread": "message-threads-2026-08-12",
    "defer_loading": "advanced-tool-use-2025-11-20",
}
"""A field of a body, or of a tool, lives and dies with its beta header."""

CITATIONS = frozenset(
    {
        "char_location", "page_location", "content_block_location", "web_search_result_location",
        "search_result_location",
    }
)  # fmt: skip

SHOWS = AnswerFeatures(ORIGIN, logprobs=False, citations=CITATIONS)

# ── small readings that both directions share ────────────────────────────────


def read_cache(control: CacheControl | None) -> Cache:
    if control is None:
        return ""
    return "1h" if control.ttl == "1h" else "5m"


def write_cache(cache: Cache) -> JsonObject:
    """Return the field that asks for caching, to be merged into a block."""
    if not cache:
        return {}
    control: JsonObject = {"type": "ephemeral"}
    return {"cache_control": control | {"ttl": "1h"} if cache == "1h" else control}


_OWN = "tb1."


def own_citation(url: str, title: str) -> JsonObject:
    """Return a citation of a web page that no Claude found. AI SDKs demand the index."""
    return {
        "type": "web_search_result_location",
        "url": url,
        "title": title or None,
        "encrypted_index": _OWN,
        "cited_text": "",
    }


def is_own_citation(citation: JsonObject) -> bool:
    """Whether a citation is one of ours: Anthropic did not make its index and would refuse it."""
    return str(citation.get("encrypted_index") or "").startswith(_OWN)


def own_signature(thinking: str) -> str:
    """Return a signature for a thought that no Claude had: clients keep only signed ones."""
    return _OWN + blake2b(thinking.encode(), digest_size=16).hexdigest()


def read_signature(signature: str | None) -> tuple[Opaque, ...]:
    """Return the token that Anthropic wants back; an empty one, or our own, is none."""
    if not signature or signature.startswith(_OWN):
        return ()
    return (Opaque(ORIGIN, "signature", signature),)


def read_details(given: JsonObject) -> StopDetails:
    """Return why an answer was refused."""
    explanation, category = given.get("explanation"), given.get("category")
    return StopDetails(
        explanation if isinstance(explanation, str) else "",
        category if isinstance(category, str) else "",
        ORIGIN,
        given,
    )


def write_details(details: StopDetails | None) -> JsonObject:
    """Return the field that says why an answer was refused; nothing where nobody said it."""
    if details is not None and details.origin == ORIGIN:
        return {"stop_details": details.raw}
    if details is None or not details.explanation:
        return {}
    # The categories of Anthropic are a closed list.
    given: JsonObject = {"type": "refusal", "category": None}
    return {"stop_details": given | {"explanation": details.explanation}}


def seal_caller(caller: Json) -> tuple[Opaque, ...]:
    """Return who made a call, to be sent back with it, where that is not the model itself."""
    if not isinstance(caller, dict) or caller.get("type") == "direct":
        return ()
    return (Opaque(ORIGIN, "item", dumps({"caller": caller})),)


def caller_fields(call: Call) -> JsonObject:
    """Return what `seal_caller` kept."""
    return next(filter(None, map(maybe_object, tokens(call, "item"))), {})


def tokens(part: Thinking | Call, kind: Literal["signature", "redacted", "item"]) -> list[str]:
    """Return the tokens of a thought or a call that Anthropic made."""
    return [
        opaque.value
        for opaque in part.opaque
        if opaque.kind == kind and opaque.origin.partition("/")[0] == ORIGIN
    ]
