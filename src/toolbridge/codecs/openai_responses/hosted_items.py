"""Calls and results of server tools as complete items.

The stream encoder writes an item in its first and its last event (`hosted_events`), `encode_message`
in the whole response, `encode_turns` in a request. All build it here, so that they are equal.
"""

from toolbridge.codecs.openai_responses.decode_hosted import FIND_IN_PAGE, OPEN_PAGE
from toolbridge.codecs.openai_responses.shapes import ORIGIN
from toolbridge.core.json import Json, JsonObject, dumps
from toolbridge.core.messages import Part, Request, Tool
from toolbridge.core.server_tools import (
    CodeOutput,
    FoundTools,
    McpApproval,
    McpListing,
    McpOutput,
    McpTool,
    SearchHit,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerToolError,
    ServerToolOutcome,
)
from toolbridge.core.source import own_words

HOSTED_IDS = ("ws_", "ci_", "mcp_", "mcpr_", "mcpl_", "tsc_", "tso_")
"""How OpenAI's ids of these items begin."""
SOURCES = "web_search_call.action.sources"
RESULTS = "web_search_call.results"
OUTPUTS = "code_interpreter_call.outputs"
"""OpenAI Responses, `include`: fields of items that are written only if a request names them."""


def hosted_id(prefix: str, call_id: str) -> str:
    """Return the id of an item for one of our calls; an id of OpenAI's stays as it is.

    OpenAI Responses: an unknown id is rejected, so an id of ours is recognizable (`is_own_id`).
    """
    return call_id if call_id.startswith(f"{prefix}_") else f"{prefix}_tb1_{call_id}"


class HostedItems:
    """Writes complete items of server tools; `include` of the request decides what they contain."""

    def __init__(self, request: Request) -> None:
        given = request.extra.get("include")
        self._include = frozenset(str(name) for name in given) if isinstance(given, list) else ()
        self._tools = {tool.name: tool for tool in request.tools}

    def begun(self, call: ServerCall) -> JsonObject:
        """Return the item of a call whose tool is still running."""
        return self._call(call, None) | {"status": "in_progress"}

    def call(self, call: ServerCall, result: ServerResult | None) -> JsonObject:
        """Return the complete item of a call; one without a result is incomplete."""
        written = own_words(result or call, ORIGIN)
        if written is not None:
            return written
        if is_complete(call):
            status: JsonObject = {} if call.needs_approval else {"status": "completed"}
            return self._call(call, None) | status
        outcome = result.outcome if result is not None else None
        return self._call(call, outcome) | {"status": _status(outcome)}

    def _call(self, call: ServerCall, outcome: ServerToolOutcome | None) -> JsonObject:
        match call.kind:
            case "web_search" | "web_fetch":
                return self._search(call, outcome)
            case "code_execution":
                return self._code(call, outcome)
            case "tool_search":
                head: JsonObject = {"type": "tool_search_call", "id": hosted_id("tsc", call.id)}
                return head | {"execution": "server", "arguments": call.arguments}
            case "mcp":
                return _mcp_item(call, outcome)

    def _search(self, call: ServerCall, outcome: ServerToolOutcome | None) -> JsonObject:
        item: JsonObject = {"type": "web_search_call", "id": hosted_id("ws", call.id)}
        if call.kind == "web_fetch":
            found = call.name == FIND_IN_PAGE
            asked = {k: v for k, v in call.arguments.items() if k in {"url", "pattern"}}
            return item | {"action": {"type": FIND_IN_PAGE if found else OPEN_PAGE, **asked}}
        query = call.arguments.get("query")
        queries = call.arguments.get("queries")
        listed: list[Json] = queries if isinstance(queries, list) else [query]
        action: JsonObject = {"type": "search", "query": query, "queries": listed}
        hits = outcome.hits if isinstance(outcome, SearchHits) else ()
        if SOURCES in self._include and outcome is not None:
            action["sources"] = [{"type": "url", "url": hit.url} for hit in hits]
        if RESULTS in self._include and outcome is not None:
            item["results"] = [_encode_hit(hit) for hit in hits]
        return item | {"action": action}

    def _code(self, call: ServerCall, outcome: ServerToolOutcome | None) -> JsonObject:
        code = call.arguments.get("code") or call.arguments.get("command")
        outputs: list[Json] | None = None
        if OUTPUTS in self._include and isinstance(outcome, CodeOutput):
            printed = outcome.stdout + outcome.stderr
            outputs = [{"type": "logs", "logs": printed}] if printed else []
        return {
            "type": "code_interpreter_call",
            "id": hosted_id("ci", call.id),
            "code": code if isinstance(code, str) else dumps(call.arguments),
            "container_id": "",
            # OpenAI Responses, code interpreter: null unless `include` names the outputs.
            "outputs": outputs,
        }

    def alone(self, result: ServerResult) -> JsonObject:
        """Return the item of a result that is not in the item of a call."""
        written = own_words(result, ORIGIN)
        if written is not None:
            return written
        if isinstance(result.outcome, McpApproval):
            return _approval_item(result.call_id, result.outcome)
        if result.kind == "tool_search":
            return self._found(result)
        if isinstance(result.outcome, McpListing) or (result.kind == "mcp" and not result.name):
            return _listing_item(result)
        call = ServerCall(result.call_id, result.kind, result.name, server=result.server)
        return self.call(call, result)

    def _found(self, result: ServerResult) -> JsonObject:
        names = result.outcome.names if isinstance(result.outcome, FoundTools) else ()
        tools: list[Json] = [_declare(self._tools[name]) for name in names if name in self._tools]
        return {
            "type": "tool_search_output",
            "id": hosted_id("tso", result.call_id),
            "execution": "server",
            "status": _status(result.outcome),
            "tools": tools,
        }


def is_complete(call: ServerCall) -> bool:
    """Return True for a call whose item does not wait for a result.

    The client answers a request for approval, and the output of a tool search is another item.
    """
    return call.needs_approval or call.kind == "tool_search"


def _status(outcome: ServerToolOutcome | None) -> str:
    if outcome is None:
        return "incomplete"
    failed = isinstance(outcome, ServerToolError) or (
        isinstance(outcome, McpOutput) and outcome.is_error
    )
    return "failed" if failed else "completed"


def _encode_hit(hit: SearchHit) -> JsonObject:
    return {"url": hit.url, "title": hit.title, "snippet": hit.snippet}


def _mcp_item(call: ServerCall, outcome: ServerToolOutcome | None) -> JsonObject:
    asked = call.needs_approval
    item: JsonObject = {
        "type": "mcp_approval_request" if asked else "mcp_call",
        "id": hosted_id("mcpr" if asked else "mcp", call.id),
        "server_label": call.server,
        "name": call.name,
        "arguments": dumps(call.arguments),
    }
    # The AI SDK (4.0) rejects `error: null`: an absent value has no key.
    match outcome:
        case McpOutput(_, is_error):
            text = "\n".join(outcome.texts)
            return item | ({"error": _error(text)} if is_error else {"output": text})
        case ServerToolError(code, text):
            return item | {"error": _error(text or code)}
        case _:
            return item


def _error(text: str) -> JsonObject:
    # OpenAI Responses, `mcp_call`: the content of a tool's error, as the MCP server sent it.
    content: list[Json] = [{"type": "text", "text": text}]
    return {"type": "mcp_tool_execution_error", "content": content}


def _approval_item(call_id: str, outcome: McpApproval) -> JsonObject:
    item: JsonObject = {
        "type": "mcp_approval_response",
        "approval_request_id": hosted_id("mcpr", call_id),
        "approve": outcome.approve,
    }
    return item | {"reason": outcome.reason} if outcome.reason else item


def _listing_item(result: ServerResult) -> JsonObject:
    item: JsonObject = {
        "type": "mcp_list_tools",
        "id": hosted_id("mcpl", result.call_id),
        "server_label": result.server,
        "tools": [],
    }
    match result.outcome:
        case McpListing(tools):
            return item | {"tools": [_encode_tool(tool) for tool in tools]}
        case ServerToolError(code, text):
            return item | {"error": text or code}
        case _:
            return item


def _encode_tool(tool: McpTool) -> JsonObject:
    # The AI SDK (4.0) rejects null for `description` and `annotations`: absent values have no key.
    item: JsonObject = {"name": tool.name, "input_schema": tool.schema}
    if tool.description:
        item["description"] = tool.description
    return item | {"annotations": {"readOnlyHint": True}} if tool.read_only else item


def _declare(tool: Tool) -> JsonObject:
    """Return a found tool as the output of a tool search declares it."""
    offer: JsonObject = {"type": "function", "name": tool.name, "parameters": tool.input_schema}
    if tool.description:
        offer["description"] = tool.description
    return offer | {"defer_loading": True}


def has_own_item(part: ServerResult) -> bool:
    """Return True for a result whose item is not that of a call."""
    return part.kind == "tool_search" or isinstance(part.outcome, McpListing | McpApproval)


def encode_server_parts(parts: tuple[Part, ...], items: HostedItems) -> dict[int, JsonObject]:
    """Return the items of calls and results, by the position of the part that begins each."""
    results = {
        part.call_id: part
        for part in parts
        if isinstance(part, ServerResult) and not has_own_item(part)
    }
    found: dict[int, JsonObject] = {}
    for number, part in enumerate(parts):
        if isinstance(part, ServerCall):
            result = None if is_complete(part) else results.pop(part.id, None)
            found[number] = items.call(part, result)
        elif isinstance(part, ServerResult) and (has_own_item(part) or part.call_id in results):
            results.pop(part.call_id, None)
            found[number] = items.alone(part)
    return found
