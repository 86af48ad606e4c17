"""The key of a conversation, by which its requests stay together.

Requests with the same key go to the same model of a weighted list and to the same slot of a
llama.cpp server, so that the prompt of the conversation stays in a cache.
"""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from toolbridge.core.messages import Request, Text
from toolbridge.history.prefix import strip_volatile
from toolbridge.policy.agent_requests import AGENT_ID, CODEX_METADATA, SUBAGENT, Headers

SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "thread-id")
"""Claude Code and Codex."""
AFFINITY_HEADERS = ("x-session-affinity", "x-session-id")
"""opencode, and clients that follow it."""

ROUTING_HEADERS = (
    *SESSION_HEADERS, *AFFINITY_HEADERS, AGENT_ID, CODEX_METADATA, SUBAGENT, "user-agent"
)  # fmt: skip
"""The client's headers that routing reads."""


class _UserId(msgspec.Struct):
    session_id: str = ""


def session_key(request: Request, headers: Headers) -> str:
    """Return the key of the conversation that `request` belongs to.

    A subagent has a conversation of its own. Without any id, the beginning of the conversation is
    the key: it is the same in all its requests.
    """
    return _hash(_parts(request, headers))


def _parts(request: Request, headers: Headers) -> Iterable[str]:
    given = (
        _first(headers, SESSION_HEADERS)
        or request.session
        or _first(headers, AFFINITY_HEADERS)
        or _session_of_user(request.user)
    )
    if given:
        return (given, headers.get(AGENT_ID, ""))
    system = strip_volatile(request.system)
    first = next((turn for turn in request.turns if turn.role == "user"), None)
    texts = (part.text for part in first.content if isinstance(part, Text)) if first else ()
    return (request.model, system[0].text if system else "", next(iter(texts), ""))


def _first(headers: Headers, names: Iterable[str]) -> str:
    return next((headers[name] for name in names if headers.get(name)), "")


def _session_of_user(user: str) -> str:
    """Return the session in Claude Code's `metadata.user_id`, which is a JSON object as a text."""
    if not user.startswith("{"):
        return ""
    try:
        return msgspec.json.decode(user, type=_UserId).session_id
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""


def _hash(parts: Iterable[str]) -> str:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()
