"""Which tools cannot be had, and what becomes of a request for one."""

from tests.tables import every_row

from toolbridge.core.messages import Request, Text, Tool, ToolChoice, Turn
from toolbridge.policy.server_tools import announce, forced_tool, missing_tools

SEARCH = Tool("web_search", origin="anthropic", hosted={"type": "web_search_20250305"})
BASH = Tool("Bash")


def asking(*tools, mode="auto", names=(), text="news", origin="anthropic"):
    turns = (Turn("user", (Text(text),)),)
    choice = ToolChoice(mode, names)
    return Request("m", turns=turns, tools=tools, tool_choice=choice, origin=origin)


def test_a_tool_is_missing_wherever_its_own_api_is_not():
    assert missing_tools(asking(SEARCH, BASH), "ollama") == (SEARCH,)
    assert missing_tools(asking(SEARCH, BASH), "anthropic") == ()
    assert missing_tools(asking(BASH), "ollama") == ()


@every_row(
    ("request_", "forced"),
    [
        (asking(SEARCH, mode="named", names=("web_search",)), True),
        (asking(SEARCH, BASH, mode="named", names=("web_search",)), True),
        (asking(SEARCH, BASH, mode="named", names=("Bash",)), False),
        (asking(SEARCH, mode="required"), True),
        (asking(SEARCH, BASH, mode="required"), False),
        (asking(SEARCH), False),
        (asking(SEARCH, text="Perform a web search for the query: x"), True),
        (asking(SEARCH, BASH, text="Perform a web search for the query: x"), False),
        (asking(SEARCH, mode="none"), False),
    ],
)
def test_what_forces_a_tool(request_, forced):
    assert (forced_tool(request_, "ollama") is SEARCH) is forced
    assert forced_tool(request_, "anthropic") is None


def test_only_gemini_cli_searches_by_offering():
    search = Tool("googleSearch", origin="gemini", hosted={"googleSearch": {}})
    request = asking(search, origin="gemini")
    assert forced_tool(request, "ollama") is None
    assert forced_tool(request, "ollama", agent=True) is search


def test_the_sentence_stands_last_and_only_where_something_is_missing():
    request = asking(SEARCH, BASH)
    told = announce(request, "ollama")
    assert told.system[-1].text.startswith("Not available in this conversation: web_search.")
    assert announce(request, "anthropic") is request
    assert announce(asking(SEARCH, mode="none"), "ollama").system == ()
