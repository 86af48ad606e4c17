"""Our events, as answers of the Messages API.

Anthropic, streaming: blocks follow one another, and their indices have no gaps. Ours may interleave,
so `BlockOrder` puts them in order and `_BlockWriter` numbers them.
"""

from itertools import groupby
from operator import attrgetter

import msgspec

from toolbridge.codecs.anthropic.citations import encode_citations
from toolbridge.codecs.anthropic.plain_answers import (
    DELTA_HEAD,
    DELTA_TAIL,
    LEAST_EDGE,
    MESSAGE_STOP,
    PING,
    STOP,
    TEXT_HEAD,
    TEXT_START,
    joined,
    own_id,
    write_beginning,
    write_ending,
    write_whole,
)
from toolbridge.codecs.anthropic.rejections import encode_error
from toolbridge.codecs.anthropic.server_blocks import encode_server_block, has_block
from toolbridge.codecs.anthropic.shapes import ORIGIN, SHOWS, STOPS, encode_details
from toolbridge.codecs.anthropic.signatures import own_signature, own_tokens
from toolbridge.codecs.anthropic.usage import encode_usage
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words, loss_field, spelled
from toolbridge.core.block_order import BlockEvent, BlockOrder
from toolbridge.core.codec import AnswerContext
from toolbridge.core.fold import Fold
from toolbridge.core.json import Json, JsonObject, dump_bytes, dumps
from toolbridge.core.messages import (
    Call,
    Foreign,
    Message,
    Part,
    StopReason,
    Text,
    Thinking,
)
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.core.usage import Usage
from toolbridge.wire.sse import write_event

_encode = msgspec.json.Encoder().encode
_index_of = attrgetter("index")
_text_of = attrgetter("text")

_DELTA = DELTA_HEAD + b"%%b" + DELTA_TAIL
_THINKING_DELTA = _DELTA % (b"thinking_delta", b"thinking")
_SIGNATURE_DELTA = _DELTA % (b"signature_delta", b"signature")
_INPUT_DELTA = _DELTA % (b"input_json_delta", b"partial_json")
_CITATION_DELTA = _DELTA % (b"citations_delta", b"citation")

_THINKING: JsonObject = {"type": "thinking", "thinking": "", "signature": ""}


class StreamEncoder:
    """Encodes events as SSE events."""

    __slots__ = ("_asked", "_blocks", "_fold", "_in_text", "_order")

    def __init__(self, asked: AnswerContext) -> None:
        self._asked = asked
        self._fold = Fold()
        """The answer without its deltas: message_delta reports its counts and losses."""
        self._blocks = _BlockWriter()
        self._order = BlockOrder()
        self._in_text = False
        """True if all that was fed is the beginning of an answer that is one text."""

    def keep_alive(self) -> bytes:
        return PING

    def feed_all(self, events: list[ev.Event]) -> list[bytes]:
        """Feed the events of one delivery."""
        if len(events) == 1:
            only = events[0]
            if not isinstance(only, ev.TextDelta) or only.index != self._order.current:
                return self.feed(only)
            try:
                return [self._blocks.text_head + _encode(only.text) + DELTA_TAIL]
            except UnicodeEncodeError:  # a lone surrogate
                return self.feed(only)
        if len(events) >= LEAST_EDGE and (edge := self._edge(events)):
            return [edge]
        written: list[bytes] = []
        for kind, run in groupby(events, type):
            if kind is not ev.TextDelta:
                for event in run:
                    written += self.feed(event)
                continue
            # A shortcut for the most frequent events: a delivery may have hundreds.
            deltas = [*run]
            if {*map(_index_of, deltas)} != {self._order.current}:
                written += [data for event in deltas for data in self.feed(event)]
                continue
            head = self._blocks.text_head
            between = DELTA_TAIL + head
            try:
                pieces = joined(deltas, between)
            except UnicodeEncodeError:  # a lone surrogate
                pieces = between.join(map(dump_bytes, map(_text_of, deltas)))
            written.append(head + pieces + DELTA_TAIL)
        return written

    def feed(self, event: ev.Event, /) -> list[bytes]:
        if not isinstance(event, ev.DELTAS):
            self._in_text = False
            self._fold.feed(event)
        if isinstance(event, ev.TextStart | ev.TextEnd):
            return self._write(event)
        match event:
            case ev.Started(id, model):
                return [self._start(id, model)]
            case ev.Finished(reason):
                return [self._end(reason, self._fold.message), MESSAGE_STOP]
            case ev.Failed(problem):
                # Open blocks stay open: a client would run half a call that was closed.
                return [_event("error", {"error": encode_error(problem)})]
            case ev.UsageReported() | ev.LogprobsReported() | ev.Alternative():
                return []  # Counts and the loss of other answers are in message_delta.
            case ev.Healed() | ev.Lost():
                return []  # Losses are in message_delta; the API has no field for healing.
            case ev.PartAdded():
                return [data for one in spelled(event, SHOWS) for data in self._write(one)]
            case _:
                return self._write(event)

    def _edge(self, events: list[ev.Event]) -> bytes:
        """Return the bytes of a whole answer, a beginning or an end that is one text; else b""."""
        if self._in_text:
            return write_ending(events, self._asked)
        if whole := write_whole(events, self._asked):
            return whole
        beginning = write_beginning(events, self._asked)
        if beginning and isinstance(start := events[1], ev.TextStart):
            self._fold.feed_all([events[0], start])
            self._order.feed(start)
            self._blocks.write(start)
            self._in_text = True
        return beginning

    def close(self) -> list[bytes]:
        return []

    def _start(self, id: str, model: str) -> bytes:
        # Claude Code keeps these counts unless those of message_delta are above 0.
        usage = encode_usage(Usage(output=1), self._asked.estimate)
        message = _envelope(id, model, self._asked) | {
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return _event("message_start", {"message": message})

    def _end(self, reason: StopReason, message: Message) -> bytes:
        usage = encode_usage(message.usage, self._asked.estimate)
        ending: JsonObject = {"delta": _ending(reason, message), "usage": usage}
        return _event("message_delta", ending | loss_field(message, SHOWS))

    def _write(self, event: BlockEvent) -> list[bytes]:
        ordered = self._order.feed(event)
        return [data for one in ordered for data in self._blocks.write(one)]


class _BlockWriter(msgspec.Struct, eq=False, gc=False):
    """Writes one block after the other and numbers them."""

    _index: int = 0
    text_head: bytes = b""
    """The bytes before each piece of the current text."""
    _pinged: bool = False
    _opened: bool = False
    _argued: bool = False
    """True once a delta of the current call was written."""

    def write(self, event: BlockEvent) -> list[bytes]:
        match event:
            case ev.TextDelta(_, text):
                return [self.text_head + dump_bytes(text) + DELTA_TAIL]
            case ev.CallDelta(_, json):
                self._argued = True
                return [_INPUT_DELTA % (self._index, dump_bytes(json))]
            case ev.ThinkingDelta(_, text):
                opening = [] if self._opened else self._open(_THINKING)
                return [*opening, _THINKING_DELTA % (self._index, dump_bytes(text))]
            case ev.TextStart():
                self.text_head = TEXT_HEAD % self._index
                return self._opened_with(TEXT_START % self._index)
            # Anthropic, streaming: `input` is {} in the start; deltas carry its JSON text.
            case ev.CallStart(_, id, name):
                return self._open({"type": "tool_use", "id": id, "name": name, "input": {}})
            case ev.ThinkingStart():
                return []  # A redacted thought is a block of another type; its first delta decides.
            case _:
                return self._end(event)

    def _end(self, event: ev.TextEnd | ev.ThinkingEnd | ev.CallEnd | ev.PartAdded) -> list[bytes]:
        match event:
            case ev.TextEnd(_, part):
                return [*map(self._cite, encode_citations(part)), self._close()]
            case ev.ThinkingEnd(_, thought):
                return self._end_thought(thought)
            case ev.CallEnd(_, call):
                arguments = [] if self._argued else [self._argue(_input(call))]
                return [*arguments, self._close()]
            case ev.PartAdded(_, added):
                return self._add(added)

    def _open(self, block: JsonObject) -> list[bytes]:
        fields: JsonObject = {"index": self._index, "content_block": block}
        return self._opened_with(_event("content_block_start", fields))

    def _opened_with(self, start: bytes) -> list[bytes]:
        self._opened = True
        if self._pinged:
            return [start]
        # Anthropic, streaming: a ping may come at any time, and usually after the first start.
        self._pinged = True
        return [start, PING]

    def _close(self) -> bytes:
        stop = STOP % self._index
        self._index += 1
        self._opened = self._argued = False
        return stop

    def _end_thought(self, thought: Thinking) -> list[bytes]:
        written: list[bytes] = []
        for block in _thoughts(thought):
            if block["type"] != "thinking":
                written += [*self._open(block), self._close()]
                continue
            opening = [] if self._opened else self._open(_THINKING)
            # Anthropic, extended thinking: the signature comes just before content_block_stop.
            signature = _SIGNATURE_DELTA % (self._index, dump_bytes(block["signature"]))
            written += [*opening, signature, self._close()]
        return written

    def _add(self, added: ev.AddedPart) -> list[bytes]:
        written: list[bytes] = []
        for block in _blocks(added):
            input = block.get("input")
            if isinstance(input, dict) and input:  # SDKs read the input of a block only from deltas
                written += [*self._open(block | {"input": {}}), self._argue(input), self._close()]
            else:
                written += [*self._open(block), self._close()]
        return written

    def _argue(self, input: JsonObject) -> bytes:
        return _INPUT_DELTA % (self._index, dump_bytes(dumps(input)))

    def _cite(self, citation: JsonObject) -> bytes:
        return _CITATION_DELTA % (self._index, dump_bytes(citation))


def _event(type: str, fields: JsonObject) -> bytes:
    return write_event(dump_bytes({"type": type, **fields}), type.encode())


# ── whole answers ────────────────────────────────────────────────────────────


def encode_message(message: Message, asked: AnswerContext) -> bytes:
    """Return the whole answer: the sum of the events of its stream."""
    body = _envelope(message.id, message.model, asked)
    content = message.content
    if len(content) == 1 and type(only := content[0]) is Text and not only.citations:
        body["content"] = [{"type": "text", "text": only.text}]  # nearly every answer
    else:
        body["content"] = [block for part in in_words(content, SHOWS) for block in _blocks(part)]
    body |= _ending(message.stop or "end", message)
    body["usage"] = encode_usage(message.usage, asked.estimate)
    return dump_bytes(body)


def _envelope(id: str, model: str, asked: AnswerContext) -> JsonObject:
    return {
        "id": own_id(id),
        "type": "message",
        "role": "assistant",
        "model": asked.request.model or model,
    }


def _ending(reason: StopReason, message: Message) -> JsonObject:
    ending: JsonObject = {
        "stop_reason": STOPS.get(reason, "end_turn"),
        "stop_sequence": message.stop_sequence or None,
    }
    details = message.stop_details
    return ending if details is None else ending | encode_details(details)


def _blocks(part: Part) -> list[JsonObject]:
    """Return the blocks of a part; no block for a part that an answer cannot hold."""
    match part:
        case Text(text):
            citations: list[Json] = [*encode_citations(part)]
            block: JsonObject = {"type": "text", "text": text}
            return [block | {"citations": citations} if citations else block]
        case Thinking():
            return _thoughts(part)
        case Call(id, name):
            return [{"type": "tool_use", "id": id, "name": name, "input": _input(part)}]
        case Foreign(origin, _, raw) if origin == ORIGIN:
            return [raw]
        case ServerCall() | ServerResult():
            return [encode_server_block(part)] if has_block(part) else []
        case _:
            return []


def _thoughts(thought: Thinking) -> list[JsonObject]:
    """Return a thought as a block with a signature, followed by a block per redacted thought."""
    signatures = own_tokens(thought, "signature")
    blocks: list[JsonObject] = [
        {"type": "redacted_thinking", "data": data} for data in own_tokens(thought, "redacted")
    ]
    if blocks and not thought.text and not signatures:
        return blocks
    signature = signatures[0] if signatures else own_signature(thought.text)
    return [{"type": "thinking", "thinking": thought.text, "signature": signature}, *blocks]


def _input(call: Call) -> JsonObject:
    return {"raw": call.raw} if call.raw else call.arguments
