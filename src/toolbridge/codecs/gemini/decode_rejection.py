"""What Gemini says when it refuses: `google.rpc.Status`, before an answer or in the midst of one."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from toolbridge.codecs.gemini.shapes import ERROR_KINDS
from toolbridge.core.json import Json, JsonObject, dump_bytes, loads
from toolbridge.core.messages import Problem
from toolbridge.wire.rejections import read_problem, read_rejection

_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_BAD_KEY = "API_KEY_INVALID"


def decode_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    error = _error(body)
    if error is None:
        return read_rejection(status, headers, body, ERROR_KINDS)
    problem = read_rejection(status, headers, dump_bytes({"error": error}), ERROR_KINDS)
    return _detailed(problem, error)


def decode_error(error: JsonObject | str) -> Problem:
    """Return the problem that an error inside a stream tells of."""
    if isinstance(error, str):
        return read_problem(0, "", error or "the upstream failed without a word", ERROR_KINDS)
    code, name, text = error.get("code"), error.get("status"), error.get("message")
    problem = read_problem(
        code if isinstance(code, int) and 400 <= code < 600 else 0,
        name if isinstance(name, str) else "",
        text if isinstance(text, str) and text else "the upstream failed without a word",
        ERROR_KINDS,
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
    """Return `problem` with what only the details say: how long to wait, and that a key is bad."""
    for detail in _details(error):
        if detail.get("reason") == _BAD_KEY:
            text = f"the provider rejected the API key: {problem.text}"
            problem = msgspec.structs.replace(problem, kind="rejected", text=text)
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
