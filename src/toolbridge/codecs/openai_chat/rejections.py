"""Errors of Chat Completions, in both directions.

OpenAI, error codes: `{"error": {"message", "type", "param", "code"}}`, before the answer with a
status or in the middle of a stream as an event. Providers nest the object in a choice, in `x_groq`,
or as JSON text in the message of another error; all of these are read.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from toolbridge.codecs.openai_chat.shapes import Chunk
from toolbridge.core.codec import Rejection
from toolbridge.core.errors import status_of
from toolbridge.core.json import Json, JsonObject, dump_bytes, loads, maybe_object
from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import read_retry_after, retry_headers
from toolbridge.wire.generated import read_generated
from toolbridge.wire.rejections import (
    NO_CREDIT_STATUS,
    is_out_of_credit,
    read_error,
    read_overflow,
    read_problem,
    unwrap,
)

_MAX_TEXT = 2000

_KINDS = {
    "requests": "rate_limited",
    "tokens": "rate_limited",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    # OpenAI, error codes: 429 `insufficient_quota` means no credit is left; a retry cannot succeed.
    "insufficient_quota": "rejected",
    "exceed_context_size_error": "context_overflow",  # llama.cpp
    "context_length_exceeded": "context_overflow",
    "model_not_found": "unknown_model",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "engine_overloaded": "overloaded",
    "service_unavailable": "overloaded",
    "timeout": "timed_out",
}
"""The kind of a problem by the error's code or type; the status decides for all others."""

_TYPES: dict[str, tuple[str, str | None]] = {
    "malformed_request": ("invalid_request_error", None),
    "unsupported": ("invalid_request_error", "unsupported_value"),
    "thinking_not_supported": ("invalid_request_error", "thinking_not_supported"),
    "context_overflow": ("invalid_request_error", "context_length_exceeded"),
    "too_large": ("invalid_request_error", "request_too_large"),
    "unknown_model": ("invalid_request_error", "model_not_found"),
    "unknown_route": ("invalid_request_error", "unknown_url"),
    "wrong_method": ("invalid_request_error", "method_not_supported"),
    "not_allowed": ("permission_error", None),
    "unauthenticated": ("invalid_request_error", "invalid_api_key"),
    "rate_limited": ("requests", "rate_limit_exceeded"),
    "overloaded": ("server_error", "overloaded"),
    "timed_out": ("server_error", "timeout"),
}
"""The type and the code that are written for a kind; the status decides for all others."""


def decode_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    """Return the problem that a status and an error body describe."""
    problem = decode_error(status, body)
    return replace(problem, status=status, retry_after=read_retry_after(headers))


def is_error(chunk: Chunk) -> bool:
    """Return whether a chunk of a stream is an error."""
    # OpenAI's SDKs treat every event with a truthy `error` as an error.
    if chunk.error or (chunk.x_groq and chunk.x_groq.error):
        return True
    for choice in chunk.choices or ():  # noqa: SIM110  a generator costs two calls per delta
        if choice.error:
            return True
    return False


def decode_error(status: int, body: bytes) -> Problem:
    """Return the problem that an error body describes; `status` is 0 for one inside a stream."""
    error = _inner_error(maybe_object(body) or {})
    return replace(_read_error(status, body, error), generated=read_generated(error))


def _read_error(status: int, body: bytes, error: JsonObject) -> Problem:
    type, text = read_error(body)
    missing = (
        f"HTTP {status} without an error text"
        if status
        else "the upstream sent JSON that is no answer"
    )
    text = _message(error)[:_MAX_TEXT] or text or missing
    code = error.get("code")
    # OpenRouter, errors: inside a stream, `code` is the HTTP status of the provider behind it.
    status = status or (code if isinstance(code, int) and 400 <= code < 600 else 0)
    words = [word for word in (code, type) if isinstance(word, str)]
    kind = next((_KINDS[word] for word in words if word in _KINDS), "")
    if kind == "context_overflow":
        return Problem(kind, _overflow_text(error, text), status=status)
    if kind in {"", "rate_limited", "rejected"} and is_out_of_credit(
        status, f"{' '.join(words)} {text}"
    ):
        return Problem("rejected", text, status=NO_CREDIT_STATUS)
    if kind:
        return Problem(kind, text, status=status)
    if status == 404 and error.get("param") == "model":
        return Problem("unknown_model", text, status=status)
    return read_problem(status, type, text, {})


def _inner_error(found: JsonObject) -> JsonObject:
    """Return the innermost error of a body, a chunk, a choice, or another error's text."""
    choices = found.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    # Groq reports an error that happens during a stream in `x_groq.error`.
    groq = found.get("x_groq")
    for holder in (found, first, groq):
        error = holder.get("error") if isinstance(holder, dict) else None
        if isinstance(error, str) and error.startswith("{"):
            error = _maybe_json(error)
        if isinstance(error, dict):
            deeper = error.get("error")
            return unwrap(deeper if isinstance(deeper, dict) else error)
        if error:
            return {"message": error}
    return found


def _maybe_json(text: str) -> Json:
    try:
        return loads(text)
    except ValueError:
        return text


def _message(error: JsonObject) -> str:
    for name in ("message", "detail", "error"):
        if isinstance(text := error.get(name), str) and text:
            return text
    return ""


def _overflow_text(error: JsonObject, text: str) -> str:
    # Claude Code compacts the conversation when it reads "prompt is too long: A tokens > B maximum".
    # llama.cpp, server: `exceed_context_size_error` has both numbers as fields.
    asked, most = error.get("n_prompt_tokens"), error.get("n_ctx")
    if isinstance(asked, int) and isinstance(most, int):
        return f"prompt is too long: {asked} tokens > {most} maximum"
    return read_overflow(text) or f"prompt is too long: {text}"


def encode_rejection(problem: Problem, request_id: str) -> Rejection:
    """Return the status, the headers and the body of an error."""
    headers = {"x-request-id": request_id} | retry_headers(problem.retry_after)
    if problem.kind == "config" or problem.permanent or _is_quota(problem):
        # OpenAI's SDKs repeat 408, 409, 429 and 5xx unless this header forbids it.
        headers["x-should-retry"] = "false"
    return Rejection(_status(problem), encode_error(problem), headers)


def encode_error(problem: Problem) -> bytes:
    """Return the body of an error, which is also the last event of a stream that failed."""
    fault = "server_error" if status_of(problem) >= 500 else "invalid_request_error"
    type, code = _TYPES.get(problem.kind, (fault, None))
    if _is_quota(problem):
        type = code = "insufficient_quota"
    text = f"{problem.where}: {problem.text}" if problem.where else problem.text
    error: JsonObject = {
        "message": text,
        "type": type,
        "param": problem.where or None,
        "code": code,
    }
    return dump_bytes({"error": error})


def _is_quota(problem: Problem) -> bool:
    """Return True for a 429 that a retry cannot solve: the account has no credit left."""
    return problem.kind == "rejected" and problem.status == 429


def _status(problem: Problem) -> int:
    status = status_of(problem)
    if problem.permanent and status >= 500:
        return 400  # the Vercel AI SDK repeats every 5xx, whatever the headers are
    return 503 if status == 529 else status  # 529 exists in Anthropic's API only
