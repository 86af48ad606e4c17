"""Reads the calls and results of server tools in an answer, as strictly as the clients do.

The AI SDK, on which Cline and opencode are built, rejects a search result without the string
`encrypted_content`, a citation without `encrypted_index`, and null for absent fields of MCP items.
"""

from toolbridge.conformance.json_path import has, items, members, number, pick, text
from toolbridge.conformance.observed import Observed, ObservedServerCall, require
from toolbridge.core.json import Json, JsonObject, maybe_object

# ── Anthropic ────────────────────────────────────────────────────────────────

_CALLS = {
    "web_search": ("web_search", "query"),
    "web_fetch": ("web_fetch", "url"),
    "code_execution": ("code_execution", "code"),
    "bash_code_execution": ("code_execution", "command"),
    "tool_search_tool_bm25": ("tool_search", "query"),
    "tool_search_tool_regex": ("tool_search", "query"),
}
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")


def read_anthropic_block(block: JsonObject, seen: Observed) -> None:
    """Read a complete block; blocks of other kinds are ignored."""
    type = text(block, "type")
    if type in SERVER_CALLS:
        _anthropic_call(block, seen)
    elif type.endswith("_tool_result"):
        _anthropic_result(block, type, seen)
    elif type == "text":
        for citation in items(block, "citations"):
            read_citation(citation, seen)


def _anthropic_call(block: JsonObject, seen: Observed) -> None:
    require(seen, "a server tool call", block, ("id", "name", "input"))
    name, input = text(block, "name"), members(block, "input")
    if text(block, "type") == "mcp_tool_use":
        require(seen, "an MCP call", block, ("server_name",))
        kind, subject = "mcp", name
    elif name in _CALLS:
        kind, field = _CALLS[name]
        subject = text(input, field)
    else:
        kind, subject = "", ""
        seen.fault(f"no server tool is called {name!r}")
    seen.server_calls.append(ObservedServerCall(kind, subject, text(block, "id")))


def _anthropic_result(block: JsonObject, type: str, seen: Observed) -> None:
    require(seen, f"a {type}", block, ("tool_use_id", "content"))
    call = _call_of(seen, text(block, "tool_use_id"))
    if call is None:
        return
    call.done = True
    content = pick(block, "content")
    call.failed = text(content, "type").endswith("_error") or pick(block, "is_error") is True
    if call.failed and type != "mcp_tool_result" and not text(content, "error_code"):
        seen.fault(f"the error in a {type} has no error_code")
    call.output = text(content, "stdout") or text(content, "0.text")
    for hit in items(content) if type == "web_search_tool_result" else []:
        found = members(hit)
        require(seen, "a web_search_result", found, ("type", "url", "title"))
        if not isinstance(found.get("encrypted_content"), str):
            seen.fault("a web_search_result has no string encrypted_content")
        call.urls.append(text(found, "url"))
    if type == "web_fetch_tool_result" and not call.failed:
        require(seen, "a web_fetch_result", members(content), ("url", "content"))
        call.urls.append(text(content, "url"))


def read_citation(citation: Json, seen: Observed) -> None:
    """Read a citation of Anthropic's; one of a web page needs its index."""
    if text(citation, "type") == "web_search_result_location":
        if not isinstance(pick(citation, "encrypted_index"), str):
            seen.fault("a citation has no string encrypted_index")
        seen.cited.append(text(citation, "url"))


# ── Responses ────────────────────────────────────────────────────────────────

_ITEMS = {
    "web_search_call": "web_search",
    "code_interpreter_call": "code_execution",
    "mcp_call": "mcp",
    "tool_search_call": "tool_search",
}
HOSTED = frozenset({*_ITEMS, "mcp_list_tools", "mcp_approval_request", "tool_search_output"})
PROGRESS = frozenset(
    f"response.{name}.{step}"
    for name, steps in {
        "web_search_call": ("in_progress", "searching", "completed"),
        "mcp_list_tools": ("in_progress", "completed", "failed"),
        "mcp_call": ("in_progress", "completed", "failed"),
        "mcp_call_arguments": ("delta", "done"),
        "code_interpreter_call": ("in_progress", "interpreting", "completed"),
        "code_interpreter_call_code": ("delta", "done"),
        "file_search_call": ("in_progress", "searching", "completed"),
    }.items()
    for step in steps
)
"""OpenAI Responses, streaming events: OpenAI's helper for JavaScript fails on any other."""
HOSTED_EVENTS = (
    "response.web_search", "response.mcp_", "response.code_interpreter", "response.file_search",
    "response.tool_search",
)  # fmt: skip
"""How the types of events of hosted tools begin."""


def read_responses_item(item: JsonObject, seen: Observed) -> None:
    """Read a complete item of a hosted tool; items of other types are ignored."""
    type = text(item, "type")
    if type not in HOSTED:
        return
    if type == "mcp_list_tools":
        _check_listing(item, seen)
    if kind := _ITEMS.get(type):
        _hosted_call(item, type, kind, seen)


def _hosted_call(item: JsonObject, type: str, kind: str, seen: Observed) -> None:
    status = text(item, "status")
    if status not in {"completed", "failed", "incomplete"}:
        seen.fault(f"a {type} is done with the status {status!r}")
    action = text(item, "action.type")
    if kind == "web_search" and action in {"open_page", "find_in_page"}:
        kind = "web_fetch"
    subject = {
        "web_search": text(item, "action.query"),
        "web_fetch": text(item, "action.url"),
        "code_execution": text(item, "code"),
        "mcp": text(item, "name"),
        "tool_search": text(item, "arguments.query"),
    }[kind]
    call = ObservedServerCall(kind, subject, text(item, "id"), done=True, failed=status == "failed")
    call.urls = [text(source, "url") for source in items(item, "action.sources")]
    call.urls += [subject] if kind == "web_fetch" and not call.failed else []
    call.output = text(item, "output") or text(item, "outputs.0.logs")
    if type == "mcp_call":
        require(seen, "an mcp_call", item, ("server_label", "name", "arguments"))
        if maybe_object(text(item, "arguments")) is None:
            seen.fault("the arguments of an mcp_call are no JSON object")
    seen.server_calls.append(call)


def _check_listing(item: JsonObject, seen: Observed) -> None:
    require(seen, "mcp_list_tools", item, ("id", "server_label", "tools"))
    if has(item, "error") and item["error"] is None:
        seen.fault("mcp_list_tools has error: null, which the AI SDK rejects")
    for tool in items(item, "tools"):
        require(seen, "a listed tool", members(tool), ("name", "input_schema"))
        nulls = [name for name in ("annotations", "description") if has(tool, name)]
        if any(pick(tool, name) is None for name in nulls):
            seen.fault("a listed tool has a null, which the AI SDK rejects")


def read_annotation(annotation: Json, seen: Observed) -> None:
    """Read a flat annotation; the indices must lie in the text."""
    if text(annotation, "type") == "url_citation":
        fields = members(annotation)
        require(seen, "a url_citation", fields, ("start_index", "end_index", "url", "title"))
        seen.cited.append(text(annotation, "url"))


# ── Gemini and Chat Completions ──────────────────────────────────────────────


def read_grounding(candidate: JsonObject, seen: Observed) -> None:
    """Read what a candidate's metadata report about searches and fetched pages."""
    grounding = members(candidate, "groundingMetadata")
    pages = [text(chunk, "web.uri") for chunk in items(grounding, "groundingChunks")]
    for query in items(grounding, "webSearchQueries"):
        seen.server_calls.append(ObservedServerCall("web_search", text(query), "", urls=pages))
    for support in items(grounding, "groundingSupports"):
        _read_support(support, pages, seen)
    for page in items(candidate, "urlContextMetadata.urlMetadata"):
        failed = not text(page, "urlRetrievalStatus").endswith("_SUCCESS")
        call = ObservedServerCall("web_fetch", text(page, "retrievedUrl"), "", failed=failed)
        call.urls = [] if failed else [call.subject]
        seen.server_calls.append(call)


def _read_support(support: Json, pages: list[str], seen: Observed) -> None:
    """Read a passage; Gemini CLI inserts its mark at the byte `endIndex` of the text."""
    start, end = number(support, "segment.startIndex"), number(support, "segment.endIndex")
    passage = seen.text.encode()[start:end]
    if passage != text(support, "segment.text").encode():
        seen.fault(f"the bytes {start} to {end} of the text are {passage!r}")
    for index in items(support, "groundingChunkIndices"):
        if not isinstance(index, int) or not 0 <= index < len(pages):
            seen.fault(f"there is no grounding chunk {index}")
        else:
            seen.cited.append(pages[index])


def read_gemini_part(part: JsonObject, seen: Observed) -> None:
    """Read code that was executed, or its output."""
    if "executableCode" in part:
        require(seen, "executableCode", members(part, "executableCode"), ("language", "code"))
        call = ObservedServerCall("code_execution", text(part, "executableCode.code"), "")
        seen.server_calls.append(call)
    if "codeExecutionResult" in part:
        if not seen.server_calls:
            seen.fault("the output of code comes before the code")
            return
        seen.server_calls[-1].output = text(part, "codeExecutionResult.output")
        seen.server_calls[-1].failed = text(part, "codeExecutionResult.outcome") != "OUTCOME_OK"


def read_chat_annotation(annotation: Json, seen: Observed) -> None:
    """Read a nested annotation of Chat Completions."""
    fields = members(annotation, "url_citation")
    require(seen, "a url_citation", fields, ("start_index", "end_index", "url", "title"))
    if number(fields, "end_index") > len(seen.text):
        seen.fault("an annotation ends after the text")
    seen.cited.append(text(fields, "url"))


def _call_of(seen: Observed, id: str) -> ObservedServerCall | None:
    for call in seen.server_calls:
        if call.id == id and not call.done:
            return call
    seen.fault(f"a result answers the call {id!r}, which is not open")
    return None
