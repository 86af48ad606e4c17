"""The events of an answer, independent of any vendor's API.

`Started` comes first, and exactly one of `Finished` and `Failed` last. Every block has an index, and
blocks may interleave; the end of a block carries the whole block. After `Failed`, open blocks stay
open: a partial call is never closed. Decoders produce events, encoders consume them, and the stages
between them (dialects, healing, stop sequences) map events to events.
"""

from typing import TypeAlias

import msgspec

from toolbridge.core.messages import (
    Call,
    Foreign,
    HealingReport,
    Image,
    Loss,
    Message,
    Part,
    Problem,
    StopDetails,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
)
from toolbridge.core.server_tools import ServerCall, ServerResult
from toolbridge.core.usage import Usage

AddedPart: TypeAlias = Image | Foreign | ServerCall | ServerResult


class Started(msgspec.Struct, frozen=True, tag="started"):
    id: str
    model: str
    envelope: Foreign | None = None
    """The provider's envelope without id and model, for clients of the same API."""


class TextStart(msgspec.Struct, frozen=True, gc=False, tag="text_start"):
    index: int


class TextDelta(msgspec.Struct, frozen=True, gc=False, tag="text_delta"):
    index: int
    text: str


class TextEnd(msgspec.Struct, frozen=True, tag="text_end"):
    index: int
    text: Text


class ThinkingStart(msgspec.Struct, frozen=True, tag="thinking_start"):
    index: int
    field: str = ""
    """See `Thinking.field`."""


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False, tag="thinking_delta"):
    index: int
    text: str


class ThinkingEnd(msgspec.Struct, frozen=True, tag="thinking_end"):
    index: int
    thinking: Thinking


class CallStart(msgspec.Struct, frozen=True, tag="call_start"):
    index: int
    id: str
    name: str


class CallDelta(msgspec.Struct, frozen=True, gc=False, tag="call_delta"):
    index: int
    json: str


class CallEnd(msgspec.Struct, frozen=True, tag="call_end"):
    index: int
    call: Call


class PartAdded(msgspec.Struct, frozen=True, tag="part_added"):
    """A block without deltas: an image, a server tool, or a part that only one API has."""

    index: int
    part: AddedPart


class UsageReported(msgspec.Struct, frozen=True, tag="usage_reported"):
    """The token counts so far: totals, never increments."""

    usage: Usage


class LogprobsReported(msgspec.Struct, frozen=True, tag="logprobs_reported"):
    """The log probabilities of the next tokens of the text."""

    tokens: tuple[TokenLogprob, ...]


NO_BLOCK = -1
"""The index of a report on a call that was left out of the answer."""


class Healed(msgspec.Struct, frozen=True, tag="healed"):
    index: int
    report: HealingReport


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """Content of the answer that events cannot represent; reported once for each kind."""

    loss: Loss


class Alternative(msgspec.Struct, frozen=True, tag="alternative"):
    """An event of another answer to the same request, which has its own sequence of events."""

    choice: int
    """The number of that answer, from 1; the main answer is 0."""
    event: "Event"


class Finished(msgspec.Struct, frozen=True, omit_defaults=True, tag="finished"):
    """The end of a complete answer. `Fold` builds the message from the events before it."""

    reason: StopReason
    stop_sequence: str = ""
    """The sequence that ended the answer, where `reason` is `stop_sequence`."""
    details: StopDetails | None = None
    """Why the provider refused, where `reason` is `refusal`."""
    message: Message | None = None
    """The whole answer. Only the streams of `Client` and `AsyncClient` set it."""


class Failed(msgspec.Struct, frozen=True, omit_defaults=True, tag="failed"):
    """The end of an answer that failed or was aborted."""

    problem: Problem
    message: Message | None = None
    """The answer up to the failure. Only the streams of `Client` and `AsyncClient` set it."""


Event: TypeAlias = (
    Started
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | CallStart
    | CallDelta
    | CallEnd
    | PartAdded
    | UsageReported
    | LogprobsReported
    | Healed
    | Lost
    | Alternative
    | Finished
    | Failed
)

DELTAS = (TextDelta, ThinkingDelta, CallDelta)
"""The events that carry a piece of a block. The block's end carries all of it again."""


def whole_block(index: int, part: Part) -> list[Event]:
    """Return the events of a block that arrived at once; none for a part that no answer holds."""
    match part:
        case Text(text):
            return [TextStart(index), TextDelta(index, text), TextEnd(index, part)]
        case Thinking(text, _, field):
            deltas: list[Event] = [ThinkingDelta(index, text)] if text else []
            return [ThinkingStart(index, field), *deltas, ThinkingEnd(index, part)]
        case Call(id, name):
            return [CallStart(index, id, name), CallEnd(index, part)]
        case Image() | Foreign() | ServerCall() | ServerResult():
            return [PartAdded(index, part)]
        case _:
            return []
