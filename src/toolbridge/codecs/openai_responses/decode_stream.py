"""Answers of the Responses API, streams and whole bodies, to events.

OpenAI Responses, streaming events: every item is announced (`output_item.added`), streamed in
deltas and completed (`output_item.done`); the last event repeats the whole response with its usage.
A whole body is read as such a last event. Compatible servers deviate: items without `output_index`,
items without an announcement, arguments only at the end, one index for two items. All are read.
"""

from collections.abc import Callable

import msgspec

from toolbridge.codecs.openai_responses.builtins import BY_CALL
from toolbridge.codecs.openai_responses.decode_hosted import HOSTED_TYPES
from toolbridge.codecs.openai_responses.decode_output_items import (
    OUTPUTS,
    HostedOutput,
    ImageOutput,
    MessageOutput,
    OutputItem,
)
from toolbridge.codecs.openai_responses.rejections import decode_error
from toolbridge.codecs.openai_responses.shapes import INCOMPLETE, Error, Item, Reply, StreamEvent
from toolbridge.codecs.openai_responses.usage import decode_usage
from toolbridge.core.draft import Draft
from toolbridge.core.errors import Aborted, BrokenWire, Truncated, UpstreamError
from toolbridge.core.events import Event
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, maybe_object
from toolbridge.core.messages import Problem, StopReason
from toolbridge.wire.rejections import read_error
from toolbridge.wire.reply import ReplyReader, WholeBody
from toolbridge.wire.shapes import decode_chunk
from toolbridge.wire.sse import SseEvent

_events = msgspec.json.Decoder(StreamEvent)
_replies = msgspec.json.Decoder(Reply)

_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""The status of the answer by the type of its last event."""
_DELTAS = {
    "response.output_text.delta": ("message", "text"),
    "response.refusal.delta": ("message", "refusal"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary"),
    "response.reasoning_text.delta": ("reasoning", "content"),
    "response.reasoning.delta": ("reasoning", "content"),
    "response.function_call_arguments.delta": ("function_call", ""),
    "response.custom_tool_call_input.delta": ("custom_tool_call", ""),
}
"""The type of the item and the channel of a delta, by the type of the event."""
_WHOLES = {name.replace(".delta", ".done"): kind for name, kind in _DELTAS.items()}
_OTHERS = frozenset(
    {
        "response.created", "response.in_progress", "response.output_item.added",
        "response.output_item.done", "response.output_text.annotation.added", "error",
    }
)  # fmt: skip


class StreamDecoder:
    """Bytes of a stream or of a whole body in, events out."""

    def __init__(self, ids: Ids) -> None:
        self._answer = _Answer(ids)
        self._reply = ReplyReader()

    def feed(self, piece: bytes, /) -> list[Event]:
        try:
            return self._answer.read_all(self._reply.feed(piece))
        except BrokenWire as error:
            return self._answer.fail(error.problem)

    def close(self) -> list[Event]:
        try:
            events = self._answer.read_all(self._reply.close())
        except UpstreamError as error:
            return self._answer.fail(error.problem)
        return events + self._answer.close()


def _decode_record(record: SseEvent | WholeBody) -> list[StreamEvent]:
    """Return the event of an SSE record, or the events that a whole body stands for.

    An unknown event is dropped.
    """
    if isinstance(record, WholeBody):
        return _decode_body(record.data)
    try:
        event = decode_chunk(record.data, _events)
    except BrokenWire:
        # OpenAI Responses has no [DONE]; some compatible servers send it all the same.
        if record.data == b"[DONE]" or _is_unknown(maybe_object(record.data)):
            return []
        raise
    event.type = event.type or record.event
    return [event]


def _is_unknown(found: JsonObject | None) -> bool:
    """Return True for an event of an unknown type, whose fields may have any shape."""
    if found is None:
        return False
    type = str(found.get("type"))
    return not any(type in known for known in (_ENDS, _DELTAS, _WHOLES, _OTHERS))


def _decode_body(body: bytes) -> list[StreamEvent]:
    """Return a whole body as the first and the last event of a stream."""
    found = maybe_object(body) or {}
    if found.get("error") and "output" not in found:
        type, text = read_error(body)
        return [StreamEvent("error", error=Error(text, type))]
    reply = decode_chunk(body, _replies)
    if reply.output is None:
        raise BrokenWire("the upstream sent JSON that is no answer")
    return [
        StreamEvent("response.created", response=reply),
        StreamEvent(f"response.{reply.status or 'completed'}", response=reply),
    ]


class _Answer:
    """Builds one answer from the events of its stream."""

    def __init__(self, ids: Ids) -> None:
        self._draft = Draft(ids)
        self._outputs: list[OutputItem] = []
        self._open: dict[int | str, OutputItem] = {}
        """By `output_index`; by id for servers that send no index."""
        self._named: dict[str, OutputItem] = {}
        """By id: some events have only the id of their item."""
        self._last: int | str = ""
        self._others: dict[str, Callable[[StreamEvent], list[Event]]] = {
            "response.created": self._start,
            "response.in_progress": self._start,
            "response.output_item.added": self._add,
            "response.output_item.done": self._end_item,
            "response.output_text.annotation.added": self._cite,
            "error": self._read_error,
        }

    def read_all(self, reply: list[SseEvent | WholeBody]) -> list[Event]:
        """Read the records of a reply; one that cannot be decoded fails the answer."""
        events: list[Event] = []
        try:
            for record in reply:
                for event in _decode_record(record):
                    events += self._read(event)
        except BrokenWire as error:
            events += self._draft.fail(error.problem)
        return events

    def fail(self, problem: Problem) -> list[Event]:
        return self._draft.fail(problem)

    def close(self) -> list[Event]:
        text = "the provider's stream ended before the last event of the response"
        return self._draft.fail(Truncated(text).problem)

    def _read(self, event: StreamEvent) -> list[Event]:
        if self._draft.ended:
            return []
        if event.type in _DELTAS:
            return self._write(event, *_DELTAS[event.type])
        if event.type in _WHOLES:
            return self._fill(event, *_WHOLES[event.type])
        if event.type in _ENDS:
            return self._finish(event.response or Reply(), _ENDS[event.type])
        # OpenAI adds event types without notice: unknown ones are ignored, unless they are errors.
        if event.type in self._others:
            return self._others[event.type](event)
        return self._read_error(event) if event.error is not None else []

    def _start(self, event: StreamEvent) -> list[Event]:
        reply = event.response or Reply()
        return self._draft.start(id=reply.id, model=reply.model)

    # ── items ────────────────────────────────────────────────────────────────

    def _key(self, event: StreamEvent, id: str) -> int | str:
        """Return the key of an event's item: its index, because some servers change its id."""
        if event.output_index is not None:
            self._last = event.output_index
        elif id and id not in self._named:
            self._last = id
        return self._last

    def _add(self, event: StreamEvent) -> list[Event]:
        item = _read_item(event.item or {})
        key = self._key(event, item.id or "")
        numbered = event.output_index is not None
        known = self._open.get(key) if numbered else self._named.get(item.id or "")
        if known is not None and _names(known.item) == _names(item):
            return []  # announced twice
        events = self._settle(key)
        if not numbered:
            events += self._settle_flow()
        output = self._open[key] = self._output(item)
        return events + output.begin()

    def _settle_flow(self) -> list[Event]:
        """End messages and thoughts before the next item of a server that sends no index.

        Such a server writes items in sequence, but may complete all of them after the last.
        """
        events: list[Event] = []
        for key, output in [*self._open.items()]:
            if output.kind in {"message", "reasoning"}:
                events += self._settle(key)
        return events

    def _output(self, item: Item) -> OutputItem:
        output = OUTPUTS.get(item.type, OutputItem)(self._draft, item)
        self._outputs.append(output)
        if item.id:
            self._named[item.id] = output
        return output

    def _at(self, event: StreamEvent, kind: str) -> tuple[OutputItem, list[Event]]:
        """Return the item of an event; one that was not announced is created."""
        key = self._key(event, event.item_id or "")
        for output in (self._named.get(event.item_id or ""), self._open.get(key)):
            if output is not None and output.kind == kind:
                return output, []
        events = self._settle(key)
        output = self._open[key] = self._output(Item(kind, event.item_id))
        return output, events

    def _write(self, event: StreamEvent, kind: str, channel: str) -> list[Event]:
        output, events = self._at(event, kind)
        if output.done:
            return events
        events += output.write(_piece(event.delta), _part_index(event, channel), channel)
        if event.logprobs and isinstance(output, MessageOutput):
            events += output.add_logprobs(event.logprobs)
        return events

    def _fill(self, event: StreamEvent, kind: str, channel: str) -> list[Event]:
        output, events = self._at(event, kind)
        if output.done:
            return events
        found = (event.text, event.refusal, event.arguments, event.input)
        whole = next((text for text in found if text is not None), "")
        return events + output.fill(whole, _part_index(event, channel), channel)

    def _cite(self, event: StreamEvent) -> list[Event]:
        output, events = self._at(event, "message")
        if isinstance(output, MessageOutput) and event.annotation:
            output.cite(event.annotation, event.content_index)
        return events

    def _end_item(self, event: StreamEvent) -> list[Event]:
        raw = event.item or {}
        item = _read_item(raw)
        key = self._key(event, item.id or event.item_id or "")
        for output in (self._named.get(item.id or ""), self._open.get(key)):
            if output is not None and output.kind == _kind(item.type):
                return self._end(output, item, raw)
        events = self._settle(key)
        output = self._open[key] = self._output(item)
        return events + self._end(output, item, raw)

    def _end(self, output: OutputItem, item: Item, raw: JsonObject) -> list[Event]:
        if output.done:
            return []
        output.done = True
        return output.finish(item, raw)

    def _settle(self, key: int | str, status: str | None = None) -> list[Event]:
        """End an item without its `output_item.done`, which may still arrive and complete it."""
        output = self._open.pop(key, None)
        if output is None or output.done:
            return []
        return output.finish(Item(output.kind, status=status), {})

    # ── the end ──────────────────────────────────────────────────────────────

    def _finish(self, reply: Reply, claimed: str) -> list[Event]:
        events = self._draft.start(id=reply.id, model=reply.model)
        # Some servers end every answer with `response.completed`; the status is more precise.
        status = reply.status if f"response.{reply.status}" in _ENDS else claimed
        if status in {"failed", "cancelled"}:
            return events + self._count(reply) + self._fail(reply, status)
        for index, raw in enumerate(reply.output or ()):
            events += self._reconcile(index, raw)
        for key in [*self._open]:
            events += self._settle(key, status)
        return events + self._count(reply) + self._draft.finish(self._stop(reply, status))

    def _reconcile(self, index: int, raw: JsonObject) -> list[Event]:
        """Read an item of the last event: it completes a known item, or is a new one."""
        item = _read_item(raw)
        at_index = self._outputs[index] if index < len(self._outputs) else None
        for known in (self._named.get(item.id or ""), at_index):
            if known is not None and known.kind == _kind(item.type):
                return self._end(known, item, raw)
        return self._end(self._output(item), item, raw)

    def _stop(self, reply: Reply, status: str) -> StopReason:
        if status == "incomplete":
            # OpenAI Responses: max_output_tokens, content_filter, steered …
            reason = reply.incomplete_details and reply.incomplete_details.reason
            return INCOMPLETE.get(reason or "", "length")
        # OpenAI Responses: a refusal is a content part; the status is still `completed`.
        messages = (output for output in self._outputs if isinstance(output, MessageOutput))
        return "refusal" if any(output.refused for output in messages) else "end"

    def _count(self, reply: Reply) -> list[Event]:
        if reply.usage is None:
            return []
        hosted = (output for output in self._outputs if isinstance(output, HostedOutput))
        searches = sum(output.searched for output in hosted)
        return self._draft.usage(decode_usage(reply.usage, reply.tool_usage, searches))

    def _fail(self, reply: Reply, status: str) -> list[Event]:
        if status == "cancelled":
            return self._draft.fail(Aborted("the provider cancelled the response").problem)
        return self._draft.fail(decode_error(reply.error or Error()))

    def _read_error(self, event: StreamEvent) -> list[Event]:
        error = event.error or Error(event.message, code=event.code)
        return self._draft.fail(decode_error(error))


def _part_index(event: StreamEvent, channel: str) -> int:
    return event.summary_index if channel == "summary" else event.content_index


def _piece(delta: Json) -> str:
    """Return the text of a delta; early servers sent `{"text": …}` for reasoning."""
    if isinstance(delta, dict):
        delta = delta.get("text")
    return delta if isinstance(delta, str) else ""


def _names(item: Item) -> tuple[str, str | None, str | None]:
    return item.type, item.id, item.call_id


def _kind(type: str) -> str:
    return type if type in OUTPUTS else ""


_READ = OUTPUTS.keys() - BY_CALL.keys() - HOSTED_TYPES - {ImageOutput.kind}
"""The types of items whose fields are all known."""
_NAMES = ("id", "call_id", "status")
"""The fields that are read of every other item."""


def _read_item(raw: JsonObject) -> Item:
    type = raw.get("type")
    if not isinstance(type, str) or type not in _READ:
        names = {name: raw[name] for name in _NAMES if isinstance(raw.get(name), str)}
        return msgspec.convert(names | {"type": str(type or "")}, Item)
    try:
        return msgspec.convert(raw, Item)
    except msgspec.ValidationError as error:
        raise BrokenWire(f"an output item of the provider cannot be read: {error}") from None
