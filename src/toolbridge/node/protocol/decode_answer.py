"""Decode a node's answer to one prompt into events.

Every chunk is decrypted with the index that is expected next. An answer ends well only if its last
chunk and the confirmation behind it were both encrypted with the session key: `final` and
`stream_end` are plaintext, so anyone between host and gateway can forge them. A node reports less
than other servers: `finish_reason` and `usage` may be missing, engine errors arrive as text, and a
prompt that is too long yields an empty answer. The counts that it reports are claims, and `delivered`
judges them. `session.exchange` feeds the messages and keeps the timeouts.
"""

from codecs import getincrementaldecoder
from dataclasses import dataclass, field

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.errors import ToolbridgeError, Truncated
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json
from toolbridge.core.messages import Problem, StopReason
from toolbridge.core.usage import Usage
from toolbridge.node.protocol.delivered import DeliveredTokens, Tolerance, read_count, show_claim
from toolbridge.node.protocol.encryption import (
    IMAGE_AAD,
    RESPONSE_AAD,
    VIDEO_AAD,
    DecryptionFailed,
    Decryptor,
    chunk_aad,
)
from toolbridge.node.protocol.markers import Unescaper
from toolbridge.node.protocol.messages import (
    BEFORE_STREAM,
    AnswerChunk,
    InitAck,
    NodeFault,
    NodeMessage,
    NodeUsage,
    OtherMessage,
    Response,
    StreamEnd,
    printable,
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
_UNSEALED = (
    "the node ended its answer without the encrypted confirmation, so the answer may be cut off; "
    "for a node of an old version that sends none, set `old_nodes = true`"
)
_MOST_PER_IMAGE = 16_384
"""Tokens that a host may bill for reading one image: text recognition and a description."""


@dataclass(frozen=True)
class SentPrompt:
    """What the decoder needs of the prompt: its id, model, stop sequences and token limit."""

    id: str
    model: str = ""
    stops: tuple[str, ...] = ()
    max_tokens: int = 0
    """0 for no limit."""
    images: int = 0
    size: int = 0
    """Bytes of the prompt's text; 0 if the node may add earlier prompts to it."""
    escaped: bool = False
    """Whether markers of chat templates in the prompt are escaped."""
    tolerance: Tolerance = field(default_factory=Tolerance)
    old_nodes: bool = False
    """Whether an answer without the encrypted confirmation is accepted."""


class AnswerDecoder:
    """Stage from messages of a node to events, for one prompt."""

    def __init__(self, decryptor: Decryptor, sent: SentPrompt, ids: Ids | None = None) -> None:
        self._decryptor = decryptor
        self._sent = sent
        self._draft = Draft(ids or Ids())
        # Nodes before 8.23 split code points between chunks.
        self._utf8 = getincrementaldecoder("utf-8")("replace")
        self._scissors = Scissors(sent.stops)
        self._unescaper = Unescaper() if sent.escaped else None
        self._delivered = DeliveredTokens(sent.tolerance)
        self._claimed: Json = None
        """The sum of the counts that the host claims per chunk, or the first invalid one."""
        self._held: list[str] = []
        self._next = 0
        self._cut: StopReason | None = None
        self._failed = False
        self._last_sealed = False
        self._confirmed = False
        self._credited = 0
        """The host's count of the answer, if it is credible."""
        self.vlm_tokens = 0
        """Tokens spent on reading images, if the claim is credible; the host is paid for these."""
        self.refusal = ""
        """Why a count that the host claims is not credible; empty if all are."""
        self.unsealed = False
        """True if the answer ended without proof that this is its end."""
        self.closing = False
        """True once the host has marked the end; only the confirmation and counts may follow."""
        self.over = False
        """True once the node sends nothing more about this prompt and reads its socket again."""

    @property
    def tokens(self) -> int:
        """Tokens of the answer: our count, or a higher one of the host that is credible."""
        return max(self._delivered.count, self._credited)

    @property
    def delivered(self) -> int:
        """Tokens of the answer by our own count."""
        return self._delivered.count

    @property
    def sealed(self) -> bool:
        """Whether the end is proven: the empty last chunk and the confirmation were encrypted.

        The confirmation has no count of the chunks, so without the last chunk some may be missing.
        """
        return self._last_sealed and self._confirmed

    @property
    def overrun(self) -> bool:
        """Whether the host sent more than `max_tokens`."""
        return self._cut == "length"

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

    def refuse(self, why: str) -> None:
        """Record that the host claims a count that is not credible."""
        self.refusal = self.refusal or why

    def close(self) -> list[ev.Event]:
        """End an answer without `stream_end`: finished if all text has arrived, else truncated."""
        if self.ended:
            return []
        if not self.closing and self._cut is None:
            return self._draft.fail(
                Truncated("the node stopped in the middle of its answer").problem
            )
        self.over = self.closing  # old nodes send no `stream_end`
        self._judge(StreamEnd())
        return self._finish_sealed(None)

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
        self._claim_chunk(chunk.tokens)
        if self._cut is not None or self.ended:
            self.closing = self.closing or chunk.final
            if not chunk.final:
                self._delivered.skip()
            return []
        expected, self._next = self._next, self._next + 1
        text = self._utf8.decode(chunk.payload.open(self._decryptor, chunk_aad(expected)))
        if chunk.payload.index not in {expected, None}:
            raise _out_of_order(chunk.payload.index, expected)
        if self.closing:
            raise _out_of_order(expected, "the end of the stream")
        self.closing = chunk.final
        self._last_sealed = chunk.final and not text
        return [] if self._last_sealed else self._counted(text)

    def _counted(self, text: str) -> list[ev.Event]:
        """Return the events of `text`, up to `max_tokens` by our own count."""
        limit = self._sent.max_tokens
        room = self._delivered.room(limit)
        self._delivered.feed(text)
        if not limit or not self._delivered.exceeds(limit):
            return self._text(text)
        self._cut = "length"
        return self._release() + self._write(text[:room])

    def _claim_chunk(self, claim: Json) -> None:
        before = 0 if self._claimed is None else read_count(self._claimed)
        if claim is None or before is None:
            return
        count = read_count(claim)
        self._claimed = claim if count is None else before + count

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
        text = self._unescaper.feed(text) if self._unescaper else text
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
        self._confirmed = outcome == b"stop"
        if outcome == b"error":
            return self._draft.fail(self._engine_failed())
        return []

    def _end(self, end: StreamEnd) -> list[ev.Event]:
        self.over = True
        self._judge(end)
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
        return self._finish_sealed(end)

    def _finish_sealed(self, end: StreamEnd | None) -> list[ev.Event]:
        """End the answer well if its end is proven, or if we cut it ourselves."""
        if self._cut is not None or self.sealed:
            return self._finish(end)
        self.unsealed = True
        if not self._sent.old_nodes:
            return self._draft.fail(Truncated(_UNSEALED).problem)
        why = "the node did not confirm it, which `old_nodes` allows: the answer may be cut off"
        return self._draft.lose("answer.end", why) + self._finish(end)

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
                input=self._prompt_tokens(usage) if usage else 0,
                output=self.delivered if self.refusal else self._credited or self.delivered,
                vision=self.vlm_tokens,
            )
        )
        if self.refusal:
            events += self._draft.lose("usage", self.refusal)
        return events + self._draft.finish(self._reason(end), stop_sequence=self._scissors.hit)

    # ── the counts ──

    def _judge(self, end: StreamEnd) -> None:
        """Take over the counts of the host that are credible, and refuse the others."""
        usage = end.usage or NodeUsage()
        for claim in (usage.completion_tokens, end.tokens_used, self._claimed):
            if claim is None:
                continue
            count = read_count(claim)
            if count is None or not self._delivered.accepts(count, whole=self._cut is None):
                self.refuse(self._not_credible(claim))
            elif not self._credited:
                self._credited = count
        if self.refusal:
            self._credited = 0
        self._judge_images(end.vlm_tokens)

    def _judge_images(self, claim: Json) -> None:
        count = 0 if claim is None else read_count(claim)
        if count is None or count > self._sent.images * _MOST_PER_IMAGE:
            self.refuse(
                f"the host claims {show_claim(claim)} tokens for reading {self._sent.images} images; "
                "they are not counted"
            )
        else:
            self.vlm_tokens = count

    def _not_credible(self, claim: Json) -> str:
        return (
            f"the host claims {show_claim(claim)} tokens for an answer of {self.delivered} tokens by "
            "our count; ours is shown, and the host gets no more requests (`count_tolerance`)"
        )

    def _prompt_tokens(self, usage: NodeUsage) -> int:
        """Return the host's count of the prompt; 0, for an estimate, if it is not credible.

        A token has at least one byte. Hosts add a template, and text that describes images.
        """
        count = read_count(usage.prompt_tokens) or 0
        most = self._sent.size + (1 + self._sent.images) * _MOST_PER_IMAGE
        return count if not self._sent.size or count <= most else 0

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
        message = printable("".join(self._held)).removeprefix("Error: ").strip()
        text = f"the node's engine failed: {message}" if message else "the node's engine failed"
        return Problem(kind="rejected", text=text)


def _out_of_order(index: int | None, expected: int | str) -> DecryptionFailed:
    return DecryptionFailed(f"the node sent chunk {index} instead of {expected}")
