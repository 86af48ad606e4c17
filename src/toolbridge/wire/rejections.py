"""What a server says when it refuses, whatever the envelope.

Servers mix shapes: llama.cpp answers an Anthropic request with an OpenAI error, the proxy in front
of it with a page. So every codec reads all of them here, and brings only its own error types.
"""

import re
from collections.abc import Mapping

from toolbridge.core.json import Json, JsonObject, maybe_object
from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import read_retry_after

_SHOWN = 500

_BY_STATUS = {
    408: "timed_out", 413: "too_large", 429: "rate_limited", 503: "overloaded", 504: "timed_out",
    529: "overloaded",
}  # fmt: skip

_OVERFLOWS = (
    "prompt is too long", "maximum context length", "available context size", "context limit",
    "context window", "exceeds the maximum number of tokens", "exceeds the context length",
)  # fmt: skip
# llama.cpp gives status 500 to what it can never do, and would give it again.
_IMPOSSIBLE = ("input is not supported", "failed to parse tools", "failed to parse messages")
_LIMIT = re.compile(
    r"(?:context length is|context size \(|tokens allowed \(|context window of) ?(\d+)"
)


def read_rejection(
    status: int, headers: Mapping[str, str], body: bytes, kinds: Mapping[str, str]
) -> Problem:
    """Return why a server refused; `kinds` are our words for the error types of its API."""
    type, text = read_error(body)
    problem = read_problem(status, type, text or f"HTTP {status} without a word", kinds)
    return Problem(
        kind=problem.kind,
        text=problem.text,
        status=status,
        retry_after=read_retry_after(headers),
    )


def read_problem(status: int, type: str, text: str, kinds: Mapping[str, str]) -> Problem:
    """Return the problem that an error of this type and text is; `status` 0 where none came."""
    overflow = read_overflow(text) if status in {0, 400, 413, 422, 500} else ""
    if overflow:
        return Problem(kind="context_overflow", text=overflow, status=status)
    if status == 500 and any(sign in text.lower() for sign in _IMPOSSIBLE):
        return Problem(kind="unsupported", text=text, status=status)
    kind = kinds.get(type) or _BY_STATUS.get(status, "rejected")
    if status in {401, 403}:
        text = f"the provider refused the key that it was sent: {text}"
    return Problem(kind=kind, text=text, status=status)


def read_error(body: bytes) -> tuple[str, str]:
    """Return the type and the text of an error body: JSON of any API, a page, or plain text."""
    found = maybe_object(body)
    if found is None:
        return "", _plain(body)
    error = found.get("error", found)
    if isinstance(error, dict):
        said = error.get("message") or error.get("detail") or found.get("message")
        return _word(error, "type") or _word(error, "status"), _shown(said)
    return "", _shown(error)


def read_overflow(text: str) -> str:
    """Return the text of a context overflow in the words that clients know, or "" for any other.

    Claude Code shortens the conversation when it reads `prompt is too long: A tokens > B maximum`,
    and asks for fewer tokens when it reads Anthropic's sentence on `max_tokens`; both stay.
    """
    lower = text.lower()
    if not any(sign in lower for sign in _OVERFLOWS):
        return ""
    if "prompt is too long" in lower or "exceed context limit" in lower:
        return text
    limit = _LIMIT.search(lower)
    asked = max((int(digits) for digits in re.findall(r"\d{1,12}", text)), default=0)
    if limit and asked > int(limit[1]):
        return f"prompt is too long: {asked} tokens > {limit[1]} maximum"
    return f"prompt is too long: {text}"


def _word(found: JsonObject, name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _shown(value: Json) -> str:
    return value[: 4 * _SHOWN] if isinstance(value, str) else ""


def _plain(body: bytes) -> str:
    text = body[: 8 * _SHOWN].decode("utf-8", "replace")
    if "<html" in text.lower() or text.lstrip().lower().startswith("<!doctype"):
        _, _, after = text.partition("<title>")
        title = after.partition("</title>")[0].strip()
        return f"a page instead of an answer: {title[:_SHOWN] or 'without a title'}"
    return " ".join(text.split())[:_SHOWN]
