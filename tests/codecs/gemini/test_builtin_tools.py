"""Server tools of other APIs as tools of Gemini."""

from tests.tables import every_row

from toolbridge.codecs.gemini.builtin_tools import encode_server_tool
from toolbridge.core.codec import Target
from toolbridge.core.messages import Request, Tool
from toolbridge.core.server_tools import McpConnection, ServerTool

URL = "https://mcp.example/"
PLAIN = {"url": URL}


def encoded(tool: ServerTool, model: str = "gemini-3.1-pro", *, target=None, **fields):
    """Return the declaration, and what is reported as lost."""
    lost = []
    request, target = Request(model=model, turns=(), **fields), target or Target(model=model)
    declared = encode_server_tool(tool, request, target, lambda what, *_: lost.append(what))
    return declared, lost


@every_row(
    ("connection", "transport"),
    [
        (McpConnection(URL), PLAIN),
        (McpConnection(URL, {"x-a": "1"}), {**PLAIN, "headers": {"x-a": "1"}}),
        # What Gemini cannot limit is not offered.
        (McpConnection(URL, approval="always"), None),
        (McpConnection(URL, allowed=()), None),
        (McpConnection(URL, allowed=("a",)), None),
        (McpConnection(URL, denied=("a",)), None),
        (McpConnection(URL, read_only=True), None),
        (McpConnection(), None),
        (None, None),
    ],
)
def test_an_mcp_server_without_limits_is_declared(connection, transport):
    server = {"name": "files", "streamableHttpTransport": transport}
    wanted = None if transport is None else {"mcpServers": [server]}
    assert encoded(ServerTool("mcp", server="files", mcp=connection)) == (wanted, [])


@every_row(
    ("kind", "declared"),
    [
        ("web_search", {"googleSearch": {}}),
        ("web_fetch", {"urlContext": {}}),
        ("code_execution", {"codeExecution": {}}),
        ("tool_search", None),
    ],
)
def test_a_tool_of_gemini_is_declared(kind, declared):
    assert encoded(ServerTool(kind)) == (declared, [])


def test_before_gemini_3_there_are_no_functions_beside_a_tool_of_gemini():
    tool = ServerTool("web_search")
    own, hosted = (Tool("f"),), (Tool("s", hosted={"type": "web_search"}),)
    assert encoded(tool, "gemini-2.5-pro", tools=own) == (None, [])
    assert encoded(tool, "gemini-2.5-pro", tools=hosted)[0] == {"googleSearch": {}}
    assert encoded(tool, tools=own)[0] == {"googleSearch": {}}


def test_a_limit_that_gemini_does_not_have_is_reported():
    limits = {"max_uses": 2, "allow": ("a.example",), "block": ("b.example",)}
    tool = ServerTool("web_search", **limits).at({"city": "Bern"})
    names = ["max_uses", "allowed_domains", "blocked_domains", "user_location"]
    assert encoded(tool) == ({"googleSearch": {}}, names)
    names.remove("blocked_domains")
    vertex = Target(model="gemini-3.1-pro", quirks={"exclude_domains": True})
    declared = {"googleSearch": {"excludeDomains": ["b.example"]}}
    assert encoded(tool, target=vertex) == (declared, names)
