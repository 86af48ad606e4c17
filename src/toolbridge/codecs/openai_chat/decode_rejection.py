"""Why a place refused, before its answer or in the middle of it."""

from collections.abc import Mapping

from msgspec.structs import replace

from toolbridge.codecs.openai_chat.shapes import ERROR_KINDS
from toolbridge.core.json import Json, JsonObject, loads, maybe_object
from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import read_retry_after
from toolbridge.wire.rejections import read_error, read_overflow, read_problem

_SHOWN = 2000


def decode_rejection(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    problem = decode_error(status, body)
    return replace(problem, status=status, retry_after=read_retry_after(headers))


def decode_error(status: int, body: bytes) -> Problem:
    """Return the problem that a body tells; `status` 0 where it came inside a stream."""
    error = _inner(maybe_object(body) or {})
    type, text = read_error(body)
    silent = (
        f"HTTP {status} without a word" if status else "the upstream sent JSON that is no answer"
    )
    text = _said(error)[:_SHOWN] or text or silent
    code = error.get("code")
    status = status or (code if isinstance(code, int) and 400 <= code < 600 else 0)
    words = [word for word in (code, type) if isinstance(word, str)]
    kind = next((ERROR_KINDS[word] for word in words if word in ERROR_KINDS), "")
    if kind == "context_overflow":
        return Problem(kind, _overflow(error, text), status=status)
    if kind:
        return Problem(kind, text, status=status)
    if status == 404 and error.get("param") == "model":
        return Problem("unknown_model", text, status=status)
    return read_problem(status, type, text, {})


def _inner(found: JsonObject) -> JsonObject:
    """Return the error inside a body, a chunk, a choice, or another error's text."""
    choices = found.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    groq = found.get("x_groq")
    for holder in (found, first, groq):
        error = holder.get("error") if isinstance(holder, dict) else None
        if isinstance(error, str) and error.startswith("{"):
            error = _maybe_json(error)
        if isinstance(error, dict):
            deeper = error.get("error")
            return deeper if isinstance(deeper, dict) else error
        if error:
            return {"message": error}
    return found


def _maybe_json(text: str) -> Json:
    try:
        return loads(text)
    except ValueError:
        return text


def _said(error: JsonObject) -> str:
    for name in ("message", "detail", "error"):
        if isinstance(said := error.get(name), str) and said:
            return said
    return ""


def _overflow(error: JsonObject, text: str) -> str:
    # Claude Code shortens its conversation when it reads these words.
    asked, most = error.get("n_prompt_tokens"), error.get("n_ctx")
    if isinstance(asked, int) and isinstance(most, int):
        return f"prompt is too long: {asked} tokens > {most} maximum"
    return read_overflow(text) or f"prompt is too long: {text}"
