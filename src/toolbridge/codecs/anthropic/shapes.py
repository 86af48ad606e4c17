"""Anthropic's wire structs, and the tables that both directions use.

The names are those of the Messages API. Only the fields that the codec reads are listed; what it
does not know is kept as raw JSON and never rejected.
"""

from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.answer_losses import AnswerFeatures
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Cache, StopDetails, StopReason
from toolbridge.core.server_tools import ServerToolKind
from toolbridge.core.usage import TokenLimit
from toolbridge.wire import shapes as wire
from toolbridge.wire.shapes import AnyObject, OpenUnion

ORIGIN = "anthropic"
MESSAGE = "message"
"""The kind of the part that holds the unknown fields of a message."""

# ── requests ─────────────────────────────────────────────────────────────────


class CacheControl(msgspec.Struct):
    """Anthropic, prompt caching: `ttl` is "5m" or "1h"; a request holds at most four marks."""

    ttl: str | None = None


class TextBlock(msgspec.Struct):
    """Anthropic, citations: `citations` is a list in answers, `{"enabled": true}` on documents."""

    text: str
    citations: list[AnyObject] | AnyObject | None = None
    cache_control: CacheControl | None = None


class Source(msgspec.Struct):
    """The content of an image or a document: base64, text, a URL or the id of a file."""

    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""
    file_id: str = ""


class ImageBlock(msgspec.Struct):
    """Anthropic, vision: an image in a message of the user or inside a result."""

    source: Source
    cache_control: CacheControl | None = None


class DocumentBlock(msgspec.Struct):
    """Anthropic, PDF support: a PDF or a plain text."""

    source: Source
    title: str | None = None
    context: str | None = None
    citations: Json = None
    cache_control: CacheControl | None = None


class ThinkingBlock(msgspec.Struct):
    """Anthropic, extended thinking: `thinking` is empty where its display is "omitted"."""

    thinking: str = ""
    signature: str | None = None


class RedactedBlock(msgspec.Struct):
    """Anthropic, extended thinking: a thought that only Anthropic can decrypt."""

    data: str


class ToolUseBlock(msgspec.Struct):
    """Anthropic, tool use: a call; `input` is an object, never a string."""

    id: str
    name: str
    input: AnyObject
    cache_control: CacheControl | None = None
    caller: Json = None


class ToolResultBlock(msgspec.Struct):
    """Anthropic, tool use: a result; `content` may be missing."""

    tool_use_id: str
    content: str | list[msgspec.Raw] | None = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None


class ReferenceBlock(msgspec.Struct):
    """Anthropic, tool search tool: a deferred tool that a search of the client found."""

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
    """Anthropic, Messages API: `system` is a string or a list of text blocks."""

    type: Literal["text"]
    text: str
    cache_control: CacheControl | None = None


class Message(msgspec.Struct):
    """Anthropic, Messages API: the role "system" inside `messages` came with Opus 4.8."""

    role: Literal["user", "assistant", "system"]
    content: str | list[msgspec.Raw] | None


class Tool(msgspec.Struct):
    """Anthropic, tool use: a tool with a schema, or one that its `type` defines."""

    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: AnyObject | None = None
    strict: bool | None = None
    defer_loading: bool | None = None
    cache_control: CacheControl | None = None


class Choice(msgspec.Struct):
    """Anthropic, tool use: `name` belongs to the type "tool", and "none" has no other field."""

    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool | None = None


class ThinkingConfig(msgspec.Struct):
    """Anthropic, extended thinking: `budget_tokens` belongs to the type "enabled"."""

    type: str
    budget_tokens: int | None = None
    display: str | None = None


class Format(msgspec.Struct):
    """Anthropic, structured outputs: "json_schema" is the only type."""

    type: Literal["json_schema"]
    schema: AnyObject


NULL = msgspec.Raw(b"null")


class OutputConfig(msgspec.Struct):
    """Anthropic, effort and structured outputs."""

    effort: str | None = None
    format: msgspec.Raw = NULL


class Metadata(msgspec.Struct):
    """Anthropic, Messages API: `user_id` is the only documented field."""

    user_id: str | None = None


class Body(msgspec.Struct):
    """A request. Raw members are decoded later, because their unknown fields are kept."""

    model: str = ""
    messages: list[msgspec.Raw] | None = None
    max_tokens: TokenLimit | None = None
    system: str | list[msgspec.Raw] | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = NULL
    thinking: msgspec.Raw = NULL
    output_config: msgspec.Raw = NULL
    output_format: Format | None = None
    metadata: msgspec.Raw = NULL
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stream: bool | None = None


class StrictBody(Body, forbid_unknown_fields=True):
    """A request with no other field than these, as nearly every one."""

    context_management: msgspec.Raw = NULL


# ── answers ──────────────────────────────────────────────────────────────────


class CacheCreation(msgspec.Struct):
    """Anthropic, prompt caching: the part of the cache write that lives for an hour."""

    ephemeral_1h_input_tokens: int | None = None


class OutputDetails(msgspec.Struct):
    """Anthropic, Messages API: the part of `output_tokens` that was thinking."""

    thinking_tokens: int | None = None


class ServerToolUse(msgspec.Struct):
    """Anthropic, web search tool: searches are billed by number."""

    web_search_requests: int | None = None


class Counts(msgspec.Struct):
    """Anthropic, Messages API: the object `usage`."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    output_tokens_details: OutputDetails | None = None
    server_tool_use: ServerToolUse | None = None


class Reply(msgspec.Struct):
    """A whole answer, or the one in a `message_start` event."""

    id: str = ""
    model: str = ""
    content: list[AnyObject] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: AnyObject | None = None
    usage: Json = None
    """`Counts`."""


class Block(msgspec.Struct):
    """A block of a whole answer, or the start of one in a stream."""

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
    """Anthropic, streaming: the object `delta` of content_block_delta and of message_delta."""

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
    """Anthropic, errors: the object `error` of an error event."""

    type: str | None = None
    message: str | None = None


class StreamEvent(msgspec.Struct):
    """One event of a stream. All types share one struct, so that one pass decodes the bytes."""

    type: str = ""
    index: int = 0
    delta: Delta | None = None
    content_block: AnyObject | None = None
    message: Reply | None = None
    usage: Json = None
    """`Counts`."""
    error: Error | None = None


# ── tables ───────────────────────────────────────────────────────────────────

# Anthropic, handling stop reasons.
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

# Anthropic, citations: the types of a citation.
CITATIONS = frozenset(
    {
        "char_location", "page_location", "content_block_location", "web_search_result_location",
        "search_result_location",
    }
)  # fmt: skip

SERVER_TOOLS: frozenset[ServerToolKind] = frozenset(
    {"web_search", "web_fetch", "tool_search", "code_execution", "mcp"}
)
SHOWS = AnswerFeatures(ORIGIN, logprobs=False, citations=CITATIONS, server_tools=SERVER_TOOLS)

# ── members that both directions share ───────────────────────────────────────


def decode_rest(raw: msgspec.Raw, shape: type[msgspec.Struct]) -> JsonObject:
    """Return the fields of a raw member that `shape` does not list; {} for null."""
    return {} if bytes(raw) == b"null" else wire.leftovers(raw, shape)


def decode_cache(control: CacheControl | None) -> Cache:
    if control is None:
        return ""
    return "1h" if control.ttl == "1h" else "5m"


def encode_cache(cache: Cache) -> JsonObject:
    """Return the field `cache_control`, to be merged into a block or a tool."""
    if not cache:
        return {}
    control: JsonObject = {"type": "ephemeral"}
    # Anthropic, prompt caching: a marker without `ttl` lasts five minutes.
    return {"cache_control": control | {"ttl": "1h"} if cache == "1h" else control}


def decode_details(given: JsonObject) -> StopDetails:
    """Return the reason of a refusal."""
    explanation, category = given.get("explanation"), given.get("category")
    return StopDetails(
        explanation if isinstance(explanation, str) else "",
        category if isinstance(category, str) else "",
        ORIGIN,
        given,
    )


def encode_details(details: StopDetails | None) -> JsonObject:
    """Return the field `stop_details`, to be merged into an answer; nothing without a reason."""
    if details is not None and details.origin == ORIGIN:
        return {"stop_details": details.raw}
    if details is None or not details.explanation:
        return {}
    # Anthropic, stop reasons: the categories are a closed list, so another API's is not sent.
    given: JsonObject = {"type": "refusal", "category": None}
    return {"stop_details": given | {"explanation": details.explanation}}
