"""Our events, as answers of the Responses API.

Clients take one item at a time: Codex adds text to the item that was announced last. Ours may
interleave, so the encoder writes one block after the other, in the order in which they began, and
holds what belongs to the others.
"""

import math
from hashlib import blake2b

from toolbridge.codecs.openai_responses.encode_blocks import (
    BlockEvent,
    BlockWriter,
    EventNumbers,
    open_block,
    write_refusal,
)
from toolbridge.codecs.openai_responses.envelope import (
    ResponseEnvelope,
    ToolNames,
    add_logprobs,
    encode_parts,
    failure,
    refusal_item,
)
from toolbridge.codecs.openai_responses.marks import own_id
from toolbridge.codecs.openai_responses.shapes import ERROR_TYPES, SHOWS
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words, loss_field, spelled
from toolbridge.core.codec import AnswerContext, Rejection
from toolbridge.core.errors import status_of
from toolbridge.core.fold import Fold
from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.core.logprobs import write_logprobs
from toolbridge.core.messages import Message, Problem

_WAIT = 5.0
"""Seconds before asking again, where the upstream names none: without the header, clients give up."""
_PASSING = frozenset({408, 409, 429, 499})
"""Statuses of the client's side that another try may mend."""

_NONE = -1
"""The current block, where none is open."""


class StreamEncoder:
    """Events into a stream."""

    def __init__(self, asked: AnswerContext) -> None:
        self._asked = asked
        self._fold = Fold()
        """The answer without its deltas: its last event reports counts and losses."""
        self._names = ToolNames(asked.request)
        self._tape = EventNumbers()
        self._envelope: ResponseEnvelope | None = None
        self._block: BlockWriter | None = None
        self._current = _NONE
        self._held: dict[int, list[BlockEvent]] = {}
        self._ended = False

    @property
    def id(self) -> str:
        """The id that the client has seen; nothing before the answer began."""
        return self._envelope.id if self._envelope else ""

    def keep_alive(self) -> bytes:
        """Return an event that changes nothing: Codex does not count comments as life."""
        if self._ended:
            return b""
        if self._envelope is None:
            return b"".join(self._start(_early_id(self._asked), ""))
        return self._tape.frame("response.in_progress", {"response": self._envelope.begun()})

    def continue_from(self, number: int) -> None:
        self._tape.next_number = number

    def feed(self, event: ev.Event, /) -> list[bytes]:
        if isinstance(event, ev.DELTAS):
            if event.index == self._current and self._block is not None:
                return self._block.write(event)  # nearly every event of nearly every stream
        else:
            self._fold.feed(event)
        match event:
            case ev.Started(id, model):
                return self._start(id, model)
            case ev.Finished() | ev.Failed():
                return self._end(event)
            case ev.LogprobsReported(tokens):
                self._tape.logprobs += write_logprobs(tokens)  # told at the end of the text
                return []
            case ev.UsageReported() | ev.Healed() | ev.Lost() | ev.Alternative():
                return []  # The end tells the counts and losses; healing is no part of the API.
            case ev.PartAdded():
                return [said for one in spelled(event, SHOWS) for said in self._in_turn(one)]
            case _:
                return self._in_turn(event)

    def close(self) -> list[bytes]:
        return []

    def _start(self, id: str, model: str) -> list[bytes]:
        if self._envelope is not None:  # a keep-alive had to begin before the upstream did
            return []
        self._envelope = ResponseEnvelope(self._asked, id, model)
        self._tape.stem = self._envelope.id.removeprefix("resp_")
        response = self._envelope.begun()
        return [
            self._tape.frame("response.created", {"response": response}),
            self._tape.frame("response.in_progress", {"response": response}),
        ]

    def _end(self, event: ev.Finished | ev.Failed) -> list[bytes]:
        message = self._fold.message
        said = self._start(message.id or _early_id(self._asked), message.model)
        envelope = self._envelope or ResponseEnvelope(self._asked, message.id, message.model)
        self._ended = True
        if isinstance(event, ev.Failed):
            # What is open stays open: a half call that was closed would be run.
            response = envelope.failed(event.problem, message.usage, self._tape.output)
        else:
            said += self._refuse(message)
            response = envelope.ended(event.reason, message.usage, self._tape.output)
            response |= loss_field(message, SHOWS)
        return [*said, self._tape.frame(f"response.{response['status']}", {"response": response})]

    def _refuse(self, message: Message) -> list[bytes]:
        """Say why the provider refused, as an item of its own."""
        if message.stop_details is None or not message.stop_details.explanation:
            return []
        return write_refusal(self._tape, message.stop_details)

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
        if self._block is None:
            self._block = open_block(event, self._tape, self._names)
        written = self._block.write(event)
        if isinstance(event, ev.TextEnd | ev.ThinkingEnd | ev.CallEnd | ev.PartAdded):
            self._block = None
            self._current = _NONE
        return written


def _early_id(asked: AnswerContext) -> str:
    """Return an id for an answer whose own is not known yet."""
    known = f"{asked.at!r} {asked.estimate} {asked.request.model}"
    return f"resp_{blake2b(known.encode(), digest_size=8).hexdigest()}"


# ── whole answers ────────────────────────────────────────────────────────────


def encode_message(message: Message, asked: AnswerContext) -> bytes:
    """Return the whole answer: what folding its stream gives."""
    envelope = ResponseEnvelope(asked, message.id, message.model)
    stem = envelope.id.removeprefix("resp_")
    content = in_words(message.content, SHOWS)
    output = encode_parts(content, ToolNames(asked.request), stem)
    if message.logprobs:
        add_logprobs(output, message.logprobs)
    if message.stop_details is not None and message.stop_details.explanation:
        output.append(refusal_item(own_id("msg", stem, len(output)), message.stop_details))
    if message.problem is not None:
        return dump_bytes(envelope.failed(message.problem, message.usage, output))
    return dump_bytes(envelope.ended(message.stop or "end", message.usage, output))


# ── problems ─────────────────────────────────────────────────────────────────


def encode_rejection(problem: Problem, request_id: str) -> Rejection:
    status = 503 if problem.kind == "overloaded" else status_of(problem)
    if problem.permanent:
        status = 400  # Codex repeats every other status 30 times
    headers = {"x-request-id": request_id} if request_id else {}
    if problem.retry_after is not None or problem.kind in {"overloaded", "rate_limited"}:
        wait = _WAIT if problem.retry_after is None else problem.retry_after
        headers["retry-after"] = str(math.ceil(wait))
    elif problem.kind == "config" or (400 <= status < 500 and status not in _PASSING):
        headers["x-should-retry"] = "false"
    return Rejection(status, dump_bytes({"error": _encode_problem(problem)}), headers)


def _encode_problem(problem: Problem) -> JsonObject:
    fault = "invalid_request_error" if 400 <= status_of(problem) < 500 else "server_error"
    type, code = ERROR_TYPES.get(problem.kind, (fault, None))
    return {
        "message": failure(problem)["message"],
        "type": type,
        "param": problem.where or None,
        "code": code,
    }
