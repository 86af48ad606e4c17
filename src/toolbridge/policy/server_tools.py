"""Server tools (web search, code execution) that the provider's API does not have.

A server tool is run by the vendor of the client's API and does not exist behind another API. A
model that must search and has no search tool invents results, so:

- a request that *forces* such a tool is answered without the model, with the tool's own error
  (Anthropic: `web_search_tool_result_error` with the code `unavailable`);
- where the tool is only *offered*, a sentence in the system prompt marks it as unavailable.
"""

from msgspec.structs import replace

from toolbridge.core import events as ev
from toolbridge.core.codec import Codec
from toolbridge.core.draft import Draft
from toolbridge.core.errors import Unsupported
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Request, Text, Tool
from toolbridge.core.shared_tools import once_per_list
from toolbridge.policy.direct_search import SEARCH_PROMPT, last_text


def missing_tools(request: Request, api: str) -> tuple[Tool, ...]:
    """Return the server tools of `request` that a provider of `api` does not have."""
    return _missing(request.tools, api)


@once_per_list
def _missing(tools: tuple[Tool, ...], api: str) -> tuple[Tool, ...]:
    return tuple(t for t in tools if t.hosted is not None and t.origin != api)


def announce(request: Request, api: str) -> Request:
    """Return `request` with a sentence about unavailable tools in its system prompt.

    It is the last part and constant, so that a cached prefix stays valid.
    """
    names = [_shown_name(tool) for tool in missing_tools(request, api)]
    if not names or request.tool_choice.mode == "none":
        return request
    listed = ", ".join(dict.fromkeys(names))
    sentence = (
        f"Not available in this conversation: {listed}. Do not pretend to have used it and do not "
        "invent its results. Where it would be needed, say that it is not available."
    )
    return replace(request, system=(*request.system, Text(sentence)))


def _shown_name(tool: Tool) -> str:
    if tool.server is not None and tool.server.kind == "mcp":
        return f"the MCP server {tool.server.server}"
    return tool.name


def forced_tool(request: Request, api: str, *, agent: bool = False) -> Tool | None:
    """Return the unavailable tool that the request forces, or None.

    `agent` is True for a coding agent: Gemini CLI searches and fetches with requests that offer
    nothing but the server tool, and treats any text of the answer as the result.
    """
    missing = missing_tools(request, api)
    choice = request.tool_choice
    if not missing or choice.mode == "none":
        return None
    if choice.mode == "named":
        return next((tool for tool in missing if tool.name in choice.names), None)
    only = len(missing) == len(request.tools)
    side_request = last_text(request).startswith(SEARCH_PROMPT) or (
        agent and request.origin == "gemini"
    )
    return missing[0] if only and (choice.mode == "required" or side_request) else None


def refuse(request: Request, tool: Tool, codec: Codec, ids: Ids) -> list[ev.Event]:
    """Return the answer to a request that forces `tool`.

    `codec` is the client's and encodes its API's error of a failed tool; `Unsupported` is raised
    where the API has none.
    """
    parts = codec.encode_unavailable(tool, _subject(request), ids)
    if parts is None:
        raise Unsupported(
            f"the tool {tool.name!r} is run by its vendor's servers and is not available with "
            f"{request.model}; remove it from `tools`, or choose a model of that vendor",
            where="tool_choice",
        )
    draft = Draft(ids)
    said = draft.start(id=ids.message(), model=request.model)
    for part in parts:
        said += draft.text(part) if isinstance(part, str) else draft.add(part)
    return said + draft.finish("end")


def _subject(request: Request) -> str:
    """Return the input for the tool: the last text of the user."""
    return last_text(request).removeprefix(SEARCH_PROMPT).strip()
