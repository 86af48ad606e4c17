"""Errors of the Messages API, in both directions.

Anthropic, errors: `{"type": "error", "error": {"type", "message"}, "request_id"}`, as a body with
a status or as the last event of a stream.
"""

from collections.abc import Mapping

from toolbridge.codecs.anthropic.shapes import Error
from toolbridge.core.codec import Rejection
from toolbridge.core.errors import status_of
from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import maybe_wait, retry_headers
from toolbridge.wire.rejections import read_problem, read_rejection

_KINDS = {
    "rate_limit_error": "rate_limited",
    "overloaded_error": "overloaded",
    "timeout_error": "timed_out",
    "request_too_large": "too_large",
}
"""The error types that decide the kind of a problem; for the others the status decides."""

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "api_error": 500,
}
"""The error types that are rejections to us, with their statuses."""
_REJECTION_TYPES = {status: type for type, status in _STATUSES.items()}

_TYPES = {ours: theirs for theirs, ours in _KINDS.items()} | {
    "malformed_request": "invalid_request_error",
    "bad_http": "invalid_request_error",
    "busy": "overloaded_error",
    "unsupported": "invalid_request_error",
    "loop_detected": "invalid_request_error",
    "unknown_encoding": "invalid_request_error",
    "thinking_not_supported": "thinking_not_supported",
    "context_overflow": "invalid_request_error",
    "unknown_model": "not_found_error",
    "unknown_route": "not_found_error",
    "unknown_answer": "not_found_error",
    "idempotency_conflict": "invalid_request_error",
    "wrong_method": "invalid_request_error",
    "not_allowed": "permission_error",
    "unauthenticated": "authentication_error",
}

_RETRIED = frozenset({408, 409, 429, 499})
"""Anthropic's SDKs retry 408, 409, 429 and every 5xx; a retry can also succeed after a 499."""


def decode_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    """Return the problem that a status and an error body describe."""
    return read_rejection(status, headers, body, _KINDS)


def decode_error(error: Error) -> Problem:
    """Return the problem that an `error` event of a stream describes."""
    type = error.type or ""
    text = error.message or "the upstream reported an error without a message"
    return read_problem(_STATUSES.get(type, 0), type, text, _KINDS)


def encode_rejection(problem: Problem, request_id: str) -> Rejection:
    """Return the status, the body, and the headers by which SDKs decide about a retry."""
    body = {"type": "error", "error": encode_error(problem), "request_id": request_id}
    status = status_of(problem)
    headers = retry_headers(maybe_wait(problem))
    if not headers and (
        problem.permanent
        or problem.kind == "config"
        or (problem.kind == "rejected" and status == 429)  # no credit is left
        or (400 <= status < 500 and status not in _RETRIED)
    ):
        # Anthropic's SDKs: this header decides about a retry, whatever the status is.
        headers["x-should-retry"] = "false"
    return Rejection(status, dump_bytes(body), headers)


def encode_error(problem: Problem) -> JsonObject:
    """Return the object `error`; the path of a fault begins the message, as in Anthropic's own."""
    text = f"{problem.where}: {problem.text}" if problem.where else problem.text
    return {"type": _error_type(problem), "message": text}


def _error_type(problem: Problem) -> str:
    if problem.kind != "rejected":
        return _TYPES.get(problem.kind, "api_error")
    if problem.status == 429:
        return "billing_error"  # no credit is left; a rate limit has another kind
    fault = "invalid_request_error" if 400 <= problem.status < 500 else "api_error"
    return _REJECTION_TYPES.get(problem.status, fault)
