"""Errors of the Gemini API, in both directions: `google.rpc.Status`.

Gemini API, errors: `{"error": {"code", "message", "status", "details"}}`, as a body with a status
or as the last event of a stream. How long to wait, and that a key is invalid, is in `details`.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from toolbridge.core.codec import Rejection
from toolbridge.core.errors import status_of
from toolbridge.core.json import Json, JsonObject, dump_bytes, loads
from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import maybe_wait
from toolbridge.wire.rejections import read_problem, read_rejection

_KINDS = {
    "RESOURCE_EXHAUSTED": "rate_limited",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timed_out",
}
"""The statuses that decide the kind of a problem; for the others the code decides."""

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""The name of an HTTP status; any other is INVALID_ARGUMENT below 500 and INTERNAL from 500 on."""

_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_INVALID_KEY = "API_KEY_INVALID"
_NO_MESSAGE = "the upstream reported an error without a message"
_RPC = "type.googleapis.com/google.rpc."


def decode_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    """Return the problem that a status and an error body describe."""
    error = _error(body)
    if error is None:
        return read_rejection(status, headers, body, _KINDS)
    problem = read_rejection(status, headers, dump_bytes({"error": error}), _KINDS)
    return _detailed(problem, error)


def decode_error(error: JsonObject | str) -> Problem:
    """Return the problem that an error inside a stream describes."""
    if isinstance(error, str):
        return read_problem(0, "", error or _NO_MESSAGE, _KINDS)
    code, name, text = error.get("code"), error.get("status"), error.get("message")
    problem = read_problem(
        code if isinstance(code, int) and 400 <= code < 600 else 0,
        name if isinstance(name, str) else "",
        text if isinstance(text, str) and text else _NO_MESSAGE,
        _KINDS,
    )
    return _detailed(problem, error)


def _error(body: bytes) -> JsonObject | None:
    """Return the error of a body; a stream without `alt=sse` wraps it in an array."""
    try:
        found = loads(body)
    except ValueError:
        return None
    if isinstance(found, list) and found:
        found = found[0]
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, dict) else None


def _detailed(problem: Problem, error: JsonObject) -> Problem:
    """Return `problem` with what is only in `details`: an invalid key, and how long to wait."""
    for detail in _details(error):
        # Gemini API, errors: an invalid key is a 400 with this reason, not a 401.
        if detail.get("reason") == _INVALID_KEY:
            text = f"the provider rejected the API key: {problem.text}"
            problem = msgspec.structs.replace(problem, kind="rejected", text=text)
        # Gemini API, rate limits: the quota of a day is not restored by waiting for seconds.
        if problem.kind == "rate_limited" and "PerDay" in str(detail.get("violations", "")):
            problem = msgspec.structs.replace(problem, kind="rejected")
        delay = detail.get("retryDelay")
        found = _DELAY.fullmatch(delay) if isinstance(delay, str) else None
        if found and problem.retry_after is None:
            problem = msgspec.structs.replace(problem, retry_after=float(found[1]))
    return problem


def _details(error: JsonObject) -> Iterator[JsonObject]:
    details: Json = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict):
            yield detail


def encode_rejection(problem: Problem, request_id: str) -> Rejection:
    """Return the status and the body; the id is a `RequestInfo` in `details`."""
    error = encode_error(problem)
    details = error.setdefault("details", [])
    if isinstance(details, list):
        details.append({"@type": f"{_RPC}RequestInfo", "requestId": request_id})
    no_credit = problem.kind == "rejected" and problem.status == 429
    headers = {"x-should-retry": "false"} if problem.permanent or no_credit else {}
    return Rejection(_status(problem), dump_bytes({"error": error}), headers)


def encode_error(problem: Problem) -> JsonObject:
    """Return the object `error`."""
    status = _status(problem)
    name = _STATUSES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    if problem.permanent:
        name = "FAILED_PRECONDITION"  # google.rpc.Code: do not retry until the state is fixed
    text = f"{problem.where}: {problem.text}" if problem.where else problem.text
    error: JsonObject = {"code": status, "message": text, "status": name}
    details: list[Json] = []
    if problem.where:
        fault: JsonObject = {"field": problem.where, "description": problem.text}
        details.append({"@type": f"{_RPC}BadRequest", "fieldViolations": [fault]})
    # Gemini API, errors: there is no `retry-after` header; clients read RetryInfo.
    wait = maybe_wait(problem)
    if wait is not None:
        details.append({"@type": f"{_RPC}RetryInfo", "retryDelay": f"{wait:g}s"})
    return error | {"details": details} if details else error


def _status(problem: Problem) -> int:
    status = status_of(problem)
    if problem.permanent and status >= 500:
        return 400  # the HTTP status of FAILED_PRECONDITION; Gemini CLI repeats 5xx for 200 s
    # google.rpc.Code: an overloaded server is UNAVAILABLE, 503; 529 exists in Anthropic's API only.
    return 503 if status == 529 else status
