"""Server tools: tools that run behind the API, inside one answer, independent of any vendor.

The model calls a server tool, the server runs it, and the call and its result are parts of the same
answer. `ServerCall` and `ServerResult` are those parts. Either the provider ran the tool (its
decoder makes the parts), or the gateway did (`routing` makes them).
"""

from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Image, Origin, Text

ServerToolKind: TypeAlias = Literal[
    "web_search", "web_fetch", "tool_search", "code_execution", "mcp"
]

ServerToolErrorCode: TypeAlias = Literal[
    "invalid_tool_input", "unavailable", "max_uses_exceeded", "too_many_requests",
    "query_too_long", "request_too_large", "url_too_long", "url_not_allowed",
    "url_not_in_prior_context", "url_not_accessible", "unsupported_content_type",
    "content_too_large", "execution_time_exceeded", "output_file_too_large",
]  # fmt: skip
"""Anthropic, Messages API: the error codes of server tools. Codecs of other APIs map them."""


class SearchHit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One page that a web search found."""

    url: str
    title: str = ""
    snippet: str = ""
    age: str = ""
    """When the page was published or changed, as the search engine writes it."""


class SearchHits(msgspec.Struct, frozen=True, tag="search_hits"):
    hits: tuple[SearchHit, ...] = ()


class FetchedPage(msgspec.Struct, frozen=True, tag="fetched_page", omit_defaults=True):
    """A page as readable text; `data` (base64) instead of `text` for a PDF."""

    url: str
    """The final address, after redirects."""
    title: str = ""
    text: str = ""
    data: str = ""
    media_type: str = "text/plain"
    fetched_at: str = ""
    """ISO 8601, UTC."""
    truncated: bool = False


class FoundTools(msgspec.Struct, frozen=True, tag="found_tools"):
    """The deferred tools that a tool search found, the best first."""

    names: tuple[str, ...] = ()


class CodeOutput(msgspec.Struct, frozen=True, tag="code_output", omit_defaults=True):
    stdout: str = ""
    stderr: str = ""
    return_code: int = 0


class McpTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as an MCP server lists it."""

    name: str
    description: str = ""
    schema: JsonObject = msgspec.field(default_factory=dict)
    read_only: bool = False


class McpListing(msgspec.Struct, frozen=True, tag="mcp_listing"):
    tools: tuple[McpTool, ...] = ()


class McpOutput(msgspec.Struct, frozen=True, tag="mcp_output", omit_defaults=True):
    content: tuple[Text | Image, ...] = ()
    is_error: bool = False


class ServerToolError(msgspec.Struct, frozen=True, tag="server_tool_error", omit_defaults=True):
    """A tool that failed. The answer goes on: the model reads the error."""

    code: ServerToolErrorCode
    text: str = ""
    """What happened and what to do, for the model and the log; it contains no secret."""


ServerToolOutcome: TypeAlias = (
    SearchHits | FetchedPage | FoundTools | CodeOutput | McpListing | McpOutput | ServerToolError
)


class ServerCall(msgspec.Struct, frozen=True, tag="server_call", omit_defaults=True):
    """A call of a server tool."""

    id: str
    kind: ServerToolKind
    name: str
    """The name that the model called: `web_search`, `bash_code_execution`, the tool of a server."""
    arguments: JsonObject = msgspec.field(default_factory=dict)
    server: str = ""
    """The label of the MCP server, for `mcp`."""
    source: Origin | None = None


class ServerResult(msgspec.Struct, frozen=True, tag="server_result", omit_defaults=True):
    """The result of a server tool."""

    call_id: str
    kind: ServerToolKind
    outcome: ServerToolOutcome
    name: str = ""
    server: str = ""
    sealed: str = ""
    """The text of the result, sealed by the gateway, for the field that clients send back unread."""
    source: Origin | None = None
