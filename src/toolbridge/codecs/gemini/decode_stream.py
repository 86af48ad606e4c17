"""Answers of the Gemini API, as our events.

The same chunks come as SSE, as one JSON array that grows, or as one whole body. The parts of a chunk
are appended to those before it. Gemini API, streamGenerateContent: nothing but the end of the bytes
ends a stream, so an answer without a finish reason was cut.
"""

import json

import msgspec

from toolbridge.codecs.gemini import shapes
from toolbridge.codecs.gemini.builtin_parts import BuiltinParts
from toolbridge.codecs.gemini.grounding import GroundingSources, fetches, tool_record
from toolbridge.codecs.gemini.logprobs import decode_logprobs
from toolbridge.codecs.gemini.media import decode_blob, decode_file
from toolbridge.codecs.gemini.partial_args import PartialArgs
from toolbridge.codecs.gemini.rejections import decode_error
from toolbridge.codecs.gemini.shapes import FAILURES, FEEDBACK, FINISH_REASONS, ORIGIN, REFUSED
from toolbridge.codecs.gemini.signatures import decode_signature
from toolbridge.codecs.gemini.usage import decode_usage
from toolbridge.core.draft import FLOW, Draft
from toolbridge.core.errors import BrokenWire, Truncated, UpstreamError
from toolbridge.core.events import Event
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
)
from toolbridge.core.server_tools import ServerPart
from toolbridge.wire.reply import ReplyReader, WholeBody
from toolbridge.wire.shapes import convert_counts, decode_chunk
from toolbridge.wire.sse import SseEvent

_chunks = msgspec.json.Decoder(shapes.StreamChunk)
_CALL = "call"
"""The key of every call in the draft: calls come one after the other."""
_PREFIXES = ("default_api:", "default_api.")
"""Namespaces that Gemini sometimes writes before the name of a declared function."""


class StreamDecoder:
    """Decodes a stream, or a whole body, into events."""

    def __init__(self, ids: Ids) -> None:
        self._answer = _Answer(ids)
        self._reply = ReplyReader(arrays=True)

    def feed(self, piece: bytes, /) -> list[Event]:
        data = self._reply.sse.only_data(piece)
        try:
            return self._read([SseEvent(data)] if data else self._reply.feed(piece))
        except BrokenWire as error:
            return self._answer.fail(error.problem)

    def close(self) -> list[Event]:
        try:
            events = self._read(self._reply.close())
        except UpstreamError as error:
            return self._answer.fail(error.problem)
        return events + self._answer.close()

    def _read(self, reply: list[SseEvent | WholeBody]) -> list[Event]:
        """Return the events of chunks, up to one that cannot be decoded."""
        events: list[Event] = []
        for chunk in reply:
            if chunk.data == b"[DONE]":
                continue
            try:
                events += self._answer.read(decode_chunk(chunk.data, _chunks))
            except BrokenWire as error:
                return events + self._answer.fail(error.problem)
        return events


class _Answer:
    """The answer so far: turns chunks into events."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._draft = Draft(ids)
        self._others: dict[int, _Answer] = {}
        """The other answers to the same request, by `candidates[].index`."""
        self._counts = shapes.Counts()
        self._claimed: StopReason | None = None
        self._details: StopDetails | None = None
        self._flow = ""
        """The kind of the open text: `text`, `thinking`, or "" for none."""
        self._pieces: PartialArgs | None = None
        """The arguments of a call that is still open."""
        self._sources = GroundingSources()
        self._record: Foreign | None = None
        self._pages: JsonObject = {}
        """The latest metadata of Gemini's built-in tools."""
        self._builtins = BuiltinParts(ids)

    def fail(self, problem: Problem) -> list[Event]:
        return self._draft.fail(problem)

    def close(self) -> list[Event]:
        events: list[Event] = []
        for number, other in sorted(self._others.items()):
            events += self._draft.alternative(number, other.close())
        return events + self._close()

    def _close(self) -> list[Event]:
        if not self._claimed:
            return self._cut("the upstream stopped before its answer ended")
        if self._pieces is None:
            events = self._cite() + self._late_sources()
            for part in self._tool_parts():
                events += self._draft.add(part)
            return events + self._finish(self._claimed)
        if self._claimed != "length":
            return self._cut("the upstream ended its answer inside a call")
        return self._end_pieces(cut=True) + self._finish(self._claimed)

    def _tool_parts(self) -> list[ServerPart | Foreign]:
        """Return the searches and fetches that only metadata describe."""
        parts: list[ServerPart | Foreign] = []
        search = None
        if not self._builtins.searched:
            search = self._sources.search(f"builtin_{self._ids.draw(16)}")
        if search is not None:
            parts += search
        elif self._record is not None:
            parts.append(self._record)
        return parts + fetches(self._pages, self._ids)

    def _finish(self, claimed: StopReason) -> list[Event]:
        return self._draft.finish(claimed, details=self._details)

    def _cut(self, text: str) -> list[Event]:
        return self._draft.fail(Truncated(text).problem)

    def read(self, chunk: shapes.StreamChunk) -> list[Event]:
        if chunk.error is not None:
            return self._draft.fail(decode_error(chunk.error))
        events: list[Event] = []
        if chunk.response_id or chunk.model_version or chunk.candidates:
            events += self._draft.start(id=chunk.response_id or "", model=chunk.model_version or "")
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            # Gemini API, PromptFeedback: a blocked prompt is a 200 without candidates.
            self._claimed = "refusal"
            self._details = _blocked(chunk.prompt_feedback)
        for candidate in chunk.candidates or ():
            if not candidate.index:
                events += self._read_candidate(candidate)
            else:
                events += self._read_other(candidate.index, candidate, chunk)
        if chunk.usage_metadata is not None:
            events += self._count(chunk.usage_metadata)
        for candidate in chunk.candidates or ():
            events += [] if candidate.index else self._read_end(candidate)
        return events

    def _read_other(
        self, number: int, candidate: shapes.Candidate, chunk: shapes.StreamChunk
    ) -> list[Event]:
        """Return the events of another answer, which has a draft of its own."""
        if not 0 < number < MAX_ANSWERS:
            return self._draft.lose("answer.choices", f"{number} is not the index of a candidate")
        other = self._others.setdefault(number, _Answer(self._ids))
        alone = msgspec.structs.replace(candidate, index=0)
        part = shapes.StreamChunk(
            [alone], response_id=chunk.response_id, model_version=chunk.model_version
        )
        return self._draft.alternative(number, other.read(part))

    def _read_candidate(self, candidate: shapes.Candidate) -> list[Event]:
        events: list[Event] = []
        # Sources come first: a signature among the parts ends the text that they belong to.
        if candidate.grounding_metadata is not None or candidate.citation_metadata is not None:
            self._sources.read(candidate)
        self._record = tool_record(candidate) or self._record
        self._pages = candidate.url_context_metadata or self._pages
        parts = (candidate.content or {}).get("parts")
        for raw in parts if isinstance(parts, list) else ():
            events += self._read_part(raw)
        if candidate.logprobs_result is not None:
            events += self._draft.logprobs(decode_logprobs(candidate.logprobs_result))
        return events

    def _read_end(self, candidate: shapes.Candidate) -> list[Event]:
        reason = candidate.finish_reason
        if not reason or reason == "FINISH_REASON_UNSPECIFIED":
            return []
        # Gemini API, FinishReason: MALFORMED_FUNCTION_CALL and the like leave no usable answer.
        if reason in FAILURES:
            text = candidate.finish_message or f"the model ended with {reason}"
            return self._draft.fail(Problem(FAILURES[reason], text))
        self._claimed = FINISH_REASONS.get(reason, "end")
        self._details = _details(reason, candidate.finish_message)
        return []

    def _count(self, given: Json) -> list[Event]:
        """Report the totals so far; a count that the chunk leaves out stays as it was."""
        counts = convert_counts(given, shapes.Counts)
        for name in counts.__struct_fields__:
            if getattr(counts, name) is not None:
                setattr(self._counts, name, getattr(counts, name))
        return self._draft.usage(decode_usage(self._counts, len(self._sources.queries)))

    # ── parts ────────────────────────────────────────────────────────────────

    def _read_part(self, raw: Json) -> list[Event]:
        try:
            part = msgspec.convert(raw, shapes.Part)
        except msgspec.ValidationError as error:
            # Not raised: the events of earlier parts in this chunk must reach the client.
            text = f"the upstream sent a part that cannot be decoded: {error}"
            return self._draft.fail(BrokenWire(text).problem)
        if part.text is not None:
            return self._read_text(part, part.text)
        if part.function_call is not None:
            return self._read_call(part, part.function_call)
        given = raw if isinstance(raw, dict) else {}
        found = self._builtins.decode(given) or _whole_part(part, given)
        if found is None:
            return self._read_text(part, "")
        events = self._cite()
        self._flow = ""
        return events + self._draft.add(found)

    def _read_text(self, part: shapes.Part, text: str) -> list[Event]:
        # Gemini API, Part: `thought` marks a summary of the thinking.
        kind = "thinking" if part.thought else "text"
        events = self._cite() if part.thought and text else []
        events += self._draft.think(text) if part.thought else self._draft.text(text)
        self._flow = kind if text else self._flow
        for token in decode_signature(part.thought_signature):
            events += self._sign(token, kind)
        return events

    def _sign(self, token: Opaque, kind: str) -> list[Event]:
        """Attach a signature to the open text and end it.

        Gemini API, thought signatures: parts must not be merged across a signed one. A signature
        without a text belongs to a thought that is not shown.
        """
        events = self._cite()
        if self._flow == kind:
            self._draft.tag_call(FLOW, token)
        else:
            events += self._draft.end(FLOW) + self._draft.seal(token)
        self._flow = ""
        return events + self._draft.end(FLOW)

    def _cite(self) -> list[Event]:
        """Attach the sources to the text that ends now."""
        if self._flow != "text" or not self._sources:
            return []
        texts = self._draft.texts
        text, all_text = texts[-1], "".join(texts)
        cited = self._sources.take(len(all_text) - len(text), text, all_text)
        return [event for citation in cited for event in self._draft.cite(citation)]

    def _late_sources(self) -> list[Event]:
        if not self._sources or not self._sources.left("".join(self._draft.texts)):
            return []
        return self._draft.lose(
            "answer.citations", "they came without the text that they belong to"
        )

    # ── calls ────────────────────────────────────────────────────────────────

    def _read_call(self, part: shapes.Part, call: shapes.FunctionCall) -> list[Event]:
        events: list[Event] = []
        if self._pieces is None or call.name:
            events += self._end_pieces(cut=True) + self._start_call(part, call)
        # Vertex AI, streamFunctionCallArguments: an empty call with no willContinue ends a call.
        if call.partial_args or call.will_continue:
            self._pieces = self._pieces or PartialArgs()
        if self._pieces is None:
            events += self._draft.arguments(_CALL, _dumped(call.args or {}))
            return events + self._draft.end(_CALL)
        for piece in call.partial_args or ():
            self._pieces.add(piece)
        return events if call.will_continue else events + self._end_pieces()

    def _start_call(self, part: shapes.Part, call: shapes.FunctionCall) -> list[Event]:
        events = self._cite()
        self._flow = ""
        name = call.name or ""
        for prefix in _PREFIXES:
            name = name.removeprefix(prefix)
        events += self._draft.call(_CALL, name=name, id=call.id or "")
        for token in decode_signature(part.thought_signature):
            self._draft.tag_call(_CALL, token)
        return events

    def _end_pieces(self, *, cut: bool = False) -> list[Event]:
        """End the open call, if there is one."""
        if self._pieces is None:
            return []
        written = _dumped(self._pieces.whole())
        self._pieces = None
        # Without its last brace, a call that was cut is not valid JSON, and no client runs it.
        written = written[:-1] if cut else written
        return self._draft.arguments(_CALL, written) + self._draft.end(_CALL)


def _whole_part(part: shapes.Part, raw: JsonObject) -> Image | Foreign | None:
    """Return an image or a part that only Gemini has; None for a signature without a part."""
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
    if part.inline_data is not None and part.inline_data.mime_type:
        kind = part.inline_data.mime_type.partition("/")[0]  # audio, video, application
    return Foreign(ORIGIN, kind, raw)


def _details(reason: str | None, message: str | None) -> StopDetails | None:
    """Return the reason of a refusal; None if neither a category nor a message is known."""
    category = "" if reason == REFUSED else reason or ""
    if not category and not message:
        return None
    return StopDetails(message or "", category, ORIGIN)


def _blocked(feedback: shapes.PromptFeedback) -> StopDetails:
    """Return the reason of a blocked prompt, with the feedback for clients of the same API."""
    details = _details(feedback.block_reason, feedback.block_reason_message) or _NO_DETAILS
    return msgspec.structs.replace(details, raw={FEEDBACK: msgspec.to_builtins(feedback)})


_NO_DETAILS = StopDetails(origin=ORIGIN)


def _dumped(arguments: JsonObject) -> str:
    try:
        return dumps(arguments)
    except UnicodeEncodeError:  # half a surrogate pair, which only the slow writer accepts
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        return replace_lone_surrogates(text)
