"""Decode a node's answer to one prompt into events.

Every chunk is decrypted with the index that is expected next. A node reports less than other
servers: `finish_reason` and `usage` may be missing, engine errors arrive as text, and a prompt that
is too long yields an empty answer. `session.exchange` feeds the messages and keeps the timeouts.
"""

from codecs import getincrementaldecoder
from dataclasses import dataclass

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.errors import ToolbridgeError, Truncated
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Problem, StopReason
from toolbridge.core.usage import Usage
from toolbridge.node.protocol.encryption import (
    IMAGE_AAD,
    RESPONSE_AAD,
    VIDEO_AAD,
    DecryptionFailed,
    Decryptor,
    chunk_aad,
)
from toolbridge.node.protocol.messages import (
    BEFORE_STREAM,
    AnswerChunk,
    InitAck,
    NodeFault,
    NodeMessage,
    OtherMessage,
    Response,
    StreamEnd,
    problem_of,
)
from toolbridge.policy.stops import Scissors

_MAX_ERROR_CHUNKS = 8
"""Text that begins with `Error: ` is held for this many chunks: it may be an engine error."""

_IMAGE_INSTEAD = (
    "the node generated an image or video instead of an answer, because the prompt contains words "
    'such as "draw a" or "create an image"; rephrase the prompt, or choose another `host`'
)
_EMPTY = (
    "the node returned an empty answer without token counts: the prompt is too long for its "
    "context, or its engine failed; shorten the conversation, or choose another `host`"
)


@dataclass(frozen=True)
class SentPrompt:
    """What the decoder needs of the prompt: its id, model, stop sequences and token limit."""

    id: str
    model: str = ""
    stops: tuple[str, ...] = ()
    max_tokens: int = 0
    """0 for no limit."""


class AnswerDecoder:
    """Stage from messages of a node to events, for one prompt."""

    def __init__(self, decryptor: Decryptor, sent: SentPrompt, ids: Ids | None = None) -> None:
        self._decryptor = decryptor
        self._sent = sent
        self._draft = Draft(ids)
        # Nodes before 8.23 split code points between chunks.
        self._utf8 = getincrementaldecoder("utf-8")("replace")
        self._scissors = Scissors(sent.stops)
        self._held: list[str] = []
        self._next = 0
        self._cut: StopReason | None = None
        self._failed = False
        self.tokens = 0
        """Tokens received, as the node counts them; the host is paid for these."""
        self.vlm_tokens = 0
        """Tokens spent on reading images; the host is paid for these too."""
        self.closing = False
        """True once the final chunk has arrived; only `stream_end` with the counts may follow."""
        self.over = False
        """True once the node sends nothing more about this prompt and reads its socket again."""

    @property
    def ended(self) -> bool:
        """Whether the last event has been returned."""
        return self._draft.ended

    @property
    def enough(self) -> bool:
        """Whether the answer is complete for us while the node still generates: cancel it."""
        return not self.idle and (self._cut is not None or self.ended)

    @property
    def progress(self) -> int:
        """A number that grows with each chunk of the answer, and with no other message."""
        return self._next + self.closing

    @property
    def awaits_end(self) -> bool:
        """True once all text has arrived and only usage or the cancellation is outstanding."""
        return (self.closing or self._cut is not None) and not self.ended

    @property
    def idle(self) -> bool:
        """Whether the node has stopped generating, by its own messages."""
        return self.over or self.closing or self._failed

    def feed(self, message: NodeMessage, /) -> list[ev.Event]:
        try:
            return self._feed(message)
        except ToolbridgeError as error:
            self.closing = False  # the final chunk may be forged as well
            return self._draft.fail(error.problem)

    def close(self) -> list[ev.Event]:
        """End an answer without `stream_end`: finished if all text has arrived, else truncated."""
        if self.ended:
            return []
        if not self.closing and self._cut is None:
            return self._draft.fail(
                Truncated("the node stopped in the middle of its answer").problem
            )
        self.over = self.closing  # old nodes send no `stream_end`
        return self._finish(None)

    def fail(self, problem: Problem) -> list[ev.Event]:
        """End the answer with a problem that did not come from the node's messages."""
        return self._draft.fail(problem)

    def _feed(self, message: NodeMessage) -> list[ev.Event]:
        match message:
            case AnswerChunk(id=id) if id in {self._sent.id, None}:
                return self._chunk(message)
            case Response(id=id) if id in {self._sent.id, None}:
                return self._response(message)
            # A `stream_end` without an id may belong to an earlier prompt.
            case StreamEnd(id=id) if id == self._sent.id:
                return self._end(message)
            case NodeFault(id=id) if id in {self._sent.id, None}:
                return self._fault(message)
            case (
                InitAck() | OtherMessage() | AnswerChunk() | Response() | StreamEnd() | NodeFault()
            ):
                return []

    # ── the text ──

    def _chunk(self, chunk: AnswerChunk) -> list[ev.Event]:
        if self._cut is not None or self.ended:
            self.tokens += chunk.tokens
            self.closing = self.closing or chunk.final
            return []
        expected, self._next = self._next, self._next + 1
        text = self._utf8.decode(chunk.payload.open(self._decryptor, chunk_aad(expected)))
        if chunk.payload.index not in {expected, None}:
            raise _out_of_order(chunk.payload.index, expected)
        if self.closing:
            raise _out_of_order(expected, "the end of the stream")
        self.closing = chunk.final
        self.tokens += chunk.tokens
        limit = self._sent.max_tokens
        if limit and self.tokens > limit:
            self._cut = "length"
            return []
        return self._text(text)

    def _text(self, text: str) -> list[ev.Event]:
        """Return the events of `text`, but hold it while it may be an engine error."""
        if self._held or text.startswith("Error: "):
            self._held.append(text)
            return [] if len(self._held) <= _MAX_ERROR_CHUNKS else self._release()
        return self._write(text)

    def _release(self) -> list[ev.Event]:
        text = "".join(self._held)
        self._held.clear()
        return self._write(text)

    def _write(self, text: str) -> list[ev.Event]:
        events = self._draft.start(model=self._sent.model)
        events += self._draft.text(self._scissors.feed(text))
        if self._scissors.hit:
            self._cut = "stop_sequence"
        return events

    # ── the end ──

    def _response(self, response: Response) -> list[ev.Event]:
        if response.payload.label in {IMAGE_AAD, VIDEO_AAD}:
            self.over = True  # no `stream_end` follows an image
            return self._draft.fail(Problem(kind="unsupported", text=_IMAGE_INSTEAD))
        if self._cut is not None or self.ended:
            return []
        outcome = response.payload.open(self._decryptor, RESPONSE_AAD)
        self.closing = True
        if outcome == b"error":
            return self._draft.fail(self._engine_failed())
        return []

    def _end(self, end: StreamEnd) -> list[ev.Event]:
        self.over = True
        self.vlm_tokens = max(0, end.vlm_tokens)
        counted = end.usage.completion_tokens if end.usage else 0
        self.tokens = max(self.tokens, counted, end.tokens_used)
        if end.reason == "error":
            return self._draft.fail(self._engine_failed())
        if end.reason == "cancelled" and self._cut is None:
            return self._draft.fail(
                Problem(kind="aborted", text="the node reports that the answer was cancelled")
            )
        if not self.closing and self._cut is None:
            return self._draft.fail(
                Truncated("the node ended the stream before the final chunk").problem
            )
        return self._finish(end)

    def _finish(self, end: StreamEnd | None) -> list[ev.Event]:
        counted = end is not None and end.usage is not None
        content = self._held or self._cut or not self._draft.empty
        if not (self.tokens or counted or content):
            return self._draft.fail(Problem(kind="rejected", text=_EMPTY))
        events = self._release() + self._write(self._utf8.decode(b"", final=True))
        events += self._draft.text(self._scissors.close())
        usage = end.usage if end else None
        events += self._draft.usage(
            Usage(
                input=usage.prompt_tokens if usage else 0,
                output=(usage.completion_tokens if usage else 0) or self.tokens,
                vision=self.vlm_tokens,
            )
        )
        return events + self._draft.finish(self._reason(end), stop_sequence=self._scissors.hit)

    def _reason(self, end: StreamEnd | None) -> StopReason:
        if self._cut is not None:
            return self._cut
        if end is not None and end.finish_reason:
            return "length" if end.finish_reason == "length" else "end"
        limit = self._sent.max_tokens
        return "length" if limit and self.tokens >= limit else "end"

    # ── faults ──

    def _fault(self, fault: NodeFault) -> list[ev.Event]:
        self._failed = True
        self.over = self.over or fault.code in BEFORE_STREAM
        return self._draft.fail(problem_of(fault))

    def _engine_failed(self) -> Problem:
        message = "".join(self._held).removeprefix("Error: ").strip()
        text = f"the node's engine failed: {message}" if message else "the node's engine failed"
        return Problem(kind="rejected", text=text)


def _out_of_order(index: int | None, expected: int | str) -> DecryptionFailed:
    return DecryptionFailed(f"the node sent chunk {index} instead of {expected}")
