"""Answers of Chat Completions, streams and whole bodies, to events.

OpenAI chat, streaming: usage arrives after `finish_reason`, in a chunk with empty `choices`, and
`[DONE]` is the last event. So the answer finishes at `[DONE]`. Many servers leave `[DONE]` out: a
stream that stops after a finish reason is complete, one that stops before it is truncated. So is a
whole body whose `finish_reason` is null.
"""

from collections.abc import Iterator

import msgspec

from toolbridge.codecs.openai_chat import shapes, text_chunks
from toolbridge.codecs.openai_chat.content import decode_annotation, decode_audio
from toolbridge.codecs.openai_chat.decode_calls import CallDecoder
from toolbridge.codecs.openai_chat.plain_answers import (
    EVENT_END,
    LAST_EVENT,
    PlainAnswer,
    PlainChunk,
    plain_answer,
    plain_beginning,
    plain_body,
    read_envelope,
    write_plain,
)
from toolbridge.codecs.openai_chat.rejections import decode_error, is_error
from toolbridge.codecs.openai_chat.thinking import decode_seal, decode_thought
from toolbridge.codecs.openai_chat.usage import decode_counts, decode_usage
from toolbridge.core.data_url import split_data_url
from toolbridge.core.draft import Draft
from toolbridge.core.errors import BrokenWire, Truncated, UpstreamError
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json
from toolbridge.core.logprobs import read_logprobs, read_token_logprobs
from toolbridge.core.messages import MAX_ANSWERS, Image, Problem, StopReason
from toolbridge.wire.reply import ReplyReader, WholeBody
from toolbridge.wire.shapes import AnyObject, decode_chunk
from toolbridge.wire.sse import SseEvent

_chunks = msgspec.json.Decoder(shapes.Chunk)
_LEGACY = -1
"""The index of the call in the deprecated `function_call`."""

_FIELDS = {
    "text": ("content", "refusal"),
    "thought": ("reasoning_content", "reasoning", "thinking", "reasoning_details"),
    "call": ("tool_calls", "function_call"),
    "audio": ("audio",),
}
"""The fields of a message by the kind of block that they contain."""


class StreamDecoder:
    """Bytes of a stream or of a whole body in, events out."""

    __slots__ = ("_answer", "_reply")

    def __init__(self, ids: Ids) -> None:
        draft = Draft(ids)
        self._answer = _Answer(ids, draft, CallDecoder(draft))
        self._reply = ReplyReader()

    def feed(self, piece: bytes, /) -> list[Event]:
        answer = self._answer
        if answer.draft.ended:
            return []
        if answer.draft.started:
            data = self._reply.sse.only_data(piece)  # nearly every piece, and nearly always text
            if data and answer.in_text:
                try:
                    chunk = text_chunks.decoder.decode(data)
                    return answer.draft.text(chunk.choices[0].delta.content)
                except text_chunks.UNDECODABLE:
                    answer.in_text = False
            if data:
                return answer.read_record(SseEvent(data))
            ends = answer.in_text and self._reply.sse.between and piece.endswith(LAST_EVENT)
            if ends and (rest := plain_answer(piece)):
                return answer.end_text(rest)
        elif not self._reply.begun and (begun := self._begin(piece)):
            return begun
        try:
            records = self._reply.feed(piece)
        except BrokenWire as error:
            return answer.fail(error.problem)
        return answer.read_records(records) if records else []

    def _begin(self, piece: bytes) -> list[Event]:
        """Return the events of the first bytes if they are a whole answer or events of one text."""
        answer = self._answer
        if piece.endswith(LAST_EVENT):
            plain = plain_answer(piece)
            return write_plain(plain, answer.draft) if plain else []
        found = plain_beginning(piece) if piece.endswith(EVENT_END) else None
        if found is None:
            return []
        self._reply.skip_events()
        return answer.begin_text(*found)

    def close(self) -> list[Event]:
        answer = self._answer
        if answer.draft.ended:
            return []
        try:
            records = self._reply.close()
        except UpstreamError as error:
            return answer.fail(error.problem)
        return answer.read_records(records) + answer.close()


class _Answer(msgspec.Struct, eq=False):
    """One choice of a reply, and the other choices inside it."""

    _ids: Ids
    draft: Draft
    _calls: CallDecoder
    _others: dict[int, "_Answer"] = {}
    """The choices with `index` 1 and above."""
    _claimed: StopReason | None = None
    """The stop reason for the provider's `finish_reason`."""
    _broken: str = ""
    """A `finish_reason` that means that the answer is incomplete."""
    _stop_sequence: str = ""
    _refused: bool = False
    _audio: list[shapes.AudioPiece] = []
    _spoken: bool = False
    """True if the text is the transcript of the audio."""
    _streamed: set[str] = set()
    """The kinds of block that arrived in deltas."""
    in_text: bool = False
    """True after a delta of text: the next one mostly has text as well, and nothing else."""

    def fail(self, problem: Problem) -> list[Event]:
        return self.draft.fail(problem)

    def begin_text(self, first: PlainChunk, pieces: list[str]) -> list[Event]:
        """Return the events of the first chunks, which have text or nothing."""
        envelope = read_envelope(first)
        events = self.draft.start(id=first.id or "", model=first.model or "", envelope=envelope)
        if pieces:
            self._streamed.add("text")
            self.in_text = True
            events += self.draft.text_pieces(pieces)
        return events

    def end_text(self, rest: PlainAnswer) -> list[Event]:
        """Return the events of the last chunks: text, the finish reason and the counts."""
        events = self.draft.text_pieces(rest.pieces) if rest.pieces else []
        events += self.draft.usage(rest.usage)
        self._broken = ""
        return events + self._finish(shapes.STOPS.get(rest.finish_reason, "end"))

    def read_records(self, records: list[SseEvent | WholeBody]) -> list[Event]:
        """Read the events of a stream that arrived together, or a whole body."""
        events: list[Event] = []
        at, unnamed = 0, len(records) > 1 and text_chunks.are_unnamed(records)
        while at < len(records) and not self.draft.ended:
            if self.in_text and unnamed and (texts := text_chunks.texts_of(records, at)):
                events += self.draft.text_pieces(texts)
                at += len(texts)
                self.in_text = at == len(records)
            else:
                events += self.read_record(records[at])
                at += 1
        return events

    def read_record(self, record: SseEvent | WholeBody) -> list[Event]:
        if isinstance(record, WholeBody):
            return self._read_whole(record.data)
        if record.data[:1] != b"{" and record.data.strip() == b"[DONE]":
            return self._finish(self._claimed or "end") if self.draft.started else []
        try:
            chunk = _chunks.decode(record.data)
        except text_chunks.UNDECODABLE:
            try:
                chunk = decode_chunk(record.data, _chunks)
            except BrokenWire as error:
                return self.fail(error.problem)
        if record.event == "error" or is_error(chunk):
            return self.fail(decode_error(0, record.data))
        return self.read(chunk)

    def _read_whole(self, body: bytes) -> list[Event]:
        if (plain := plain_body(body)) and (whole := write_plain(plain, self.draft)):
            return whole
        try:
            chunk = decode_chunk(body, _chunks)
        except BrokenWire as error:
            return self.fail(error.problem)
        if is_error(chunk) or not chunk.choices:
            return self.fail(decode_error(0, body))
        for choice in chunk.choices:
            # A complete answer without the field: mudler/LocalAI#788, maximhq/bifrost#1489. With
            # null it is incomplete: openai/openai-openapi#20, "a temporary bug in our API".
            if choice.finish_reason is msgspec.UNSET:
                choice.finish_reason = "stop"
        return self.read(chunk) + self.close()

    def close(self) -> list[Event]:
        if self.draft.ended:
            return []
        if self._claimed is not None:
            return self._finish(self._claimed)
        text = "the provider's answer ended without a finish reason"
        return self.fail(Truncated(text).problem)

    def _finish(self, claimed: StopReason) -> list[Event]:
        if self._broken:
            text = f"the provider ended the answer with the finish reason {self._broken!r}"
            return self.fail(Problem(shapes.BROKEN_STOPS[self._broken], text))
        events = self._calls.close() + self._end_audio()
        for number, other in sorted(self._others.items()):
            events += self.draft.alternative(number, other.close())
        if self._refused and claimed == "end":
            claimed = "refusal"
        if self._stop_sequence and claimed == "end":
            return events + self.draft.finish("stop_sequence", stop_sequence=self._stop_sequence)
        return events + self.draft.finish(claimed)

    # ── chunks ──

    def read(self, chunk: shapes.Chunk) -> list[Event]:
        """Read a chunk; Azure's first one has no choices, only the filter results of the prompt."""
        choices = chunk.choices or ()
        counts = [chunk.x_groq and chunk.x_groq.usage]
        events: list[Event] = []
        if (choices or chunk.usage or any(counts)) and not self.draft.started:
            envelope = read_envelope(chunk)
            events += self.draft.start(
                id=chunk.id or "", model=chunk.model or "", envelope=envelope
            )
        for choice in choices:
            if choice.index in {None, 0}:
                events += self._choice(choice)
                counts.append(choice.usage)
            else:
                events += self._other(choice.index or 0, choice, chunk)
        if chunk.usage and isinstance(chunk.usage, dict):
            events += self.draft.usage(decode_usage(chunk.usage))
        for count in counts:
            events += self.draft.usage(decode_counts(count)) if count else []
        return events

    def _other(self, number: int, choice: shapes.AnswerChoice, chunk: shapes.Chunk) -> list[Event]:
        """Read a choice with an `index` above 0, which has a draft of its own."""
        if not 0 < number < MAX_ANSWERS:
            return self.draft.lose("answer.choices", f"the index {number} of a choice is invalid")
        draft = Draft(self._ids)
        other = self._others.setdefault(number, _Answer(self._ids, draft, CallDecoder(draft)))
        alone = msgspec.structs.replace(choice, index=0)
        return self.draft.alternative(
            number, other.read(shapes.Chunk(chunk.id, chunk.model, [alone]))
        )

    def _choice(self, choice: shapes.AnswerChoice) -> list[Event]:
        events = self._delta(choice.delta) if choice.delta is not None else []
        if choice.text:  # an answer of /completions
            events += self._text(choice.text)
        if choice.message is not None:
            events += self._delta(self._without_streamed(choice.message))
        if choice.logprobs is not None:
            events += self._logprobs(choice.logprobs)
        reason = choice.finish_reason
        if reason:
            # A forced call ends with "stop"; `Draft.finish` reports tool use if there are calls.
            self._claimed = shapes.STOPS.get(reason, "end")
            self._broken = reason if reason in shapes.BROKEN_STOPS else ""
        # vLLM: `stop_reason` is the stop sequence, or a token id.
        if isinstance(choice.stop_reason, str):
            self._stop_sequence = choice.stop_reason
        return events

    def _logprobs(self, given: Json) -> list[Event]:
        if not isinstance(given, dict):
            return []
        tokens = read_logprobs(given.get("content")) + read_logprobs(given.get("refusal"))
        return self.draft.logprobs(tokens or read_token_logprobs(given))

    def _without_streamed(self, message: shapes.Delta) -> shapes.Delta:
        """Return a message without the fields that arrived in deltas before.

        Some servers end a stream with a chunk that contains the whole message.
        """
        streamed = [field for kind in self._streamed for field in _FIELDS[kind]]
        return msgspec.structs.replace(message, **dict.fromkeys(streamed))

    def _delta(self, delta: shapes.Delta) -> list[Event]:
        # One token can end the thought and begin the text, so a delta may contain all of these.
        events = self._think(delta)
        if isinstance(delta.content, str):
            events += self._text(delta.content)
        elif delta.content:
            events += self._parts(delta.content)
        if delta.refusal:
            self._refused = True
            events += self._text(delta.refusal)
        if delta.annotations:
            events += self._cite(delta.annotations)
        for image in delta.images or ():
            events += self._image(image)
        if delta.audio is not None:
            events += self._audio_piece(delta.audio)
        for call in delta.tool_calls or ():
            events += self._call(call)
        if delta.function_call is not None:
            events += self._call(shapes.ToolCall(index=_LEGACY, function=delta.function_call))
        return events

    def _call(self, piece: shapes.ToolCall) -> list[Event]:
        self._streamed.add("call")
        self.in_text = False  # the next text settles the calls before it
        return self._calls.feed(piece)

    def _cite(self, annotations: list[AnyObject]) -> list[Event]:
        """Read citations; OpenAI chat: their spans are character offsets in the whole answer."""
        texts = self.draft.texts
        before = sum(map(len, texts[:-1]))
        size = len(texts[-1]) if texts else 0
        found = (decode_annotation(annotation, before, size) for annotation in annotations)
        return [event for citation in found for event in self.draft.cite(citation)]

    def _text(self, text: str) -> list[Event]:
        if not text:
            return []
        self._streamed.add("text")
        self.in_text = True
        return self._calls.settle() + self.draft.text(text)

    def _audio_piece(self, piece: shapes.AudioPiece) -> list[Event]:
        """Read a piece of audio: the transcript becomes text, the data a part at the end.

        If the answer has content as well, the transcript repeats it and is ignored.
        """
        self._streamed.add("audio")
        self._audio.append(piece)
        self._spoken = self._spoken or "text" not in self._streamed
        return self._text(piece.transcript or "") if self._spoken else []

    def _end_audio(self) -> list[Event]:
        if not self._audio:
            return []
        return self.draft.add(decode_audio(self._audio))

    def _parts(self, content: list[AnyObject]) -> list[Event]:
        events: list[Event] = []
        for part in content:
            if part.get("type") == "image_url":
                events += self._image(part)
            elif part.get("type") == "thinking":  # Mistral, reasoning: a thought is a content part
                events += self._thought("".join(_texts(part.get("thinking"))))
            else:
                events += self._text("".join(_texts([part])))
        return events

    def _thought(self, text: str, field: str = "") -> list[Event]:
        if not text:
            return []
        self._streamed.add("thought")
        return self._calls.settle() + self.draft.think(text, field=field)

    def _think(self, delta: shapes.Delta) -> list[Event]:
        names = (delta.reasoning_content, delta.reasoning, delta.thinking)
        if not any(names) and not delta.reasoning_details:
            return []
        field, plain = decode_thought(delta)
        events = self._thought(plain, field)
        for detail in delta.reasoning_details or ():
            if not plain:
                events += self._thought(detail.text or detail.summary or "")
            if seal := decode_seal(detail):
                events += self._calls.settle() + self.draft.seal(seal) + self.draft.end()
        return events

    def _image(self, part: AnyObject) -> list[Event]:
        given: Json = part.get("image_url")
        url = given.get("url") if isinstance(given, dict) else given
        if not isinstance(url, str) or not url:
            return []
        media_type, data = split_data_url(url)
        image = Image(data=data, media_type=media_type, url="" if data else url)
        return self._calls.settle() + self.draft.add(image)


def _texts(value: Json) -> Iterator[str]:
    """Yield the texts of content parts."""
    if isinstance(value, str):
        yield value
    for part in value if isinstance(value, list) else ():
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str):
            yield text
