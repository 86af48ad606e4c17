"""Decode the body of an HTTP error, in whichever shape the provider wrote it.

Servers mix shapes: llama.cpp answers an Anthropic request with an OpenAI error, and a proxy in
front of it with an HTML page. So every codec decodes all shapes with these functions and passes
only the error types of its own API.
"""

import re
from collections.abc import Mapping

from toolbridge.core.json import Json, JsonObject, maybe_object
from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import read_retry_after
from toolbridge.wire.generated import read_generated

_SHOWN = 500
"""Characters of an error text that are kept; four times as many of a JSON message."""

_BY_STATUS = {
    408: "timed_out", 413: "too_large", 429: "rate_limited", 503: "overloaded", 504: "timed_out",
    529: "overloaded",
}  # fmt: skip

# In the texts with which servers report that a prompt exceeds the context.
_OVERFLOWS = (
    "prompt is too long", "maximum context length", "available context size", "context limit",
    "context window", "exceeds the maximum number of tokens", "exceeds the context length",
)  # fmt: skip
# llama.cpp answers 500 to requests that it can never serve; a retry would fail as well.
# The last one is about the arguments of a past call, not about the answer.
_IMPOSSIBLE = (
    "input is not supported", "failed to parse tools", "failed to parse messages",
    "failed to parse tool call arguments as json: [json.exception",
)  # fmt: skip
_LIMIT = lazy_pattern(
    r"(?:context length (?:is|of)|context size \(|tokens allowed \(|context window of) ?(\d+)"
)
# OpenAI: "you requested 9000 tokens (1000 in the messages, 8000 in the completion)"; SGLang: "170941
# tokens from the input messages and 32000 tokens for the completion"; vLLM: "'max_tokens' … is too
# large: 8000. This model's maximum context length is 8192 tokens and your request has 1000 input
# tokens".
_PROMPT_PART = lazy_pattern(
    r"(\d+)(?: tokens)? (?:in|from) the (?:input )?messages|request has (\d+) input tokens"
)
_OUTPUT_PART = lazy_pattern(r"(\d+)(?: tokens)? (?:in|for) the completion|is too large: (\d+)")


def read_rejection(
    status: int, headers: Mapping[str, str], body: bytes, kinds: Mapping[str, str]
) -> Problem:
    """Return the problem of an HTTP error; `kinds` maps the API's error types to our kinds."""
    type, text = read_error(body)
    problem = read_problem(status, type, text or f"HTTP {status} without an error text", kinds)
    return Problem(
        kind=problem.kind,
        text=problem.text,
        status=status,
        retry_after=read_retry_after(headers),
        generated=read_generated(maybe_object(body)),
    )


NO_CREDIT_STATUS = 429
"""The status of an account without credit, also where the error came in a stream."""
_NO_CREDIT = (
    "insufficient_quota", "insufficient quota", "insufficient balance", "insufficient credit",
    "credit balance is too low", "used all available credits", "monthly spending limit",
    "exceeded_current_quota", "usage limit, please upgrade",
)  # fmt: skip


def is_out_of_credit(status: int, text: str) -> bool:
    """Return whether a 429, or an error in a stream, means that no credit is left.

    No retry can succeed then. OpenAI and Moonshot, error codes: `insufficient_quota`; xAI, Z.ai and
    Ollama report it in words.
    """
    lower = text.lower() if status in {0, NO_CREDIT_STATUS} else ""
    return any(sign in lower for sign in _NO_CREDIT)


def read_problem(status: int, type: str, text: str, kinds: Mapping[str, str]) -> Problem:
    """Return the problem for an error type and text; `status` is 0 for an error inside a stream."""
    overflow = read_overflow(text) if status in {0, 400, 413, 422, 500} else ""
    if overflow:
        return Problem(kind="context_overflow", text=overflow, status=status)
    if status == 500 and any(sign in text.lower() for sign in _IMPOSSIBLE):
        return Problem(kind="unsupported", text=text, status=status)
    kind = kinds.get(type) or _BY_STATUS.get(status, "rejected")
    if kind in {"rate_limited", "rejected"} and is_out_of_credit(status, f"{type} {text}"):
        kind, status = "rejected", NO_CREDIT_STATUS
    if status in {401, 403}:
        text = f"the provider rejected the API key: {text}"
    return Problem(kind=kind, text=text, status=status, generated=read_generated(text))


def read_error(body: bytes, limit: int | None = 4 * _SHOWN) -> tuple[str, str]:
    """Return type and text of an error body: JSON of any API, an HTML page, or plain text.

    `limit` is the number of characters that are kept of a JSON message; None for all.
    """
    found = maybe_object(body)
    if found is None:
        return "", _plain(body)
    error = found.get("error", found)
    if isinstance(error, dict):
        error = unwrap(error)
        text = error.get("message") or error.get("detail") or found.get("message")
        return _string(error, "type") or _string(error, "status"), _shown(text, limit)
    return "", _shown(error, limit)


def unwrap(error: JsonObject) -> JsonObject:
    """Return the error of the provider behind a gateway, or `error` itself.

    OpenRouter, errors: `{"message": "Provider returned error", "metadata": {"raw": TEXT}}`.
    """
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str):
        raw = maybe_object(raw) or ({"message": raw} if raw.strip() else None)
    if not isinstance(metadata, dict) or not isinstance(raw, dict):
        return error
    inner = raw.get("error", raw)
    found = inner if isinstance(inner, dict) else {"message": inner}
    text = _shown(found.get("message") or found.get("detail"), None)
    if not text:
        return error
    name = _string(metadata, "provider_name")
    code = {"code": found.get("code", error.get("code"))}
    return found | code | {"message": f"{name}: {text}" if name else text}


def read_overflow(text: str) -> str:
    """Return the text of a context overflow in Anthropic's form; "" for any other error.

    Claude Code compacts the conversation after `prompt is too long: A tokens > B maximum`, and
    lowers `max_tokens` after Anthropic's "input length and `max_tokens` exceed context limit".
    Texts that already have one of the two forms are returned unchanged.
    """
    lower = text.lower()
    if not any(sign in lower for sign in _OVERFLOWS):
        return ""
    if "prompt is too long" in lower or "exceed context limit" in lower:
        return text
    if only_output := _too_much_output(lower):
        return only_output
    limit = _LIMIT.search(lower)
    asked = max((int(digits) for digits in re.findall(r"\d{1,12}", text)), default=0)
    if limit and asked > int(limit[1]):
        return f"prompt is too long: {asked} tokens > {limit[1]} maximum"
    return f"prompt is too long: {text}"


def _too_much_output(text: str) -> str:
    """Return the overflow in Anthropic's form if the prompt alone would fit; "" otherwise."""
    limit = _LIMIT.search(text)
    prompt, output = _PROMPT_PART.search(text), _OUTPUT_PART.search(text)
    if limit is None or prompt is None or output is None:
        return ""
    most = int(limit[1])
    given, asked = (int(found[1] or found[2]) for found in (prompt, output))
    if given >= most or given + asked <= most:
        return ""
    return (
        f"input length and `max_tokens` exceed context limit: {given} + {asked} > {most}, decrease "
        "input length or `max_tokens` and try again"
    )


def _string(found: JsonObject, name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _shown(value: Json, limit: int | None) -> str:
    if isinstance(value, dict) and "detail" in value:  # Mistral wraps the list once more
        value = value["detail"]
    if isinstance(value, list):
        value = "; ".join(filter(None, map(_validation_error, value)))
    return value[:limit] if isinstance(value, str) else ""


def _validation_error(item: Json) -> str:
    """Return one item of FastAPI's `detail` (Mistral, vLLM) as `path: text`."""
    if not isinstance(item, dict) or not isinstance(text := item.get("msg"), str):
        return ""
    place = item.get("loc")
    steps = [str(step) for step in place] if isinstance(place, list) else []
    path = ".".join(steps[1:] if steps[:1] == ["body"] else steps)
    return f"{path}: {text}" if path else text


def _plain(body: bytes) -> str:
    text = body[: 8 * _SHOWN].decode("utf-8", "replace")
    if "<html" in text.lower() or text.lstrip().lower().startswith("<!doctype"):
        _, _, after = text.partition("<title>")
        title = after.partition("</title>")[0].strip()
        return f"the provider answered with an HTML page: {title[:_SHOWN] or 'no title'}"
    return " ".join(text.split())[:_SHOWN]
