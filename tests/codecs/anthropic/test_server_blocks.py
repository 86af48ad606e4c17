"""Server tools of the Messages API: every block in both directions."""

from msgspec.structs import replace
from tests.codecs.anthropic.test_decode_request import decode, decode_part
from tests.tables import every_row

from toolbridge.codecs.anthropic.server_blocks import decode_server_block, encode_server_block
from toolbridge.core.messages import Text
from toolbridge.core.server_tools import (
    CodeOutput,
    FetchedPage,
    FoundTools,
    McpOutput,
    SearchHit,
    SearchHits,
    ServerCall,
    ServerResult,
    ServerTool,
    ServerToolError,
)

BLOCKS = [
    (
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "eels"},
        },
        ServerCall("srvtoolu_1", "web_search", "web_search", {"query": "eels"}),
    ),
    (
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "bash_code_execution",
            "input": {"command": "ls"},
        },
        ServerCall("srvtoolu_1", "code_execution", "bash_code_execution", {"command": "ls"}),
    ),
    (
        {
            "type": "mcp_tool_use",
            "id": "mcptoolu_1",
            "name": "echo",
            "server_name": "all",
            "input": {"a": 1},
        },
        ServerCall("mcptoolu_1", "mcp", "echo", {"a": 1}, "all"),
    ),
    (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {
                    "type": "web_search_result",
                    "url": "https://example.org/ä",
                    "title": "Aale",
                    "encrypted_content": "RQ==",
                    "page_age": "2 days",
                }
            ],
        },
        ServerResult(
            "srvtoolu_1",
            "web_search",
            SearchHits((SearchHit("https://example.org/ä", "Aale", age="2 days", sealed="RQ=="),)),
            "web_search",
        ),
    ),
    (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {
                "type": "web_search_tool_result_error",
                "error_code": "max_uses_exceeded",
            },
        },
        ServerResult(
            "srvtoolu_1", "web_search", ServerToolError("max_uses_exceeded"), "web_search"
        ),
    ),
    (
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {
                "type": "web_fetch_result",
                "url": "https://example.org",
                "retrieved_at": "2026-11-16T00:00:00Z",
                "content": {
                    "type": "document",
                    "title": "Eels",
                    "source": {"type": "text", "media_type": "text/plain", "data": "They swim."},
                },
            },
        },
        ServerResult(
            "srvtoolu_1",
            "web_fetch",
            FetchedPage(
                "https://example.org", "Eels", "They swim.", fetched_at="2026-11-16T00:00:00Z"
            ),
            "web_fetch",
        ),
    ),
    (
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {
                "type": "web_fetch_result",
                "url": "https://example.org/a.pdf",
                "retrieved_at": None,
                "content": {
                    "type": "document",
                    "title": None,
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
                },
            },
        },
        ServerResult(
            "srvtoolu_1",
            "web_fetch",
            FetchedPage("https://example.org/a.pdf", data="JVBE", media_type="application/pdf"),
            "web_fetch",
        ),
    ),
    (
        {
            "type": "tool_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {
                "type": "tool_search_tool_search_result",
                "tool_references": [{"type": "tool_reference", "tool_name": "weather"}],
            },
        },
        ServerResult("srvtoolu_1", "tool_search", FoundTools(("weather",))),
    ),
    (
        {
            "type": "tool_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {
                "type": "tool_search_tool_result_error",
                "error_code": "invalid_tool_input",
                "error_message": "bad pattern",
            },
        },
        ServerResult(
            "srvtoolu_1", "tool_search", ServerToolError("invalid_tool_input", "bad pattern")
        ),
    ),
    (
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {
                "type": "bash_code_execution_result",
                "stdout": "hi\n",
                "stderr": "",
                "return_code": 1,
                "content": [],
            },
        },
        ServerResult(
            "srvtoolu_1", "code_execution", CodeOutput("hi\n", "", 1), "bash_code_execution"
        ),
    ),
    (
        {
            "type": "mcp_tool_result",
            "tool_use_id": "mcptoolu_1",
            "is_error": True,
            "content": [{"type": "text", "text": "no such file"}],
        },
        ServerResult("mcptoolu_1", "mcp", McpOutput((Text("no such file"),), is_error=True)),
    ),
]


@every_row(("block", "part"), BLOCKS)
def test_every_block_is_read_and_written_again(block, part):
    assert decode_server_block(block) == part
    assert decode_part(block) == part
    assert encode_server_block(part) == block


@every_row(("block", "part"), BLOCKS)
def test_fields_that_are_not_known_go_back_to_anthropic(block, part):
    block = block | {"caller": {"type": "direct"}}
    assert encode_server_block(decode_server_block(block)) == block


def test_a_changed_result_is_written_anew():
    block, _ = BLOCKS[3]
    changed = replace(decode_server_block(block | {"caller": 1}), outcome=SearchHits())
    assert encode_server_block(changed) == block | {"content": []}


def test_the_result_of_the_editor_is_text_and_goes_back_unchanged():
    content = {
        "type": "text_editor_code_execution_view_result",
        "content": "one\n",
        "file_type": "text",
        "num_lines": 1,
    }
    block = {
        "type": "text_editor_code_execution_tool_result",
        "tool_use_id": "s",
        "content": content,
    }
    part = decode_server_block(block)
    assert part.outcome == CodeOutput("one\n")
    assert encode_server_block(part) == block


def test_an_unknown_error_code_is_unavailable():
    error = {"type": "web_search_tool_result_error", "error_code": "brand_new"}
    block = {"type": "web_search_tool_result", "tool_use_id": "s", "content": error}
    part = decode_server_block(block)
    assert part.outcome == ServerToolError("unavailable")
    assert encode_server_block(part) == block


@every_row(
    ("declared", "expected"),
    [
        (
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
            ServerTool("web_search", max_uses=8),
        ),
        (
            {
                "type": "web_search_29990101",
                "name": "web_search",
                "allowed_domains": ["a.org"],
                "user_location": {"type": "approximate", "country": "DE", "city": "Ulm"},
            },
            ServerTool("web_search", allow=("a.org",), country="DE", city="Ulm"),
        ),
        (
            {
                "type": "web_fetch_20250910",
                "name": "web_fetch",
                "max_content_tokens": 5,
                "citations": {"enabled": True},
                "blocked_domains": ["b.org"],
            },
            ServerTool("web_fetch", block=("b.org",), content_tokens=5, cite=True),
        ),
        (
            {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
            ServerTool("tool_search", ranking="regex"),
        ),
        (
            {"type": "code_execution_20260521", "name": "code_execution"},
            ServerTool("code_execution"),
        ),
    ],
)
def test_a_declaration_is_read_by_the_beginning_of_its_type(declared, expected):
    (tool,) = decode(tools=[declared]).tools
    assert (tool.server, tool.hosted) == (expected, declared)
