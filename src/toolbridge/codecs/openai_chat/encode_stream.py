"""Our events as chunks of Chat Completions, our message as a whole body.

A chunk says only what it adds, and belongs to no block: text, thoughts and calls are three flows.
Blocks of one kind that interleave are let through one after another; the API could number calls
that are mixed, but some clients mix up their arguments then.
"""

from collections import deque

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.counts import write_counts
from toolbridge.codecs.openai_chat.encode_calls import call_writer, encode_calls, finish_reason
from toolbridge.codecs.openai_chat.encode_rejection import encode_error
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words, loss_field, spelled
from toolbridge.core.citations import maybe_link
from toolbridge.core.codec import AnswerContext
from toolbridge.core.fold import Fold
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.logprobs import write_logprobs
from toolbridge.core.messages import (
    Foreign,
    Image,
    Message,
    Problem,
    Request,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
)
from toolbridge.wire.sse import write_frame

THINKING = "reasoning_content"
"""The name of a thought, unless the provider gave it another."""
_DONE = write_frame(b"[DONE]")


class StreamEncoder:
    """Events in, server-sent events out."""

    def __init__(
        self, asked: AnswerContext, *, choice: int = 0, envelope: "_Envelope | None" = None
    ) -> None:
        self._asked = asked
        self._fold = Fold()
        """The answer without its deltas: its last chunks report counts and losses."""
        self._choice = choice
        self._others: dict[int, StreamEncoder] = {}
        """The encoders of the other answers to the same request."""
        self._envelope = envelope or _Envelope(asked)
        self._counts = _wants_counts(asked.request)
        self._texts = _Lane()
        self._thoughts = _Lane()
        self._calls = _Lane()
        self._writer = call_writer(asked.request)
        self._request = asked.request
        self._text_frame: tuple[bytes, bytes] | None = None
        self._length = 0
        """Of all text so far: citations say where in it they belong."""
        self._thinking_field = THINKING
        self._ended = False

    def feed(self, event: ev.Event, /) -> list[bytes]:
        if self._ended:
            return []
        if isinstance(event, ev.TextDelta) and self._texts.current == event.index:
            # Nearly every event of nearly every stream.
            self._length += len(event.text)
            head, tail = self._text_frame or self._frame_text()
            return [head + dump_bytes(event.text) + tail]
        if not isinstance(event, ev.DELTAS):
            self._fold.feed(event)
        match event:
            case ev.TextStart(index) | ev.TextDelta(index) | ev.TextEnd(index):
                return self._deltas(self._texts.feed(index, event))
            case ev.ThinkingStart(index) | ev.ThinkingDelta(index) | ev.ThinkingEnd(index):
                return self._deltas(self._thoughts.feed(index, event))
            case ev.CallStart(index) | ev.CallDelta(index) | ev.CallEnd(index):
                return self._deltas(self._calls.feed(index, event))
            case ev.Started(id, model, envelope):
                self._envelope.start(id, model, envelope)
                return [self._chunk({"role": "assistant", "content": ""})]
            case ev.Finished(reason):
                return self._finish(reason, self._fold.message)
            case ev.Failed(problem):
                return self._fail(problem)
            case _:
                return self._feed_rest(event)

    def _feed_rest(self, event: ev.Event) -> list[bytes]:
        match event:
            case ev.PartAdded():
                return self._add(event)
            case ev.Alternative(choice, inner):
                return self._alternative(choice, inner)
            case ev.LogprobsReported(tokens):
                return [self._chunk({}, logprobs=_logprobs(tokens))]
            case _:
                return []  # The end tells the counts and losses; healing is no part of the API.

    def close(self) -> list[bytes]:
        return []

    def keep_alive(self) -> bytes:
        return self._chunk({})

    def _alternative(self, choice: int, event: ev.Event) -> list[bytes]:
        """Write what another answer does, under its number and in the same envelope."""
        if choice not in self._others:
            other = StreamEncoder(self._asked, choice=choice, envelope=self._envelope)
            self._others[choice] = other
        # One that was cut off has no finish reason: an error would end all of them.
        return [] if isinstance(event, ev.Failed) else self._others[choice].feed(event)

    def _add(self, event: ev.PartAdded) -> list[bytes]:
        said: list[bytes] = []
        for one in spelled(event, shapes.SHOWS):
            said += self._deltas([one]) if isinstance(one, ev.PartAdded) else self.feed(one)
        return said

    def _finish(self, reason: StopReason, message: Message) -> list[bytes]:
        self._ended = True
        lost = loss_field(message, shapes.SHOWS)
        why = _explanation(message)
        said = [self._chunk({"refusal": why})] if why else []
        said.append(self._chunk({}, finish_reason(reason, self._request), lost))
        if self._choice:
            return said
        if self._counts:
            counts = write_counts(message.usage, self._envelope.estimate)
            said.append(write_frame(self._envelope.chunk([], {"usage": counts})))
        return [*said, _DONE]

    def _fail(self, problem: Problem) -> list[bytes]:
        self._ended = True
        # What waits behind a block that will never end was said all the same.
        waiting = [*self._thoughts.flush(), *self._texts.flush(), *self._calls.flush()]
        return [*self._deltas(waiting), write_frame(encode_error(problem))]

    def _chunk(
        self,
        delta: JsonObject,
        finish: str | None = None,
        beside: JsonObject | None = None,
        logprobs: JsonObject | None = None,
    ) -> bytes:
        choice: JsonObject = {
            "index": self._choice,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish,
        }
        rest: JsonObject = {"usage": None} if self._counts else {}
        return write_frame(self._envelope.chunk([choice], rest | beside if beside else rest))

    def _frame_text(self) -> tuple[bytes, bytes]:
        """Return the bytes before and after the text of a chunk that adds text."""
        head, name, tail = self._chunk({"content": ""}).rpartition(b'"content":""')
        self._text_frame = (head + name[:-2], tail)
        return self._text_frame

    def _deltas(self, events: list[ev.Event]) -> list[bytes]:
        found = (self._delta(event) for event in events)
        return [self._chunk(delta) for delta in found if delta]

    def _delta(self, event: ev.Event) -> JsonObject:
        match event:
            case ev.TextDelta(_, piece):
                self._length += len(piece)
                return {"content": piece}
            case ev.TextEnd(_, text):
                cited = _annotations(text, self._length)
                return {"annotations": cited} if cited else {}
            case ev.ThinkingStart(_, field):
                self._thinking_field = field or THINKING
                return {}
            case ev.ThinkingDelta(_, piece):
                return {self._thinking_field: piece}
            case ev.ThinkingEnd(_, thought):
                details = _details(thought)
                return {"reasoning_details": details} if details else {}
            case ev.PartAdded(_, Image() as image):
                return {"images": [_image(image)]}
            case ev.PartAdded(_, Foreign(shapes.ORIGIN, shapes.AUDIO, raw)):
                return {"audio": raw}
            case ev.CallStart() | ev.CallDelta() | ev.CallEnd():
                return self._writer.write(event)
            case _:
                return {}


class _Lane:
    """Blocks of one kind: the oldest that is open speaks, what the others say waits."""

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        self.current = -1
        """The index of the block that is written, -1 where none is open."""
        self._held: dict[int, list[ev.Event]] = {}
        self._ended: set[int] = set()

    def feed(self, index: int, event: ev.Event) -> list[ev.Event]:
        if index not in self._held:
            self._order.append(index)
            self._held[index] = []
            self.current = self._order[0]
        if self._order[0] != index:
            self._held[index].append(event)
            if _is_end(event):
                self._ended.add(index)
            return []
        return [event, *self._next()] if _is_end(event) else [event]

    def _next(self) -> list[ev.Event]:
        """Return what waited for the block in front, which has ended."""
        freed: list[ev.Event] = []
        self._held.pop(self._order.popleft())
        while self._order:
            freed += self._held[self._order[0]]
            if self._order[0] not in self._ended:
                self._held[self._order[0]] = []
                break
            self._held.pop(self._order.popleft())
        self.current = self._order[0] if self._order else -1
        return freed

    def flush(self) -> list[ev.Event]:
        return [event for index in self._order for event in self._held.pop(index)]


def _is_end(event: ev.Event) -> bool:
    return isinstance(event, ev.TextEnd | ev.ThinkingEnd | ev.CallEnd)


# ── whole bodies ─────────────────────────────────────────────────────────────


class _Envelope:
    """What stands around every chunk: one id from the first to the last."""

    def __init__(self, asked: AnswerContext) -> None:
        self._asked = asked
        self._id = ""
        self._model = asked.request.model
        self._rest: JsonObject = {"created": int(asked.at)}
        self.estimate = asked.estimate

    def start(self, id: str, model: str, envelope: Foreign | None) -> None:
        own = envelope if envelope is not None and envelope.origin == shapes.ORIGIN else None
        # Our own ids begin with "msg_"; any other is the provider's.
        given = id if own is not None and not id.startswith("msg_") else write_id(id)
        # A keep-alive may have come first, and the head must not change within an answer.
        if own is not None and not self._id:
            self._rest |= own.raw
        self._id = self._id or given
        self._model = self._model or model

    def head(self, object: str) -> JsonObject:
        # A client that waits may be sent a chunk before the answer has begun and has its own id.
        self._id = self._id or write_id(Ids(str(self._asked.at)).message())
        return {
            "id": self._id,
            "object": object,
            **self._rest,
            "model": self._model,
        }

    def chunk(self, choices: list[Json], rest: JsonObject) -> bytes:
        return dump_bytes(self.head("chat.completion.chunk") | {"choices": choices} | rest)


def write_id(id: str) -> str:
    return id if id.startswith("chatcmpl-") else f"chatcmpl-{id.removeprefix('msg_')}"


def encode_message(message: Message, asked: AnswerContext) -> bytes:
    """Return the answer as one body: what its stream says, said at once."""
    if message.problem is not None:
        return encode_error(message.problem)
    envelope = _Envelope(asked)
    envelope.start(message.id, message.model, message.envelope)
    whole = (other for other in message.alternatives if other.problem is None)
    choices: list[Json] = [
        _encode_choice(number, one, asked.request) for number, one in enumerate((message, *whole))
    ]
    body = envelope.head("chat.completion") | {"choices": choices}
    return dump_bytes(body | {"usage": write_counts(message.usage, asked.estimate)})


def _encode_choice(number: int, message: Message, request: Request) -> JsonObject:
    shown = msgspec.structs.replace(message, content=in_words(message.content, shapes.SHOWS))
    return {
        "index": number,
        "message": _encode_content(shown, request),
        "logprobs": _logprobs(message.logprobs) if message.logprobs else None,
        "finish_reason": finish_reason(message.stop or "end", request),
    }


def _encode_content(message: Message, request: Request) -> JsonObject:
    body: JsonObject = {"role": "assistant", "content": message.text or None}
    body["refusal"] = _explanation(message) or None
    if not message.calls:
        body["content"] = message.text
    for part in message.content:
        if isinstance(part, Thinking) and part.text:
            field = part.field or THINKING
            body[field] = f"{body.get(field, '')}{part.text}"
    gathered: dict[str, list[Json]] = {
        "reasoning_details": _all_details(message),
        "annotations": _all_annotations(message),
        "images": [_image(part) for part in message.content if isinstance(part, Image)],
    }
    for name, found in gathered.items():
        if found:
            body[name] = found
    for part in message.content:
        match part:
            case Foreign(shapes.ORIGIN, shapes.AUDIO, raw):
                body["audio"] = raw
            case _:
                pass
    return body | encode_calls(message, request)


def _all_details(message: Message) -> list[Json]:
    thoughts = (part for part in message.content if isinstance(part, Thinking))
    return [detail for thought in thoughts for detail in _details(thought)]


def _all_annotations(message: Message) -> list[Json]:
    found: list[Json] = []
    length = 0
    for part in message.content:
        if isinstance(part, Text):
            length += len(part.text)
            found += _annotations(part, length)
    return found


def _logprobs(tokens: tuple[TokenLogprob, ...]) -> JsonObject:
    return {"content": write_logprobs(tokens), "refusal": None}


def _explanation(message: Message) -> str:
    """Return why a provider refused, which is told as if the model had said it."""
    return message.stop_details.explanation if message.stop_details else ""


# ── parts ────────────────────────────────────────────────────────────────────


def _details(thought: Thinking) -> list[Json]:
    seals = (shapes.write_seal(opaque) for opaque in thought.opaque)
    return [msgspec.to_builtins(seal) for seal in seals if seal is not None]


def _image(image: Image) -> JsonObject:
    url = image.url or f"data:{image.media_type};base64,{image.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _annotations(text: Text, end: int) -> list[Json]:
    """Return the citations of a text that ends at `end`: spans count from the first character."""
    found: list[Json] = []
    before = end - len(text.text)
    for citation in text.citations:
        if citation.get("type") in shapes.ANNOTATIONS:
            found.append(citation)
        elif cited := maybe_link(citation, text.text):
            inner: JsonObject = {
                "start_index": before + cited.start,
                "end_index": before + cited.end,
                "url": cited.url,
                "title": cited.title,
            }
            found.append({"type": "url_citation", "url_citation": inner})
    return found


def _wants_counts(request: Request) -> bool:
    options = request.extra.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))
