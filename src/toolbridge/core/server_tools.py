"""Server tools: tools that run behind the API, inside one answer, independent of any vendor.

The model calls a server tool, the server runs it, and the call and its result are parts of the same
answer. `ServerCall` and `ServerResult` are those parts. Either the provider ran the tool (its
decoder makes the parts), or the gateway did (`routing` makes them).
"""

from typing import Literal, TypeAlias, get_args

import msgspec

from toolbridge.core.content import Image, Origin, Text
from toolbridge.core.json import JsonObject, text_in

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
ERROR_CODES: dict[str, ServerToolErrorCode] = {code: code for code in get_args(ServerToolErrorCode)}


class McpConnection(msgspec.Struct, frozen=True, omit_defaults=True):
    """An MCP server that a request names."""

    url: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    allowed: tuple[str, ...] | None = None
    """The names of the tools to offer; None for all."""
    denied: tuple[str, ...] = ()
    deferred: bool = False
    """Whether its tools are offered only after a tool search has found them."""
    read_only: bool = False
    """Whether only tools that change nothing are offered."""
    approval: Literal["always", "never"] = "never"
    """Whether the client approves each call. OpenAI Responses: `require_approval`."""
    exempt: tuple[str, ...] = ()
    """The tools that need no approval, where `approval` is `always`."""
    exempt_read_only: bool = False
    """Whether tools that change nothing need no approval, where `approval` is `always`."""


class ServerTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """The declaration of a server tool in a request, independent of any vendor."""

    kind: ServerToolKind
    max_uses: int | None = None
    allow: tuple[str, ...] = ()
    """Domains, without scheme: a domain includes its subdomains, and a path prefix may follow."""
    block: tuple[str, ...] = ()
    country: str = ""
    """ISO 3166-1, two letters, of the approximate location of the user."""
    city: str = ""
    region: str = ""
    timezone: str = ""
    after: str = ""
    """Only pages that were published since then, RFC 3339. Gemini: `timeRangeFilter.startTime`."""
    before: str = ""
    live: bool = True
    """Whether pages may be requested now; otherwise only an index. Codex: `external_web_access`."""
    context: Literal["", "low", "medium", "high"] = ""
    """How much of the results the model reads. OpenAI: `search_context_size`."""
    content_tokens: int = 0
    """The longest text of a fetched page, in tokens; 0 for the default."""
    cite: bool = False
    """Whether the answer should cite passages of a fetched page."""
    ranking: Literal["bm25", "regex"] = "bm25"
    """Whether the query of a tool search is words or a regular expression."""
    server: str = ""
    """The label of the MCP server, for `mcp`."""
    mcp: McpConnection | None = None

    @property
    def place(self) -> JsonObject:
        """The approximate location, in the fields that all vendors have; empty if it is unknown."""
        found = {name: getattr(self, name) for name in _PLACE}
        return {name: value for name, value in found.items() if value}

    def at(self, place: JsonObject) -> "ServerTool":
        """Return the tool with the location in `place`."""
        return msgspec.structs.replace(self, **{name: text_in(place, name) for name in _PLACE})


_PLACE = ("city", "region", "country", "timezone")
ContextSize: TypeAlias = Literal["", "low", "medium", "high"]
CONTEXT_SIZES: dict[str, ContextSize] = {size: size for size in get_args(ContextSize)}
"""OpenAI, web search: the values of `search_context_size`."""


class SearchHit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One page that a web search found."""

    url: str
    title: str = ""
    snippet: str = ""
    age: str = ""
    """When the page was published or changed, as the search engine writes it."""
    sealed: str = ""
    """The snippet, sealed by the gateway, for the field that clients send back unread."""


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
    needs_approval: bool = False
    """Whether the settings of the gateway require the client's approval of each call."""


class McpListing(msgspec.Struct, frozen=True, tag="mcp_listing"):
    tools: tuple[McpTool, ...] = ()


class McpOutput(msgspec.Struct, frozen=True, tag="mcp_output", omit_defaults=True):
    content: tuple[Text | Image, ...] = ()
    is_error: bool = False

    @property
    def texts(self) -> list[str]:
        """The texts of the result; an image is a note."""
        return [part.text if isinstance(part, Text) else "[image]" for part in self.content]


class McpApproval(msgspec.Struct, frozen=True, tag="mcp_approval", omit_defaults=True):
    """The client's answer to a call that needs its approval."""

    approve: bool
    reason: str = ""


class ServerToolError(msgspec.Struct, frozen=True, tag="server_tool_error", omit_defaults=True):
    """A tool that failed. The answer goes on: the model reads the error."""

    code: ServerToolErrorCode
    text: str = ""
    """What happened and what to do, for the model and the log; it contains no secret."""


ServerToolOutcome: TypeAlias = (
    SearchHits
    | FetchedPage
    | FoundTools
    | CodeOutput
    | McpListing
    | McpOutput
    | McpApproval
    | ServerToolError
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
    needs_approval: bool = False
    """Whether the client must approve the call before it is run (OpenAI Responses, MCP)."""
    source: Origin | None = None


class ServerResult(msgspec.Struct, frozen=True, tag="server_result", omit_defaults=True):
    """The result of a server tool."""

    call_id: str
    kind: ServerToolKind
    outcome: ServerToolOutcome
    name: str = ""
    server: str = ""
    source: Origin | None = None


ServerPart: TypeAlias = ServerCall | ServerResult
