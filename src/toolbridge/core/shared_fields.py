"""Top-level request fields that several APIs have under different names.

Decoders keep fields that `Request` does not have in `Request.extra`, under the client's names. An
encoder of the same API writes all of them again. An encoder of another API writes those that it has
a field for; the others are losses, which are minor where no answer depends on them.
"""

from collections.abc import Iterator

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Loss, Request, Tool

_TITLES = {
    "anthropic": "Anthropic's API",
    "openai_chat": "Chat Completions",
    "openai_responses": "the Responses API",
    "gemini": "Gemini's API",
    "ollama": "Ollama's API",
    "bedrock": "Bedrock's Converse API",
}


def title(api: str) -> str:
    """Return the name of an API for use in a sentence."""
    return _TITLES.get(api, "this provider" if api == "node" else "its own API")


def hosted_why(tool: Tool) -> str:
    """Return the reason of the loss of a hosted tool."""
    if tool.server is not None and tool.server.kind == "mcp":
        needs = "it needs a table in [server_tools.mcp], or its URL in `server_tools.mcp_urls`"
        return f"the tools of the MCP server {tool.server.server!r} are not offered here; {needs}"
    return f"the tool {tool.name!r} is run by {title(tool.origin)} itself and is not offered here"


def foreign_why(origin: str, kind: str) -> str:
    """Return the reason of the loss of a part that only the API `origin` has."""
    kind = kind.rpartition("/")[2]  # without the position at which its API allows it
    return f"a part of type {kind!r} is known to {title(origin)} alone"


_SHARED: dict[str, dict[str, str]] = {
    "metadata": {"openai_chat": "metadata", "openai_responses": "metadata"},
    "service_tier": {
        "anthropic": "service_tier",
        "openai_chat": "service_tier",
        "openai_responses": "service_tier",
        "gemini": "serviceTier",
    },
    "verbosity": {"openai_chat": "verbosity", "openai_responses": "text.verbosity"},
    "prompt_cache_retention": {
        "openai_chat": "prompt_cache_retention",
        "openai_responses": "prompt_cache_retention",
    },
}
"""The meaning of a field → API → its name there."""

_TIERS = {
    "anthropic": {"auto": "auto", "default": "standard_only", "standard": "standard_only"},
    "openai_chat": {"standard_only": "default", "standard": "default"},
    "openai_responses": {"standard_only": "default", "standard": "default"},
    "gemini": {"default": "standard", "standard_only": "standard"},
}
"""API → another API's service tier → its name; other tiers keep their names."""
_KNOWN_TIERS = {
    "anthropic": {"auto", "standard_only"},
    "openai_chat": {"auto", "default", "flex", "scale", "priority", "fast"},
    "openai_responses": {"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"},
    "gemini": {"standard", "flex", "priority"},
}

_CONSUMED = frozenset(
    {
        "stream_options", "store", "alt", "previous_response_id", "conversation", "include",
        "prompt_cache_key", "cache_retention", "load", "generate", "namespaces",
        "systemInstruction.role", "betas", "generationConfig.responseSchema",
        "max_tool_calls", "tool_choice.type", "tool_choice.server_label",
    }
)  # fmt: skip
"""Fields that the gateway handles itself or that have no meaning for a model."""

_DEFAULTS: JsonObject = {
    "service_tier": "auto",
    "serviceTier": "unspecified",
    "verbosity": "medium",
    "text.verbosity": "medium",
    "truncation": "disabled",
    "background": False,
    "modalities": ["text"],
    "n": 1,
    "generationConfig.candidateCount": 1,
}
"""Default values, whose loss changes nothing."""

_MINOR = frozenset(
    {
        "metadata", "client_metadata", "labels", "service_tier", "serviceTier", "speed",
        "inference_geo", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
        "keep_alive", "context_management", "user", "safety_identifier", "obfuscation",
        "moderation", "_debug_render_only",
    }
)  # fmt: skip
"""Fields that no answer depends on."""

_MCP_SERVERS = (
    "a server is used if `server_tools.mcp_urls` allows its URL and a tool of the type "
    "`mcp_toolset` names it"
)
"""The reason of a loss of the servers of a request. Anthropic, MCP connector: `mcp_servers`."""

LIMITS = frozenset({"max_tokens", "max_completion_tokens"})
"""Fields of OpenAI's that are in `Request.extra` only if they are -1."""
NO_LIMIT = "-1 is left out: it means no limit, and the provider's own limit applies"

_REASONS = {"mcp_servers": _MCP_SERVERS, **dict.fromkeys(LIMITS, NO_LIMIT)}

_OBJECTS = frozenset(
    {
        "thinking", "output_config", "metadata", "reasoning", "text", "generationConfig",
        "thinkingConfig", "toolConfig", "functionCallingConfig", "options", "systemInstruction",
        "response_format", "json_schema", "format", "tool_choice",
    }
)  # fmt: skip
"""Objects of which `extra` contains only the unknown fields."""


def carry(
    request: Request, api: str, takes: frozenset[str] | None = None
) -> tuple[JsonObject, list[Loss]]:
    """Return the fields of `request.extra` that `api` also has, and the losses.

    `takes` names the shared fields that the provider accepts; None: all that its API has.
    """
    carried: JsonObject = {}
    losses: list[Loss] = []
    if not request.extra:
        return carried, losses
    for path, value in _fields(request.extra, ""):
        if path in _CONSUMED or _says_nothing(path, value):
            continue
        meaning = _meaning(path, request.origin)
        own = _SHARED[meaning].get(api, "") if meaning else ""
        found = _worded(meaning, value, api)
        if own and found is not None and (takes is None or meaning in takes):
            _put(carried, own, found)
            continue
        name = path.partition(".")[0]
        minor = name in _MINOR or path.rpartition(".")[2] in _MINOR
        why = _REASONS.get(path) or _why(meaning, own, found, api)
        losses.append(Loss(path, why, minor))
    return carried, losses


def _why(meaning: str, own: str, found: Json, api: str) -> str:
    if own and found is None:
        return f"{title(api)} has no such {meaning.replace('_', ' ')}"
    return "this provider does not take it" if own else f"{title(api)} has no field for it"


def _fields(extra: JsonObject, above: str) -> Iterator[tuple[str, Json]]:
    """Yield the fields of `extra` with their paths."""
    for name, value in extra.items():
        path = f"{above}.{name}" if above else name
        # OpenAI: `metadata` holds the user's own keys. Anthropic: it has known fields (`user_id`).
        if name in _OBJECTS and isinstance(value, dict) and name != "metadata":
            yield from _fields(value, path)
        else:
            yield path, value


def _says_nothing(path: str, value: Json) -> bool:
    if value is None or value in ({}, []) or _DEFAULTS.get(path, value is None) == value:
        return True
    edits = value.get("edits") if path == "context_management" and isinstance(value, dict) else None
    # Claude Code sends this with every request; keeping all thinking changes nothing.
    kept: JsonObject = {"type": "clear_thinking_20251015", "keep": "all"}
    return isinstance(edits, list) and all(edit == kept for edit in edits)


def _meaning(path: str, origin: str) -> str:
    return next((name for name, apis in _SHARED.items() if apis.get(origin) == path), "")


def _worded(meaning: str, value: Json, api: str) -> Json:
    """Return a shared value as `api` writes it; None where it has no such value."""
    if meaning != "service_tier":
        return value
    tier = _TIERS.get(api, {}).get(str(value), str(value))
    return tier if tier in _KNOWN_TIERS.get(api, ()) else None


def _put(fields: JsonObject, path: str, value: Json) -> None:
    name, _, rest = path.partition(".")
    if not rest:
        fields[name] = value
        return
    inside: JsonObject = {}
    _put(inside, rest, value)
    fields[name] = inside
