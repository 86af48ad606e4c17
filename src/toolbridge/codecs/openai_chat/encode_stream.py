"""Events to chunks of Chat Completions, and a message to a whole body.

OpenAI chat, streaming: a delta belongs to no block; text, thoughts and calls are separate fields.
Blocks of one kind that interleave are written one after another. The API could interleave calls by
`index`, but OpenAI sends them in sequence and some clients mix up the arguments otherwise
(huggingface/smolagents#1569, QwenLM/Qwen-Agent#943).
"""

from collections.abc import Sequence

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.encode_calls import call_writer, encode_calls, finish_reason
from toolbridge.codecs.openai_chat.rejections import encode_error
from toolbridge.codecs.openai_chat.thinking import encode_seals
from toolbridge.codecs.openai_chat.usage import encode_usage
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words, loss_field, spelled
from toolbridge.core.answer_sources import found_pages
from toolbridge.core.block_order import BlockOrder
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
from toolbridge.wire.sse import write_event

THINKING = "reasoning_content"
"""The field of a thought, unless the provider sent another: the name that most clients read."""
_DONE = write_event(b"[DONE]")


class StreamEncoder:
    """Events in, SSE events of one choice out."""

    def __init__(
        self, asked: AnswerContext, *, choice: int = 0, envelope: "_Envelope | None" = None
    ) -> None:
        self._asked = asked
        self._fold = Fold()
        """The answer without its deltas: the last chunks report its usage and losses."""
        self._choice = choice
        self._others: dict[int, StreamEncoder] = {}
        """The encoders of the choices with an index above 0."""
        self._envelope = envelope or _Envelope(asked)
        self._counts = _includes_usage(asked.request)
        self._texts = BlockOrder()
        self._thoughts = BlockOrder()
        self._calls = BlockOrder()
        self._writer = call_writer(asked.request)
        self._request = asked.request
        self._text_chunk: tuple[bytes, bytes] | None = None
        self._length = 0
        """Characters of text so far: the spans of citations are offsets in the whole answer."""
        self._thinking_field = THINKING
        self._ended = False

    def feed(self, event: ev.Event, /) -> list[bytes]:
        if self._ended:
            return []
        if isinstance(event, ev.TextDelta) and self._texts.current == event.index:
            # The fast path: most events of a stream are text deltas of the current block.
            self._length += len(event.text)
            head, tail = self._text_chunk or self._split_text_chunk()
            return [head + dump_bytes(event.text) + tail]
        if not isinstance(event, ev.DELTAS):
            self._fold.feed(event)
        match event:
            case ev.TextStart() | ev.TextDelta() | ev.TextEnd():
                return self._deltas(self._texts.feed(event))
            case ev.ThinkingStart() | ev.ThinkingDelta() | ev.ThinkingEnd():
                return self._deltas(self._thoughts.feed(event))
            case ev.CallStart() | ev.CallDelta() | ev.CallEnd():
                return self._deltas(self._calls.feed(event))
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
                return []  # usage and losses are written at the end; healing has no field here

    def close(self) -> list[bytes]:
        return []

    def keep_alive(self) -> bytes:
        """Return a chunk with an empty delta."""
        return self._chunk({})

    def _alternative(self, choice: int, event: ev.Event) -> list[bytes]:
        """Write the event of another choice, with its index and in the same envelope."""
        if choice not in self._others:
            other = StreamEncoder(self._asked, choice=choice, envelope=self._envelope)
            self._others[choice] = other
        # A choice that failed gets no finish reason: an error event would end all choices.
        return [] if isinstance(event, ev.Failed) else self._others[choice].feed(event)

    def _add(self, event: ev.PartAdded) -> list[bytes]:
        written: list[bytes] = []
        for one in spelled(event, shapes.SHOWS):
            written += self._deltas([one]) if isinstance(one, ev.PartAdded) else self.feed(one)
        return written

    def _finish(self, reason: StopReason, message: Message) -> list[bytes]:
        self._ended = True
        lost = loss_field(message, shapes.SHOWS)
        why = _explanation(message)
        said = [self._chunk({"refusal": why})] if why else []
        # The sources of a search without citations come in the last delta before the end.
        if pages := _page_annotations(message, self._length):
            said.append(self._chunk({"annotations": pages}))
        said.append(self._chunk({}, finish_reason(reason, self._request), lost))
        if self._choice:
            return said
        if self._counts:
            # OpenAI chat, `include_usage`: the counts are in a last chunk without choices.
            counts = encode_usage(message.usage, self._envelope.estimate)
            said.append(write_event(self._envelope.chunk([], {"usage": counts})))
        return [*said, _DONE]

    def _fail(self, problem: Problem) -> list[bytes]:
        self._ended = True
        # The held events of later blocks are written too: their block can no longer end in order.
        waiting = [*self._thoughts.flush(), *self._texts.flush(), *self._calls.flush()]
        return [*self._deltas(waiting), write_event(encode_error(problem))]

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
        return write_event(self._envelope.chunk([choice], rest | beside if beside else rest))

    def _split_text_chunk(self) -> tuple[bytes, bytes]:
        """Return the bytes before and after the text of a chunk with a text delta."""
        head, name, tail = self._chunk({"content": ""}).rpartition(b'"content":""')
        self._text_chunk = (head + name[:-2], tail)
        return self._text_chunk

    def _deltas(self, events: Sequence[ev.Event]) -> list[bytes]:
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
                details = _details(thought)  # seals only: the text was written in the deltas
                return {"reasoning_details": details} if details else {}
            case ev.PartAdded(_, Image() as image):
                return {"images": [_image(image)]}
            case ev.PartAdded(_, Foreign(shapes.ORIGIN, shapes.AUDIO, raw)):
                return {"audio": raw}
            case ev.CallStart() | ev.CallDelta() | ev.CallEnd():
                return self._writer.write(event)
            case _:
                return {}


# ── whole bodies ─────────────────────────────────────────────────────────────


class _Envelope:
    """The fields around the choices. OpenAI chat: `id` is the same in all chunks of a stream."""

    def __init__(self, asked: AnswerContext) -> None:
        self._asked = asked
        self._id = ""
        self._model = asked.request.model
        self._rest: JsonObject = {"created": int(asked.at)}
        self.estimate = asked.estimate

    def start(self, id: str, model: str, envelope: Foreign | None) -> None:
        own = envelope if envelope is not None and envelope.origin == shapes.ORIGIN else None
        # Ids that the gateway made begin with "msg_"; every other id is the provider's.
        given = id if own is not None and not id.startswith("msg_") else write_id(id)
        # After a keep-alive the id is fixed: it must not change within a stream.
        if own is not None and not self._id:
            self._rest |= own.raw
        self._id = self._id or given
        self._model = self._model or model

    def head(self, object: str) -> JsonObject:
        # A keep-alive before the start of the answer needs an id as well.
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
    """Return an id with the prefix that OpenAI's clients expect."""
    return id if id.startswith("chatcmpl-") else f"chatcmpl-{id.removeprefix('msg_')}"


def encode_message(message: Message, asked: AnswerContext) -> bytes:
    """Return the answer as one body, equal to what a client collects from the stream."""
    if message.problem is not None:
        return encode_error(message.problem)
    envelope = _Envelope(asked)
    envelope.start(message.id, message.model, message.envelope)
    whole = (other for other in message.alternatives if other.problem is None)
    choices: list[Json] = [
        _encode_choice(number, one, asked.request) for number, one in enumerate((message, *whole))
    ]
    body = envelope.head("chat.completion") | {"choices": choices}
    return dump_bytes(body | {"usage": encode_usage(message.usage, asked.estimate)})


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
    return found + _page_annotations(message, length)


def _page_annotations(message: Message, length: int) -> list[Json]:
    """Return annotations of the whole text for pages that it does not cite one by one.

    OpenAI chat has no part for a search, so what it found would be lost otherwise.
    """
    pages = found_pages(message.content) if length else {}
    return [_annotation((0, length), url, title) for url, title in pages.items()]


def _annotation(span: tuple[int, int], url: str, title: str) -> JsonObject:
    inner: JsonObject = {"start_index": span[0], "end_index": span[1], "url": url, "title": title}
    return {"type": "url_citation", "url_citation": inner}


def _logprobs(tokens: tuple[TokenLogprob, ...]) -> JsonObject:
    return {"content": write_logprobs(tokens), "refusal": None}


def _explanation(message: Message) -> str:
    """Return the provider's explanation of a refusal, for the field `refusal`."""
    return message.stop_details.explanation if message.stop_details else ""


# ── parts ────────────────────────────────────────────────────────────────────


def _details(thought: Thinking) -> list[Json]:
    return [msgspec.to_builtins(seal) for seal in encode_seals(thought)]


def _image(image: Image) -> JsonObject:
    url = image.url or f"data:{image.media_type};base64,{image.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _annotations(text: Text, end: int) -> list[Json]:
    """Return the citations of a text that ends at `end`; spans are offsets in the answer."""
    found: list[Json] = []
    before = end - len(text.text)
    for citation in text.citations:
        if citation.get("type") in shapes.ANNOTATIONS:
            found.append(citation)
        elif cited := maybe_link(citation, text.text):
            span = (before + cited.start, before + cited.end)
            found.append(_annotation(span, cited.url, cited.title))
    return found


def _includes_usage(request: Request) -> bool:
    options = request.extra.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))
