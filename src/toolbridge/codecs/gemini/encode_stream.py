"""Our events, as Gemini's answers.

The parts of a stream are only ever appended, and a call comes whole; our blocks may interleave.
The encoder writes one block at a time, in the order in which they began, and holds the others.
"""

from typing import TypeAlias

from msgspec.structs import replace
from typing_extensions import override

from toolbridge.codecs.gemini.grounding import encode_sources
from toolbridge.codecs.gemini.logprobs import encode_logprobs
from toolbridge.codecs.gemini.media import encode_media
from toolbridge.codecs.gemini.shapes import (
    ALT,
    FINISH_REASONS,
    METADATA,
    ORIGIN,
    SHOWS,
    STATUSES,
    STOPS,
    write_signature,
)
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words, loss_field, spelled
from toolbridge.core.codec import AnswerContext, Rejection
from toolbridge.core.errors import status_of
from toolbridge.core.fold import OWN_ENDS, broken_last
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Message,
    Part,
    Problem,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
)
from toolbridge.core.retry_after import maybe_wait
from toolbridge.core.usage import Usage
from toolbridge.wire.sse import write_frame

_NOTHING: JsonObject = {"role": "model", "parts": [{"text": ""}]}
"""The content of a frame that adds none."""
_NONE = -1
"""The current block, where none is open."""
_HEAD = b'{"candidates":[{"content":{"role":"model","parts":['
_RPC = "type.googleapis.com/google.rpc."

BlockEvent: TypeAlias = (
    ev.TextStart
    | ev.TextDelta
    | ev.TextEnd
    | ev.ThinkingStart
    | ev.ThinkingDelta
    | ev.ThinkingEnd
    | ev.CallStart
    | ev.CallDelta
    | ev.CallEnd
    | ev.PartAdded
)


class StreamEncoder:
    """Events into a stream: SSE, or one JSON array where the request asks for that."""

    def __init__(self, asked: AnswerContext, *, choice: int = 0) -> None:
        self._asked = asked
        self._choice = choice
        self._others: dict[int, StreamEncoder] = {}
        """The encoders of the other answers to the same request."""
        self._foot = b'},"index":%d}],' % choice
        self._array = asked.request.extra.get(ALT) == "json"
        self._begun = False
        self._envelope: JsonObject = _envelope("", "", asked)
        self._tail = b""
        self._current = _NONE
        self._held: dict[int, list[BlockEvent]] = {}
        self._broken: list[Call] = []
        """Calls whose arguments are no JSON, until the end says whether it cut them."""

    def keep_alive(self) -> bytes:
        return b"".join(self._parts([{"text": ""}]))

    def feed(self, event: ev.Event, /) -> list[bytes]:
        match event:
            case ev.Started(id, model):
                self._envelope = _envelope(id, model, self._asked)
                self._tail = self._foot + dump_bytes(self._envelope)[1:]
                return []
            case ev.Finished(reason, message):
                # A `functionCall` is atomic: one that the token limit cut would be run like any other.
                broken = self._broken if reason in OWN_ENDS else []
                said = [frame for call in broken for frame in self._parts(_encode_part(call))]
                return [*said, self._frame(self._last(reason, message)), *self._end()]
            case ev.Failed(problem):
                error = dump_bytes({"error": _encode_problem(problem)})
                return [*self._flush(), self._frame(error), *self._end()]
            case ev.LogprobsReported(tokens):
                return [self._likely(tokens)]
            case ev.Alternative(choice, inner):
                return [*map(self._frame, self._alternative(choice, inner))]
            case ev.UsageReported() | ev.Healed() | ev.Lost():
                return []  # The last frame tells counts and losses; healing is no part of the API.
            case ev.PartAdded():
                return [said for one in spelled(event, SHOWS) for said in self._in_turn(one)]
            case _:
                return self._in_turn(event)

    def close(self) -> list[bytes]:
        return []

    def _alternative(self, choice: int, event: ev.Event) -> list[bytes]:
        """Return the data of the frames that say what another answer does."""
        if choice not in self._others:
            self._others[choice] = _Alternative(self._asked, choice=choice)
        # One that was cut off has no finish reason: an error would end all of them.
        return [] if isinstance(event, ev.Failed) else self._others[choice].feed(event)

    def _likely(self, tokens: tuple[TokenLogprob, ...]) -> bytes:
        content: JsonObject = {"role": "model", "parts": [{"text": ""}]}
        candidate: JsonObject = {
            "content": content,
            "index": self._choice,
            **encode_logprobs(tokens),
        }
        return self._frame(dump_bytes({"candidates": [candidate], **self._envelope}))

    def _last(self, reason: StopReason, message: Message) -> bytes:
        candidate = _candidate(_NOTHING, reason, replace(message, logprobs=()), 0)
        counts = _counts(message.usage, self._asked.estimate)
        body: JsonObject = {"candidates": [candidate], "usageMetadata": counts}
        return dump_bytes(body | self._envelope | loss_field(message, SHOWS))

    def _end(self) -> list[bytes]:
        return [b"]"] if self._array else []

    def _in_turn(self, event: BlockEvent) -> list[bytes]:
        """Write what belongs to the current block; hold what belongs to a later one."""
        if self._current == _NONE:
            self._current = event.index
        if event.index != self._current:
            self._held.setdefault(event.index, []).append(event)
            return []
        written = self._write(event)
        while self._current == _NONE and self._held:
            self._current = next(iter(self._held))
            for held in self._held.pop(self._current):
                written += self._write(held)
        return written

    def _flush(self) -> list[bytes]:
        """Return what waits behind a block that will never end; a half call is not among it."""
        return [
            frame for held in self._held.values() for event in held for frame in self._write(event)
        ]

    def _write(self, event: BlockEvent) -> list[bytes]:
        if isinstance(event, ev.TextEnd | ev.ThinkingEnd | ev.CallEnd | ev.PartAdded):
            self._current = _NONE
        match event:
            case ev.TextDelta(_, text):
                return [self._frame(_HEAD + b'{"text":' + dump_bytes(text) + b"}]" + self._tail)]
            case ev.ThinkingDelta(_, text):
                return self._parts([{"text": text, "thought": True}])
            case ev.TextEnd(_, part):
                return self._parts(_signed("", part))
            case ev.ThinkingEnd(_, thought):
                return self._parts(_signed("", thought))
            case ev.CallEnd(_, call) if call.raw:
                self._broken.append(call)
                return []
            case ev.CallEnd(_, call):
                return self._parts(_encode_part(call))
            case ev.PartAdded(_, added):
                return self._parts(_encode_part(added))
            case _:
                return []

    def _parts(self, parts: list[Json]) -> list[bytes]:
        if not parts:
            return []
        tail = self._tail or self._foot + dump_bytes(self._envelope)[1:]
        return [self._frame(_HEAD + b",".join(map(dump_bytes, parts)) + b"]" + tail)]

    def _frame(self, data: bytes) -> bytes:
        if not self._array:
            return write_frame(data)
        opening = b",\n" if self._begun else b"["
        self._begun = True
        return opening + data


class _Alternative(StreamEncoder):
    """Writes another answer to the same request; its frames are those of the answer around it."""

    @override
    def _frame(self, data: bytes) -> bytes:
        return data

    @override
    def _last(self, reason: StopReason, message: Message) -> bytes:
        told = replace(message, logprobs=())
        candidate = _candidate(_NOTHING, reason, told, self._choice)
        return dump_bytes({"candidates": [candidate], **self._envelope})

    @override
    def _end(self) -> list[bytes]:
        return []


def encode_message(message: Message, asked: AnswerContext) -> bytes:
    """Return the whole answer: what folding its stream gives."""
    if message.problem is not None:
        return dump_bytes({"error": _encode_problem(message.problem)})
    whole = (other for other in message.alternatives if other.problem is None)
    candidates: list[Json] = [
        _candidate(_content(one), one.stop or "end", one, number)
        for number, one in enumerate((message, *whole))
    ]
    counts = _counts(message.usage, asked.estimate)
    body: JsonObject = {"candidates": candidates, "usageMetadata": counts}
    return dump_bytes(body | _envelope(message.id, message.model, asked))


def _content(message: Message) -> JsonObject:
    shown = in_words(broken_last(message), SHOWS)
    parts: list[Json] = [found for part in shown for found in _encode_part(part)]
    return {"role": "model", "parts": parts or [{"text": ""}]}


def _envelope(id: str, model: str, asked: AnswerContext) -> JsonObject:
    envelope: JsonObject = {"modelVersion": asked.request.model or model}
    return envelope | {"responseId": id} if id else envelope


def _candidate(
    content: JsonObject, reason: StopReason, message: Message, number: int
) -> JsonObject:
    candidate: JsonObject = {
        "content": content,
        "finishReason": STOPS.get(reason, "STOP"),
        "index": number,
    }
    candidate |= _why(message) | encode_logprobs(message.logprobs)
    return candidate | encode_sources(in_words(message.content, SHOWS))


def _why(message: Message) -> JsonObject:
    """Return the fields of a candidate that say why an answer was refused."""
    details = message.stop_details
    if details is None:
        return {}
    own = details.category if details.origin == ORIGIN else ""
    fields: JsonObject = {"finishReason": own} if own in FINISH_REASONS else {}
    return fields | ({"finishMessage": details.explanation} if details.explanation else {})


def _counts(usage: Usage, estimate: int) -> JsonObject:
    given = usage.input_total or estimate
    counts: JsonObject = {
        "promptTokenCount": given,
        "candidatesTokenCount": max(0, usage.output - usage.reasoning),
        "totalTokenCount": given + usage.output,
    }
    if usage.reasoning:
        counts["thoughtsTokenCount"] = usage.reasoning
    if usage.cache_read:
        counts["cachedContentTokenCount"] = usage.cache_read
    return counts


def _encode_part(part: Part) -> list[Json]:
    """Return a part of an answer; what an answer of Gemini cannot hold as none."""
    match part:
        case Text(text) | Thinking(text):
            whole: JsonObject = {"text": text}
            if isinstance(part, Thinking):
                whole["thought"] = True
            return _signed(text, part) or ([whole] if text else [])
        case Call(id, name):
            arguments: JsonObject = {"raw": part.raw} if part.raw else part.arguments
            call: JsonObject = {"id": id, "name": name, "args": arguments}
            return [{"functionCall": call, **write_signature(part.opaque)}]
        case Image():
            media = encode_media(part)
            return [] if media is None else [media]
        case Foreign(origin, _, raw) if origin == ORIGIN and not METADATA.issuperset(raw):
            return [raw]
        case _:
            return []


def _signed(text: str, part: Text | Thinking) -> list[Json]:
    """Return a part that carries the signature of `part` and says `text`, if there is one."""
    signature = write_signature(part.opaque)
    if not signature:
        return []
    thought: JsonObject = {"thought": True} if isinstance(part, Thinking) and part.text else {}
    return [{"text": text, **thought, **signature}]


# ── problems ─────────────────────────────────────────────────────────────────


def encode_rejection(problem: Problem, request_id: str) -> Rejection:
    error = _encode_problem(problem)
    details = error.setdefault("details", [])
    if isinstance(details, list):
        details.append({"@type": f"{_RPC}RequestInfo", "requestId": request_id})
    headers = {"x-should-retry": "false"} if problem.permanent else {}
    return Rejection(_status(problem), dump_bytes({"error": error}), headers)


def _encode_problem(problem: Problem) -> JsonObject:
    status = _status(problem)
    name = STATUSES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    if problem.permanent:
        name = "FAILED_PRECONDITION"  # google.rpc.Code: do not retry until the state is fixed
    text = f"{problem.where}: {problem.text}" if problem.where else problem.text
    error: JsonObject = {"code": status, "message": text, "status": name}
    details: list[Json] = []
    if problem.where:
        fault: JsonObject = {"field": problem.where, "description": problem.text}
        details.append({"@type": f"{_RPC}BadRequest", "fieldViolations": [fault]})
    wait = maybe_wait(problem)
    if wait is not None:
        details.append({"@type": f"{_RPC}RetryInfo", "retryDelay": f"{wait:g}s"})
    return error | {"details": details} if details else error


def _status(problem: Problem) -> int:
    status = status_of(problem)
    if problem.permanent and status >= 500:
        return 400  # the HTTP status of FAILED_PRECONDITION; Gemini CLI repeats 5xx for 200 s
    return 503 if status == 529 else status  # 529 is Anthropic's own number
