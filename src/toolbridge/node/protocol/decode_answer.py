"""A node's answer, as our events.

Every piece is checked against the place in which it must come. A node says less than other servers:
its stop reason may be missing, its errors may come as text, and an answer that is cut off looks like
one that is empty. What is known of that stands here.
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
    FILM_AAD,
    IMAGE_AAD,
    RESPONSE_AAD,
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

_HELD = 8
"""More pieces than this behind an `Error:` are an answer, not an engine's last words."""

_DIVERTED = (
    "the node took the prompt for an order to make a picture and sent that instead of an answer; "
    'words like "draw a" or "create an image" make it do so, another host may not'
)
_NOTHING = (
    "the node answered nothing and counted nothing: the prompt is too long for its context, or its "
    "engine failed"
)


@dataclass(frozen=True)
class SentPrompt:
    """The prompt that is being answered."""

    id: str
    model: str = ""
    stops: tuple[str, ...] = ()
    max_tokens: int = 0
    """The most tokens to take; 0 for as many as come."""


class AnswerDecoder:
    """A stage from a node's messages to events, for one prompt."""

    def __init__(self, opener: Decryptor, sent: SentPrompt, ids: Ids | None = None) -> None:
        self._opener = opener
        self._sent = sent
        self._draft = Draft(ids)
        self._utf8 = getincrementaldecoder("utf-8")("replace")  # old nodes split code points
        self._scissors = Scissors(sent.stops)
        self._suspect: list[str] = []
        self._next = 0
        self._cut: StopReason | None = None
        self._gave_up = False
        self.tokens = 0
        """Tokens that came, by the node's own count: what the host is paid for."""
        self.vlm_tokens = 0
        """Tokens that were spent on reading pictures; paid for as well."""
        self.closing = False
        """Whether all text has come, and only the counts may follow."""
        self.over = False
        """Whether the node says nothing more about this prompt and reads its socket again."""

    @property
    def ended(self) -> bool:
        """Whether the last event was told."""
        return self._draft.ended

    @property
    def enough(self) -> bool:
        """Whether the node goes on writing for nobody and should be told to stop."""
        return not self.idle and (self._cut is not None or self.ended)

    @property
    def progress(self) -> int:
        """A number that grows with every piece of the answer, and with nothing else."""
        return self._next + self.closing

    @property
    def awaits_end(self) -> bool:
        """Whether all that is told was heard, and only counts or a confirmation are missing."""
        return (self.closing or self._cut is not None) and not self.ended

    @property
    def idle(self) -> bool:
        """Whether the node has nothing to write, as far as it said."""
        return self.over or self.closing or self._gave_up

    @property
    def spoke(self) -> bool:
        return not self._draft.empty

    def feed(self, message: NodeMessage, /) -> list[ev.Event]:
        try:
            return self._feed(message)
        except ToolbridgeError as error:
            self.closing = False  # whoever changes pieces may have invented the last one, too
            return self._draft.fail(error.problem)

    def close(self) -> list[ev.Event]:
        """End the answer although the node did not: well if all the text came, else badly."""
        if self.ended:
            return []
        if not self.closing and self._cut is None:
            return self._draft.fail(Truncated("the node broke off in its answer").problem)
        self.over = self.closing  # an old node says no more than this
        return self._finish(None)

    def fail(self, problem: Problem) -> list[ev.Event]:
        """End the answer for a reason that lies outside of it."""
        return self._draft.fail(problem)

    def _feed(self, message: NodeMessage) -> list[ev.Event]:
        match message:
            case AnswerChunk(id=id) if id in {self._sent.id, None}:
                return self._chunk(message)
            case Response(id=id) if id in {self._sent.id, None}:
                return self._response(message)
            # An end without a name may be that of an earlier prompt.
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
        due, self._next = self._next, self._next + 1
        text = self._utf8.decode(chunk.payload.open(self._opener, chunk_aad(due)))
        if chunk.payload.index not in {due, None}:
            raise _misplaced(chunk.payload.index, due)
        if self.closing:
            raise _misplaced(due, "the end")
        self.closing = chunk.final
        self.tokens += chunk.tokens
        limit = self._sent.max_tokens
        if limit and self.tokens > limit:
            self._cut = "length"
            return []
        return self._hear(text)

    def _hear(self, text: str) -> list[ev.Event]:
        """Pass text on, unless it looks like an engine that failed."""
        if self._suspect or text.startswith("Error: "):
            self._suspect.append(text)
            return [] if len(self._suspect) <= _HELD else self._release()
        return self._say(text)

    def _release(self) -> list[ev.Event]:
        text = "".join(self._suspect)
        self._suspect.clear()
        return self._say(text)

    def _say(self, text: str) -> list[ev.Event]:
        said = self._draft.start(model=self._sent.model)
        said += self._draft.text(self._scissors.feed(text))
        if self._scissors.hit:
            self._cut = "stop_sequence"
        return said

    # ── the end ──

    def _response(self, response: Response) -> list[ev.Event]:
        if response.payload.label in {IMAGE_AAD, FILM_AAD}:
            self.over = True  # nothing follows a picture
            return self._draft.fail(Problem(kind="unsupported", text=_DIVERTED))
        if self._cut is not None or self.ended:
            return []
        said = response.payload.open(self._opener, RESPONSE_AAD)
        self.closing = True
        if said == b"error":
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
            return self._draft.fail(Problem(kind="aborted", text="the answer was cancelled"))
        if not self.closing and self._cut is None:
            return self._draft.fail(Truncated("the node ended before its last piece").problem)
        return self._finish(end)

    def _finish(self, end: StreamEnd | None) -> list[ev.Event]:
        counted = end is not None and end.usage is not None
        if not (self.tokens or counted or self.spoke or self._suspect or self._cut):
            return self._draft.fail(Problem(kind="rejected", text=_NOTHING))
        said = self._release() + self._say(self._utf8.decode(b"", final=True))
        said += self._draft.text(self._scissors.close())
        usage = end.usage if end else None
        said += self._draft.usage(
            Usage(
                input=usage.prompt_tokens if usage else 0,
                output=(usage.completion_tokens if usage else 0) or self.tokens,
                vision=self.vlm_tokens,
            )
        )
        return said + self._draft.finish(self._reason(end), stop_sequence=self._scissors.hit)

    def _reason(self, end: StreamEnd | None) -> StopReason:
        if self._cut is not None:
            return self._cut
        if end is not None and end.finish_reason:
            return "length" if end.finish_reason == "length" else "end"
        limit = self._sent.max_tokens
        return "length" if limit and self.tokens >= limit else "end"

    # ── faults ──

    def _fault(self, fault: NodeFault) -> list[ev.Event]:
        self._gave_up = True
        self.over = self.over or fault.code in BEFORE_STREAM
        return self._draft.fail(problem_of(fault))

    def _engine_failed(self) -> Problem:
        why = "".join(self._suspect).removeprefix("Error: ").strip()
        text = f"the node's engine failed: {why}" if why else "the node's engine failed"
        return Problem(kind="rejected", text=text)


def _misplaced(index: int | None, due: int | str) -> DecryptionFailed:
    return DecryptionFailed(f"the node sent piece {index} where {due} was due")
