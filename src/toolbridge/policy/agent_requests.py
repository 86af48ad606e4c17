"""Recognize what a coding agent asks for: its name, its conversations, and its side requests.

Agents send requests that are not the conversation: titles of sessions, summaries of web pages,
checks for loops. Routing may send these to another model or slot. A conversation that is taken for
a side request gets worse answers without any notice, so one of two things is required:

- a header in which the agent names the kind of its request, or
- no tools that the client runs, together with an output schema of one or two fields, or with the
  words that the agent begins such requests with (`SIDE_REQUESTS`).

A short `max_tokens` and a small model's name prove nothing: conversations have both.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.messages import Request, Text
from toolbridge.history.prefix import strip_volatile

RequestKind: TypeAlias = Literal["main", "background", "subagent"]
Headers: TypeAlias = Mapping[str, str]
"""The client's headers, with names in lower case."""

AGENT_ID = "x-claude-code-agent-id"
"""Claude Code: the id of a subagent, in all its requests."""
CODEX_METADATA = "x-codex-turn-metadata"
SUBAGENT = "x-openai-subagent"


class AgentName(msgspec.Struct, frozen=True):
    """A coding agent, with the User-Agent and the system prompt by which it is recognized."""

    name: str
    user_agent: str = ""
    """The beginning of the header `User-Agent`, in lower case."""
    system: str = ""
    """The beginning of a system text. It decides over the User-Agent, which others imitate."""


AGENTS = (
    # Qwen Code 0.24 sends `claude-cli/0.24.4` to servers of the Anthropic API.
    AgentName("qwen-code", "qwencode/", "You are Qwen Code"),
    AgentName("claude-code", "claude-cli/"),
    AgentName("codex", "codex"),
    AgentName("gemini-cli", "geminicli"),
    AgentName("opencode", "opencode/"),
)
"""Recorded from Claude Code 2.1, Codex 0.166, Gemini CLI 0.61, opencode 1.18 and Qwen Code 0.24."""
CLIENTS = tuple(sorted(agent.name for agent in AGENTS))


class SideRequest(msgspec.Struct, frozen=True):
    """A request beside the conversation, recognized by its first words."""

    client: str
    what: str
    where: Literal["system", "user"]
    """The last system text, or the last text of the last user message."""
    opening: str


SIDE_REQUESTS = (
    SideRequest("claude-code", "title", "system", "You are naming a coding session"),
    SideRequest("claude-code", "web search", "user", "Perform a web search for the query:"),
    SideRequest("claude-code", "web fetch", "user", "Web page content:\n---"),
    SideRequest("opencode", "title", "system", "You are a title generator."),
)
"""The words change with versions of the agents. A summary of the conversation (compaction) is not
listed: it needs the model of the conversation, whose prompt cache it reuses."""

_CODEX_KINDS: Mapping[str, RequestKind] = {
    "turn": "main",
    "compaction": "main",
    "prewarm": "main",
    "memory": "background",
}
_CODEX_SUBAGENTS: Mapping[str, RequestKind] = {
    "compact": "main",
    "memory_consolidation": "background",
}
"""Codex, `x-openai-subagent`; every other value is a subagent (`review`, `collab_spawn` …)."""
_FEW_FIELDS = 2


def client_of(request: Request, headers: Headers) -> str:
    """Return the name of the agent that sent `request`; empty for any other client."""
    system = [part.text.lstrip() for part in request.system]
    for agent in AGENTS:
        if agent.system and any(text.startswith(agent.system) for text in system):
            return agent.name
    user_agent = headers.get("user-agent", "").lower()
    return next(
        (a.name for a in AGENTS if a.user_agent and user_agent.startswith(a.user_agent)), ""
    )


def kind_of(request: Request, headers: Headers) -> RequestKind:
    """Return whether `request` is a conversation, a subagent's conversation or a side request."""
    if stated := _stated_by_codex(headers):
        return stated
    if _is_background(request, client_of(request, headers)):
        return "background"
    return "subagent" if headers.get(AGENT_ID) else "main"


def _stated_by_codex(headers: Headers) -> RequestKind | None:
    if subagent := headers.get(SUBAGENT):
        return _CODEX_SUBAGENTS.get(subagent, "subagent")
    if metadata := headers.get(CODEX_METADATA):
        return _CODEX_KINDS.get(_request_kind(metadata))
    return None


class _TurnMetadata(msgspec.Struct):
    request_kind: str = ""


def _request_kind(metadata: str) -> str:
    try:
        return msgspec.json.decode(metadata, type=_TurnMetadata).request_kind
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""


def _is_background(request: Request, client: str) -> bool:
    # Scripts extract small objects too, so that a schema counts only in the requests of an agent.
    if not client or any(tool.hosted is None for tool in request.tools):
        return False
    return _has_small_schema(request) or _opens_side_request(request, client)


def _has_small_schema(request: Request) -> bool:
    schema = request.output.schema if request.output else None
    properties = schema.get("properties") if schema else None
    return isinstance(properties, dict) and 1 <= len(properties) <= _FEW_FIELDS


def _opens_side_request(request: Request, client: str) -> bool:
    texts = {"system": _last_system_text(request), "user": last_user_text(request)}
    return any(
        row.client == client and texts[row.where].lstrip().startswith(row.opening)
        for row in SIDE_REQUESTS
    )


def _last_system_text(request: Request) -> str:
    system = strip_volatile(request.system)
    return system[-1].text if system else ""


def last_user_text(request: Request) -> str:
    """Return the last text of the last user message; empty without one."""
    for turn in reversed(request.turns):
        if turn.role == "user":
            texts = [part.text for part in turn.content if isinstance(part, Text)]
            return texts[-1] if texts else ""
    return ""
