"""Code that Anthropic runs in a container, as text for clients of other APIs.

Anthropic, code execution tool: `code_execution` and `bash_code_execution` are server tools. The
call and its result are blocks of the answer, and the client runs nothing. Other APIs get both as
fenced code in the text.
"""

from toolbridge.core.fences import fenced
from toolbridge.core.json import JsonObject

_CALLS = {"code_execution": ("code", "python"), "bash_code_execution": ("command", "bash")}
"""The tools that run code: the field of their input with the code, and the language of it."""
_RESULTS = frozenset({"code_execution_tool_result", "bash_code_execution_tool_result"})


def show_code(block: JsonObject) -> str:
    """Return the code of a call, or the output of a result, as text; "" for any other block."""
    if block.get("type") == "server_tool_use":
        field, language = _CALLS.get(str(block.get("name")), ("", ""))
        return fenced(_text(block.get("input"), field), language)
    if block.get("type") in _RESULTS:
        result = block.get("content")
        return fenced(_text(result, "stdout")) + fenced(_text(result, "stderr"))
    return ""


def _text(fields: object, name: str) -> str:
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if isinstance(value, str) else ""
