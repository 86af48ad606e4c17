"""Our events, as answers of the Gemini API.

Gemini API, streamGenerateContent: chunks only append parts, and a call is one whole part. Our
blocks may interleave, so `BlockOrder` puts them in order.
"""

from msgspec.structs import replace
from typing_extensions import override

from toolbridge.codecs.gemini.builtin_parts import encode_builtin
from toolbridge.codecs.gemini.grounding import encode_sources
from toolbridge.codecs.gemini.logprobs import encode_logprobs
from toolbridge.codecs.gemini.media import encode_media
from toolbridge.codecs.gemini.rejections import encode_error
from toolbridge.codecs.gemini.shapes import (
    ALT,
    FEEDBACK,
    FINISH_REASONS,
    METADATA,
    ORIGIN,
    SHOWS,
    STOPS,
)
from toolbridge.codecs.gemini.signatures import encode_signature
from toolbridge.codecs.gemini.usage import encode_usage
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words, loss_field, spelled
from toolbridge.core.block_order import BlockEvent, BlockOrder
from toolbridge.core.codec import AnswerContext
from toolbridge.core.fold import OWN_ENDS, Fold, broken_last
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Message,
    Part,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
)
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.wire.sse import write_event

_NOTHING: JsonObject = {"role": "model", "parts": [{"text": ""}]}
"""The content of a chunk that adds no text."""
_HEAD = b'{"candidates":[{"content":{"role":"model","parts":['


class StreamEncoder:
    """Encodes events as SSE, or as one JSON array for a request without `alt=sse`."""

    def __init__(self, asked: AnswerContext, *, choice: int = 0) -> None:
        self._asked = asked
        self._fold = Fold()
        """The answer without its deltas: the last chunk reports its counts, sources and losses."""
        self._choice = choice
        self._others: dict[int, StreamEncoder] = {}
        """The encoders of the other answers to the same request, by their numbers."""
        self._foot = b'},"index":%d}],' % choice
        self._array = asked.request.extra.get(ALT) == "json"
        self._begun = False
        self._envelope: JsonObject = _envelope("", "", asked)
        self._tail = b""
        self._order = BlockOrder()
        self._broken: list[Call] = []
        """Calls with invalid arguments: written at the end unless the token limit cut them."""

    def keep_alive(self) -> bytes:
        return b"".join(self._parts([{"text": ""}]))

    def feed(self, event: ev.Event, /) -> list[bytes]:
        if isinstance(event, ev.TextDelta) and event.index == self._order.current:
            # A shortcut for the most frequent event.
            data = _HEAD + b'{"text":' + dump_bytes(event.text) + b"}]" + self._tail
            return [self._chunk(data)]
        if not isinstance(event, ev.DELTAS):
            self._fold.feed(event)
        match event:
            case ev.Started(id, model):
                self._envelope = _envelope(id, model, self._asked)
                self._tail = self._foot + dump_bytes(self._envelope)[1:]
                return []
            case ev.Finished(reason):
                # A call is atomic: clients would run one that the token limit has cut.
                broken = self._broken if reason in OWN_ENDS else []
                calls = [data for call in broken for data in self._parts(_encode_part(call))]
                return [*calls, self._chunk(self._last(reason, self._fold.message)), *self._end()]
            case ev.Failed(problem):
                error = dump_bytes({"error": encode_error(problem)})
                return [*self._flush(), self._chunk(error), *self._end()]
            case ev.LogprobsReported(tokens):
                return [self._logprobs(tokens)]
            case ev.Alternative(choice, inner):
                return [*map(self._chunk, self._alternative(choice, inner))]
            case ev.UsageReported() | ev.Healed() | ev.Lost():
                return []  # Counts and losses are in the last chunk; the API has no field for healing.
            case ev.PartAdded():
                return [data for one in spelled(event, SHOWS) for data in self._in_order(one)]
            case _:
                return self._in_order(event)

    def close(self) -> list[bytes]:
        return []

    def _alternative(self, choice: int, event: ev.Event) -> list[bytes]:
        """Return the chunks of another answer to the same request."""
        if choice not in self._others:
            self._others[choice] = _Alternative(self._asked, choice=choice)
        # An answer that failed gets no finish reason: an error would end all answers.
        return [] if isinstance(event, ev.Failed) else self._others[choice].feed(event)

    def _logprobs(self, tokens: tuple[TokenLogprob, ...]) -> bytes:
        content: JsonObject = {"role": "model", "parts": [{"text": ""}]}
        candidate: JsonObject = {
            "content": content,
            "index": self._choice,
            **encode_logprobs(tokens),
        }
        return self._chunk(dump_bytes({"candidates": [candidate], **self._envelope}))

    def _last(self, reason: StopReason, message: Message) -> bytes:
        candidate = _candidate(_NOTHING, reason, replace(message, logprobs=()), 0)
        counts = encode_usage(message.usage, self._asked.estimate)
        body = _blocked(message) or {"candidates": [candidate]}
        body["usageMetadata"] = counts
        return dump_bytes(body | self._envelope | loss_field(message, SHOWS))

    def _end(self) -> list[bytes]:
        return [b"]"] if self._array else []

    def _in_order(self, event: BlockEvent) -> list[bytes]:
        return [data for one in self._order.feed(event) for data in self._write(one)]

    def _flush(self) -> list[bytes]:
        """Return the held blocks, for an answer that failed; the open call is not among them."""
        return [data for event in self._order.flush() for data in self._write(event)]

    def _write(self, event: BlockEvent) -> list[bytes]:
        match event:
            case ev.TextDelta(_, text):
                return [self._chunk(_HEAD + b'{"text":' + dump_bytes(text) + b"}]" + self._tail)]
            case ev.ThinkingDelta(_, text):
                return self._parts([{"text": text, "thought": True}])
            case ev.TextEnd(_, part):
                return self._parts(_signed("", part))
            case ev.ThinkingEnd(_, thought):
                return self._parts(_signed("", thought))
            # Gemini API, FunctionCall: `args` is an object, so broken arguments wait for the end.
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
        return [self._chunk(_HEAD + b",".join(map(dump_bytes, parts)) + b"]" + tail)]

    def _chunk(self, data: bytes) -> bytes:
        # Gemini API, streamGenerateContent: without `alt=sse` the answer is one JSON array.
        if not self._array:
            return write_event(data)
        opening = b",\n" if self._begun else b"["
        self._begun = True
        return opening + data


class _Alternative(StreamEncoder):
    """Encodes another answer to the same request; the outer encoder puts its chunks into the stream."""

    @override
    def _chunk(self, data: bytes) -> bytes:
        return data

    @override
    def _last(self, reason: StopReason, message: Message) -> bytes:
        shown = replace(message, logprobs=())
        candidate = _candidate(_NOTHING, reason, shown, self._choice)
        return dump_bytes({"candidates": [candidate], **self._envelope})

    @override
    def _end(self) -> list[bytes]:
        return []


def encode_message(message: Message, asked: AnswerContext) -> bytes:
    """Return the whole answer: the sum of the chunks of its stream."""
    if message.problem is not None:
        return dump_bytes({"error": encode_error(message.problem)})
    whole = (other for other in message.alternatives if other.problem is None)
    candidates: list[Json] = [
        _candidate(_content(one), one.stop or "end", one, number)
        for number, one in enumerate((message, *whole))
    ]
    counts = encode_usage(message.usage, asked.estimate)
    body = _blocked(message) or {"candidates": candidates}
    body["usageMetadata"] = counts
    return dump_bytes(body | _envelope(message.id, message.model, asked))


def _blocked(message: Message) -> JsonObject:
    """Return the field that Gemini sends in place of candidates for a blocked prompt, or nothing."""
    details = message.stop_details
    if details is None or details.origin != ORIGIN or message.content or message.alternatives:
        return {}
    return {FEEDBACK: details.raw[FEEDBACK]} if FEEDBACK in details.raw else {}


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
    candidate |= _encode_details(message) | encode_logprobs(message.logprobs)
    return candidate | encode_sources(in_words(message.content, SHOWS))


def _encode_details(message: Message) -> JsonObject:
    """Return the fields of a candidate with the reason of a refusal."""
    details = message.stop_details
    if details is None:
        return {}
    # Gemini API, Candidate: the category of a refusal is the finish reason itself.
    own = details.category if details.origin == ORIGIN else ""
    fields: JsonObject = {"finishReason": own} if own in FINISH_REASONS else {}
    return fields | ({"finishMessage": details.explanation} if details.explanation else {})


def _encode_part(part: Part) -> list[Json]:
    """Return Gemini's parts for a part of ours; [] if its answers cannot hold it."""
    match part:
        case Text(text) | Thinking(text):
            whole: JsonObject = {"text": text}
            if isinstance(part, Thinking):
                whole["thought"] = True
            return _signed(text, part) or ([whole] if text else [])
        case Call(id, name):
            arguments: JsonObject = {"raw": part.raw} if part.raw else part.arguments
            call: JsonObject = {"id": id, "name": name, "args": arguments}
            return [{"functionCall": call, **encode_signature(part.opaque)}]
        case Image():
            media = encode_media(part)
            return [] if media is None else [media]
        case ServerCall() | ServerResult():
            builtin = encode_builtin(part)
            return [] if builtin is None else [builtin]
        case Foreign(origin, _, raw) if origin == ORIGIN and not METADATA.issuperset(raw):
            return [raw]
        case _:
            return []


def _signed(text: str, part: Text | Thinking) -> list[Json]:
    """Return a part with `text` and the signature of `part`; nothing without a signature."""
    signature = encode_signature(part.opaque)
    if not signature:
        return []
    thought: JsonObject = {"thought": True} if isinstance(part, Thinking) and part.text else {}
    return [{"text": text, **thought, **signature}]
