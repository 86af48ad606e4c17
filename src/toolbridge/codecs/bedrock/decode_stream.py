"""Answers of the Converse API, as our events.

A stream is an AWS event stream. Amazon Bedrock, ConverseStream: text blocks have no start, the stop
reason comes before the counts, and an exception may come after any event. A whole answer is one JSON
object and is read as the stream that would have carried it.
"""

import msgspec

from toolbridge.codecs.bedrock.rejections import decode_error
from toolbridge.codecs.bedrock.shapes import (
    MALFORMED,
    STOP_REASONS,
    Block,
    Counts,
    Message,
    Output,
    Reasoning,
    Reply,
    StreamEvent,
    ToolUse,
)
from toolbridge.codecs.bedrock.thinking import redacted, signature
from toolbridge.codecs.bedrock.usage import decode_usage
from toolbridge.core.draft import Draft
from toolbridge.core.errors import BrokenWire, ModelError, Truncated, UpstreamError
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, dumps, maybe_object
from toolbridge.wire.aws_errors import read_aws_problem
from toolbridge.wire.event_stream import EventMessage, EventStreamReader
from toolbridge.wire.rejections import read_error
from toolbridge.wire.shapes import convert_counts, decode_chunk

_events = msgspec.json.Decoder(StreamEvent)
_replies = msgspec.json.Decoder(Reply)
_BLANKS = b" \t\r\n"
_KNOWN = frozenset(
    {
        "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop",
        "messageStop", "metadata",
    }
)  # fmt: skip


class StreamDecoder:
    """Decodes an event stream, or a whole body, into events."""

    def __init__(self, ids: Ids) -> None:
        self._answer = _Answer(ids)
        self._messages = EventStreamReader()
        self._body: list[bytes] | None = None
        """The pieces of a reply that is one JSON object."""
        self._begun = False

    def feed(self, piece: bytes, /) -> list[Event]:
        if not self._begun:
            # The first byte of a stream is that of a length, and no message has 2 GB.
            piece = piece.lstrip(_BLANKS)
            if not piece:
                return []
            self._begun = True
            self._body = [] if piece.startswith(b"{") else None
        if self._body is not None:
            self._body.append(piece)
            return []
        try:
            return self._answer.read_all(self._messages.feed(piece))
        except BrokenWire as error:
            return self._answer.draft.fail(error.problem)

    def close(self) -> list[Event]:
        try:
            if self._body is not None:
                return self._answer.read_whole(b"".join(self._body))
            return self._answer.read_all(self._messages.close()) + self._answer.close()
        except UpstreamError as error:
            return self._answer.draft.fail(error.problem)


class _Answer:
    """The answer so far: turns Bedrock's events into ours."""

    def __init__(self, ids: Ids) -> None:
        self.draft = Draft(ids)
        self._stop_reason = ""

    def read_all(self, messages: list[EventMessage]) -> list[Event]:
        events: list[Event] = []
        try:
            for message in messages:
                if message.type != "event":
                    events += self.draft.fail(decode_error(message))
                elif message.name in _KNOWN:  # an unknown event is newer than this codec
                    events += self._read(message.name, decode_chunk(message.payload, _events))
        except BrokenWire as error:
            events += self.draft.fail(error.problem)
        return events

    def read_whole(self, body: bytes) -> list[Event]:
        """Read a whole answer, or an error that came with a status of success."""
        found = maybe_object(body) or {}
        if "output" not in found and "message" in found:
            return self.draft.fail(read_aws_problem("", read_error(body)[1]))
        reply = decode_chunk(body, _replies)
        content = ((reply.output or Output()).message or Message()).content
        if content is None:
            raise BrokenWire("the provider sent JSON that is no answer")
        events = self.draft.start()
        for index, block in enumerate(content):
            events += self._start_block(index, block)
            events += self._read_delta(index, block)
            events += self._stop_block(index)
        self._stop_reason = reply.stop_reason or ""
        return events + self._count(reply.usage) + self.close()

    def close(self) -> list[Event]:
        if not self._stop_reason:
            why = "the provider closed the stream before its answer ended"
            return self.draft.fail(Truncated(why).problem)
        if self._stop_reason in MALFORMED:
            why = f"the model broke its answer ({self._stop_reason}); send the request again"
            return self.draft.fail(ModelError(why).problem)
        return self.draft.finish(STOP_REASONS.get(self._stop_reason, "end"))

    def _read(self, name: str, event: StreamEvent) -> list[Event]:
        index = event.content_block_index
        match name:
            case "contentBlockDelta":
                return self._read_delta(index, event.delta or Block())
            case "contentBlockStart":
                return self._start_block(index, event.start or Block())
            case "contentBlockStop":
                return self._stop_block(index)
            case "messageStart":
                return self.draft.start()
            case "messageStop":
                self._stop_reason = event.stop_reason or "end_turn"
                return []
            # Amazon Bedrock, ConverseStream: `metadata` with the counts is the last event.
            case _:
                counted = self._count(event.usage)
                return counted + self.close() if self._stop_reason else counted

    # ── blocks ───────────────────────────────────────────────────────────────

    def _start_block(self, index: int, block: Block) -> list[Event]:
        if block.tool_use is None:
            return []
        tool = block.tool_use
        return self.draft.call(("call", index), name=tool.name or "", id=tool.tool_use_id or "")

    def _read_delta(self, index: int, delta: Block) -> list[Event]:
        if delta.text is not None:
            return self.draft.text(delta.text, ("text", index))
        if delta.tool_use is not None:
            return self._read_input(index, delta.tool_use)
        if delta.reasoning_content is not None:
            return self._read_reasoning(index, delta.reasoning_content)
        if delta.image is not None:
            return self.draft.lose("answer.images", "images of Converse are not read")
        if delta.citation is not None or delta.citations_content is not None:
            return self._read_citations(index, delta)
        return []

    def _read_citations(self, index: int, delta: Block) -> list[Event]:
        """Return the text of a whole block with citations; the citations themselves are lost."""
        events = self.draft.lose(
            "answer.citations", "citations of Converse are not read", minor=True
        )
        parts = (delta.citations_content or {}).get("content")
        for part in parts if isinstance(parts, list) else ():
            text = part.get("text") if isinstance(part, dict) else None
            events += self.draft.text(text if isinstance(text, str) else "", ("text", index))
        return events

    def _read_input(self, index: int, tool: ToolUse) -> list[Event]:
        if not self.draft.is_open(("call", index)):
            return []
        if isinstance(tool.input, str):
            return self.draft.arguments(("call", index), tool.input)
        text = "" if tool.input is None else dumps(tool.input)
        return self.draft.arguments(("call", index), text)

    def _read_reasoning(self, index: int, reasoning: Reasoning) -> list[Event]:
        key = ("thinking", index)
        whole = reasoning.reasoning_text
        text = whole.text if whole else reasoning.text
        sign = whole.signature if whole else reasoning.signature
        events = self.draft.think(text or "", key)
        if sign:
            events += self.draft.seal(signature(sign), key)
        if reasoning.redacted_content:
            events += self.draft.seal(redacted(reasoning.redacted_content), key)
        return events

    def _stop_block(self, index: int) -> list[Event]:
        events: list[Event] = []
        for kind in ("text", "thinking", "call"):
            events += self.draft.end((kind, index))
        return events

    def _count(self, counts: Json) -> list[Event]:
        if counts is None:
            return []
        return self.draft.usage(decode_usage(convert_counts(counts, Counts)))
