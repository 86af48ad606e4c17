"""How Anthropic's API reports that one of its own tools failed.

An error is a result block: the status stays 200 and the answer goes on. Tools are known by the
prefix of their type, never by its date.
"""

from toolbridge.codecs.anthropic.shapes import ORIGIN
from toolbridge.core.ids import Ids
from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Foreign, Tool

_INPUTS = {
    "web_search": "query",
    "web_fetch": "url",
    "code_execution": "code",
    "tool_search_tool_regex": "query",
    "tool_search_tool_bm25": "query",
}
"""The parameter of each tool, by its name in calls."""
_RESULTS = {
    "web_search": "web_search_tool_result",
    "web_fetch": "web_fetch_tool_result",
    "code_execution": "code_execution_tool_result",
    "tool_search_tool_regex": "tool_search_tool_result",
    "tool_search_tool_bm25": "tool_search_tool_result",
}


def encode_unavailable(tool: Tool, subject: str, ids: Ids) -> tuple[Foreign | str, ...] | None:
    """Return a call of `tool` and its failure, and a text that says so; None for other tools.

    Claude Code gives the error's code and the text to the model that asked for the search.
    """
    type = str((tool.hosted or {}).get("type", ""))
    name = next((name for name in _INPUTS if type.startswith(name)), None)
    if name is None:
        return None
    id = f"srvtoolu_{ids.draw(24)}"
    result = _RESULTS[name]
    call: JsonObject = {
        "type": "server_tool_use",
        "id": id,
        "name": name,
        "input": {_INPUTS[name]: subject},
    }
    error: JsonObject = {"type": f"{result}_error", "error_code": "unavailable"}
    answer: JsonObject = {"type": result, "tool_use_id": id, "content": error}
    return (
        Foreign(ORIGIN, "server_tool_use", call),
        Foreign(ORIGIN, result, answer),
        f"{name} is not available: the model behind this gateway has no such tool.",
    )
