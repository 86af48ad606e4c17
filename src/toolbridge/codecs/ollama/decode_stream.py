"""Ollama's answers and errors, as ours: a whole body is a stream of one line."""

import json
import re
from collections.abc import Mapping

import msgspec

from toolbridge.codecs.ollama import shapes
from toolbridge.codecs.ollama.media import decode_media
from toolbridge.core.draft import Draft
from toolbridge.core.errors import BrokenWire, Truncated
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, dumps, loads, replace_lone_surrogates
from toolbridge.core.logprobs import read_logprobs
from toolbridge.core.messages import Image, Problem
from toolbridge.core.usage import Usage
from toolbridge.wire.ndjson import LineReader
from toolbridge.wire.shapes import decode_frame

_chunks = msgspec.json.Decoder(shapes.Chunk)
_CALL = "call"
"""Calls come whole, one after the other, so one key serves them all."""


class StreamDecoder:
    """Bytes of `/api/chat` or `/api/generate` in, events out."""

    def __init__(self, ids: Ids) -> None:
        self._lines = LineReader()
        self._draft = Draft(ids)

    def feed(self, piece: bytes, /) -> list[Event]:
        if self._draft.ended:
            return []
        try:
            lines = self._lines.feed(piece)
        except BrokenWire as error:
            return self._draft.fail(error.problem)
        return [event for line in lines for event in self._decode(line)]

    def close(self) -> list[Event]:
        if self._draft.ended:
            return []
        said: list[Event] = []
        try:
            last = self._lines.close()
        except BrokenWire as error:
            return self._draft.fail(error.problem)
        for line in last:
            said += self._decode(line, last=True)
        return said + self._cut_off()

    def _cut_off(self) -> list[Event]:
        """Silence after the last line is no end: only `done` is."""
        if self._draft.ended:
            return []
        return self._draft.fail(
            Truncated("the upstream ended its answer without a last line").problem
        )

    def _decode(self, line: bytes, *, last: bool = False) -> list[Event]:
        try:
            chunk = decode_frame(line, _chunks)
        except BrokenWire as error:
            return [] if last and _is_half(line) else self._draft.fail(error.problem)
        if chunk.error is not None:
            return self._draft.fail(_problem(chunk.error))
        return self._read(chunk)

    def _read(self, chunk: shapes.Chunk) -> list[Event]:
        draft = self._draft
        said = [] if draft.started else draft.start(model=chunk.model or "")
        message = chunk.message or shapes.Message(
            content=chunk.response, thinking=chunk.thinking, tool_calls=chunk.tool_calls
        )
        # One token can close the thought and begin the answer, so a line may carry all three.
        if message.thinking:
            said += draft.think(message.thinking)
        if message.content:
            said += draft.text(message.content)
        for image in message.images or ():
            part = decode_media(image)
            if isinstance(part, Image):
                said += draft.add(part)
            else:
                said += draft.lose("answer.images", "one of them is no image")
        for call in message.tool_calls or ():
            said += self._call(call)
        if chunk.logprobs is not None:
            said += draft.logprobs(read_logprobs(chunk.logprobs))
        if chunk.prompt_eval_count is not None or chunk.eval_count is not None:
            said += self._count(chunk)
        if chunk.done:
            said += draft.finish(shapes.STOPS.get(chunk.done_reason or "", "end"))
        return said

    def _count(self, chunk: shapes.Chunk) -> list[Event]:
        read, written = _count(chunk.prompt_eval_count), _count(chunk.eval_count)
        return self._draft.usage(Usage(read, written)) if read or written else []

    def _call(self, call: shapes.ToolCall) -> list[Event]:
        said = self._draft.call(_CALL, name=call.function.name or "", id=call.id or "")
        said += self._draft.arguments(_CALL, _arguments(call.function.arguments))
        return said + self._draft.end(_CALL)


def _count(given: float | None) -> int:
    """Return a number of tokens; a server that cannot count does not spoil an answer."""
    return int(given) if given is not None and 0 < given < 2**53 else 0


def _arguments(value: Json) -> str:
    """Return arguments as JSON text; a string is that text already, well written or not."""
    if value is None:
        return "{}"
    if isinstance(value, str):
        return value
    try:
        return dumps(value)
    except UnicodeEncodeError:  # half a surrogate pair, which only the slow writer lets through
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return replace_lone_surrogates(text)


def _is_half(line: bytes) -> bool:
    """Whether the last line is the beginning of an object, and not something else altogether."""
    if not line.startswith(b"{"):
        return False
    try:
        decode_frame(line, _objects)
    except BrokenWire:
        return True
    return False


_objects = msgspec.json.Decoder(JsonObject)


# ── errors ───────────────────────────────────────────────────────────────────

_BY_STATUS = {
    413: "too_large",
    429: "rate_limited",
    503: "overloaded",
    504: "timed_out",
    529: "overloaded",
}
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
    """Return why the server refused, from its status and its `{"error": …}`."""
    try:
        said = loads(body)
    except ValueError:
        said = body.decode("utf-8", "replace").strip()
    if isinstance(said, dict) and "signin_url" in said:
        said = f"{said.get('error', 'unauthorized')}; sign in at {said['signin_url']}"
    problem = _problem(said, status)
    return msgspec.structs.replace(problem, retry_after=_retry_after(headers))


def _problem(said: Json, status: int = 0) -> Problem:
    text, code = _unwrap(said)
    status = status or code
    text = replace_lone_surrogates(text)[:_MAX_TEXT]
    if _TOO_LONG.search(text):
        return Problem("context_overflow", _overflow_text(text), status=status)
    return Problem(_kind(text, status), text or f"the upstream answered {status}", status=status)


def _kind(text: str, status: int) -> str:
    if _NO_MODEL.search(text):
        return "unknown_model"
    for words, kind in _BY_WORDS:
        if words in text:
            return kind
    return _BY_STATUS.get(status, "rejected")


def _overflow_text(text: str) -> str:
    # Claude Code compacts its history when it reads these words, and only these.
    match _TOKENS.findall(text):
        case [asked, window, *_]:
            return f"prompt is too long: {asked} tokens > {window} maximum"
        case _:
            return f"prompt is too long: {text}"


def _unwrap(said: Json, depth: int = 4) -> tuple[str, int]:
    """Return the innermost message and its code: runners put their JSON into the server's text."""
    if isinstance(said, str) and said.startswith("{") and depth:
        try:
            return _unwrap(loads(said), depth - 1)
        except ValueError:
            return said, 0
    if not isinstance(said, dict):
        return (said if isinstance(said, str) else dumps(said)), 0
    inner = said.get("error", said.get("message"))
    if inner is None or not depth:
        return dumps(said), 0
    text, code = _unwrap(inner, depth - 1)
    own = said.get("code")
    return text, code or (own if isinstance(own, int) and 400 <= own < 600 else 0)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    for name, value in headers.items():
        if name.lower() == "retry-after" and value.strip().isdecimal():
            return float(value)
    return None
