"""Gemini's answers, as our events.

Three framings carry the same frames: SSE, one JSON array that grows, and a whole body, which is a
stream that came at once. The parts of a frame are appended to what came before. Nothing but the
end of the bytes marks the end, so a finish reason must have come by then.
"""

import json

import msgspec

from toolbridge.codecs.gemini import shapes
from toolbridge.codecs.gemini.decode_rejection import decode_error
from toolbridge.codecs.gemini.grounding import GroundingSources, tool_records
from toolbridge.codecs.gemini.logprobs import decode_logprobs
from toolbridge.codecs.gemini.media import decode_blob, decode_file
from toolbridge.codecs.gemini.partial_args import PartialArgs
from toolbridge.codecs.gemini.shapes import (
    FAILURES,
    FINISH_REASONS,
    ORIGIN,
    REFUSED,
    read_signature,
)
from toolbridge.core.draft import FLOW, Draft
from toolbridge.core.errors import BrokenWire, Truncated
from toolbridge.core.events import Event
from toolbridge.core.fences import fenced
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, dumps, replace_lone_surrogates
from toolbridge.core.messages import (
    MAX_ANSWERS,
    Foreign,
    Image,
    Opaque,
    Problem,
    StopDetails,
    StopReason,
    Text,
)
from toolbridge.core.usage import Usage
from toolbridge.wire.reply import ReplyReader, WholeBody
from toolbridge.wire.shapes import decode_frame
from toolbridge.wire.sse import SseEvent

_frames = msgspec.json.Decoder(shapes.StreamChunk)
_CALL = "call"
"""Calls come one after the other, so one key serves them all."""
_PREFIXES = ("default_api:", "default_api.")
"""How Gemini sometimes calls the place of the functions that it was given."""


class StreamDecoder:
    """A stream, or a whole body, into events."""

    def __init__(self, ids: Ids) -> None:
        self._answer = _Answer(ids)
        self._reply = ReplyReader(arrays=True)

    def feed(self, piece: bytes, /) -> list[Event]:
        try:
            return self._read(self._reply.feed(piece))
        except BrokenWire as error:
            return self._answer.fail(error.problem)

    def close(self) -> list[Event]:
        try:
            said = self._read(self._reply.close())
        except BrokenWire as error:
            return self._answer.fail(error.problem)
        return said + self._answer.close()

    def _read(self, reply: list[SseEvent | WholeBody]) -> list[Event]:
        """Read chunks; a chunk that the end of the stream has cut is dropped."""
        said: list[Event] = []
        for chunk in reply:
            if chunk.data == b"[DONE]":
                continue
            try:
                said += self._answer.read(decode_frame(chunk.data, _frames))
            except BrokenWire as error:
                cut = isinstance(chunk, SseEvent) and not chunk.whole
                return said if cut else said + self._answer.fail(error.problem)
        return said


class _Answer:
    """Frames into events."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._draft = Draft(ids)
        self._others: dict[int, _Answer] = {}
        """The other answers to the same request, by their numbers."""
        self._counts = shapes.Counts()
        self._claimed: StopReason | None = None
        self._details: StopDetails | None = None
        self._flow = ""
        """Which kind of running text is open: `text`, `thinking` or none."""
        self._pieces: PartialArgs | None = None
        """The arguments of a call that is still being written."""
        self._sources = GroundingSources()
        self._records: dict[str, JsonObject] = {}
        """What Gemini's own tools said of their work; the last word counts."""

    def fail(self, problem: Problem) -> list[Event]:
        return self._draft.fail(problem)

    def close(self) -> list[Event]:
        said: list[Event] = []
        for number, other in sorted(self._others.items()):
            said += self._draft.alternative(number, other.close())
        return said + self._close()

    def _close(self) -> list[Event]:
        if not self._claimed:
            return self._cut("the upstream stopped before its answer ended")
        if self._pieces is None:
            said = self._cite() + self._late_sources()
            for kind, raw in self._records.items():
                said += self._draft.add(Foreign(ORIGIN, kind, raw))
            return said + self._finish(self._claimed)
        if self._claimed != "length":
            return self._cut("the upstream ended its answer before a call that it had begun")
        return self._end_pieces(cut=True) + self._finish(self._claimed)

    def _finish(self, claimed: StopReason) -> list[Event]:
        return self._draft.finish(claimed, details=self._details)

    def _cut(self, text: str) -> list[Event]:
        return self._draft.fail(Truncated(text).problem)

    def read(self, frame: shapes.StreamChunk) -> list[Event]:
        if frame.error is not None:
            return self._draft.fail(decode_error(frame.error))
        said: list[Event] = []
        if frame.response_id or frame.model_version or frame.candidates:
            said += self._draft.start(id=frame.response_id or "", model=frame.model_version or "")
        if frame.prompt_feedback and frame.prompt_feedback.block_reason:
            self._claimed = "refusal"
            feedback = frame.prompt_feedback
            self._details = _details(feedback.block_reason, feedback.block_reason_message)
        for candidate in frame.candidates or ():
            if not candidate.index:
                said += self._read_candidate(candidate)
            else:
                said += self._read_other(candidate.index, candidate, frame)
        if frame.usage_metadata is not None:
            said += self._count(frame.usage_metadata)
        for candidate in frame.candidates or ():
            said += [] if candidate.index else self._read_end(candidate)
        return said

    def _read_other(
        self, number: int, candidate: shapes.Candidate, frame: shapes.StreamChunk
    ) -> list[Event]:
        """Read a piece of another answer, which has a draft of its own."""
        if not 0 < number < MAX_ANSWERS:
            return self._draft.lose("answer.choices", "one of them has no number that may be")
        other = self._others.setdefault(number, _Answer(self._ids))
        alone = msgspec.structs.replace(candidate, index=0)
        told = shapes.StreamChunk(
            [alone], response_id=frame.response_id, model_version=frame.model_version
        )
        return self._draft.alternative(number, other.read(told))

    def _read_candidate(self, candidate: shapes.Candidate) -> list[Event]:
        said: list[Event] = []
        # First, for a signature among the parts ends the text that the sources belong to.
        if candidate.grounding_metadata is not None or candidate.citation_metadata is not None:
            self._sources.read(candidate)
        self._records |= tool_records(candidate)
        parts = (candidate.content or {}).get("parts")
        for raw in parts if isinstance(parts, list) else ():
            said += self._read_part(raw)
        if candidate.logprobs_result is not None:
            said += self._draft.logprobs(decode_logprobs(candidate.logprobs_result))
        return said

    def _read_end(self, candidate: shapes.Candidate) -> list[Event]:
        reason = candidate.finish_reason
        if not reason or reason == "FINISH_REASON_UNSPECIFIED":
            return []
        if reason in FAILURES:
            text = candidate.finish_message or f"the model ended with {reason}"
            return self._draft.fail(Problem(FAILURES[reason], text))
        self._claimed = FINISH_REASONS.get(reason, "end")
        self._details = _details(reason, candidate.finish_message)
        return []

    def _count(self, counts: shapes.Counts) -> list[Event]:
        """Report the counts, which are totals; what a frame leaves out stays as it was."""
        for name in counts.__struct_fields__:
            if getattr(counts, name) is not None:
                setattr(self._counts, name, getattr(counts, name))
        return self._draft.usage(_usage(self._counts))

    # ── parts ────────────────────────────────────────────────────────────────

    def _read_part(self, raw: Json) -> list[Event]:
        try:
            part = msgspec.convert(raw, shapes.Part)
        except msgspec.ValidationError as error:
            # Told, not raised: what this frame has said before must not be lost.
            text = f"the upstream sent a part that cannot be read: {error}"
            return self._draft.fail(BrokenWire(text).problem)
        if part.text is not None:
            return self._read_text(part, part.text)
        if part.function_call is not None:
            return self._read_call(part, part.function_call)
        found = _whole_part(part, raw if isinstance(raw, dict) else {})
        if found is None:
            return self._read_text(part, "")
        said = self._cite()
        self._flow = ""
        return said + self._draft.add(found)

    def _read_text(self, part: shapes.Part, text: str) -> list[Event]:
        kind = "thinking" if part.thought else "text"
        said = self._cite() if part.thought and text else []
        said += self._draft.think(text) if part.thought else self._draft.text(text)
        self._flow = kind if text else self._flow
        for token in read_signature(part.thought_signature):
            said += self._sign(token, kind)
        return said

    def _sign(self, token: Opaque, kind: str) -> list[Event]:
        """Give the running text its signature, and end it: nothing may be added to what is signed.

        A signature without any text is a thought of which nothing else is shown.
        """
        said = self._cite()
        if self._flow == kind:
            self._draft.tag_call(FLOW, token)
        else:
            said += self._draft.end(FLOW) + self._draft.seal(token)
        self._flow = ""
        return said + self._draft.end(FLOW)

    def _cite(self) -> list[Event]:
        """Give the text that ends now its sources."""
        if self._flow != "text" or not self._sources:
            return []
        whole = self._draft.fold.message
        text = next(part.text for part in reversed(whole.content) if isinstance(part, Text))
        said = whole.text
        cited = self._sources.take(len(said) - len(text), text, said)
        return [event for citation in cited for event in self._draft.cite(citation)]

    def _late_sources(self) -> list[Event]:
        if not self._sources or not self._sources.left(self._draft.fold.message.text):
            return []
        return self._draft.lose(
            "answer.citations", "they came without the text that they belong to"
        )

    # ── calls ────────────────────────────────────────────────────────────────

    def _read_call(self, part: shapes.Part, call: shapes.FunctionCall) -> list[Event]:
        said: list[Event] = []
        if self._pieces is None or call.name:
            said += self._end_pieces(cut=True) + self._start_call(part, call)
        if call.partial_args or call.will_continue:
            self._pieces = self._pieces or PartialArgs()
        if self._pieces is None:
            said += self._draft.arguments(_CALL, _dumped(call.args or {}))
            return said + self._draft.end(_CALL)
        for piece in call.partial_args or ():
            self._pieces.add(piece)
        return said if call.will_continue else said + self._end_pieces()

    def _start_call(self, part: shapes.Part, call: shapes.FunctionCall) -> list[Event]:
        said = self._cite()
        self._flow = ""
        name = call.name or ""
        for prefix in _PREFIXES:
            name = name.removeprefix(prefix)
        said += self._draft.call(_CALL, name=name, id=call.id or "")
        for token in read_signature(part.thought_signature):
            self._draft.tag_call(_CALL, token)
        return said

    def _end_pieces(self, *, cut: bool = False) -> list[Event]:
        """End the call that is being written, if one is."""
        if self._pieces is None:
            return []
        written = _dumped(self._pieces.whole())
        self._pieces = None
        # Without its last brace, a call that never ended does not look like a whole one.
        written = written[:-1] if cut else written
        return self._draft.arguments(_CALL, written) + self._draft.end(_CALL)


def _whole_part(part: shapes.Part, raw: JsonObject) -> Image | Foreign | None:
    """Return a part that came whole; None where there is nothing but a signature."""
    found: object = None
    if part.inline_data is not None:
        found = decode_blob(part.inline_data, part.media_resolution, raw)
    elif part.file_data is not None:
        found = decode_file(part.file_data, part.media_resolution, raw)
    if isinstance(found, Image):
        return found
    kinds = (key for key, value in raw.items() if key not in shapes.MODIFIERS and value is not None)
    kind = next(kinds, "")
    if not kind:
        return None
    text = _code(raw.get(kind))
    if part.inline_data is not None and part.inline_data.mime_type:
        kind = part.inline_data.mime_type.partition("/")[0]  # audio, video, application
    return Foreign(ORIGIN, kind, raw, text=text)


def _code(part: Json) -> str:
    """Return code that Gemini ran, or what it printed, as other APIs can show it."""
    if not isinstance(part, dict):
        return ""
    code, output = part.get("code"), part.get("output")
    if isinstance(code, str):
        return fenced(code, str(part.get("language") or ""))
    return fenced(output) if isinstance(output, str) else ""


def _details(reason: str | None, message: str | None) -> StopDetails | None:
    """Return why an answer was refused; nothing where no more is known than that it was."""
    category = "" if reason == REFUSED else reason or ""
    if not category and not message:
        return None
    return StopDetails(message or "", category, ORIGIN)


def _usage(counts: shapes.Counts) -> Usage:
    given = (counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0)
    cached = counts.cached_content_token_count or 0
    thoughts = counts.thoughts_token_count or 0
    return Usage(
        input=max(0, given - cached),
        output=(counts.candidates_token_count or 0) + thoughts,
        cache_read=cached,
        reasoning=thoughts,
    )


def _dumped(arguments: JsonObject) -> str:
    try:
        return dumps(arguments)
    except UnicodeEncodeError:  # half a surrogate pair, which only the slow writer lets through
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        return replace_lone_surrogates(text)
