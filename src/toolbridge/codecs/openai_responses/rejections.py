"""Errors of the Responses API, in both directions.

OpenAI, error codes: before an answer, a status with `{"error": {"message", "type", "param",
"code"}}`. During a stream, an `error` event, or `response.failed` with `response.error`. The code
describes the problem; the type only where there is no code.
"""

from collections.abc import Mapping

import msgspec

from toolbridge.codecs.openai_responses.shapes import Error
from toolbridge.core.codec import Rejection
from toolbridge.core.errors import status_of
from toolbridge.core.json import JsonObject, dump_bytes, maybe_object
from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import maybe_wait, retry_headers
from toolbridge.wire.rejections import read_problem, read_rejection

_KINDS = {
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
    "requests": "rate_limited",
    "tokens": "rate_limited",
    # OpenAI, error codes: 429 `insufficient_quota` means no credit is left; a retry cannot succeed.
    "insufficient_quota": "rejected",
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",  # llama.cpp
    "model_not_found": "unknown_model",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "overloaded_error": "overloaded",
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
    "overloaded": ("server_error", "server_is_overloaded"),
    "timed_out": ("server_error", "timeout"),
}
"""The type and the code that are written for a kind; the status decides for all others."""

_FAILURE_CODES = {
    "rate_limited": "rate_limit_exceeded",
    "context_overflow": "context_length_exceeded",
    "overloaded": "server_is_overloaded",
    "malformed_request": "invalid_prompt",
    "unsupported": "invalid_prompt",
}
"""The codes of `response.error` that Codex acts on; every other problem is a `server_error`."""

_TEMPORARY = frozenset({408, 409, 429, 499})
"""The statuses below 500 that a retry may solve."""


def decode_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    """Return the problem that a status and an error body describe."""
    problem = read_rejection(status, headers, body, _KINDS)
    error = (maybe_object(body) or {}).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    kind = _KINDS.get(str(code), problem.kind)
    if problem.kind == "context_overflow":
        return problem
    return msgspec.structs.replace(problem, kind=kind)


def decode_error(error: Error) -> Problem:
    """Return the problem that an error inside a stream describes."""
    text = error.message or "the provider reported a failure without a message"
    code = error.code if isinstance(error.code, str) else error.type or ""
    return read_problem(0, code, text, _KINDS)


def encode_rejection(problem: Problem, request_id: str) -> Rejection:
    """Return the status, the headers and the body of an error."""
    status = 503 if problem.kind == "overloaded" else status_of(problem)
    if problem.permanent:
        status = 400  # Codex repeats a request up to 30 times after every other status
    headers = {"x-request-id": request_id} if request_id else {}
    wait = maybe_wait(problem)
    headers |= retry_headers(wait)
    permanent = (
        problem.kind == "config"
        or _is_quota(problem)
        or (400 <= status < 500 and status not in _TEMPORARY)
    )
    if wait is None and permanent:
        # OpenAI's SDKs repeat 408, 409, 429 and 5xx unless this header forbids it.
        headers["x-should-retry"] = "false"
    return Rejection(status, dump_bytes({"error": _encode_problem(problem)}), headers)


def encode_failure(problem: Problem) -> JsonObject:
    """Return the `error` of a response with the status `failed`."""
    code = _FAILURE_CODES.get(problem.kind, "server_error")
    return {"code": code, "message": _message(problem)}


def _encode_problem(problem: Problem) -> JsonObject:
    fault = "invalid_request_error" if 400 <= status_of(problem) < 500 else "server_error"
    type, code = _TYPES.get(problem.kind, (fault, None))
    if _is_quota(problem):
        type = code = "insufficient_quota"
    return {
        "message": _message(problem),
        "type": type,
        "param": problem.where or None,
        "code": code,
    }


def _is_quota(problem: Problem) -> bool:
    """Return True for a 429 that a retry cannot solve: the account has no credit left."""
    return problem.kind == "rejected" and problem.status == 429


def _message(problem: Problem) -> str:
    return f"{problem.where}: {problem.text}" if problem.where else problem.text
