"""The answers of Chat Completions, as our events: a whole body is a stream that came at once.

The end is certain only at `[DONE]`: counts come after the finish reason. A stream that stops after
a finish reason has ended all the same; one that stops before it was cut.
"""

from collections.abc import Iterator

import msgspec

from toolbridge.codecs.openai_chat import shapes
from toolbridge.codecs.openai_chat.calls import Calls
from toolbridge.codecs.openai_chat.counts import maybe_all_counts, read_counts, read_envelope
from toolbridge.codecs.openai_chat.decode_rejection import decode_error
from toolbridge.core.citations import link
from toolbridge.core.draft import Draft
from toolbridge.core.errors import BrokenWire, Truncated
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject
from toolbridge.core.logprobs import read_logprobs, read_token_logprobs
from toolbridge.core.messages import MAX_ANSWERS, Foreign, Image, Problem, StopReason
from toolbridge.wire.shapes import AnyObject, decode_frame
from toolbridge.wire.sse import SseEvent, SseReader

_chunks = msgspec.json.Decoder(shapes.Chunk)
_LEGACY = -1
"""The index of the one call that the deprecated `function_call` can make."""

_FIELDS = {
    "text": ("content", "refusal"),
    "thought": ("reasoning_content", "reasoning", "thinking", "reasoning_details"),
    "call": ("tool_calls", "function_call"),
    "audio": ("audio",),
}
"""Where a message holds each kind of block."""


class StreamDecoder:
    """A stream, or a whole body, into events."""

    def __init__(self, ids: Ids) -> None:
        self._answer = _Answer(ids)
        self._sse = SseReader()
        self._whole: list[bytes] | None = None
        """The pieces of a body that turned out to be JSON."""
        self._begun = False

    def feed(self, piece: bytes, /) -> list[Event]:
        if not self._begun:
            piece = piece.lstrip(b" \t\r\n")
            if not piece:
                return []
            self._begun = True
            self._whole = [] if piece.startswith(b"{") else None
        if self._whole is not None:
            self._whole.append(piece)
            return []
        if self._answer.ended:
            return []
        try:
            found = self._sse.feed(piece)
        except BrokenWire as error:
            return self._answer.fail(error.problem)
        return self._answer.read_events(found)

    def close(self) -> list[Event]:
        if self._whole is not None:
            body, self._whole = b"".join(self._whole), []
            said = self._answer.read_whole(body) if body else []
        else:
            said = self._close_stream()
        return said + self._answer.close()

    def _close_stream(self) -> list[Event]:
        if self._answer.ended:
            return []
        try:
            found = self._sse.close()
        except BrokenWire as error:
            return self._answer.fail(error.problem)
        return self._answer.read_events(found)


class _Answer:
    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._draft = Draft(ids)
        self._calls = Calls(self._draft)
        self._others: dict[int, _Answer] = {}
        """The other answers to the same request, by their numbers."""
        self._claimed: StopReason | None = None
        self._broken = ""
        """The reason that says that the answer is not whole."""
        self._stop_sequence = ""
        self._refused = False
        self._audio: list[shapes.AudioPiece] = []
        self._spoken = False
        """Whether the text is the transcript of the audio."""
        self._told: set[str] = set()
        """The kinds of block that were told in pieces."""

    @property
    def ended(self) -> bool:
        return self._draft.ended

    def fail(self, problem: Problem) -> list[Event]:
        return self._draft.fail(problem)

    def read_events(self, events: list[SseEvent]) -> list[Event]:
        said: list[Event] = []
        for event in events:
            if not self._draft.ended:
                said += self.read_frame(event)
        return said

    def read_frame(self, frame: SseEvent) -> list[Event]:
        if frame.data.strip() == b"[DONE]":
            return self._finish(self._claimed or "end") if self._draft.started else []
        try:
            chunk = decode_frame(frame.data, _chunks)
        except BrokenWire as error:
            # Half a frame at the end is a cut, and the end says so.
            return self.fail(error.problem) if frame.whole else []
        if frame.event == "error" or _is_error(chunk):
            return self.fail(decode_error(0, frame.data))
        return self.read(chunk)

    def read_whole(self, body: bytes) -> list[Event]:
        try:
            chunk = decode_frame(body, _chunks)
        except BrokenWire as error:
            return self.fail(error.problem)
        if _is_error(chunk) or not chunk.choices:
            return self.fail(decode_error(0, body))
        said = self.read(chunk)
        return said + self._finish(self._claimed or "end")

    def close(self) -> list[Event]:
        if self.ended:
            return []
        if self._claimed is not None:
            return self._finish(self._claimed)
        return self.fail(Truncated("the upstream ended its answer without a finish reason").problem)

    def _finish(self, claimed: StopReason) -> list[Event]:
        if self._broken:
            text = f"the upstream ended its answer with {self._broken!r}"
            return self.fail(Problem(shapes.BROKEN_STOPS[self._broken], text))
        said = self._calls.close() + self._speech()
        for number, other in sorted(self._others.items()):
            said += self._draft.alternative(number, other.close())
        if self._refused and claimed == "end":
            claimed = "refusal"
        if self._stop_sequence and claimed == "end":
            return said + self._draft.finish("stop_sequence", stop_sequence=self._stop_sequence)
        return said + self._draft.finish(claimed)

    # ── chunks ──

    def read(self, chunk: shapes.Chunk) -> list[Event]:
        choices = chunk.choices or ()
        counts = [chunk.x_groq and chunk.x_groq.usage]
        said: list[Event] = []
        if (choices or chunk.usage or any(counts)) and not self._draft.started:
            envelope = read_envelope(chunk)
            said += self._draft.start(id=chunk.id or "", model=chunk.model or "", envelope=envelope)
        for choice in choices:
            if choice.index in {None, 0}:
                said += self._choice(choice)
                counts.append(choice.usage)
            else:
                said += self._other(choice.index or 0, choice, chunk)
        if chunk.usage and (usage := maybe_all_counts(chunk.usage)):
            said += self._draft.usage(usage)
        for count in counts:
            said += self._draft.usage(read_counts(count)) if count else []
        return said

    def _other(self, number: int, choice: shapes.AnswerChoice, chunk: shapes.Chunk) -> list[Event]:
        """Read a piece of another answer, which has a draft of its own."""
        if not 0 < number < MAX_ANSWERS:
            return self._draft.lose("answer.choices", "one of them has no number that may be")
        other = self._others.setdefault(number, _Answer(self._ids))
        alone = msgspec.structs.replace(choice, index=0)
        return self._draft.alternative(
            number, other.read(shapes.Chunk(chunk.id, chunk.model, [alone]))
        )

    def _choice(self, choice: shapes.AnswerChoice) -> list[Event]:
        said = self._delta(choice.delta) if choice.delta is not None else []
        if choice.text:  # a text completion
            said += self._text(choice.text)
        if choice.message is not None:
            said += self._delta(self._untold(choice.message))
        if choice.logprobs is not None:
            said += self._logprobs(choice.logprobs)
        reason = choice.finish_reason
        if reason:
            self._claimed = shapes.STOPS.get(reason, "end")
            self._broken = reason if reason in shapes.BROKEN_STOPS else ""
        if isinstance(choice.stop_reason, str):
            self._stop_sequence = choice.stop_reason
        return said

    def _logprobs(self, given: Json) -> list[Event]:
        if not isinstance(given, dict):
            return []
        tokens = read_logprobs(given.get("content")) + read_logprobs(given.get("refusal"))
        return self._draft.logprobs(tokens or read_token_logprobs(given))

    def _untold(self, message: shapes.Delta) -> shapes.Delta:
        """Return what a whole message says beyond the pieces: some servers end a stream with it."""
        told = [field for kind in self._told for field in _FIELDS[kind]]
        return msgspec.structs.replace(message, **dict.fromkeys(told))

    def _delta(self, delta: shapes.Delta) -> list[Event]:
        # One token can close the thought and begin the answer, so a chunk may carry all of these.
        said = self._think(delta)
        if isinstance(delta.content, str):
            said += self._text(delta.content)
        elif delta.content:
            said += self._parts(delta.content)
        if delta.refusal:
            self._refused = True
            said += self._text(delta.refusal)
        if delta.annotations:
            said += self._cite(delta.annotations)
        for image in delta.images or ():
            said += self._image(image)
        if delta.audio is not None:
            said += self._hear(delta.audio)
        for call in delta.tool_calls or ():
            self._told.add("call")
            said += self._calls.feed(call)
        if delta.function_call is not None:
            self._told.add("call")
            function = delta.function_call
            said += self._calls.feed(shapes.ToolCall(index=_LEGACY, function=function))
        return said

    def _cite(self, annotations: list[AnyObject]) -> list[Event]:
        """Read citations; their spans count from the first character of the whole answer."""
        texts = self._draft.texts
        before = sum(map(len, texts[:-1]))
        size = len(texts[-1]) if texts else 0
        found = (_read_annotation(annotation, before, size) for annotation in annotations)
        return [event for citation in found for event in self._draft.cite(citation)]

    def _text(self, text: str) -> list[Event]:
        if not text:
            return []
        self._told.add("text")
        return self._calls.settle() + self._draft.text(text)

    def _hear(self, piece: shapes.AudioPiece) -> list[Event]:
        """Read a piece of speech: what is said in it is text, the sound itself waits for the end.

        An answer that has both content and a transcript says the same thing twice.
        """
        self._told.add("audio")
        self._audio.append(piece)
        self._spoken = self._spoken or "text" not in self._told
        return self._text(piece.transcript or "") if self._spoken else []

    def _speech(self) -> list[Event]:
        if not self._audio:
            return []
        raw: JsonObject = {
            "id": next((piece.id for piece in self._audio if piece.id), ""),
            "data": "".join(piece.data or "" for piece in self._audio),
            "transcript": "".join(piece.transcript or "" for piece in self._audio),
            "expires_at": next((p.expires_at for p in self._audio if p.expires_at), 0),
        }
        return self._draft.add(Foreign(shapes.ORIGIN, shapes.AUDIO, raw))

    def _parts(self, content: list[AnyObject]) -> list[Event]:
        said: list[Event] = []
        for part in content:
            if part.get("type") == "image_url":
                said += self._image(part)
            elif part.get("type") == "thinking":  # Mistral's models think inside their content
                said += self._thought("".join(_texts(part.get("thinking"))))
            else:
                said += self._text("".join(_texts([part])))
        return said

    def _thought(self, text: str, field: str = "") -> list[Event]:
        if not text:
            return []
        self._told.add("thought")
        return self._calls.settle() + self._draft.think(text, field=field)

    def _think(self, delta: shapes.Delta) -> list[Event]:
        """Read a thought, which servers send under several names, some under two at once."""
        names = (delta.reasoning_content, delta.reasoning, delta.thinking)
        if not any(names) and not delta.reasoning_details:
            return []
        named = (
            ("", delta.reasoning_content),
            ("reasoning", delta.reasoning),
            ("thinking", delta.thinking),
        )
        found = ((field, text) for field, text in named if isinstance(text, str) and text)
        field, told = next(found, ("", ""))
        said = self._thought(told, field)
        for detail in delta.reasoning_details or ():
            if not told:
                said += self._thought(detail.text or detail.summary or "")
            if seal := shapes.read_seal(detail):
                said += self._calls.settle() + self._draft.seal(seal) + self._draft.end()
        return said

    def _image(self, part: AnyObject) -> list[Event]:
        given: Json = part.get("image_url")
        url = given.get("url") if isinstance(given, dict) else given
        if not isinstance(url, str) or not url:
            return []
        media_type, data = shapes.split_data_url(url)
        image = Image(data=data, media_type=media_type, url="" if data else url)
        return self._calls.settle() + self._draft.add(image)


def _read_annotation(annotation: AnyObject, before: int, size: int) -> JsonObject:
    """Return a link in the form that all codecs understand; any other annotation as it is."""
    inner = annotation.get("url_citation")
    if not isinstance(inner, dict) or not isinstance(inner.get("url"), str):
        return annotation
    start, end = inner.get("start_index"), inner.get("end_index")
    if not isinstance(start, int) or not isinstance(end, int):
        return link(str(inner["url"]), inner.get("title"))
    span = (start - before, end - before)
    known = 0 <= span[0] < span[1] <= size
    return link(str(inner["url"]), inner.get("title"), span if known else None)


def _is_error(chunk: shapes.Chunk) -> bool:
    if chunk.error or (chunk.x_groq and chunk.x_groq.error):
        return True
    for choice in chunk.choices or ():  # noqa: SIM110  a generator costs two calls per delta
        if choice.error:
            return True
    return False


def _texts(value: Json) -> Iterator[str]:
    """Return the texts of content parts."""
    if isinstance(value, str):
        yield value
    for part in value if isinstance(value, list) else ():
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str):
            yield text
