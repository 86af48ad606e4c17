"""Events to a stream of the Responses API, and a message to a whole response.

Codex adds a text delta to the item that was announced last, whatever its `item_id` is. Blocks that
interleave are therefore written one after another (`core.block_order`).
"""

from hashlib import blake2b

from toolbridge.codecs.openai_responses.encode_output_items import (
    BlockWriter,
    OutputLog,
    open_block,
    write_refusal,
)
from toolbridge.codecs.openai_responses.envelope import ResponseEnvelope
from toolbridge.codecs.openai_responses.hosted_events import HostedWriter
from toolbridge.codecs.openai_responses.item_fields import own_id
from toolbridge.codecs.openai_responses.output_items import (
    ToolNames,
    add_logprobs,
    encode_parts,
    refusal_item,
)
from toolbridge.codecs.openai_responses.shapes import SHOWS
from toolbridge.core import events as ev
from toolbridge.core.answer_losses import in_words, loss_field, spelled
from toolbridge.core.block_order import BlockEvent, BlockOrder
from toolbridge.core.codec import AnswerContext
from toolbridge.core.fold import Fold
from toolbridge.core.json import dump_bytes
from toolbridge.core.logprobs import write_logprobs
from toolbridge.core.messages import Message
from toolbridge.core.server_tools import ServerCall, ServerResult


class StreamEncoder:
    """Events in, SSE events out."""

    def __init__(self, asked: AnswerContext) -> None:
        self._asked = asked
        self._fold = Fold()
        """The answer without its deltas: the last event reports its usage and losses."""
        self._names = ToolNames(asked.request)
        self._log = OutputLog()
        self._hosted = HostedWriter(self._log, asked.request)
        self._envelope: ResponseEnvelope | None = None
        self._block: BlockWriter | None = None
        self._order = BlockOrder()
        self._ended = False

    @property
    def id(self) -> str:
        """The id of the response; empty before the first event."""
        return self._envelope.id if self._envelope else ""

    def keep_alive(self) -> bytes:
        """Return an event without content: Codex' idle timer ignores SSE comments."""
        if self._ended:
            return b""
        if self._envelope is None:
            return b"".join(self._start(_early_id(self._asked), ""))
        return self._log.event("response.in_progress", {"response": self._envelope.begun()})

    def continue_from(self, number: int) -> None:
        """Give the next event this sequence number."""
        self._log.next_number = number

    def feed(self, event: ev.Event, /) -> list[bytes]:
        if isinstance(event, ev.DELTAS):
            if event.index == self._order.current and self._block is not None:
                return self._block.write(event)  # the fast path: most events are deltas
        else:
            self._fold.feed(event)
        match event:
            case ev.Started(id, model):
                return self._start(id, model)
            case ev.Finished() | ev.Failed():
                return self._end(event)
            case ev.LogprobsReported(tokens):
                self._log.logprobs += write_logprobs(tokens)  # written at the end of the text
                return []
            case ev.UsageReported() | ev.Healed() | ev.Lost() | ev.Alternative():
                return []  # usage and losses are written at the end; healing has no field here
            case ev.PartAdded():
                return [data for one in spelled(event, SHOWS) for data in self._write_in_order(one)]
            case _:
                return self._write_in_order(event)

    def close(self) -> list[bytes]:
        return []

    def _start(self, id: str, model: str) -> list[bytes]:
        if self._envelope is not None:  # a keep-alive has already started the response
            return []
        self._envelope = ResponseEnvelope(self._asked, id, model)
        self._log.stem = self._envelope.id.removeprefix("resp_")
        response = self._envelope.begun()
        return [
            self._log.event("response.created", {"response": response}),
            self._log.event("response.in_progress", {"response": response}),
        ]

    def _end(self, event: ev.Finished | ev.Failed) -> list[bytes]:
        message = self._fold.message
        said = self._start(message.id or _early_id(self._asked), message.model)
        envelope = self._envelope or ResponseEnvelope(self._asked, message.id, message.model)
        self._ended = True
        if isinstance(event, ev.Failed):
            # The open item is not completed: Codex would run a call that is cut.
            self._hosted.abandon()
            response = envelope.failed(event.problem, message.usage, self._log.output)
        else:
            said += self._hosted.close() + self._refuse(message)
            response = envelope.ended(event.reason, message.usage, self._log.output)
            response |= loss_field(message, SHOWS)
        return [*said, self._log.event(f"response.{response['status']}", {"response": response})]

    def _refuse(self, message: Message) -> list[bytes]:
        """Write the provider's explanation of a refusal as an item of its own."""
        if message.stop_details is None or not message.stop_details.explanation:
            return []
        return write_refusal(self._log, message.stop_details)

    def _write_in_order(self, event: BlockEvent) -> list[bytes]:
        return [data for one in self._order.feed(event) for data in self._write(one)]

    def _write(self, event: BlockEvent) -> list[bytes]:
        if isinstance(event, ev.PartAdded) and isinstance(event.part, ServerCall | ServerResult):
            return self._hosted.write(event.part)
        if self._block is None:
            self._block = open_block(event, self._log, self._names)
        written = self._block.write(event)
        if isinstance(event, ev.TextEnd | ev.ThinkingEnd | ev.CallEnd | ev.PartAdded):
            self._block = None
        return written


def _early_id(asked: AnswerContext) -> str:
    """Return an id for a keep-alive before the provider's answer has begun."""
    known = f"{asked.at!r} {asked.estimate} {asked.request.model}"
    return f"resp_{blake2b(known.encode(), digest_size=8).hexdigest()}"


# ── whole answers ────────────────────────────────────────────────────────────


def encode_message(message: Message, asked: AnswerContext) -> bytes:
    """Return the whole response, equal to the one in the last event of the stream."""
    envelope = ResponseEnvelope(asked, message.id, message.model)
    stem = envelope.id.removeprefix("resp_")
    content = in_words(message.content, SHOWS)
    output = encode_parts(content, asked.request, stem)
    if message.logprobs:
        add_logprobs(output, message.logprobs)
    if message.stop_details is not None and message.stop_details.explanation:
        output.append(refusal_item(own_id("msg", stem, len(output)), message.stop_details))
    if message.problem is not None:
        return dump_bytes(envelope.failed(message.problem, message.usage, output))
    return dump_bytes(envelope.ended(message.stop or "end", message.usage, output))
