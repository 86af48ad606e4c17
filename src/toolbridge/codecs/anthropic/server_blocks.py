"""Server tools of the Messages API: declarations, and the blocks of calls and results.

Anthropic, tool use: a server tool runs behind the API. Its call (`server_tool_use`,
`mcp_tool_use`) and its result (`web_search_tool_result`, …) are blocks of the same answer. The
vendor's own JSON stays in `source`, so that Anthropic gets encrypted fields back unchanged.
"""

from toolbridge.codecs.anthropic.shapes import ORIGIN
from toolbridge.codecs.anthropic.signatures import OWN
from toolbridge.core.content import Image, Origin, Text
from toolbridge.core.json import Json, JsonObject, dumps, object_of, objects_of, text_of, texts_of
from toolbridge.core.server_tools import (
    ERROR_CODES,
    CodeOutput,
    FetchedPage,
    FoundTools,
    McpApproval,
    McpListing,
    McpOutput,
    SearchHit,
    SearchHits,
    ServerCall,
    ServerPart,
    ServerResult,
    ServerTool,
    ServerToolError,
    ServerToolKind,
    ServerToolOutcome,
)
from toolbridge.core.source import own_words, sourced

KINDS: dict[str, ServerToolKind] = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "code_execution": "code_execution",
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
    "tool_search_tool_regex": "tool_search",
    "tool_search_tool_bm25": "tool_search",
}
"""The names of server tools in calls."""
_RESULT = "_tool_result"
_NAMES = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "code_execution": "code_execution",
    "tool_search": "tool_search_tool_bm25",
}
"""The name of a tool that another vendor calls otherwise; SDKs know only Anthropic's."""
_PREFIXES = {"": "srvtoolu_", "mcp": "mcptoolu_"}
_OURS = "tb1_"
"""Marks an id that this gateway made for the call of another vendor."""


def read_declaration(declared: JsonObject) -> ServerTool | None:
    """Return what a tool with a `type` of Anthropic's does; None for a type that is not known.

    Types end with a date, and later versions mean the same here, so the beginning decides.
    """
    type = text_of(declared.get("type"))
    name = next((name for name in KINDS if type.startswith(name)), None)
    if name is None:
        return None
    place = object_of(declared.get("user_location"))
    return ServerTool(
        KINDS[name],
        max_uses=_count(declared.get("max_uses")),
        allow=texts_of(declared.get("allowed_domains")),
        block=texts_of(declared.get("blocked_domains")),
        content_tokens=_count(declared.get("max_content_tokens")) or 0,
        cite=object_of(declared.get("citations")).get("enabled") is True,
        ranking="regex" if name.endswith("regex") else "bm25",
    ).at(place)


# ── blocks, decoded ──────────────────────────────────────────────────────────


def decode_server_block(raw: JsonObject, where: str = "") -> ServerCall | ServerResult | None:
    """Return the call or result of a server tool; None for any other block."""
    part = _decode(raw, text_of(raw.get("type")))
    return None if part is None else sourced(part, Origin(ORIGIN, where, raw))


def _decode(raw: JsonObject, type: str) -> ServerCall | ServerResult | None:
    name, input = text_of(raw.get("name")), object_of(raw.get("input"))
    if type == "server_tool_use" and name in KINDS:
        return ServerCall(_call_id(raw.get("id")), KINDS[name], name, input)
    if type == "mcp_tool_use":
        server = text_of(raw.get("server_name"))
        return ServerCall(_call_id(raw.get("id")), "mcp", name, input, server)
    call_id = _call_id(raw.get("tool_use_id"))
    if type == "mcp_tool_result":
        failed = raw.get("is_error") is True
        return ServerResult(call_id, "mcp", McpOutput(_contents(raw.get("content")), failed))
    name = type.removesuffix(_RESULT)
    if name == type:
        return None
    if name == "tool_search":
        return ServerResult(call_id, "tool_search", _outcome("tool_search", raw.get("content")))
    if name not in KINDS:
        return None
    kind = KINDS[name]
    return ServerResult(call_id, kind, _outcome(kind, raw.get("content")), name)


def _call_id(id: Json) -> str:
    """Return the id of another vendor's call that `_block_id` put into one of ours."""
    given = text_of(id)
    return given.partition(_OURS)[2] if _OURS in given else given


def _outcome(kind: ServerToolKind, content: Json) -> ServerToolOutcome:
    fields = object_of(content)
    if text_of(fields.get("type")).endswith("_error"):
        return _error(fields)
    match kind:
        case "web_search":
            return SearchHits(tuple(map(_hit, objects_of(content))))
        case "web_fetch":
            return _page(fields)
        case "tool_search":
            found = objects_of(fields.get("tool_references"))
            return FoundTools(tuple(text_of(one.get("tool_name")) for one in found))
        case _:
            return _code_output(fields)


def _error(fields: JsonObject) -> ServerToolError:
    code = text_of(fields.get("error_code"))
    return ServerToolError(
        ERROR_CODES.get(code, "unavailable"), text_of(fields.get("error_message"))
    )


def _hit(fields: JsonObject) -> SearchHit:
    return SearchHit(
        text_of(fields.get("url")),
        text_of(fields.get("title")),
        age=text_of(fields.get("page_age")),
        sealed=text_of(fields.get("encrypted_content")),
    )


def _page(fields: JsonObject) -> FetchedPage:
    document = object_of(fields.get("content"))
    source = object_of(document.get("source"))
    data = text_of(source.get("data"))
    plain = source.get("type") == "text"
    return FetchedPage(
        text_of(fields.get("url")),
        text_of(document.get("title")),
        data if plain else "",
        "" if plain else data,
        text_of(source.get("media_type")) or "text/plain",
        text_of(fields.get("retrieved_at")),
    )


def _code_output(fields: JsonObject) -> CodeOutput:
    if "stdout" in fields or "stderr" in fields:
        code = fields.get("return_code")
        output = text_of(fields.get("stdout")), text_of(fields.get("stderr"))
        return CodeOutput(*output, code if isinstance(code, int) else 0)
    # Anthropic, code execution tool: results of the editor have other fields for each command.
    shown = fields.get("content")
    rest = {name: value for name, value in fields.items() if name != "type"}
    return CodeOutput(shown if isinstance(shown, str) else dumps(rest))


def _contents(content: Json) -> tuple[Text | Image, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return tuple(Text(text_of(one.get("text"))) for one in objects_of(content))


# ── blocks, encoded ──────────────────────────────────────────────────────────


def encode_server_block(part: ServerCall | ServerResult) -> JsonObject:
    """Return the block of a call or result; the vendor's own JSON where it came from Anthropic."""
    return own_words(part, ORIGIN) or _encode(part)


def has_block(part: ServerPart) -> bool:
    """Return False for a part that has no block in an answer: listings and approvals of MCP tools."""
    return isinstance(part, ServerCall) or not isinstance(part.outcome, McpListing | McpApproval)


def is_vendors(part: ServerPart) -> bool:
    """Return True for a block that Anthropic's servers made.

    Anthropic, web search tool: a result goes back with what Anthropic encrypted in it, and any other
    value is a 400. What ran elsewhere is therefore sent as text.
    """
    id = part.id if isinstance(part, ServerCall) else part.call_id
    found = part.outcome if isinstance(part, ServerResult) else None
    hits = found.hits if isinstance(found, SearchHits) else ()
    ours = any(not hit.sealed or hit.sealed.startswith(OWN) for hit in hits)
    known = part.source is None or part.source.api == ORIGIN
    return known and not ours and id.startswith(tuple(_PREFIXES.values()))


def _block_id(id: str, kind: ServerToolKind) -> str:
    """Return the id of a call in the form of Anthropic's; one of another vendor stays inside it."""
    prefix = _PREFIXES["mcp" if kind == "mcp" else ""]
    return id if id.startswith(prefix) else f"{prefix}{_OURS}{id}"


def _encode(part: ServerCall | ServerResult) -> JsonObject:
    if isinstance(part, ServerCall):
        name = part.name if part.kind == "mcp" or part.name in KINDS else _NAMES[part.kind]
        named: JsonObject = {"id": _block_id(part.id, part.kind), "name": name}
        if part.kind == "mcp":
            server: JsonObject = {"server_name": part.server, "input": part.arguments}
            return {"type": "mcp_tool_use"} | named | server
        return {"type": "server_tool_use"} | named | {"input": part.arguments}
    id = _block_id(part.call_id, part.kind)
    head: JsonObject = {"type": _result_type(part), "tool_use_id": id}
    if part.kind == "mcp":
        return head | _mcp_result(part.outcome)
    return head | {"content": _content(part, part.outcome)}


def _result_type(part: ServerResult) -> str:
    if part.kind == "code_execution" and part.name in KINDS:
        return part.name + _RESULT
    return part.kind + _RESULT


def _mcp_result(outcome: ServerToolOutcome) -> JsonObject:
    if isinstance(outcome, ServerToolError):
        said: list[Json] = [{"type": "text", "text": outcome.text or outcome.code}]
        return {"is_error": True, "content": said}
    if not isinstance(outcome, McpOutput):
        return {"is_error": False, "content": []}
    # Anthropic, MCP connector: a result holds text only.
    content: list[Json] = [{"type": "text", "text": text} for text in outcome.texts]
    return {"is_error": outcome.is_error, "content": content}


def _content(part: ServerResult, outcome: ServerToolOutcome) -> Json:
    type = _result_type(part)
    match outcome:
        case ServerToolError(code, text):
            failed: JsonObject = {"type": f"{type}_error", "error_code": code}
            return failed | {"error_message": text} if part.kind == "tool_search" else failed
        case SearchHits(hits):
            return [_encode_hit(hit) for hit in hits]
        case FetchedPage():
            return _encode_page(outcome)
        case FoundTools(names):
            found: list[Json] = [{"type": "tool_reference", "tool_name": name} for name in names]
            return {"type": "tool_search_tool_search_result", "tool_references": found}
        case CodeOutput(stdout, stderr, code):
            result = type.removesuffix(_RESULT) + "_result"
            output: JsonObject = {"stdout": stdout, "stderr": stderr, "return_code": code}
            return {"type": result} | output | {"content": []}
        case _:
            return []


def _encode_hit(hit: SearchHit) -> JsonObject:
    return {
        "type": "web_search_result",
        "url": hit.url,
        "title": hit.title,
        # The AI SDK (4.0) drops results without this string.
        "encrypted_content": hit.sealed,
        "page_age": hit.age or None,
    }


def _encode_page(page: FetchedPage) -> JsonObject:
    source: JsonObject = {"type": "text", "media_type": "text/plain", "data": page.text}
    if page.data:
        source = {"type": "base64", "media_type": page.media_type, "data": page.data}
    document: JsonObject = {"type": "document", "title": page.title or None, "source": source}
    retrieved: JsonObject = {"url": page.url, "retrieved_at": page.fetched_at or None}
    return {"type": "web_fetch_result"} | retrieved | {"content": document}


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
