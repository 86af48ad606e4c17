"""Web search of Chat Completions, in both directions.

OpenAI chat, web search: the field `web_search_options` of the body enables it, on search models.
OpenRouter, server tools: `{"type": "openrouter:web_search"}` is an entry of `tools`, for any model.
Both become a hosted tool of ours. An answer has no part for the call, only annotations of its text.
"""

from toolbridge.codecs.openai_chat.quirks import read_quirks
from toolbridge.codecs.openai_chat.shapes import ORIGIN
from toolbridge.core.codec import Lose, Target
from toolbridge.core.declared_limits import check_choice, check_domains, check_object, check_place
from toolbridge.core.json import Json, JsonObject, object_in, text_in, texts_of
from toolbridge.core.messages import Origin, Request, Tool
from toolbridge.core.server_tools import CONTEXT_SIZES, ServerTool
from toolbridge.core.shared_tools import once_per_list
from toolbridge.core.source import sourced

OPTIONS = "web_search_options"
_NAME = "web_search"
_OPENROUTER = "openrouter:web_search"


def decode_options(options: Json, names: set[str]) -> tuple[Tool, ...]:
    """Return the tool that `web_search_options` stands for; `names` are those of the other tools."""
    check_object(options, OPTIONS)
    if not isinstance(options, dict):
        return ()
    _check(options)
    name = OPTIONS if _NAME in names else _NAME
    hosted: JsonObject = {OPTIONS: options}
    tool = Tool(name, origin=ORIGIN, hosted=hosted, server=_decode(options))
    return (sourced(tool, Origin(ORIGIN, OPTIONS, hosted)),)


def _check(options: JsonObject) -> None:
    check_choice(options, "search_context_size", ("low", "medium", "high"), OPTIONS)
    check_place(options.get("user_location"), f"{OPTIONS}.user_location", nested=True)
    check_object(options.get("filters"), f"{OPTIONS}.filters")
    filters = object_in(options, "filters")
    check_domains(filters, "allowed_domains", "blocked_domains", f"{OPTIONS}.filters")


def search_options(tool: Tool) -> JsonObject:
    """Return the field of the body that a hosted tool stands for; empty for any other tool."""
    hosted = tool.hosted if tool.origin == ORIGIN and tool.hosted is not None else {}
    return {OPTIONS: hosted[OPTIONS]} if OPTIONS in hosted else {}


@once_per_list
def all_search_options(tools: tuple[Tool, ...]) -> JsonObject:
    """Return the fields of the body that hosted tools stand for."""
    found: JsonObject = {}
    for tool in tools:
        found |= search_options(tool)
    return found


def decode_server_tool(declared: JsonObject, where: str) -> ServerTool | None:
    """Return what a tool with a type of its own does; None for a type that is not known."""
    if declared.get("type") != _OPENROUTER:
        return None
    check_object(declared.get("parameters"), f"{where}.parameters")
    fields = object_in(declared, "parameters")
    check_domains(fields, "allowed_domains", "excluded_domains", f"{where}.parameters")
    # OpenRouter, web search: `allowed_domains` or `excluded_domains`.
    allow, block = texts_of(fields.get("allowed_domains")), texts_of(fields.get("excluded_domains"))
    return ServerTool("web_search", allow=allow, block=block)


def _decode(options: JsonObject) -> ServerTool:
    # OpenAI chat: the location is nested in `approximate`, unlike in the Responses API.
    place = object_in(object_in(options, "user_location"), "approximate")
    filters = object_in(options, "filters")
    return ServerTool(
        "web_search",
        allow=texts_of(filters.get("allowed_domains")),
        context=CONTEXT_SIZES.get(text_in(options, "search_context_size"), ""),
    ).at(place)


def encode_server_tool(
    tool: ServerTool, _request: Request, target: Target, lose: Lose
) -> JsonObject | None:
    """Return the declaration of a server tool of another API; None where the provider has none."""
    style = read_quirks(target.quirks).web_search
    if tool.kind != "web_search" or not style:
        return None
    if tool.max_uses is not None:
        lose("max_uses", "this API has no limit of searches")
    if tool.after or tool.before:
        lose("timeRangeFilter", "this API's search has no range of dates")
    if style == "openrouter":
        return _encode_openrouter(tool, lose)
    if tool.allow or tool.block:
        name = "allowed_domains" if tool.allow else "blocked_domains"
        lose(name, "this API cannot limit a search to domains")
    options: JsonObject = {"search_context_size": tool.context} if tool.context else {}
    if place := tool.place:
        options["user_location"] = {"type": "approximate", "approximate": place}
    return {OPTIONS: options}


def _encode_openrouter(tool: ServerTool, lose: Lose) -> JsonObject:
    limits: JsonObject = {"allowed_domains": [*tool.allow]} if tool.allow else {}
    if tool.block and not tool.allow:
        limits["excluded_domains"] = [*tool.block]
    elif tool.block:
        lose("blocked_domains", "OpenRouter takes either allowed or excluded domains")
    if tool.place:
        lose("user_location", "OpenRouter's search has no location")
    declared: JsonObject = {"type": _OPENROUTER}
    return declared | {"parameters": limits} if limits else declared
