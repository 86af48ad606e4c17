"""Errors of Ollama's API, in both directions: `{"error": "message"}`.

Ollama, docs/api: an error has no type and no code, so the kind of a problem follows from the text
and the status. The text is sometimes the JSON of the runner behind the server.
"""

import re
from collections.abc import Mapping

import msgspec

from toolbridge.core.codec import Rejection
from toolbridge.core.errors import status_of
from toolbridge.core.json import Json, dump_bytes, dumps, loads, replace_lone_surrogates
from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import read_retry_after, retry_headers
from toolbridge.wire.generated import read_generated
from toolbridge.wire.rejections import is_out_of_credit

_BY_STATUS = {
    413: "too_large",
    429: "rate_limited",
    503: "overloaded",
    504: "timed_out",
    529: "overloaded",
}
# Ollama, server/routes.go: a missing capability is a 400, a full queue a 503.
_BY_WORDS = (
    ("does not support thinking", "thinking_not_supported"),
    ("does not support", "unsupported"),  # tools, chat, insert, multimodal requests …
    ("image input is not supported", "unsupported"),
    ("server busy", "overloaded"),
    ("maximum pending requests", "overloaded"),
)
_TOO_LONG = re.compile(r"exceed\w* (?:the )?(?:available |maximum )?context (?:size|length)")
_TOKENS = re.compile(r"(\d+) tokens")
_NO_MODEL = re.compile(r"model \S+ not found")
_MAX_TEXT = 2000


def decode_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    """Return the problem that a status and an error body describe."""
    try:
        error = loads(body)
    except ValueError:
        error = body.decode("utf-8", "replace").strip()
    if isinstance(error, dict) and "signin_url" in error:
        # Ollama, cloud models: a 401 carries the address where the user signs in.
        error = f"{error.get('error', 'unauthorized')}; sign in at {error['signin_url']}"
    problem = decode_error(error, status)
    return msgspec.structs.replace(problem, retry_after=read_retry_after(headers))


def decode_error(error: Json, status: int = 0) -> Problem:
    """Return the problem that an error describes; `status` is 0 for an error inside a stream."""
    text, code = _unwrap(error)
    status = status or code
    whole = replace_lone_surrogates(text)
    text = whole[:_MAX_TEXT]
    if _TOO_LONG.search(text):
        return Problem("context_overflow", _overflow_text(text), status=status)
    shown = text or f"the upstream answered {status}"
    return Problem(_kind(text, status), shown, status=status, generated=read_generated(whole))


def _kind(text: str, status: int) -> str:
    # Ollama, server/routes.go: "model 'x' not found", a 404.
    if _NO_MODEL.search(text):
        return "unknown_model"
    for words, kind in _BY_WORDS:
        if words in text:
            return kind
    if is_out_of_credit(status, text):  # ollama.com: "you've reached your … usage limit, …"
        return "rejected"
    return _BY_STATUS.get(status, "rejected")


def _overflow_text(text: str) -> str:
    # Claude Code compacts its history only when it reads these words.
    match _TOKENS.findall(text):
        case [asked, window, *_]:
            return f"prompt is too long: {asked} tokens > {window} maximum"
        case _:
            return f"prompt is too long: {text}"


def _unwrap(error: Json, depth: int = 4) -> tuple[str, int]:
    """Return the innermost message and its code: a runner's JSON may be the text of an error."""
    if isinstance(error, str) and error.startswith("{") and depth:
        try:
            return _unwrap(loads(error), depth - 1)
        except ValueError:
            return error, 0
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else dumps(error)), 0
    inner = error.get("error", error.get("message"))
    if inner is None or not depth:
        return dumps(error), 0
    text, code = _unwrap(inner, depth - 1)
    own = error.get("code")
    return text, code or (own if isinstance(own, int) and 400 <= own < 600 else 0)


def encode_rejection(problem: Problem, request_id: str) -> Rejection:
    """Return the status and the body; the id is a header, for the body has no field for it."""
    status = status_of(problem)
    headers = {"x-request-id": request_id} | retry_headers(problem.retry_after)
    if problem.permanent or (problem.kind == "rejected" and status == 429):
        headers["x-should-retry"] = "false"
    # Ollama, server/routes.go: an overloaded server answers 503; 529 exists in Anthropic's API only.
    return Rejection(503 if status == 529 else status, encode_error(problem), headers)


def encode_error(problem: Problem) -> bytes:
    """Return the body of an error, which is also the last line of a stream that failed."""
    text = f"{problem.where}: {problem.text}" if problem.where else problem.text
    return dump_bytes({"error": text})
