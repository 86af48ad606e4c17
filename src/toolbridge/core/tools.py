"""Reads tools that library users pass: a `Tool`, or an object in the shape of any API."""

from collections.abc import Iterable, Mapping

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.messages import Tool
from toolbridge.core.shared_tools import SharedTools

_SCHEMAS = (
    "input_schema",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
    "schema",
)


def as_tools(given: Iterable[object], where: str = "tools") -> tuple[Tool, ...]:
    """Return `given` as tools; an item may be `{"name", "input_schema"}` or `{"function": {…}}`."""
    if isinstance(given, SharedTools):
        return given
    return tuple(as_tool(tool, f"{where}.{index}") for index, tool in enumerate(given))


def as_tool(given: object, where: str = "tool") -> Tool:
    if isinstance(given, Tool):
        return given
    inner = given.get("function", given) if isinstance(given, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(name := inner.get("name"), str):
        raise MalformedRequest("a tool needs a `name`, or a `function` with a `name`", where=where)
    schema = next((s for key in _SCHEMAS if isinstance(s := inner.get(key), dict)), {})
    description = inner.get("description")
    return Tool(name, description if isinstance(description, str) else "", schema)
