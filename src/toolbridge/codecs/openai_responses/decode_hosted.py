"""Items of tools that the server runs, as our calls and results.

OpenAI Responses, output items: most hosted tools have one item for a call and its result, such as
`web_search_call`; the tool search has two, and the listing of an MCP server has no call. Item ids
that the gateway makes contain the id of our call, so that an echoed item names it again.
"""

from collections.abc import Callable, Iterator

from toolbridge.codecs.openai_responses.item_fields import is_own_id
from toolbridge.codecs.openai_responses.shapes import ORIGIN
from toolbridge.core.json import JsonObject, dumps, list_in, maybe_object, text_in
from toolbridge.core.messages import Origin, Text
from toolbridge.core.server_tools import (
    CodeOutput,
    FetchedPage,
    FoundTools,
    McpApproval,
    McpListing,
    McpOutput,
    McpTool,
    SearchHit,
    SearchHits,
    ServerCall,
    ServerPart,
    ServerResult,
    ServerToolError,
    ServerToolOutcome,
)
from toolbridge.core.source import sourced
from toolbridge.core.untrusted import framed

OPEN_PAGE = "open_page"
FIND_IN_PAGE = "find_in_page"
"""OpenAI Responses, web search: the actions of the model besides `search`."""


def is_hosted(item: JsonObject) -> bool:
    """Return True for an item that `decode_hosted` reads."""
    kind = str(item.get("type"))
    if kind.startswith("tool_search"):
        # OpenAI Responses, tool search: a call that the client runs has a `call_id`.
        return item.get("execution", "client" if item.get("call_id") else "server") == "server"
    named = item.get("approval_request_id" if kind == "mcp_approval_response" else "id")
    return kind in _READERS and isinstance(named, str)


def decode_hosted(item: JsonObject, where: str = "") -> tuple[ServerPart, ...]:
    """Return the call and the result in an item; nothing for an item of another type.

    Codex sends a search back without its sources: what it found is unknown, and there is no result.
    """
    if not is_hosted(item):
        return ()
    parts = _READERS[str(item.get("type"))](item)
    return tuple(sourced(part, Origin(ORIGIN, where, item)) for part in parts)


def decode_answered(item: JsonObject) -> tuple[ServerPart, ...]:
    """Return the parts of an item in an answer, where a completed search always has a result."""
    parts = decode_hosted(item)
    if len(parts) != 1 or item.get("type") != "web_search_call":
        return parts
    empty = ServerResult(_id(item), "web_search", SearchHits(), "web_search")
    return (*parts, sourced(empty, Origin(ORIGIN, "", item)))


def _id(item: JsonObject) -> str:
    """Return the id of our call in an id that `hosted_id` made, else the id of the item."""
    id = text_in(item, "id")
    return id.partition("_tb1_")[2] if is_own_id(id) else id


def _read_search(item: JsonObject) -> Iterator[ServerPart]:
    given = item.get("action")
    action = given if isinstance(given, dict) else {}
    id, type = _id(item), text_in(action, "type") or "search"
    if type in {OPEN_PAGE, FIND_IN_PAGE}:
        asked: JsonObject = {k: action[k] for k in ("url", "pattern") if action.get(k) is not None}
        yield ServerCall(id, "web_fetch", type, asked)
        page: ServerToolOutcome = FetchedPage(text_in(action, "url"))
        yield ServerResult(id, "web_fetch", _failure(item) or page, type)
        return
    queries = [query for query in list_in(action, "queries") if isinstance(query, str)]
    query = text_in(action, "query") or next(iter(queries), "")
    arguments: JsonObject = {"query": query}
    if queries and queries != [query]:
        arguments["queries"] = [*queries]
    yield ServerCall(id, "web_search", "web_search", arguments)
    failure = _failure(item)
    if failure or "sources" in action or "results" in item:
        outcome = failure or SearchHits(tuple(_hits(item, action)))
        yield ServerResult(id, "web_search", outcome, "web_search")


def _hits(item: JsonObject, action: JsonObject) -> Iterator[SearchHit]:
    found = list_in(item, "results") or list_in(action, "sources")
    for one in found:
        if isinstance(one, dict) and (url := text_in(one, "url")):
            yield SearchHit(
                url, text_in(one, "title"), text_in(one, "snippet") or text_in(one, "text")
            )


def _failure(item: JsonObject) -> ServerToolError | None:
    failed = item.get("status") in {"failed", "incomplete"}
    return ServerToolError("unavailable", _error_text(item)) if failed else None


def _error_text(item: JsonObject) -> str:
    """Return the text of `error`: a string, or an object with a message or a tool's content."""
    error = item.get("error")
    if isinstance(error, dict):
        if isinstance(parts := error.get("content"), list):  # of a tool; it may be empty
            return "\n".join(text_in(part, "text") for part in parts if isinstance(part, dict))
        return text_in(error, "message") or dumps(error)
    return error if isinstance(error, str) else ""


def _read_code(item: JsonObject) -> Iterator[ServerPart]:
    id = _id(item)
    yield ServerCall(id, "code_execution", "code_execution", {"code": text_in(item, "code")})
    outputs = (output for output in list_in(item, "outputs") if isinstance(output, dict))
    printed = "".join(text_in(output, "logs") for output in outputs)
    outcome = CodeOutput(printed, return_code=int(item.get("status") == "failed"))
    yield ServerResult(id, "code_execution", outcome, "code_execution")


def _read_call(item: JsonObject) -> Iterator[ServerPart]:
    call = _mcp_call(item)
    yield call
    text, error = item.get("output"), _error_text(item)
    if item.get("error") or item.get("status") == "failed":
        content = (Text(error),) if error else ()
        outcome = McpOutput(content, is_error=True)
    else:
        outcome = McpOutput((Text(text),) if isinstance(text, str) else ())
    yield ServerResult(call.id, "mcp", outcome, call.name, call.server)


def _mcp_call(item: JsonObject) -> ServerCall:
    arguments = maybe_object(text_in(item, "arguments")) or {}
    return ServerCall(
        _id(item), "mcp", text_in(item, "name"), arguments, text_in(item, "server_label")
    )


def _read_listing(item: JsonObject) -> Iterator[ServerPart]:
    tools = (tool for tool in list_in(item, "tools") if isinstance(tool, dict))
    error = _error_text(item)
    outcome: ServerToolOutcome = McpListing(tuple(map(_read_tool, tools)))
    if error:
        outcome = ServerToolError("unavailable", error)
    yield ServerResult(_id(item), "mcp", outcome, server=text_in(item, "server_label"))


def _read_tool(tool: JsonObject) -> McpTool:
    schema, notes = tool.get("input_schema"), tool.get("annotations")
    read_only = isinstance(notes, dict) and (notes.get("readOnlyHint") or notes.get("read_only"))
    return McpTool(
        text_in(tool, "name"),
        text_in(tool, "description"),
        schema if isinstance(schema, dict) else {},
        read_only=read_only is True,
    )


def _read_request(item: JsonObject) -> Iterator[ServerPart]:
    call = _mcp_call(item)
    yield ServerCall(call.id, "mcp", call.name, call.arguments, call.server, needs_approval=True)


def _read_approval(item: JsonObject) -> Iterator[ServerPart]:
    # OpenAI Responses, MCP: the client answers a request by the id of its item.
    id = _id({"id": item.get("approval_request_id")})
    outcome = McpApproval(item.get("approve") is True, text_in(item, "reason"))
    yield ServerResult(id, "mcp", outcome)


def _read_tool_search(item: JsonObject) -> Iterator[ServerPart]:
    arguments = item.get("arguments")
    asked = arguments if isinstance(arguments, dict) else {}
    yield ServerCall(_id(item), "tool_search", "tool_search", asked)


def _read_tools(item: JsonObject) -> Iterator[ServerPart]:
    tools = (tool for tool in list_in(item, "tools") if isinstance(tool, dict))
    outcome = FoundTools(tuple(text_in(tool, "name") for tool in tools))
    yield ServerResult(_id(item), "tool_search", outcome, "tool_search")


_READERS: dict[str, Callable[[JsonObject], Iterator[ServerPart]]] = {
    "web_search_call": _read_search,
    "code_interpreter_call": _read_code,
    "mcp_call": _read_call,
    "mcp_list_tools": _read_listing,
    "mcp_approval_request": _read_request,
    "mcp_approval_response": _read_approval,
    "tool_search_call": _read_tool_search,
    "tool_search_output": _read_tools,
}
HOSTED_TYPES = frozenset(_READERS)


def file_search_text(item: JsonObject) -> str:
    """Return a `file_search_call` as text: no other vendor has this tool.

    OpenAI Responses, file search: `results` are there only if `include` asked for them.
    """
    queries = ", ".join(dumps(query) for query in list_in(item, "queries"))
    head = f"\n[searched the files for {queries}]\n"
    found = [one for one in list_in(item, "results") if isinstance(one, dict)]
    if not found:
        return head
    listed = "\n".join(
        f"{text_in(one, 'filename')}\n{text_in(one, 'text')}".strip() for one in found
    )
    return f"{head}{framed(listed, 'file_search')}\n"
