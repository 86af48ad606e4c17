"""Tools that the client's API runs itself, where the model's API cannot run them.

Web search, code execution and the like are run by the vendor whose API offers them. Behind another
API they do not exist. A model that is told to search and has no search invents results, so:

- a request that *forces* such a tool is answered at once, without the model, in the tool's own
  shape of an error (Anthropic: `web_search_tool_result_error` with `unavailable`);
- where the tool is only *offered*, a sentence in the system prompt says that it is not available.
"""

from msgspec.structs import replace

from toolbridge.core import events as ev
from toolbridge.core.codec import Codec
from toolbridge.core.draft import Draft
from toolbridge.core.errors import Unsupported
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Request, Text, Tool

_SEARCH_OPTIONS = "web_search_options"
"""OpenAI chat offers its web search by this field, not as a tool."""
_SEARCH_PROMPT = "Perform a web search for the query: "
"""How Claude Code's WebSearch asks, also where it does not force the tool (2.1.325)."""


def missing_tools(request: Request, api: str) -> tuple[Tool, ...]:
    """Return the tools of `request` that only its own API can run, and `api` is another."""
    return tuple(t for t in request.tools if t.hosted is not None and t.origin != api)


def announce(request: Request, api: str) -> Request:
    """Return `request` with a sentence in its system prompt about tools that cannot be had.

    It stands last and never varies, so a cached prefix stays good.
    """
    names = [tool.name for tool in missing_tools(request, api)]
    if request.origin != api and _SEARCH_OPTIONS in request.extra:
        names.append("web search")
    if not names or request.tool_choice.mode == "none":
        return request
    listed = ", ".join(dict.fromkeys(names))
    sentence = (
        f"Not available in this conversation: {listed}. Do not pretend to have used it and do not "
        "invent its results. Where it would be needed, say that it is not available."
    )
    return replace(request, system=(*request.system, Text(sentence)))


def forced_tool(request: Request, api: str, *, agent: bool = False) -> Tool | None:
    """Return the tool without which the request makes no sense, where that cannot be had.

    `agent` says that a coding agent asks: Gemini CLI searches and fetches by requests that offer
    nothing else, and takes any text in the answer for what was found.
    """
    missing = missing_tools(request, api)
    choice = request.tool_choice
    if not missing or choice.mode == "none":
        return None
    if choice.mode == "named":
        return next((tool for tool in missing if tool.name in choice.names), None)
    only = len(missing) == len(request.tools)
    side_request = _last_text(request).startswith(_SEARCH_PROMPT) or (
        agent and request.origin == "gemini"
    )
    return missing[0] if only and (choice.mode == "required" or side_request) else None


def refuse(request: Request, tool: Tool, codec: Codec, ids: Ids) -> list[ev.Event]:
    """Return the answer to a request that forces `tool`; raise `Unsupported` where none has a shape.

    `codec` is the client's: it knows how its API reports that a tool failed.
    """
    parts = codec.encode_unavailable(tool, _subject(request), ids)
    if parts is None:
        raise Unsupported(
            f"the tool {tool.name!r} is run by its own API and cannot be had with "
            f"{request.model}; leave it out, or ask a model of the vendor that runs it",
            where="tool_choice",
        )
    draft = Draft(ids)
    said = draft.start(id=ids.message(), model=request.model)
    for part in parts:
        said += draft.text(part) if isinstance(part, str) else draft.add(part)
    return said + draft.finish("end")


def _subject(request: Request) -> str:
    """Return what the tool was to be used on: the last words of the user."""
    return _last_text(request).removeprefix(_SEARCH_PROMPT).strip()


def _last_text(request: Request) -> str:
    for turn in reversed(request.turns):
        texts = [part.text for part in turn.content if isinstance(part, Text)]
        if turn.role == "user" and texts:
            return texts[-1]
    return ""
