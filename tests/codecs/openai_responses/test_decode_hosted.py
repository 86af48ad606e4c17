"""Items of hosted tools, each type with its forms and faults."""

from msgspec.structs import replace
from tests.tables import every_row

from toolbridge.codecs.openai_responses.decode_hosted import decode_answered, decode_hosted
from toolbridge.core.messages import Text
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
    ServerResult,
    ServerToolError,
)


def bare(parts):
    return [replace(part, source=None) for part in parts]


def search(action, **fields):
    return {"type": "web_search_call", "id": "w", "status": "completed", "action": action, **fields}


def mcp(**fields):
    return {"type": "mcp_call", "id": "m", "name": "f", "server_label": "s", "arguments": '{"a":1}', **fields}  # fmt: skip


def called(**arguments):
    return ServerCall("w", "web_search", "web_search", arguments)


def found(outcome):
    return ServerResult("w", "web_search", outcome, "web_search")


CALL = ServerCall("m", "mcp", "f", {"a": 1}, "s")


@every_row(
    ("item", "parts"),
    [
        (search({"query": "q"}), [called(query="q")]),
        (search(None), [called(query="")]),
        (search({"type": "search", "queries": ["q"]}), [called(query="q")]),
        (search({"queries": ["q", "r", 5]}), [called(query="q", queries=["q", "r"])]),
        (search({"query": "x", "queries": ["q"]}), [called(query="x", queries=["q"])]),
        (search({"query": "q", "sources": []}), [called(query="q"), found(SearchHits())]),
        (
            search({"query": "q", "sources": [{"url": "u", "title": "t"}, {"title": "none"}, 5]}),
            [called(query="q"), found(SearchHits((SearchHit("u", "t"),)))],
        ),
        (
            search({"query": "q", "sources": [{"url": "s"}]}, results=[{"url": "u", "text": "x"}, {"url": "v", "snippet": "y", "text": "z"}]),
            [called(query="q"), found(SearchHits((SearchHit("u", "", "x"), SearchHit("v", "", "y"))))],
        ),
        (search({"query": "q"}, status="failed"), [called(query="q"), found(ServerToolError("unavailable"))]),
        (search({"query": "q"}, status="incomplete", error="late"), [called(query="q"), found(ServerToolError("unavailable", "late"))]),
        (
            search({"type": "open_page", "url": "u"}),
            [ServerCall("w", "web_fetch", "open_page", {"url": "u"}), ServerResult("w", "web_fetch", FetchedPage("u"), "open_page")],
        ),
        (
            search({"type": "find_in_page", "url": "u", "pattern": "p"}, status="failed", error={"message": "gone"}),
            [
                ServerCall("w", "web_fetch", "find_in_page", {"url": "u", "pattern": "p"}),
                ServerResult("w", "web_fetch", ServerToolError("unavailable", "gone"), "find_in_page"),
            ],
        ),
        (
            {"type": "code_interpreter_call", "id": "c", "code": "1", "outputs": [{"logs": "a"}, 5, {"logs": "b"}, {"url": "i"}]},
            [ServerCall("c", "code_execution", "code_execution", {"code": "1"}), ServerResult("c", "code_execution", CodeOutput("ab"), "code_execution")],
        ),
        (
            {"type": "code_interpreter_call", "id": "c", "status": "failed", "outputs": None},
            [ServerCall("c", "code_execution", "code_execution", {"code": ""}), ServerResult("c", "code_execution", CodeOutput("", return_code=1), "code_execution")],
        ),
        (mcp(output="o"), [CALL, ServerResult("m", "mcp", McpOutput((Text("o"),)), "f", "s")]),
        (mcp(output=None), [CALL, ServerResult("m", "mcp", McpOutput(()), "f", "s")]),
        (mcp(output="o", status="failed"), [CALL, ServerResult("m", "mcp", McpOutput((), is_error=True), "f", "s")]),
        (mcp(error="no", status="completed"), [CALL, ServerResult("m", "mcp", McpOutput((Text("no"),), is_error=True), "f", "s")]),
        (
            mcp(error={"content": [{"text": "a"}, 5, {"text": "b"}]}),
            [CALL, ServerResult("m", "mcp", McpOutput((Text("a\nb"),), is_error=True), "f", "s")],
        ),
        (mcp(error={"content": []}), [CALL, ServerResult("m", "mcp", McpOutput((), is_error=True), "f", "s")]),
        (mcp(error={"content": [{"type": "text", "text": ""}]}, status="failed"), [CALL, ServerResult("m", "mcp", McpOutput((), is_error=True), "f", "s")]),
        (mcp(error={"code": 7}), [CALL, ServerResult("m", "mcp", McpOutput((Text('{"code":7}'),), is_error=True), "f", "s")]),
        (mcp(arguments="no json", output="o"), [replace(CALL, arguments={}), ServerResult("m", "mcp", McpOutput((Text("o"),)), "f", "s")]),
        (
            {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": [
                {"name": "a", "description": "d", "input_schema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
                {"name": "b", "annotations": {"read_only": True}}, {"name": "c", "annotations": {"readOnlyHint": "yes"}}, 5,
            ]},
            [ServerResult("l", "mcp", McpListing((
                McpTool("a", "d", {"type": "object"}, read_only=True), McpTool("b", "", {}, read_only=True), McpTool("c", "", {}),
            )), server="s")],
        ),
        (
            {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": [], "error": "down"},
            [ServerResult("l", "mcp", ServerToolError("unavailable", "down"), server="s")],
        ),
        (mcp(type="mcp_approval_request"), [replace(CALL, needs_approval=True)]),
        (
            {"type": "mcp_approval_response", "approval_request_id": "m", "approve": True, "reason": "r"},
            [ServerResult("m", "mcp", McpApproval(approve=True, reason="r"))],
        ),
        ({"type": "mcp_approval_response", "approval_request_id": "m", "approve": 1}, [ServerResult("m", "mcp", McpApproval(approve=False))]),
        ({"type": "mcp_approval_response", "id": "m"}, []),
        ({"type": "tool_search_call", "id": "t", "arguments": {"query": "q"}}, [ServerCall("t", "tool_search", "tool_search", {"query": "q"})]),
        ({"type": "tool_search_call", "id": "t", "arguments": "q"}, [ServerCall("t", "tool_search", "tool_search", {})]),
        ({"type": "tool_search_call", "id": "t", "call_id": "c"}, []),
        ({"type": "tool_search_call", "id": "t", "execution": "client"}, []),
        ({"type": "tool_search_call", "id": "t", "call_id": "c", "execution": "server"}, [ServerCall("t", "tool_search", "tool_search", {})]),
        ({"type": "tool_search_output", "id": "t", "tools": [{"name": "a"}, 5, {}]}, [ServerResult("t", "tool_search", FoundTools(("a", "")), "tool_search")]),
        ({"type": "message", "id": "x"}, []),
        ({"type": "mcp_call"}, []),
    ],
)  # fmt: skip
def test_an_item_is_a_call_and_its_result(item, parts):
    assert bare(decode_hosted(item)) == parts
    assert all(part.source.raw == item for part in decode_hosted(item))


def test_a_completed_search_of_an_answer_always_has_a_result():
    assert bare(decode_answered(search({"query": "q"}))) == [called(query="q"), found(SearchHits())]
    both = decode_answered(search({"query": "q"}, status="failed"))
    assert len(both) == 2
    request = mcp(type="mcp_approval_request")
    assert decode_answered(request) == decode_hosted(request)
