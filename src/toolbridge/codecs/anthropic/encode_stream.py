"""Our events, as Anthropic's answers.

Anthropic's blocks never interleave and their indices have no gaps; ours may do both. The encoder
writes one block at a time, in the order in which they began, and holds what belongs to the others.
"""

from typing import TypeAlias

from toolbridge.codecs.anthropic.counts import write_counts
from toolbridge.codecs.anthropic.shapes import (
    CITATIONS,
    ERROR_TYPES,
    ORIGIN,
    REJECTION_TYPES,
    SHOWS,
    STOPS,
    own_citation,
    own_signature,
    tokens,
    write_details,
)
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words, loss_field, spelled
from toolbridge.core.citations import maybe_link
from toolbridge.core.codec import AnswerContext, Rejection
from toolbridge.core.errors import status_of
from toolbridge.core.json import Json, JsonObject, dump_bytes, dumps
from toolbridge.core.messages import (
    Call,
    Foreign,
    Image,
    Message,
    Part,
    Problem,
    StopReason,
    Text,
    Thinking,
)
from toolbridge.core.retry_after import maybe_wait, retry_headers
from toolbridge.core.usage import Usage
from toolbridge.wire.sse import write_frame

PING = write_frame(b'{"type":"ping"}', b"ping")
_MESSAGE_STOP = write_frame(b'{"type":"message_stop"}', b"message_stop")

# Most of a stream is deltas: constant bytes around one number and one string.
_DELTA_TAIL = b"}}\n\n"
_DELTA_HEAD = (
    b"event: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":%%d,"delta":{"type":"%b","%b":'
)
_DELTA = _DELTA_HEAD + b"%%b" + _DELTA_TAIL
_TEXT_HEAD = _DELTA_HEAD % (b"text_delta", b"text")
_THINKING_DELTA = _DELTA % (b"thinking_delta", b"thinking")
_SIGNATURE_DELTA = _DELTA % (b"signature_delta", b"signature")
_INPUT_DELTA = _DELTA % (b"input_json_delta", b"partial_json")
_CITATION_DELTA = _DELTA % (b"citations_delta", b"citation")

_THINKING: JsonObject = {"type": "thinking", "thinking": "", "signature": ""}

_PASSING = frozenset({408, 409, 429, 499})
"""Statuses of the client's side that another try may mend."""

_NONE = -1
"""The current block, where none is open."""

BlockEvent: TypeAlias = (
    ev.TextStart
    | ev.TextDelta
    | ev.TextEnd
    | ev.ThinkingStart
    | ev.ThinkingDelta
    | ev.ThinkingEnd
    | ev.CallStart
    | ev.CallDelta
    | ev.CallEnd
    | ev.PartAdded
)

_ENDS = (ev.TextEnd, ev.ThinkingEnd, ev.CallEnd, ev.PartAdded)


class StreamEncoder:
    """Events into a stream."""

    def __init__(self, asked: AnswerContext) -> None:
        self._asked = asked
        self._blocks = _BlockWriter()
        self._current = _NONE
        self._held: dict[int, list[BlockEvent]] = {}

    def keep_alive(self) -> bytes:
        return PING

    def feed(self, event: ev.Event, /) -> list[bytes]:
        if isinstance(event, ev.TextDelta) and event.index == self._current:
            # Nearly every event of nearly every stream.
            return [self._blocks.text_head + dump_bytes(event.text) + _DELTA_TAIL]
        match event:
            case ev.Started(id, model):
                return [self._start(id, model)]
            case ev.Finished(reason, message):
                return [self._end(reason, message), _MESSAGE_STOP]
            case ev.Failed(problem):
                # What is open stays open: a half call that was closed would be run.
                return [_frame("error", {"error": _encode_problem(problem)})]
            case ev.UsageReported() | ev.LogprobsReported() | ev.Alternative():
                return []  # The end tells the counts, and that other answers were lost.
            case ev.Healed() | ev.Lost():
                return []  # The end tells the losses; healing is no part of the API.
            case ev.PartAdded():
                return [said for one in spelled(event, SHOWS) for said in self._in_turn(one)]
            case _:
                return self._in_turn(event)

    def close(self) -> list[bytes]:
        return []

    def _start(self, id: str, model: str) -> bytes:
        usage = write_counts(Usage(output=1), self._asked.estimate)
        message = _envelope(id, model, self._asked) | {
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return _frame("message_start", {"message": message})

    def _end(self, reason: StopReason, message: Message) -> bytes:
        usage = write_counts(message.usage, self._asked.estimate)
        ending: JsonObject = {"delta": _ending(reason, message), "usage": usage}
        return _frame("message_delta", ending | loss_field(message, SHOWS))

    def _in_turn(self, event: BlockEvent) -> list[bytes]:
        """Write what belongs to the current block; hold what belongs to a later one."""
        if self._current == _NONE:
            self._current = event.index
        if event.index != self._current:
            self._held.setdefault(event.index, []).append(event)
            return []
        written = self._write(event)
        while self._current == _NONE and self._held:
            self._current = next(iter(self._held))
            for held in self._held.pop(self._current):
                written += self._write(held)
        return written

    def _write(self, event: BlockEvent) -> list[bytes]:
        if isinstance(event, _ENDS):
            self._current = _NONE
        return self._blocks.write(event)


class _BlockWriter:
    """Writes blocks, one after the other, and numbers them."""

    def __init__(self) -> None:
        self._index = 0
        self.text_head = b""
        """What stands in front of every piece of the current text."""
        self._pinged = False
        self._opened = False
        self._argued = False
        """Whether the current call has got any of its arguments."""

    def write(self, event: BlockEvent) -> list[bytes]:
        match event:
            case ev.TextDelta(_, text):
                return [self.text_head + dump_bytes(text) + _DELTA_TAIL]
            case ev.CallDelta(_, json):
                self._argued = True
                return [_INPUT_DELTA % (self._index, dump_bytes(json))]
            case ev.ThinkingDelta(_, text):
                opening = [] if self._opened else self._open(_THINKING)
                return [*opening, _THINKING_DELTA % (self._index, dump_bytes(text))]
            case ev.TextStart():
                self.text_head = _TEXT_HEAD % self._index
                return self._open({"type": "text", "text": ""})
            case ev.CallStart(_, id, name):
                return self._open({"type": "tool_use", "id": id, "name": name, "input": {}})
            case ev.ThinkingStart():
                return []  # It may turn out to be redacted, which is another type of block.
            case _:
                return self._end(event)

    def _end(self, event: ev.TextEnd | ev.ThinkingEnd | ev.CallEnd | ev.PartAdded) -> list[bytes]:
        match event:
            case ev.TextEnd(_, part):
                return [*map(self._cite, _citations(part)), self._close()]
            case ev.ThinkingEnd(_, thought):
                return self._end_thought(thought)
            case ev.CallEnd(_, call):
                arguments = [] if self._argued else [self._argue(_input(call))]
                return [*arguments, self._close()]
            case ev.PartAdded(_, added):
                return self._add(added)

    def _open(self, block: JsonObject) -> list[bytes]:
        self._opened = True
        start = _frame("content_block_start", {"index": self._index, "content_block": block})
        if self._pinged:
            return [start]
        self._pinged = True
        return [start, PING]

    def _close(self) -> bytes:
        stop = _frame("content_block_stop", {"index": self._index})
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
            signature = _SIGNATURE_DELTA % (self._index, dump_bytes(block["signature"]))
            written += [*opening, signature, self._close()]
        return written

    def _add(self, added: Image | Foreign) -> list[bytes]:
        written: list[bytes] = []
        for block in _blocks(added):
            input = block.get("input")
            if isinstance(input, dict) and input:  # an input is read only from deltas
                written += [*self._open(block | {"input": {}}), self._argue(input), self._close()]
            else:
                written += [*self._open(block), self._close()]
        return written

    def _argue(self, input: JsonObject) -> bytes:
        return _INPUT_DELTA % (self._index, dump_bytes(dumps(input)))

    def _cite(self, citation: JsonObject) -> bytes:
        return _CITATION_DELTA % (self._index, dump_bytes(citation))


def _frame(type: str, fields: JsonObject) -> bytes:
    return write_frame(dump_bytes({"type": type, **fields}), type.encode())


# ── whole answers ────────────────────────────────────────────────────────────


def encode_message(message: Message, asked: AnswerContext) -> bytes:
    """Return the whole answer: what folding its stream gives."""
    body = _envelope(message.id, message.model, asked)
    body["content"] = [
        block for part in in_words(message.content, SHOWS) for block in _blocks(part)
    ]
    body |= _ending(message.stop or "end", message)
    body["usage"] = write_counts(message.usage, asked.estimate)
    return dump_bytes(body)


def _envelope(id: str, model: str, asked: AnswerContext) -> JsonObject:
    return {
        "id": id if id.startswith("msg_") else f"msg_{id}",
        "type": "message",
        "role": "assistant",
        "model": asked.request.model or model,
    }


def _ending(reason: StopReason, message: Message) -> JsonObject:
    return {
        "stop_reason": STOPS.get(reason, "end_turn"),
        "stop_sequence": message.stop_sequence or None,
        **write_details(message.stop_details),
    }


def _blocks(part: Part) -> list[JsonObject]:
    """Return a part of an answer as blocks; what an answer of Anthropic cannot hold as none."""
    match part:
        case Text(text):
            citations: list[Json] = [*_citations(part)]
            block: JsonObject = {"type": "text", "text": text}
            return [block | {"citations": citations} if citations else block]
        case Thinking():
            return _thoughts(part)
        case Call(id, name):
            return [{"type": "tool_use", "id": id, "name": name, "input": _input(part)}]
        case Foreign(origin, _, raw) if origin == ORIGIN:
            return [raw]
        case _:
            return []


def _thoughts(thought: Thinking) -> list[JsonObject]:
    """Return a thought as a block with its signature, and each redacted one as its own."""
    signatures = tokens(thought, "signature")
    blocks: list[JsonObject] = [
        {"type": "redacted_thinking", "data": data} for data in tokens(thought, "redacted")
    ]
    if blocks and not thought.text and not signatures:
        return blocks
    signature = signatures[0] if signatures else own_signature(thought.text)
    return [{"type": "thinking", "thinking": thought.text, "signature": signature}, *blocks]


def _citations(part: Text) -> list[JsonObject]:
    """Return the citations of Anthropic's own types, and links as one of those."""
    found: list[JsonObject] = []
    for citation in part.citations:
        if str(citation.get("type")) in CITATIONS:
            found.append(citation)
        elif cited := maybe_link(citation, part.text):
            found.append(own_citation(cited.url, cited.title))
    return found


def _input(call: Call) -> JsonObject:
    return {"raw": call.raw} if call.raw else call.arguments


# ── problems ─────────────────────────────────────────────────────────────────


def encode_rejection(problem: Problem, request_id: str) -> Rejection:
    body = {"type": "error", "error": _encode_problem(problem), "request_id": request_id}
    status = status_of(problem)
    headers = retry_headers(maybe_wait(problem))
    if not headers and (
        problem.permanent
        or problem.kind == "config"
        or (400 <= status < 500 and status not in _PASSING)
    ):
        headers["x-should-retry"] = "false"
    return Rejection(status, dump_bytes(body), headers)


def _encode_problem(problem: Problem) -> JsonObject:
    text = f"{problem.where}: {problem.text}" if problem.where else problem.text
    return {"type": _error_type(problem), "message": text}


def _error_type(problem: Problem) -> str:
    if problem.kind != "rejected":
        return ERROR_TYPES.get(problem.kind, "api_error")
    fault = "invalid_request_error" if 400 <= problem.status < 500 else "api_error"
    return REJECTION_TYPES.get(problem.status, fault)
